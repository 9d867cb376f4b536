// Links of side rails to other ranks: how one is made, tried, and given up. See rails.hpp.
#include <poll.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "lib/conduit/one_sided/rails_inl.hpp"
#include "lib/conduit/peer/core_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

// A link that has failed is tried again after this time, by an empty WRITE, for which nobody waits.
constexpr std::uint64_t rest_ns = 1'000'000'000;

}  // namespace

// A queue pair that is not connected yet; null: the device has none.
ibv_qp* rails::make_queue_pair(rail& r) noexcept {
  nic::device& d = r.device;
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = r.cq;
  init.qp_type = IBV_QPT_RC;
  init.cap.max_send_wr = r.depth;
  init.cap.max_send_sge = init.cap.max_recv_wr = init.cap.max_recv_sge = 1;
  ibv_qp* qp = d.verbs->create_qp(r.pd, &init);
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = d.self.port;
  a.pkey_index = d.paths.pkey_index;
  a.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  if (qp != nullptr &&
      d.verbs->modify_qp(qp, &a,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
    r.destroy(qp);
  return qp;
}

// Connects qp, whose first number of a packet is psn, to the queue pair of `there`.
bool rails::bind(rail& r, ibv_qp* qp, std::uint32_t psn, const words& there) const noexcept {
  nic::device& d = r.device;
  const settings& s = core_.options();
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = static_cast<ibv_mtu>(std::min(there.address.mtu, d.self.mtu));
  a.dest_qp_num = there.qpn;
  a.rq_psn = there.psn;
  a.max_dest_rd_atomic = static_cast<std::uint8_t>(r.reads);
  a.min_rnr_timer = static_cast<std::uint8_t>(s.rnr_timer);
  a.ah_attr = d.path_to(there.address, nic::flow_of(qp->qp_num, there.qpn));
  if (d.verbs->modify_qp(qp, &a,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0)
    return false;
  a.qp_state = IBV_QPS_RTS;
  a.sq_psn = psn;
  a.timeout = static_cast<std::uint8_t>(s.qp_timeout);
  a.retry_cnt = static_cast<std::uint8_t>(s.retry_count);
  a.rnr_retry = static_cast<std::uint8_t>(s.rnr_retry);
  a.max_rd_atomic = static_cast<std::uint8_t>(std::clamp(there.reads, 1u, r.reads));
  return d.verbs->modify_qp(qp, &a,
                            IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

// ---- at the side that asks ----

// Asks for the other end of l's queue pair, which it makes; or, if l has failed, for the end of it.
void rails::ask(rail& r, link& l) noexcept {
  if (l.at == link::stage::none) {
    l.qp = make_queue_pair(r);
    l.not_before_ns = now_ns() + rest_ns;
    if (l.qp == nullptr) return;
    ++l.generation;
    l.at = link::stage::asked;
    l.psn = static_cast<std::uint32_t>(now_ns()) & 0xffffff;
  }
  if (!std::exchange(l.asks, true)) ++asks_;
}

rails::words rails::ask_of(const rail& r, const link& l) const noexcept {
  words w;
  w.rail = r.number;
  w.generation = l.generation;
  w.address = r.device.self;
  w.reads = r.reads;
  w.psn = l.psn;
  if (l.at == link::stage::asked) w.qpn = l.qp->qp_num;
  return w;
}

// Sends what links have to ask, outside the lock, since a request may look for completions. What
// finds no room is sent later.
void rails::send_asks(std::unique_lock<std::mutex>& inside) noexcept {
  for (const auto& r : rails_)
    for (auto& [rank, l] : r->links) {
      if (!std::exchange(l.asks, false)) continue;
      --asks_;
      words w = ask_of(*r, l);
      outgoing m{.kind = wire::kind::medium, .handler = rma_rail_ask, .flags = wire::flag_system};
      m.payload = &w;
      m.bytes = sizeof w;
      inside.unlock();
      const status s = engine_.try_request(rank, m);
      inside.lock();
      if (is_failure(s)) {  // the rank is gone, and keeps nothing
        w.qpn = 0;
        heard(rank, w);
      } else if (s != status::ok && !std::exchange(l.asks, true)) {
        ++asks_;
      }
    }
}

// The other side's answer to an ask.
void rails::heard(rank_id from, const words& w) noexcept {
  if (w.rail < 2 || w.rail - 2 >= rails_.size()) return;
  rail& r = *rails_[w.rail - 2];
  const auto found = r.links.find(from);
  if (found == r.links.end() || w.generation != found->second.generation) return;
  link& l = found->second;
  if (l.at == link::stage::failed) return closed(r, l);
  if (l.at != link::stage::asked) return;
  if (w.qpn == 0) {
    r.destroy(l.qp);
    l.at = link::stage::none;
    if (w.reads == 0) {
      l.not_before_ns = ~std::uint64_t{0};
      log(log_level::warning, "rank %u has no %s: transfers to it go without", from,
          r.name.c_str());
    }
    return;
  }
  l.there = w;
  l.at = link::stage::tried;
  ++r.under_way;
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = std::uint64_t{from} << 32 | l.generation;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = w.base;
  wr.wr.rdma.rkey = w.rkey;
  if (!bind(r, l.qp, l.psn, w) || ibv_post_send(l.qp, &wr, &bad) != 0)
    fail(r, from, l, "its queue pair cannot be connected");
}

// (R3) The empty WRITE has crossed the rail.
void rails::ready(rail& r, rank_id rank, link& l) noexcept {
  --r.under_way;
  l.at = link::stage::ready;
  if (std::exchange(r.said, false))
    log(log_level::warning, "%s is used again, to rank %u", r.name.c_str(), rank);
}

// (R1) Nothing of this queue pair lands here any more, and the other side is asked to end its own.
void rails::fail(rail& r, rank_id rank, link& l, const char* how) noexcept {
  r.destroy(l.qp);
  if (l.at == link::stage::tried) --r.under_way;
  if (l.at == link::stage::ready && !core_.closing()) {
    ++r.times_out;
    if (!std::exchange(r.said, true))
      log(log_level::warning,
          "%s to rank %u has failed: %s; it is left out, and its transfers go by %s",
          r.name.c_str(), rank, how, core_.device().name.c_str());
  }
  l.at = link::stage::failed;
  ask(r, l);
}

// (R2) The other side has ended its queue pair: what has not completed goes by the first rail.
void rails::closed(rail& r, link& l) noexcept {
  r.under_way -= l.pieces.size();
  for (posted& p : l.pieces) p.lease.reset();
  r.again.splice(r.again.end(), l.pieces);
  l.at = link::stage::none;
  l.not_before_ns = now_ns() + rest_ns;
}

void rails::leave_out(rail& r, const char* how) noexcept {
  for (auto& [rank, l] : r.links)
    if (l.qp != nullptr) fail(r, rank, l, how);
}

void rails::hear_events(rail& r) noexcept {
  const nic::calls& v = *r.device.verbs;
  pollfd f{r.device.context->async_fd, POLLIN, 0};
  ibv_async_event e;
  while (!r.gone && ::poll(&f, 1, 0) == 1 && v.get_async_event(r.device.context, &e) == 0) {
    const ibv_event_type type = e.event_type;
    const bool own_port = type != IBV_EVENT_PORT_ERR && type != IBV_EVENT_PORT_ACTIVE
                              ? false
                              : e.element.port_num == r.device.self.port;
    v.ack_async_event(&e);
    r.gone = type == IBV_EVENT_DEVICE_FATAL || type == IBV_EVENT_CQ_ERR;
    if (own_port) r.down = type == IBV_EVENT_PORT_ERR;
    if (r.gone || (own_port && r.down)) leave_out(r, v.event_type_str(type));
    if (own_port && !r.down)
      for (auto& [rank, l] : r.links) l.not_before_ns = 0;
  }
}

// ---- at the side that is asked ----

rails::words rails::answer_to(rank_id from, const words& w) noexcept {
  words back;
  back.rail = w.rail;
  back.generation = w.generation;
  back.reads = 0;
  if (w.rail < 2 || w.rail - 2 >= rails_.size()) return back;
  rail& r = *rails_[w.rail - 2];
  back.reads = r.reads;
  link* const found = link_of(r, from);
  if (found == nullptr) return back;
  link& l = *found;
  r.destroy(l.theirs);
  if (w.qpn == 0 || r.down || r.gone) return back;
  back.psn = static_cast<std::uint32_t>(now_ns()) & 0xffffff;
  l.theirs = make_queue_pair(r);
  if (l.theirs != nullptr && !bind(r, l.theirs, back.psn, w)) r.destroy(l.theirs);
  if (l.theirs == nullptr) return back;
  back.qpn = l.theirs->qp_num;
  back.address = r.device.self;
  back.rkey = r.segment.rkey;
  back.base = reinterpret_cast<std::uintptr_t>(r.base);
  back.bytes = r.bytes;
  return back;
}

rails::words rails::words_of(const std::byte* payload, std::size_t bytes) noexcept {
  words w;
  if (bytes != sizeof w) fatal(1, "rank %u speaks of a rail in no known way", running->source());
  std::memcpy(&w, payload, sizeof w);
  return w;
}

void rails::on_ask(void* self, token&, const std::uint32_t*, std::byte* payload,
                   std::size_t bytes) {
  auto& all = *static_cast<rails*>(self);
  words w = words_of(payload, bytes);
  {
    const std::lock_guard inside(all.lock_);
    w = all.answer_to(running->source(), w);
  }
  outgoing m{.kind = wire::kind::medium, .handler = rma_rail_answer, .flags = wire::flag_system};
  m.payload = &w;
  m.bytes = sizeof w;
  if (const status s = all.engine_.reply(*running, m); s != status::ok)
    fatal(1, "the answer to an ask for a rail: %s", describe(s));
}

void rails::on_answer(void* self, token&, const std::uint32_t*, std::byte* payload,
                      std::size_t bytes) {
  auto& all = *static_cast<rails*>(self);
  const words w = words_of(payload, bytes);
  const std::lock_guard inside(all.lock_);
  all.heard(running->source(), w);
  all.note_work();
}

}  // namespace penstock::conduit::PENSTOCK_ABI
