// The responder's side of a queue pair: what is done with requests as they come. A program need not
// poll for it.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/clock.hpp"
#include "nic/choice.hpp"
#include "nic/shm/srq.hpp"
#include "nic/tcp/network.hpp"
#include "nic/tcp/peer_memory.hpp"

namespace penstock::nic::tcp {
namespace {

using shm::queue_pair;
using goes = incoming::goes;

bool takes_requests(const queue_pair& qp) noexcept {
  const ibv_qp_state s = shm::state_of(qp);
  return s == IBV_QPS_RTR || s == IBV_QPS_RTS || s == IBV_QPS_SQD || s == IBV_QPS_SQE;
}

/// What a peer is told of a message whose receive ends so; one that asks for no answers hears
/// nothing.
ibv_wc_status answer_to(const queue_pair& qp, ibv_wc_status receive) noexcept {
  if (receive == IBV_WC_SUCCESS || shm::unanswered(qp)) return IBV_WC_SUCCESS;
  return receive == IBV_WC_LOC_PROT_ERR ? IBV_WC_REM_OP_ERR : IBV_WC_REM_INV_REQ_ERR;
}

}  // namespace

/// The queue pair that a frame is for, if it is connected to the one that the frame is from.
queue_pair* network::qp_of(const remote& r, const frame_head& f) noexcept {
  if (f.to >> shm::own_bits != context_->block) return nullptr;
  queue_pair* qp = table_[context_->entry_of(f.to)];
  if (qp == nullptr || qp->qp_num != f.to) return nullptr;
  const half& h = half_of(*qp);
  return h.to != nullptr && h.to->at == r.at && h.dest == f.from ? qp : nullptr;
}

int network::connect(queue_pair& qp, const ibv_qp_attr& a) {
  const ibv_gid& gid = a.ah_attr.grh.dgid;
  if (!is_ipv4_mapped(gid)) return EHOSTUNREACH;
  endpoint to;
  std::memcpy(&to.ip, gid.raw + 12, sizeof to.ip);
  to.port = static_cast<std::uint16_t>(options_.first_port + (a.dest_qp_num >> shm::own_bits));
  remote& r = at(to);
  const std::lock_guard reading(reading_);
  const shm::hold guard(qp.sending);
  r.qps.push_back(&qp);  // the last that asks for memory
  half& h = half_of(qp);
  h.to = &r;
  h.dest = a.dest_qp_num;
  h.started = h.acked = 0;
  h.link = r.link;
  h.reads_out = 0;
  h.stalled_until_ns = 0;
  h.absent = h.half_taken = h.left = false;
  h.met = r.now == remote::phase::up;
  h.expected.store(a.rq_psn, std::memory_order_relaxed);
  h.atomics.clear();
  h.next_atomic = 0;
  qp.dest.store(a.dest_qp_num, std::memory_order_relaxed);
  table_[qp.index] = &qp;
  if (!h.met) want(r);
  return 0;
}

void network::disconnect(queue_pair& qp) noexcept {
  half& h = half_of(qp);
  const std::lock_guard reading(reading_);
  if (h.to == nullptr) return;
  const shm::hold guard(qp.sending);
  remote& r = *h.to;
  const auto part = [&](remote& from, bool last) {
    if (from.in.qp == &qp) from.in.qp = nullptr, from.in.where = goes::nowhere;
    const std::lock_guard out(from.out.lock);
    if (!from.up) return;
    if (!from.out.let_go(&qp, 0)) ::shutdown(from.socket, SHUT_RDWR);
    std::erase(from.waiting, &qp);
    const bool owed = std::erase(from.owing, &qp) != 0;
    const std::uint32_t seq = h.expected.load(std::memory_order_relaxed) - 1;
    const frame_head ack{.what = kind::ack, .to = h.dest, .from = qp.qp_num, .seq = seq};
    const frame_head left{.what = kind::left, .to = h.dest, .from = qp.qp_num, .seq = seq};
    if (owed) from.out.append(&ack, sizeof ack);
    if (last) from.out.append(&left, sizeof left);
    if ((owed || last) && !from.blocked) send_out(from);
  };
  if (self_in_ && r.at == self_) part(*self_in_, false);
  part(r, true);
  h.owes = false;
  std::erase(r.qps, &qp);
  table_[qp.index] = nullptr;
  r.under_way.fetch_sub(
      static_cast<std::int64_t>(h.started -
                                std::min(h.started, std::max(h.acked, qp.works.finished()))),
      std::memory_order_relaxed);
  h.to = nullptr;
}

void network::say(remote& r, kind what, const frame_head& about, std::uint16_t detail) noexcept {
  const frame_head f{
      .what = what, .detail = detail, .to = about.from, .from = about.to, .seq = about.seq};
  const std::lock_guard out(r.out.lock);
  if (!r.up) return;
  add_acks(r);
  r.out.append(&f, sizeof f);
  r.owes_now = true;
}

/// The peer has an ack to get: at once, or with what goes next.
void network::owe(remote& r, queue_pair& qp, bool now) noexcept {
  half& h = half_of(qp);
  const std::lock_guard out(r.out.lock);
  if (!r.up) return;
  if (!std::exchange(h.owes, true)) r.owing.push_back(&qp);
  if (now) r.owes_now = true;
  if (!now) leave_for_later(r, now_ns());
}

/// Ends the connection of the two queue pairs with that status for the peer's request.
void network::refuse(remote& r, queue_pair& qp, ibv_wc_status theirs) noexcept {
  if (shm::unanswered(qp)) return;
  say(r, kind::refused, r.in.head, static_cast<std::uint16_t>(theirs));
  if (shm::state_of(qp) == IBV_QPS_ERR) return;
  shm::enter_error(qp, theirs);
}

/// What the target's adapter would say to a request for memory.
ibv_wc_status network::check(const queue_pair& qp, const incoming& in) noexcept {
  const kind what = in.head.what;
  const bool atomic = is_atomic(what);
  const std::uint32_t need = atomic               ? IBV_ACCESS_REMOTE_ATOMIC
                             : what == kind::read ? IBV_ACCESS_REMOTE_READ
                                                  : IBV_ACCESS_REMOTE_WRITE;
  if ((qp.shown->access.load(std::memory_order_relaxed) & need) == 0) return IBV_WC_REM_INV_REQ_ERR;
  if (what != kind::write && qp.shown->reads_allowed.load(std::memory_order_relaxed) == 0)
    return IBV_WC_REM_INV_REQ_ERR;
  if (atomic && in.place.address % 8 != 0) return IBV_WC_REM_INV_REQ_ERR;
  const std::uint32_t bytes = atomic ? 8 : what == kind::read ? in.place.length : in.head.bytes;
  if (bytes == 0) return IBV_WC_SUCCESS;
  return context_->regions.allows(in.place.rkey, qp.pd_number, in.place.address, bytes, need)
             ? IBV_WC_SUCCESS
             : IBV_WC_REM_ACCESS_ERR;
}

/// Takes a receive for a message, unless it has one from before its connection broke.
bool network::take_receive(queue_pair& qp, half& h, const frame_head& f) noexcept {
  const shm::hold guard(shm::of(qp.recv_cq).poll);
  shm::assembly& m = qp.message;
  if (std::exchange(h.half_taken, false) && m.active) {
    m.bytes = f.bytes;
    return true;
  }
  if (qp.shared_receives != nullptr) {
    shm::srq_entry& shown = *qp.shared_receives->shown;
    if (!shm::try_claim(shown)) return false;
    if (!shm::take(*qp.shared_receives, m.work, m.list)) {
      // release: given back as it was claimed
      shown.available.fetch_add(1, std::memory_order_release);
      return false;
    }
  } else {
    const shm::hold lock(qp.receives.lock);
    if (!qp.receives.take(m.work, m.list)) return false;
  }
  m.active = true;
  m.bytes = f.bytes;
  m.offset = 0;
  return true;
}

/// False: the receive has been flushed. One that ends in an error finds its queue pair broken.
bool network::complete_receive(queue_pair& qp, const incoming& in, ibv_wc_status status) noexcept {
  shm::completion_queue& cq = shm::of(qp.recv_cq);
  const shm::hold guard(cq.poll);
  if (!std::exchange(qp.message.active, false)) return false;
  shm::completion c;
  c.qp = &qp;
  c.wc.wr_id = qp.message.work.wr_id;
  c.wc.status = status;
  c.wc.opcode = in.head.what == kind::write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  c.wc.byte_len = in.head.bytes;
  c.wc.qp_num = qp.qp_num;
  c.wc.src_qp = in.head.from;
  if ((in.head.flags & flag_imm) != 0) {
    c.wc.wc_flags = IBV_WC_WITH_IMM;
    c.wc.imm_data = in.head.imm;
  }
  if (status != IBV_WC_SUCCESS) shm::enter_error(qp, answer_to(qp, status));
  shm::store(cq, c, (in.head.flags & flag_solicited) != 0);
  return true;
}

/// The head of a request has come.
void network::request_begins(remote& r) noexcept {
  incoming& in = r.in;
  const frame_head& f = in.head;
  queue_pair* qp = qp_of(r, f);
  if (qp == nullptr || !takes_requests(*qp)) {
    // A queue pair that broke for a reason says so; else the peer's timer decides.
    const std::uint32_t nak = qp != nullptr ? qp->shown->nak.load(std::memory_order_relaxed) : 0u;
    if (nak != 0)
      say(r, kind::refused, f, static_cast<std::uint16_t>(nak));
    else
      say(r, kind::absent, f, 0);
    return;
  }
  half& h = half_of(*qp);
  auto ahead = static_cast<std::int32_t>(f.seq - h.expected.load(std::memory_order_relaxed));
  in.qp = qp;
  if (ahead > 0 && shm::unanswered(*qp)) {  // what was lost is not sent again
    h.expected.store(f.seq, std::memory_order_relaxed);
    ahead = 0;
  }
  if (ahead > 0) {  // behind one that was not taken
    in.qp = nullptr;
    return;
  }
  in.counts = ahead == 0;
  if (f.what == kind::send) {
    if (!in.counts) return;
    if (!take_receive(*qp, h, f)) {
      in.counts = false;
      if (shm::unanswered(*qp)) {
        context_->lost_for_receive.fetch_add(1, std::memory_order_relaxed);
        h.expected.fetch_add(1, std::memory_order_relaxed);
        return;
      }
      context_->memory.header().rnr_sent.fetch_add(1, std::memory_order_relaxed);
      say(r, kind::not_ready, f,
          static_cast<std::uint16_t>(qp->shown->min_rnr_timer.load(std::memory_order_relaxed)));
      in.qp = nullptr;
      return;
    }
    in.where = goes::receive;
    if (f.bytes > qp->message.work.room) in.status = IBV_WC_LOC_LEN_ERR;
    return;
  }
  in.status = check(*qp, in);
  if (f.what == kind::write && in.counts && in.status == IBV_WC_SUCCESS) in.where = goes::memory;
}

/// All of a request has come: it is done, counted and answered.
void network::request_ends(remote& r) noexcept {
  incoming& in = r.in;
  const frame_head& f = in.head;
  if (in.qp == nullptr || !takes_requests(*in.qp)) return;
  queue_pair& qp = *in.qp;
  half& h = half_of(qp);
  const bool told = f.what == kind::write && (f.flags & flag_imm) != 0;
  if (f.what == kind::send && in.where == goes::receive && in.status != IBV_WC_SUCCESS) {
    complete_receive(qp, in, in.status);
    if (shm::unanswered(qp)) {
      h.expected.fetch_add(1, std::memory_order_relaxed);
      return owe(r, qp, true);
    }
    return refuse(r, qp, answer_to(qp, in.status));
  }
  if (f.what != kind::send && in.status != IBV_WC_SUCCESS) {
    if (!in.counts && f.what == kind::write) return owe(r, qp, true);
    if (shm::unanswered(qp)) {
      h.expected.fetch_add(1, std::memory_order_relaxed);
      return owe(r, qp, true);
    }
    const bool breaks = shm::state_of(qp) != IBV_QPS_ERR && shm::answered(qp);
    refuse(r, qp, in.status);
    if (breaks && in.status != IBV_WC_REM_OP_ERR) shm::raise_qp(qp, IBV_EVENT_QP_ACCESS_ERR);
    return;
  }
  if (in.counts && told && !take_receive(qp, h, f)) {
    if (!shm::unanswered(qp)) {
      context_->memory.header().rnr_sent.fetch_add(1, std::memory_order_relaxed);
      return say(
          r, kind::not_ready, f,
          static_cast<std::uint16_t>(qp.shown->min_rnr_timer.load(std::memory_order_relaxed)));
    }
    context_->lost_for_receive.fetch_add(1, std::memory_order_relaxed);
    in.counts = false;
    h.expected.fetch_add(1, std::memory_order_relaxed);
  }
  if (in.counts && (told || f.what == kind::send) && !complete_receive(qp, in, IBV_WC_SUCCESS))
    return;
  if (in.counts) h.expected.fetch_add(1, std::memory_order_relaxed);
  if (is_atomic(f.what)) return do_atomic(r);
  if (f.what == kind::read) return send_answer(r);
  owe(r, qp, !in.counts || (f.flags & flag_answer_now) != 0);
}

/// Does an atomic, or answers again with what it has found.
void network::do_atomic(remote& r) noexcept {
  incoming& in = r.in;
  half& h = half_of(*in.qp);
  std::uint64_t old = 0;
  if (!in.counts) {
    const auto kept = std::ranges::find(h.atomics, in.head.seq, &half::done_atomic::seq);
    if (kept == h.atomics.end()) return;
    old = kept->old;
  } else {
    const std::uint64_t* swap = in.head.what == kind::compare_swap ? &in.operands.swap : nullptr;
    const bool there = peer_memory::on_word(in.place.address, in.operands.operand, swap, &old);
    if (!there) return refuse(r, *in.qp, IBV_WC_REM_OP_ERR);
    // A requester has no more than these under way.
    if (h.atomics.size() < shm::max_reads) h.atomics.emplace_back();
    h.atomics[h.next_atomic++ % shm::max_reads] = {in.head.seq, old};
  }
  const frame_head f{.what = kind::answer,
                     .bytes = sizeof old,
                     .to = in.head.from,
                     .from = in.head.to,
                     .seq = in.head.seq};
  const std::lock_guard out(r.out.lock);
  if (!r.up) return;
  r.out.append(&f, sizeof f);
  r.out.append(&old, sizeof old);
  r.owes_now = true;
}

/// Answers a READ. A long one is read when the kernel takes it.
void network::send_answer(remote& r) noexcept {
  const incoming& in = r.in;
  const std::uint32_t bytes = in.place.length;
  const auto* from = reinterpret_cast<const std::byte*>(in.place.address);
  const frame_head f{.what = kind::answer,
                     .bytes = bytes,
                     .to = in.head.from,
                     .from = in.head.to,
                     .seq = in.head.seq};
  std::byte copy[most_copied];
  if (bytes <= most_copied && !peer_memory::get(copy, from, bytes))
    return refuse(r, *in.qp, IBV_WC_REM_OP_ERR);
  const std::lock_guard out(r.out.lock);
  if (!r.up) return;
  r.out.append(&f, sizeof f);
  if (bytes <= most_copied)
    r.out.append(copy, bytes);
  else
    r.out.refer(from, bytes, in.qp, in.place.rkey);
  r.owes_now = true;
}

}  // namespace penstock::nic::tcp
