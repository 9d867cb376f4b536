// The queues of one-sided operations: posting, completions, and the waits for them.
#include <algorithm>
#include <cstring>

#include "lib/base/assert.hpp"
#include "lib/base/backoff.hpp"
#include "lib/base/probes.hpp"
#include "lib/conduit/one_sided/rma_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr unsigned batch = 16;

}  // namespace

status transfers::push(peer& p, ibv_send_wr& wr, transfer_record& r) noexcept {
  if (!r.remote) [[likely]]
    return retry([&]() noexcept { return try_push(p, wr, r); });
  // (W-b) While this thread holds a peer's key no handler may run; completions alone make room.
  status s = try_push(p, wr, r);
  if (!is_short(s)) return s;
  long_wait named(core_.waits(), wait_for::sends, p.rank);
  for (backoff b(64); is_short(s); s = try_push(p, wr, r))
    if (reap() == 0) b.idle(), named.step();
  return s;
}

status transfers::try_push(peer& p, ibv_send_wr& wr, transfer_record& r) noexcept {
  // A2 ready  acquire p.ready  <- R2 (connect.cpp)
  if ((p.ready.load(std::memory_order_acquire) >> lane_rma & 1) == 0) [[unlikely]]
    return connections_.connect(p, lane_rma);
  const std::uint32_t tag = thread_tag();
  const auto in = p.transfer_out.try_enter(tag);
  if (!in) [[unlikely]]
    return status::busy;
  status s = status::ok;
  if (connections::closed_meanwhile(p, lane_rma)) [[unlikely]] {
    s = status::busy;
  } else if (!p.transfers->has_room() ||
             (shares_tickets_ && !p.home->transfer_room.try_take(queues::room_share::all)))
      [[unlikely]] {
    s = status::no_space;
  } else {
    // relaxed: the thread that completes it has seen the completion, which the post precedes
    r.counter->fetch_add(1, std::memory_order_relaxed);
    if (const int e = p.transfers->post(*in, p.lanes[lane_rma], wr, p.rank, std::move(r)); e != 0)
        [[unlikely]]
      core_.post_refused(p, e);
  }
  p.transfer_out.leave(tag);
  return s;
}

status transfers::try_piece(const piece& p, std::size_t& bytes) noexcept {
  part at;
  const std::size_t most = std::min(p.bytes, max_piece_);
  status s = p.opcode == IBV_WR_RDMA_WRITE ? source(p.local, most, reuse::on_completion, at)
                                           : destination(p.local, most, at);
  if (s != status::ok) return s;
  s = move(*p.to, p.opcode, p.remote, at, *p.counter, false);
  if (s == status::ok) bytes = at.bytes;
  return s;
}

bool transfers::has_room(const peer& p) noexcept {
  // A2 ready  acquire p.ready  <- R2 (connect.cpp)
  return (p.ready.load(std::memory_order_acquire) >> lane_rma & 1) != 0 && p.transfers->has_room();
}

status transfers::send_frame(peer& p, std::span<const std::byte> frame, op_counter& c) noexcept {
  PENSTOCK_ASSERT(frame.size(), <=, slot_bytes);
  transfer_record r;
  const auto slot = slots_->take();
  if (!slot) return status::no_chunk;
  r.slot = static_cast<std::uint16_t>(*slot);
  r.counter = &c;
  std::byte* const at = slots_->at(*slot);
  std::memcpy(at, frame.data(), frame.size());
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(at), static_cast<std::uint32_t>(frame.size()),
              slots_->keys().lkey};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  const status s = try_push(p, wr, r);
  if (s != status::ok) release(r);
  return s;
}

status transfers::room_for_one(rank_id to) noexcept {
  if (running != nullptr || to >= core_.size() || !core_.has_started()) return status::ok;
  if (to == core_.rank() || engine_.maps(to)) return status::ok;
  progress();
  if (must_settle()) return status::busy;
  peer& p = channel(to);
  // A2 ready  acquire p.ready  <- R2 (connect.cpp)
  if ((p.ready.load(std::memory_order_acquire) >> lane_rma & 1) == 0)
    return connections_.connect(p, lane_rma);
  const auto room = [&] {
    return p.transfers->has_room() && (!shares_tickets_ || p.home->transfer_room.free() > 0);
  };
  if (!room()) (void)reap();
  return room() ? status::ok : status::no_space;
}

unsigned transfers::reap() noexcept { return reap(home()); }

bool transfers::look() noexcept {
  if (handed_ && go_on_beside()) return true;
  constexpr unsigned looks = 8;
  for (unsigned i = 0; i < looks; ++i)
    if (reap() != 0) return true;
  return false;
}

unsigned transfers::reap(domain& d) noexcept {
  if (d.transfers == nullptr) return 0;
  const std::uint32_t tag = thread_tag();
  const auto in = d.reaping.try_enter(tag);
  if (!in) return 0;
  ibv_wc wc[batch];
  const int n = ibv_poll_cq(d.transfers, batch, wc);
  if (n < 0) [[unlikely]]
    fatal(1, "ibv_poll_cq of puts and gets failed on %s", core_.device().name.c_str());
  if (shares_tickets_) d.transfer_room.give(static_cast<std::uint32_t>(n));
  for (int i = 0; i < n; ++i) {
    peer& p = d.peers[wc[i].wr_id >> 32];
    if (wc[i].status != IBV_WC_SUCCESS) [[unlikely]] {
      PENSTOCK_PROBE(queue_pair_error, p.rank, core_.device().verbs->wc_status_str(wc[i].status));
      if (!core_.closing()) core_.peer_failed(p, core_.device().verbs->wc_status_str(wc[i].status));
    }
    p.transfers->complete(*in, static_cast<std::uint32_t>(wc[i].wr_id), [this](transfer_record& r) {
      if (r.copy_to != nullptr)
        std::memcpy(r.copy_to, r.slot != no_place ? slots_->at(r.slot) : chunks().at(r.chunk),
                    r.copy_bytes);
      op_counter* const counter = r.counter;
      release(r);
      // R1 complete  release counter  -> P1: fetched bytes are there. The counter may be gone after
      // this.
      counter->fetch_sub(1, std::memory_order_release);
    });
  }
  d.reaping.leave(tag);
  const unsigned by_rails = rails_.reap();
  if (n == 0) core_.slow_progress_in_wait();
  return static_cast<unsigned>(n) + by_rails;
}

void transfers::release(transfer_record& r) noexcept {
  if (r.slot != no_place) slots_->give(r.slot);
  if (r.chunk != no_place) chunks().give(r.chunk);
  r.slot = r.chunk = no_place;
  r.lease.reset();
  r.remote.reset();
  r.registration.reset();
}

status transfers::wait(const op_counter& c) noexcept {
  if (done(c)) return status::ok;
  const long_wait named(core_.waits(), wait_for::transfers);
  for (unsigned empty = 0; !done(c);) {
    if (look()) continue;
    if (const status s = engine_.limited_step(empty, !everything_); s != status::ok) return s;
  }
  return status::ok;
}

// As wait(), but it returns only when c is zero: a failed wait is repeated.
void transfers::settle(const op_counter& c) noexcept {
  const no_limit waits_on;
  while (wait(c) != status::ok && !done(c)) {
  }
}

bool transfers::drained(const domain& d) noexcept {
  for (const peer& p : core_.all_begun())
    // A7 made  acquire p.made  <- R7 (connect.cpp)
    if (p.home == &d && (p.made.load(std::memory_order_acquire) >> lane_rma & 1) != 0 &&
        p.transfers && !p.transfers->empty())
      return false;
  return rails_.drained();
}

}  // namespace penstock::conduit::PENSTOCK_ABI
