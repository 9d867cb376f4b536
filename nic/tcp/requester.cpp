// The requester's side of a queue pair: requests become frames, and answers end requests.
//
// The send queue keeps each request until its answer has come, with its list or its inline bytes;
// so a request is sent again from there: after a receiver-not-ready answer, or on a new connection.
// The responder knows by the sequence number what it has done already.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/clock.hpp"
#include "nic/choice.hpp"
#include "nic/tcp/network.hpp"

namespace penstock::nic::tcp {
namespace {

using shm::queue_pair;
using shm::send_work;
using shm::stage;

constexpr std::size_t most_waiting = 256 * 1024;  // bytes for one connection that become frames
constexpr std::size_t most_unsent = 64 * 1024;    // of datagrams while there is no connection
constexpr std::uint64_t absent_ns = 1'000'000;    // asked again after it

kind kind_of(ibv_wr_opcode op) noexcept {
  switch (op) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return kind::write;
    case IBV_WR_RDMA_READ:
      return kind::read;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return kind::fetch_add;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return kind::compare_swap;
    default:
      return kind::send;
  }
}

bool brings(const send_work& w) noexcept {
  const kind k = kind_of(w.opcode);
  return k == kind::read || is_atomic(k);
}

void doom(send_work& w, ibv_wc_status status) noexcept {
  w.at = stage::doomed;
  w.tries = static_cast<std::uint32_t>(status);
}

}  // namespace

std::unique_ptr<shm::carried> network::make(queue_pair&) { return std::make_unique<half>(); }

/// Makes a frame of a request. False: it cannot be sent now, or never. Under out.lock and sending.
bool network::start(queue_pair& qp, half& h, send_work& w, remote& r) {
  if (w.at == stage::doomed) return false;
  const kind what = kind_of(w.opcode);
  const bool fetches = brings(w);
  if (!shm::keys_hold(qp, w)) return doom(w, IBV_WC_LOC_PROT_ERR), false;
  if (is_atomic(what) && w.bytes != 8) return doom(w, IBV_WC_LOC_LEN_ERR), false;
  if (fetches && h.reads_out >= std::max(1u, qp.reads_at_once)) return false;
  if ((w.flags & IBV_SEND_FENCE) != 0 && h.reads_out != 0) return false;
  struct {
    frame_head head;
    frame_place place;
    frame_operands operands;
    std::byte payload[most_copied];
  } f;
  f.head = {.what = what,
            .bytes = fetches ? 0 : w.bytes,
            .to = h.dest,
            .from = qp.qp_num,
            .seq = qp.sq_psn + static_cast<std::uint32_t>(h.started),
            .imm = w.imm};
  if (w.opcode == IBV_WR_SEND_WITH_IMM || w.opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
    f.head.flags |= flag_imm;
  if ((w.flags & IBV_SEND_SOLICITED) != 0) f.head.flags |= flag_solicited;
  // The target's program is not told of a bare WRITE, so no frame of its own will bring the ack.
  const bool signaled = qp.signal_all || (w.flags & IBV_SEND_SIGNALED) != 0;
  if (w.bytes >= large_bytes || (w.opcode == IBV_WR_RDMA_WRITE && signaled))
    f.head.flags |= flag_answer_now;
  f.place = {w.remote, w.rkey, w.bytes};
  f.operands = {w.operand, w.swap};
  const bool copied = !fetches && w.bytes <= most_copied;
  const std::size_t heads = sizeof f.head + more_head(what);
  if (copied) shm::gather(w, 0, reinterpret_cast<std::byte*>(&f) + heads, w.bytes);
  r.out.append(&f, heads + (copied ? w.bytes : 0));
  if (!fetches && !copied)
    for (std::uint32_t i = 0; i < w.count; ++i)
      r.out.refer(reinterpret_cast<const std::byte*>(w.list[i].addr), w.list[i].length, &qp, 0);
  w.at = stage::pushed;
  if (fetches) ++h.reads_out;
  ++h.started;
  r.under_way.fetch_add(1, std::memory_order_relaxed);
  ++r.unsent;
  r.awaited = r.awaited || signaled || w.opcode != IBV_WR_RDMA_WRITE;
  return true;
}

void network::advance(queue_pair& qp) noexcept {
  half& h = half_of(qp);
  if (h.to == nullptr) return;
  remote& r = *h.to;
  shm::send_queue& works = qp.works;
  h.started = std::max(h.started, works.finished());
  const ibv_qp_state state = shm::state_of(qp);
  if (state != IBV_QPS_RTS) {
    if (state != IBV_QPS_ERR || h.started == works.finished()) return;
    // They are flushed now, and their memory is the program's again.
    const std::lock_guard out(r.out.lock);
    if (r.up && !r.out.let_go(&qp, 0)) ::shutdown(r.socket, SHUT_RDWR);
    rewind(qp, h, works.finished());
    return;
  }
  if (h.started == works.posted()) return;
  if (h.stalled_until_ns != 0) {
    if (now_ns() < h.stalled_until_ns) return;
    h.stalled_until_ns = 0;
    h.absent = false;
  }
  const std::lock_guard out(r.out.lock);
  if (!r.up) return want(r);
  if (h.link != r.link) return;  // a new connection: resume() begins with what has no answer
  bool any = false;
  while (h.started != works.posted()) {
    if (r.out.bytes() >= most_waiting) {
      if (!r.blocked) send_out(r);
      if (r.blocked) {
        if (std::ranges::find(r.waiting, &qp) == r.waiting.end()) r.waiting.push_back(&qp);
        break;
      }
    }
    if (!start(qp, h, works.work(h.started), r)) break;
    any = true;
  }
  if (any) send_or_wait(r);
}

/// Requests from that one on are sent again. Under sending, and reading_ or the output's lock.
void network::rewind(queue_pair& qp, half& h, std::uint64_t to) noexcept {
  const std::uint64_t counted = std::min(h.started, std::max(to, h.acked));
  if (h.link == h.to->link)  // a new connection has counted none of them
    h.to->under_way.fetch_sub(static_cast<std::int64_t>(h.started - counted),
                              std::memory_order_relaxed);
  h.started = to;
  h.reads_out = 0;
  for (std::uint64_t i = qp.works.finished(); i < to; ++i)
    if (const send_work& w = qp.works.work(i); brings(w) && w.at != stage::answered) ++h.reads_out;
}

/// A new connection: everything without an answer is sent again. Under reading_.
void network::resume(queue_pair& qp) noexcept {
  const shm::hold guard(qp.sending);
  half& h = half_of(qp);
  h.met = true;
  h.link = h.to->link;
  h.started = qp.works.finished();
  h.reads_out = 0;
  h.stalled_until_ns = 0;
  h.absent = false;
  if (!qp.works.idle()) shm::push_on(qp);
}

/// A responder's word on requests of a queue pair here. Under reading_.
void network::heard(remote& r, const frame_head& f) noexcept {
  queue_pair* qp = qp_of(r, f);
  if (qp == nullptr) return;
  half& h = half_of(*qp);
  if (f.what == kind::left) {
    h.left = true;
    return;
  }
  const shm::hold guard(qp->sending);
  shm::send_queue& works = qp->works;
  const std::uint64_t first = works.finished();
  const auto ahead =
      static_cast<std::int32_t>(f.seq - qp->sq_psn - static_cast<std::uint32_t>(first));
  const std::int64_t past = std::int64_t{ahead} + (f.what == kind::ack ? 1 : 0);
  const auto under_way = static_cast<std::int64_t>(h.started - first);
  if (past < 0 || past > under_way || (f.what != kind::ack && past == under_way)) return;  // late
  // A queue pair that is not there has taken none of what has no ack; acks go before this word.
  const std::uint64_t at =
      f.what == kind::absent ? std::max(first, h.acked) : first + static_cast<std::uint64_t>(past);
  if (at > h.acked) {
    r.under_way.fetch_sub(static_cast<std::int64_t>(at - std::max(h.acked, first)),
                          std::memory_order_relaxed);
    h.acked = at;
    h.absent = false;
  }
  const std::uint64_t now = f.what == kind::ack ? 0 : now_ns();
  if (f.what == kind::refused) {
    doom(works.work(at), static_cast<ibv_wc_status>(f.detail));
    rewind(*qp, h, at);
  } else if (f.what == kind::not_ready) {
    send_work& w = works.work(at);
    qp->owner->rnr_received.fetch_add(1, std::memory_order_relaxed);
    rewind(*qp, h, at);
    if (w.tries >= qp->rnr_retry && qp->rnr_retry != 7) {
      doom(w, IBV_WC_RNR_RETRY_EXC_ERR);
    } else {
      ++w.tries;
      h.stalled_until_ns = now + shm::rnr_timer_ns(f.detail);
    }
  } else if (f.what == kind::absent) {
    h.absent = true;
    rewind(*qp, h, at);
    h.stalled_until_ns = now + absent_ns;
  }
  shm::push_on(*qp);
}

/// The request to which an answer belongs; null: none waits for it. Under sending.
static send_work* asked_for(queue_pair& qp, const half& h, const frame_head& f) noexcept {
  const std::uint64_t first = qp.works.finished();
  const std::uint64_t ahead = f.seq - qp.sq_psn - static_cast<std::uint32_t>(first);
  if ((ahead & 0xffffffff) >= h.started - first) return nullptr;
  send_work& w = qp.works.work(first + (ahead & 0xffffffff));
  return brings(w) && w.at == stage::pushed && w.bytes == f.bytes ? &w : nullptr;
}

void network::result_begins(remote& r) noexcept {
  incoming& in = r.in;
  in.qp = qp_of(r, in.head);
  in.where = in.qp != nullptr ? incoming::goes::result : incoming::goes::nowhere;
}

void network::result_ends(remote& r) noexcept {
  incoming& in = r.in;
  if (in.qp == nullptr) return;
  queue_pair& qp = *in.qp;
  half& h = half_of(qp);
  const shm::hold guard(qp.sending);
  send_work* w = asked_for(qp, h, in.head);
  if (w == nullptr) return;
  --h.reads_out;
  if (in.status != IBV_WC_SUCCESS)
    doom(*w, in.status);
  else
    w->at = stage::answered;
  const std::uint64_t at =
      qp.works.finished() +
      (in.head.seq - qp.sq_psn - static_cast<std::uint32_t>(qp.works.finished())) + 1;
  if (at > h.acked) {
    r.under_way.fetch_sub(static_cast<std::int64_t>(at - std::max(h.acked, qp.works.finished())),
                          std::memory_order_relaxed);
    h.acked = at;
  }
  h.absent = false;
  shm::push_on(qp);
}

/// Where n bytes of an answer go, from `done` on; under sending. Answers how many pieces.
int network::result_pieces(queue_pair& qp, const incoming& in, iovec* v, int most) noexcept {
  const send_work* w = asked_for(qp, half_of(qp), in.head);
  if (w == nullptr) return 0;
  return pieces_of(qp, w->list, w->count, in.done, qp.pd_number, v, most);
}

shm::outcome network::attempt(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept {
  if (w.at == stage::doomed) {
    *why = static_cast<ibv_wc_status>(w.tries);
    return shm::outcome::failed;
  }
  if (qp.qp_type == IBV_QPT_UD) return datagram(qp, w, why);
  half& h = half_of(qp);
  if (brings(w) ? w.at == stage::answered : qp.works.finished() < h.acked)
    return shm::outcome::done;
  return h.absent ? shm::unreachable(qp, w, why) : shm::outcome::wait;
}

/// Sends a datagram, which may be lost: while there is no connection, a few of them wait for one.
shm::outcome network::datagram(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept {
  if (!shm::keys_hold(qp, w)) return *why = IBV_WC_LOC_PROT_ERR, shm::outcome::failed;
  if (w.bytes > shm::max_datagram_bytes) return *why = IBV_WC_LOC_LEN_ERR, shm::outcome::failed;
  shm::datagram_packet d;
  if (!shm::pack(qp, w, d)) return *why = IBV_WC_LOC_PROT_ERR, shm::outcome::failed;
  endpoint to;
  const ibv_gid gid = w.datagram_to.gid();
  if (!is_ipv4_mapped(gid)) return shm::outcome::done;
  std::memcpy(&to.ip, gid.raw + 12, sizeof to.ip);
  to.port = static_cast<std::uint16_t>(options_.first_port + (w.datagram_qpn >> shm::own_bits));
  remote& r = at(to);
  const frame_head f{.what = kind::datagram,
                     .bytes = static_cast<std::uint32_t>(sizeof d.head) + w.bytes,
                     .to = w.datagram_qpn,
                     .from = qp.qp_num};
  const std::lock_guard out(r.out.lock);
  if (r.out.bytes() > (r.up ? most_waiting : most_unsent)) {
    if (r.up && !r.blocked) send_out(r);
    if (!r.up || r.blocked) return shm::outcome::done;  // dropped
  }
  r.out.append(&f, sizeof f);
  r.out.append(&d, f.bytes);
  r.awaited = true;
  if (!r.up)
    want(r);
  else
    send_or_wait(r);
  return shm::outcome::done;
}

}  // namespace penstock::nic::tcp
