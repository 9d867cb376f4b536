// UD: datagrams over one unix datagram socket per context. The pusher thread takes them in, as an
// adapter would, or a thread that polls does (context::polls_datagrams). A send is one system call.
// Delivery is not guaranteed: a datagram without a receive, with a wrong queue key, to a socket
// that stays full or to no QP at all is dropped, and its sender's completion says that it was sent.
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "lib/base/assert.hpp"
#include "lib/base/clock.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/page_guard.hpp"
#include "nic/shm/qp.hpp"
#include "nic/shm/srq.hpp"

namespace penstock::nic::shm {
namespace {

/// Whether datagrams are delivered to the QP in its state.
bool takes_datagrams(const queue_pair& qp) noexcept {
  const ibv_qp_state state = state_of(qp);
  return state == IBV_QPS_RTR || state == IBV_QPS_RTS || state == IBV_QPS_SQD ||
         state == IBV_QPS_SQE;
}

/// How many receives have been posted where the QP takes them.
std::uint64_t posted_for(queue_pair& qp) noexcept {
  receive_queue& works = qp.shared_receives != nullptr ? qp.shared_receives->works : qp.receives;
  const hold guard(works.lock);
  return works.posted();
}

/// Puts one datagram into a receive of its QP, behind the room for a GRH with which each begins.
/// False: there is no receive.
bool deliver(context& c, queue_pair& qp, const datagram_packet& d) noexcept {
  const hold poll(of(qp.recv_cq).poll);
  assembly& m = qp.message;
  if (qp.shared_receives != nullptr) {
    // The receives that RC and UC senders have claimed are theirs.
    srq_entry& shown = *qp.shared_receives->shown;
    if (!try_claim(shown)) return false;
    if (!take(*qp.shared_receives, m.work, m.list)) {
      // relaxed: it goes on with the release sequence of S1 (srq.cpp)
      shown.available.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
  } else {
    const hold guard(qp.receives.lock);
    if (!qp.receives.take(m.work, m.list)) return false;
  }
  ibv_grh grh{};
  grh.version_tclass_flow = htobe32(6u << 28);
  grh.paylen = htobe16(static_cast<std::uint16_t>(d.head.bytes));
  grh.next_hdr = 0x1b;
  grh.hop_limit = 1;
  grh.sgid = d.head.from.gid();
  grh.dgid = gid_of(c, 0);
  completion done;
  done.qp = &qp;
  done.datagram = true;
  ibv_wc& wc = done.wc;
  wc.wr_id = m.work.wr_id;
  wc.opcode = IBV_WC_RECV;
  wc.qp_num = qp.qp_num;
  wc.src_qp = d.head.from_qpn;
  wc.byte_len = d.head.bytes + static_cast<std::uint32_t>(sizeof grh);
  wc.slid = static_cast<std::uint16_t>(d.head.from_lid);
  wc.wc_flags = d.head.without_grh != 0 ? 0 : IBV_WC_GRH;
  if (d.head.with_imm != 0) {
    wc.wc_flags |= IBV_WC_WITH_IMM;
    wc.imm_data = d.head.imm;
  }
  wc.status = wc.byte_len > m.work.room
                  ? IBV_WC_LOC_LEN_ERR
                  : scatter(qp, qp.pd_number, m.list, m.work.count, 0,
                            reinterpret_cast<const std::byte*>(&grh), sizeof grh);
  if (wc.status == IBV_WC_SUCCESS && d.head.bytes != 0)
    wc.status = scatter(qp, qp.pd_number, m.list, m.work.count, sizeof grh, d.body, d.head.bytes);
  if (wc.status != IBV_WC_SUCCESS) enter_error(qp);
  store(of(qp.recv_cq), done, d.head.solicited != 0);
  return true;
}

}  // namespace

bool pack(const queue_pair& qp, const send_work& w, datagram_packet& d) noexcept {
  const context& c = *qp.owner;
  d.head = {};
  d.head.to_qpn = w.datagram_qpn;
  d.head.from_qpn = qp.qp_num;
  // A key with the top bit set stands for the QP's own.
  d.head.qkey =
      (w.datagram_qkey >> 31) != 0 ? qp.qkey.load(std::memory_order_relaxed) : w.datagram_qkey;
  d.head.with_imm = w.opcode == IBV_WR_SEND_WITH_IMM ? 1 : 0;
  d.head.imm = w.imm;
  d.head.solicited = (w.flags & IBV_SEND_SOLICITED) != 0 ? 1 : 0;
  d.head.bytes = w.bytes;
  d.head.from = nonce::of(gid_of(c, 0));
  d.head.without_grh = w.datagram_by_lid ? 1 : 0;
  if (c.device != nullptr && c.plays.has_lids) d.head.from_lid = c.device->lid;
  return guarded([&] {
    std::byte* to = d.body;
    for (std::uint32_t i = 0; i < w.count; to += w.list[i++].length)
      std::memcpy(to, reinterpret_cast<const void*>(w.list[i].addr), w.list[i].length);
  });
}

outcome send_datagram(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept {
  if (w.bytes > max_datagram_bytes) {
    *why = IBV_WC_LOC_LEN_ERR;
    return outcome::failed;
  }
  const context& c = *qp.owner;
  datagram_packet d;
  if (!pack(qp, w, d)) [[unlikely]] {
    *why = IBV_WC_LOC_PROT_ERR;
    return outcome::failed;
  }
  const nonce to_context = c.context_at(w.datagram_to, w.datagram_qpn);
  const socket_name at = name_of(to_context, "-ud");
  const iovec part{&d, sizeof d.head + w.bytes};
  int e;
  int tries = 0;
  while ((e = send_to(qp.owner->pusher.datagram_socket(), at, &part, 1)) != 0 &&
         meaning_of(e) == meaning::later) {
    // Many queue pairs that wait would keep the thread that polls for them from all else.
    if (++tries < 10 && qp.owner->unfinished.load(std::memory_order_relaxed) <= 1) {
      ::sched_yield();
      continue;
    }
    // The receiver's socket is full. The datagram waits, and is dropped when the socket has taken
    // none for a while. Many queue pairs compete for its few places, so one of them may wait for
    // long although the receiver goes on.
    // relaxed: a time that tests change while sends wait
    const std::uint64_t patience = qp.owner->datagram_patience_ns.load(std::memory_order_relaxed);
    const std::uint64_t now = now_ns();
    if (w.deadline == 0) w.deadline = now + patience;
    if (now >= w.deadline) w.deadline = qp.owner->datagram_sent.last(to_context) + patience;
    if (now < w.deadline) return outcome::wait;
    break;
  }
  if (e != 0 && meaning_of(e) == meaning::refused) give_up(*qp.owner, e);
  if (e == 0 && qp.owner->unfinished.load(std::memory_order_relaxed) != 0)
    qp.owner->datagram_sent.note(to_context, now_ns());
  return outcome::done;
}

namespace {

/// Counts datagrams that begin or cease to wait. Under datagram_lock.
void count_waiting(context& c, std::uint32_t more) noexcept {
  // W4 work left  seq_cst  <-> W2 (pusher.cpp)
  c.waiting_datagrams.fetch_add(more, std::memory_order_seq_cst);
}

void count_lost(context& c, std::uint64_t n) noexcept {
  c.lost_for_receive.fetch_add(n, std::memory_order_relaxed);
}

/// Removes the datagrams that wait for a receive of the QP; answers how many. Under datagram_lock.
std::uint32_t drop_arrived(queue_pair& qp) noexcept {
  PENSTOCK_ASSERT(qp.owner->datagram_lock.is_mine(), ==, true);
  const std::uint32_t n = qp.arrived.clear();
  if (n != 0) count_waiting(*qp.owner, 0u - n);
  return n;
}

/// Delivers datagrams that have waited for a receive, as far as there are receives, and gives up
/// those of receivers that have posted none for too long. Under datagram_lock.
void serve_waiting(context& c) noexcept {
  PENSTOCK_ASSERT(c.datagram_lock.is_mine(), ==, true);
  // Another QP comes first each time, since those that share receives compete for them.
  std::rotate(c.arrivals.begin(), c.arrivals.begin() + 1, c.arrivals.end());
  std::erase_if(c.arrivals, [&](queue_pair* q) {
    std::uint64_t posted = 0;
    while (!q->arrived.empty() && takes_datagrams(*q)) {
      posted = posted_for(*q);
      if (!deliver(c, *q, q->arrived.front())) break;
      q->arrived.pop();
      count_waiting(c, 0u - 1);
    }
    if (q->arrived.empty()) return true;
    if (takes_datagrams(*q) && q->arrived.patience.waits(false, posted, patience_ns(c)))
      return false;
    count_lost(c, drop_arrived(*q));
    return true;
  });
}

/// Delivers one datagram, lets it wait for a receive, or drops it. Under datagram_lock.
void hand_over(context& c, const datagram_packet& d) noexcept {
  PENSTOCK_ASSERT(c.datagram_lock.is_mine(), ==, true);
  queue_pair* to = nullptr;
  {
    const std::lock_guard guard(c.objects);
    const auto at = std::ranges::find(c.qps, d.head.to_qpn, &queue_pair::qp_num);
    if (at != c.qps.end() && (*at)->qp_type == IBV_QPT_UD) to = *at;
  }
  if (to == nullptr || to->qkey.load(std::memory_order_relaxed) != d.head.qkey ||
      !takes_datagrams(*to))
    return;
  datagram_line& line = to->arrived;
  const bool first = line.empty();
  if (first) {
    const std::uint64_t posted = posted_for(*to);  // a receive that is posted from here on counts
    if (deliver(c, *to, d)) return;
    if (!line.patience.waits(true, posted, patience_ns(c))) return count_lost(c, 1);
  }
  if (!line.append(d)) return count_lost(c, 1);
  if (first) c.arrivals.push_back(to);
  count_waiting(c, 1);
  c.pusher.watch();
}

/// For the fault that reorders: a datagram that is to be overtaken is kept. It is delivered after
/// the next one, or when none has come for a while. Under datagram_lock.
void hand_over_in_turn(context& c, const datagram_packet* d) noexcept {
  constexpr std::uint64_t patience_ns = 2'000'000;
  auto& kept = c.play->overtaken;
  if (d != nullptr && kept.bytes.empty() && c.play->happens(c.play->plan.overtaken)) {
    const auto* first = reinterpret_cast<const std::byte*>(d);
    kept.bytes.assign(first, first + sizeof d->head + d->head.bytes);
    kept.until_ns = now_ns() + patience_ns;
    return;
  }
  if (d != nullptr) hand_over(c, *d);
  if (kept.bytes.empty() || (d == nullptr && now_ns() < kept.until_ns)) return;
  datagram_packet late;
  std::memcpy(&late, kept.bytes.data(), kept.bytes.size());
  kept.bytes.clear();
  hand_over(c, late);
}

/// Receives one datagram. False: none is waiting. Under datagram_lock.
bool receive_datagram(context& c, int socket) noexcept {
  datagram_packet d;
  ssize_t n;
  if (!receive_credited(socket, &d, sizeof d, &n)) {
    if (meaning_of(errno) == meaning::refused) give_up(c, errno);
    return false;
  }
  const bool whole = static_cast<std::size_t>(n) >= sizeof d.head &&
                     d.head.version == arena_version &&
                     d.head.bytes == static_cast<std::size_t>(n) - sizeof d.head;
  if (!whole || (c.play != nullptr && c.play->port_is_down())) return true;
  c.play != nullptr ? hand_over_in_turn(c, &d) : hand_over(c, d);
  return true;
}

/// Receives at most `most` datagrams, as far as there is room for them. False: no more are waiting.
/// Under datagram_lock.
bool receive_some(context& c, int most) noexcept {
  bool more = true;
  for (int i = 0; i < most && more && !waiting_room_full(c); ++i)
    more = receive_datagram(c, c.pusher.datagram_socket());
  return more;
}

}  // namespace

bool receive_datagrams(context& c, int most) noexcept {
  // relaxed: a hint; what waits longer is served by a later look
  if (c.carrier && c.waiting_datagrams.load(std::memory_order_relaxed) == 0) return false;
  if (!c.datagram_lock.try_lock()) return true;
  if (c.play != nullptr) hand_over_in_turn(c, nullptr);
  if (!c.arrivals.empty()) serve_waiting(c);
  const bool more = !c.carrier && receive_some(c, most);
  c.datagram_lock.unlock();
  return more;
}

void take_datagram(context& c, const datagram_packet& d) noexcept {
  const hold reading(c.datagram_lock);
  if (waiting_room_full(c)) return count_lost(c, 1);
  hand_over(c, d);
}

void forget_datagrams(queue_pair& qp) noexcept {
  context& c = *qp.owner;
  const hold reading(c.datagram_lock);
  std::erase(c.arrivals, &qp);
  drop_arrived(qp);
  qp.arrived.patience = {};
  // A QP in RESET takes none of those that are still in the socket; one that is destroyed is not
  // found. The number ends this where others go on sending.
  if (state_of(qp) == IBV_QPS_RESET && !c.carrier) (void)receive_some(c, 1024);
}

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  if (const int e = refusal(of(pd->context), verb::create_ah)) return errno = e, nullptr;
  nonce to;
  // As on a network, a handle for an address that nobody has can be made; what is sent there is
  // lost.
  if (resolve(of(pd->context), *attr, to) == EINVAL) return errno = EINVAL, nullptr;
  auto* ah = new address_handle{};
  ah->context = pd->context;
  ah->pd = pd;
  ah->to = to;
  ah->by_lid = attr->is_global == 0;
  of(pd).users.begin();
  of(pd->context).live.begin();
  return ah;
}

int destroy_ah(ibv_ah* ah) noexcept {
  of(ah->pd).users.end();
  of(ah->context).live.end();
  delete static_cast<address_handle*>(ah);
  return 0;
}

}  // namespace penstock::nic::shm
