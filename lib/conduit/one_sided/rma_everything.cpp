// Segment everything: puts and gets of memory that lies in no segment. See rma.hpp and
// rma_everything.hpp.
#include "lib/conduit/one_sided/rma_everything.hpp"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <initializer_list>

#include "firehose/firehose.hpp"
#include "lib/base/backoff.hpp"
#include "lib/conduit/one_sided/rma_inl.hpp"
#include "nic/shm/direct.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr std::uint32_t most_receives = 16, least_receives = 6;
// Bytes that all peers together may keep registered here, unless FIREHOSE_M says otherwise.
constexpr std::uint64_t chosen_m = std::uint64_t{1} << 30;

std::uint64_t memory_for_peers(const settings& s, std::uint32_t on_host, bool device_pins) {
  if (s.firehose_m != 0) return s.firehose_m;
  const auto budget = memreg::probe_pin_budget(s.physmem_max, std::max(on_host, 1u), device_pins);
  return std::min(chosen_m, budget.per_process / 2);
}

firehose::remote_settings for_peers(const settings& s, std::uint32_t self, std::uint32_t size,
                                    std::uint32_t on_host, bool device_pins) {
  firehose::remote_settings r;
  r.self = self;
  r.processes = size;
  r.max_bytes = memory_for_peers(s, on_host, device_pins);
  r.max_region_bytes = s.firehose_maxregion_size;
  r.max_regions = s.firehose_r;
  if (r.max_regions == 0)
    r.max_regions = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(r.max_bytes / std::max<std::uint64_t>(r.max_region_bytes, 1),
                                  size, std::uint64_t{1} << 18));
  return r;
}

}  // namespace

// ---- the channel ----

everywhere::~everywhere() {
  remote_.reset();
  if (cq_ != nullptr) engine_.device_.verbs->destroy_cq(cq_);
}

result<void> everywhere::open(firehose::pool& pool, const firehose::remote_settings& s) {
  const auto most = static_cast<std::uint32_t>(engine_.device_.limits.max_cqe);
  receives_ = std::min(most / engine_.size_, most_receives);
  if (receives_ < least_receives)
    return failure{"a completion queue of " + engine_.device_.name + " has " +
                       std::to_string(most) + " entries, too few for segment everything with " +
                       std::to_string(engine_.size_) + " processes",
                   0, "run fewer processes, or use a segment"};
  most_ = receives_ - 2;
  cq_ = engine_.device_.verbs->create_cq(
      engine_.device_.context, static_cast<int>(receives_ * engine_.size_), nullptr, nullptr, 0);
  if (cq_ == nullptr)
    return failure{"ibv_create_cq of remote firehoses on " + engine_.device_.name, errno,
                   "raise ulimit -l"};
  lines_ = zero_array<line>(engine_.size_);
  remote_ = std::make_unique<firehose::remote_firehoses>(*this, pool, s);
  return {};
}

void everywhere::describe_queue(ibv_qp_init_attr& init) const noexcept {
  init.recv_cq = cq_;
  init.cap.max_recv_wr = receives_;
}

void everywhere::attach(peer& p) {
  if (p.rank == engine_.rank_) return;
  auto m = transfers_.memory_->take(std::size_t{receives_} * sizeof(frame));
  if (!m) fatal(1, "segment everything: %s", m.error().message().c_str());
  line& l = lines_[p.rank];
  l.memory = *m;
  for (std::uint32_t i = 0; i < receives_; ++i) post(p, i);
  l.credits.store(most_, std::memory_order_relaxed);  // published with p.ready
}

void everywhere::post(peer& p, std::uint32_t buffer) noexcept {
  const memreg::piece& m = lines_[p.rank].memory;
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(m.base + buffer * sizeof(frame)), sizeof(frame),
              m.keys.lkey};
  ibv_recv_wr wr{};
  wr.wr_id = std::uint64_t{p.rank} << 8 | buffer;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  if (const int e = ibv_post_recv(p.lanes[lane_rma].qp, &wr, &bad); e != 0)
    engine_.peer_failed(p, std::strerror(e));
}

status everywhere::push(peer& p, const frame& f) noexcept {
  transfer_record r;
  const auto slot = transfers_.slots_->take();
  if (!slot) return status::no_chunk;
  r.slot = static_cast<std::uint16_t>(*slot);
  r.counter = &in_flight_;
  std::byte* const at = transfers_.slots_->at(*slot);
  std::memcpy(at, &f, sizeof f);
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(at), sizeof f, transfers_.slots_->keys().lkey};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  const status s = transfers_.try_push(p, wr, r);
  if (s != status::ok) transfers_.release(r);
  return s;
}

status everywhere::send(unsigned rank, std::span<const std::byte> body) noexcept {
  if (rank >= engine_.size_ || body.size() > body_bytes) return status::bad_arguments;
  peer& p = engine_.begun(engine_.peers_[rank]);
  // A2 ready  acquire p.ready  <- R2 (connect.cpp): the line is there
  if ((p.ready.load(std::memory_order_acquire) >> lane_rma & 1) == 0)
    return engine_.connect(p, lane_rma);
  line& l = lines_[rank];
  // There is one sender at a time, and receivers only add. relaxed: the frames carry the order.
  if (l.credits.load(std::memory_order_relaxed) == 0) return status::no_credit;
  frame f;
  f.kind = frame_kind::message;
  std::memcpy(f.body.data(), body.data(), body.size());
  f.returned = l.owed.exchange(0, std::memory_order_relaxed);
  l.credits.fetch_sub(1, std::memory_order_relaxed);
  const status s = push(p, f);
  if (s != status::ok) {
    l.credits.fetch_add(1, std::memory_order_relaxed);
    l.owed.fetch_add(f.returned, std::memory_order_relaxed);
  }
  return s;
}

void everywhere::receive() noexcept {
  const std::uint32_t tag = thread_tag();
  if (!receiving_.try_enter(tag)) return;
  ibv_wc wc[4];
  const int n = ibv_poll_cq(cq_, 4, wc);
  if (n < 0) [[unlikely]]
    fatal(1, "ibv_poll_cq of remote firehose failed on %s", engine_.device_.name.c_str());
  for (int i = 0; i < n; ++i) {
    const auto rank = static_cast<std::uint32_t>(wc[i].wr_id >> 8);
    const auto buffer = static_cast<std::uint32_t>(wc[i].wr_id & 0xff);
    peer& p = engine_.peers_[rank];
    if (wc[i].status != IBV_WC_SUCCESS) [[unlikely]] {
      if (!engine_.closing_.load(std::memory_order_relaxed))
        engine_.peer_failed(p, engine_.device_.verbs->wc_status_str(wc[i].status));
      continue;
    }
    if (wc[i].byte_len != sizeof(frame)) [[unlikely]]
      engine_.peer_failed(p, engine::malformed);
    frame f;
    std::memcpy(&f, lines_[rank].memory.base + buffer * sizeof f, sizeof f);
    post(p, buffer);
    handle(p, f);
  }
  receiving_.leave(tag);
}

void everywhere::handle(peer& p, const frame& f) noexcept {
  line& l = lines_[p.rank];
  const std::uint32_t had = l.credits.fetch_add(f.returned, std::memory_order_relaxed);
  if (f.returned > most_ || had + f.returned > most_) [[unlikely]]
    engine_.peer_failed(p, engine::malformed);
  if (f.kind != frame_kind::message) return;
  if (l.owed.fetch_add(1, std::memory_order_relaxed) + 1 >= most_ / 2)
    owing_.store(true, std::memory_order_relaxed);
  if (!remote_->on_message(p.rank, f.body)) [[unlikely]]
    engine_.peer_failed(p, engine::malformed);
}

// Sends frames that only return receives, to peers to which N/2 or more are owed.
void everywhere::return_owed() noexcept {
  owing_.store(false, std::memory_order_relaxed);
  for (peer& p : engine_.all_begun()) {
    if (p.home->index != 0) continue;
    line& l = lines_[p.rank];
    if (l.owed.load(std::memory_order_relaxed) < most_ / 2) continue;
    frame f;
    f.returned = l.owed.exchange(0, std::memory_order_relaxed);
    if (f.returned == 0) continue;
    if (push(p, f) != status::ok) {
      l.owed.fetch_add(f.returned, std::memory_order_relaxed);
      owing_.store(true, std::memory_order_relaxed);
    }
  }
}

void everywhere::progress() noexcept {
  receive();
  if (owing_.load(std::memory_order_relaxed)) return_owed();
  remote_->progress();
}

// ---- the functions of transfers ----

void transfers::make_room_for_peers(firehose::pool_settings& f) const {
  const auto s = for_peers(engine_.settings_, engine_.rank_, engine_.size_,
                           engine_.job_.host_size(), !engine_.device_.shared_memory);
  const std::uint64_t own =
      f.max_bytes != 0 ? f.max_bytes : std::uint64_t{f.max_regions} * f.max_region_bytes;
  f.max_bytes = own + s.max_bytes;
  f.max_regions += s.max_regions;
  f.access_bits = memreg::access::all;
}

result<void> transfers::open_everything() {
  everywhere_ = std::make_unique<everywhere>(*this, engine_);
  const auto s = for_peers(engine_.settings_, engine_.rank_, engine_.size_,
                           engine_.job_.host_size(), !engine_.device_.shared_memory);
  if (auto r = everywhere_->open(*pool_, s); !r) return r;
  remote_ = &everywhere_->remote();
  return {};
}

void transfers::attach(peer& p) {
  p.transfers = std::make_unique<transfer_queue>(depth_);
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
  if (to != engine_.rank_) return engine_.maps(to) ? status::ok : settle_changes();
  here = static_cast<std::byte*>(const_cast<void*>(at));
  return status::ok;
}

// (R-a) Waits until no peer holds a key to changed memory of this process: a message sent now might
// tell others of the change. Every operation comes here before it holds anything.
status transfers::settle_changes() noexcept {
  if (!must_settle()) [[likely]]
    return status::ok;
  const long_wait named(engine_.waits(), wait_for::old_keys);
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
  long_wait named(engine_.waits(), wait_for::old_keys);
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
  if (engine::in_segment(p, reinterpret_cast<void*>(remote), local.bytes)) return status::ok;
  if (remote_ == nullptr) return status::unsupported;
  status s = retry([&]() noexcept {
    // A2 ready  acquire p.ready  <- R2 (connect.cpp)
    return (p.ready.load(std::memory_order_acquire) >> lane_rma & 1) != 0
               ? status::ok
               : engine_.connect(p, lane_rma);
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

// Copies to or from another process of this host: the kernel does so, or messages where it may not.
status transfers::copy_far(rank_id to, std::uint64_t there, std::byte* local, std::size_t bytes,
                           bool write, op_counter& c) noexcept {
  peer& p = engine_.begun(engine_.peers_[to]);
  const status s = retry([&]() noexcept {
    return (p.ready.load(std::memory_order_acquire) >> lane_request & 1) != 0
               ? status::ok
               : engine_.connect(p, lane_request);
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
  if (!engine_.settings_.firehose_verbose || !pool_) return;
  const auto p = pool_->statistics();
  std::fprintf(stderr,
               "rank %u: firehose: %" PRIu64 " hits, %" PRIu64 " misses, %" PRIu64
               " evictions, %" PRIu64 " invalidated, %" PRIu64 " refused, %" PRIu64
               " bytes pinned in %u regions\n",
               engine_.rank_, p.hits, p.misses, p.evictions, p.invalidations, p.refusals,
               p.bytes_pinned, p.regions);
  if (remote_ == nullptr) return;
  const auto r = remote_->statistics();
  std::fprintf(stderr,
               "rank %u: remote firehoses: %" PRIu64 " hits, %" PRIu64 " asked, %" PRIu64
               " refused, %" PRIu64 " given back, %" PRIu64 " revoked, %" PRIu64
               " bytes granted to others\n",
               engine_.rank_, r.hits, r.asks, r.refused, r.given_back, r.revoked, r.bytes_granted);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
