// Segment everything: puts and gets of memory that lies in no segment. See rma.hpp and
// rma_everything.hpp.
#include "lib/conduit/one_sided/rma_everything.hpp"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <initializer_list>

#include "firehose/firehose.hpp"
#include "lib/base/backoff.hpp"
#include "lib/conduit/one_sided/rma_inl.hpp"
#include "nic/shm/direct.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

// Bytes that all peers together may keep registered here, unless FIREHOSE_M says otherwise.
constexpr std::uint64_t chosen_m = std::uint64_t{1} << 30;

firehose::remote_settings for_peers(const settings& s, std::uint32_t self, std::uint32_t size,
                                    std::uint64_t left) {
  firehose::remote_settings r;
  r.self = self;
  r.processes = size;
  r.max_bytes = std::min(s.firehose_m != 0 ? s.firehose_m : chosen_m, left / 2);
  r.max_region_bytes = s.firehose_maxregion_size;
  r.max_regions = s.firehose_r;
  if (r.max_regions == 0)
    r.max_regions = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(r.max_bytes / std::max<std::uint64_t>(r.max_region_bytes, 1),
                                  size, std::uint64_t{1} << 18));
  return r;
}

}  // namespace

void transfers::make_room_for_peers(firehose::pool_settings& f) const {
  const auto s =
      for_peers(core_.options(), core_.rank(), core_.size(), core_.account().left_to_caches());
  f.max_bytes += s.max_bytes;
  f.max_regions += s.max_regions;
  f.access_bits = memreg::access::all;
}

result<void> transfers::open_everything() {
  everywhere_ = std::make_unique<everywhere>(*this, core_, connections_, *memory_);
  const auto s =
      for_peers(core_.options(), core_.rank(), core_.size(), core_.account().left_to_caches());
  if (auto r = everywhere_->open(*pool_, s); !r) return r;
  remote_ = &everywhere_->remote();
  return {};
}

void transfers::attach(peer& p) {
  if (!p.transfers) p.transfers = std::make_unique<transfer_queue>(depth_);
  if (everywhere_ && p.home->index == 0) everywhere_->attach(p);
}

void transfers::progress() noexcept {
  if (everywhere_) everywhere_->progress();
}

// The checks for a range that lies in no segment.
status transfers::begin_anywhere(rank_id to, const void* at, std::size_t bytes,
                                 std::byte*& here) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(at);
  if (!everything_ || first == 0 || first + bytes < first) return status::out_of_segment;
  if (to != core_.rank()) return engine_.maps(to) ? status::ok : settle_changes();
  here = static_cast<std::byte*>(const_cast<void*>(at));
  return status::ok;
}

// (R-a) Waits until no peer holds a key to changed memory of this process: a message sent now might
// tell others of the change. Every operation comes here before it holds anything.
status transfers::settle_changes() noexcept {
  if (!must_settle()) [[likely]]
    return status::ok;
  const long_wait named(core_.waits(), wait_for::old_keys);
  for (unsigned empty = 0; must_settle();) {
    progress();
    if (reap() != 0) continue;
    if (const status s = engine_.wait_step(empty); is_failure(s)) return s;
  }
  return status::ok;
}

// The same for a reply, whose handler may have changed memory that a peer holds a key to. The key
// comes back by control messages and completions, for which no handler has to run.
void transfers::settle_in_handler() noexcept {
  long_wait named(core_.waits(), wait_for::old_keys);
  for (backoff b(64); must_settle();) {
    progress();
    if (reap() == 0) b.idle(), named.step();
  }
}

// Finds the key for local's piece, and cuts the piece to what a remote firehose covers.
// unsupported: the peer cannot give a key. The key is the last thing that a piece takes; see
// push().
status transfers::aim(peer& p, ibv_wr_opcode opcode, std::uint64_t remote, part& local,
                      std::uint32_t& rkey) noexcept {
  if (core::in_segment(p, reinterpret_cast<void*>(remote), local.bytes)) return status::ok;
  if (remote_ == nullptr) return status::unsupported;
  status s = retry([&]() noexcept {
    // A2 ready  acquire p.ready  <- R2 (connect.cpp)
    return (p.ready.load(std::memory_order_acquire) >> lane_rma & 1) != 0
               ? status::ok
               : connections_.connect(p, lane_rma);
  });
  if (s != status::ok) return s;
  const auto use =
      opcode == IBV_WR_RDMA_READ ? firehose::purpose::source : firehose::purpose::destination;
  s = retry([&]() noexcept {
    const status t = remote_->try_acquire(p.rank, remote, local.bytes, use, local.hold.remote);
    if (t == status::ok || t == status::device_error) return t;
    progress();
    return status::busy;
  });
  if (s == status::device_error) return status::unsupported;
  if (s != status::ok) return s;
  rkey = local.hold.remote.rkey();
  local.bytes = std::min(local.bytes, local.hold.remote.bytes());
  if (local.hold.copy_to != nullptr)
    local.hold.copy_bytes = static_cast<std::uint32_t>(local.bytes);
  return status::ok;
}

status transfers::room_for(rank_id to, const void* at, std::size_t bytes,
                           firehose::purpose use) noexcept {
  const status s = room_for_one(to);
  if (s != status::ok || !everything_ || running != nullptr || to >= core_.size() ||
      to == core_.rank() || !core_.has_started())
    return s;
  peer& p = core_.begun(core_.peers()[to]);
  if (bytes == 0 || at == nullptr || core::in_segment(p, at, bytes)) return status::ok;
  auto next = reinterpret_cast<std::uintptr_t>(at);
  if (engine_.maps(to)) {  // copy_far()
    if (!connections::is_ready(p, lane_request)) return connections_.connect(p, lane_request);
    std::byte seen;
    const int e = nic::shm::copy_remote(p.lanes[lane_request].qp, next, &seen, 1, false);
    return e == 0 || e == EFAULT || e == ESRCH ? status::ok : status::busy;
  }
  if (remote_ == nullptr) return status::busy;
  for (const std::uintptr_t end = next + bytes; next < end;) {
    firehose::lease key;
    if (remote_->try_acquire(to, next, end - next, use, key) != status::ok) return status::busy;
    next += key.bytes();
  }
  return status::ok;
}

// Copies to or from another process of this host: the kernel does so, or messages where it may not.
status transfers::copy_far(rank_id to, std::uint64_t there, std::byte* local, std::size_t bytes,
                           bool write, op_counter& c) noexcept {
  peer& p = core_.begun(core_.peers()[to]);
  const status s = retry([&]() noexcept {
    // A2 ready  acquire p.ready  <- R2 (connecting/connect.cpp): the lane is there
    return (p.ready.load(std::memory_order_acquire) >> lane_request & 1) != 0
               ? status::ok
               : connections_.connect(p, lane_request);
  });
  if (s != status::ok) return s;
  switch (nic::shm::copy_remote(p.lanes[lane_request].qp, there, local, bytes, write)) {
    case 0:
      return status::ok;
    case EFAULT:
      return status::out_of_segment;  // no such memory there, or not for writing
    case ESRCH:
      return status::peer_dead;
    default:
      return write ? put_by_message(to, there, local, bytes, c)
                   : get_by_message(to, there, local, bytes, c);
  }
}

void transfers::report() const noexcept {
  if (!core_.options().firehose_verbose || !pool_) return;
  const auto p = pool_->statistics();
  std::fprintf(stderr,
               "rank %u: firehose: %" PRIu64 " hits, %" PRIu64 " misses, %" PRIu64
               " evictions, %" PRIu64 " invalidated, %" PRIu64 " refused, %" PRIu64
               " bytes pinned in %u regions\n",
               core_.rank(), p.hits, p.misses, p.evictions, p.invalidations, p.refusals,
               p.bytes_pinned, p.regions);
  if (remote_ == nullptr) return;
  const auto r = remote_->statistics();
  std::fprintf(stderr,
               "rank %u: remote firehoses: %" PRIu64 " hits, %" PRIu64 " asked, %" PRIu64
               " refused, %" PRIu64 " given back, %" PRIu64 " revoked, %" PRIu64
               " bytes granted to others\n",
               core_.rank(), r.hits, r.asks, r.refused, r.given_back, r.revoked, r.bytes_granted);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
