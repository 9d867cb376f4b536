// Connecting a QP's sending side to its peer's ring, and disconnecting it; and the functions of the
// direct path that need nothing else.
#include <sys/socket.h>

#include <bit>
#include <cerrno>

#include "lib/base/assert.hpp"
#include "lib/base/page.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/direct.hpp"
#include "nic/shm/fence.hpp"
#include "nic/shm/message.hpp"
#include "nic/shm/peer.hpp"
#include "nic/shm/qp.hpp"
#include "nic/shm/region.hpp"
#include "nic/shm/srq.hpp"
#include "nic/shm/xrc.hpp"

namespace penstock::nic::shm {
namespace {

/// Whether a peer's ring can have this geometry.
bool plausible(const ring_geometry& g, std::uint64_t offset) noexcept {
  return std::has_single_bit(g.slots) && g.slots >= 8 && g.slots <= 1u << 16 &&
         std::has_single_bit(g.data_bytes) && g.data_bytes >= 4 * ring_piece &&
         g.data_bytes <= 1u << 24 && offset >= heap_offset && offset % page_bytes() == 0 &&
         offset <= arena_bytes - g.memory();
}

/// A bit of qp_entry::claims: the receiver has counted them, and frees what is left.
constexpr std::uint64_t claims_counted = std::uint64_t{1} << 63;

/// Frees the shared receives that were claimed for messages that will never be taken. Empties the
/// ring, which tells to which queue each claim of an XRC sender belongs. Under poll of its CQ.
void return_claims(queue_pair& qp, qp_entry* writer) noexcept {
  if ((qp.shared_receives == nullptr && !xrc_receiver(qp)) ||
      qp.direct.load(std::memory_order_relaxed))
    return;
  const std::uint32_t slots = qp.rx.memory().geometry.slots;
  // A sender that is still there, or has died, says what it has claimed. One that has left in order
  // has claimed the receives of what it pushed (return_claim).
  // G2 written to?  acquire producing  <- G1: the claims are this ring's; <- G3: all is pushed
  const bool writes =
      writer != nullptr && writer->producing.load(std::memory_order_acquire) == qp.ring;
  std::uint64_t lost = slots;
  // C4 count  fetch_or claims  <-> C3: of a claim without a message, one of us sees the other
  if (writes)
    lost = (writer->claims.fetch_or(claims_counted, std::memory_order_acq_rel) & ~claims_counted) -
           qp.srq_taken;
  const auto free_one = [&] {
    shared_receive_queue* q = xrc_receiver(qp) ? qp.selected : qp.shared_receives;
    // relaxed: it goes on with the release sequence of S1 (srq.cpp)
    if (q != nullptr) q->shown->available.fetch_add(1, std::memory_order_relaxed);
    --lost;
  };
  bool inside = qp.message.active || qp.message.refused;  // that one's receive has been taken
  for (std::uint32_t i = 0; lost != 0 && i < slots; ++i) {
    const ring_rx::message in = qp.rx.front();
    if (!in || in.op == 0 || in.op == 255) break;
    if ((in.op & kind_mask) == kind_select) {
      if (xrc_receiver(qp))
        qp.selected = select_queue(qp, static_cast<std::uint32_t>(in.slot->header));
    } else {
      if (!inside) free_one();
      inside = (in.op & flag_more) != 0;
    }
    qp.rx.pop(in);
  }
  while (lost != 0 && waits_aside(qp)) {
    const ring_rx::message in = qp.aside->front();
    if (in.op == 255) break;
    if (!inside) free_one();
    inside = (in.op & flag_more) != 0;
    qp.aside->pop(in);
  }
  if (writes && lost == 1) free_one();  // claimed, and never pushed
}

/// Until the peer's queue pair, which begins no more, has let go of the memory that it writes or
/// reads for this one: who deregisters that next does not look there any more.
void outlast_access(const queue_pair& qp) noexcept {
  const qp_entry* e =
      qp.remote ? qp.remote->entry<qp_entry>(table::qp, qp.owner->entry_of(peer_qpn(qp))) : nullptr;
  if (e == nullptr || e->qpn.load(std::memory_order_relaxed) != peer_qpn(qp)) return;
  // T7 touched?  load-acquire touching  <- T1, T5 (onesided.cpp)
  outlast([&] {
    return e->touching.load(std::memory_order_acquire) != 0 &&
           !qp.remote->dead.load(std::memory_order_relaxed);
  });
}

/// Gives back rings to which no peer writes any more. Under objects.
void sweep(context& c) noexcept {
  std::erase_if(c.retired, [&](const context::retired_ring& r) {
    // G4 left?  acquire producing  <- G3: nothing more is written there
    if (!r.writer->dead.load(std::memory_order_relaxed) && r.entry != nullptr &&
        r.entry->producing.load(std::memory_order_acquire) == r.offset)
      return false;
    c.memory.give_back(r.offset, r.bytes);
    return true;
  });
}

}  // namespace

void return_claim(queue_pair& qp) noexcept {
  PENSTOCK_ASSERT(qp.sending.is_mine(), ==, true);
  link& l = qp.to;
  if (l.srq == nullptr || l.claimed_at != qp.tx.pushed()) return;
  // An XRC queue may be destroyed while QPs of its domain are connected.
  if (l.srq->domain.load(std::memory_order_relaxed) !=
      l.remote->domain.load(std::memory_order_relaxed))
    return;
  PENSTOCK_ASSERT(l.srq_claims, !=, 0u);
  --l.srq_claims;
  l.claimed_at = ~std::uint64_t{0};  // it is returned once
  // C3 leave  fetch_sub claims  <-> C4
  if ((qp.shown->claims.fetch_sub(1, std::memory_order_acq_rel) & claims_counted) == 0)
    l.srq->available.fetch_add(1, std::memory_order_relaxed);  // relaxed: as in return_claims()
}

queue_pair* connected_qp(context& c, const nonce& peer_name, std::uint32_t qpn,
                         std::uint32_t peer_qpn) noexcept {
  for (queue_pair* qp : c.qps) {
    if (qp->qp_num != qpn || !connected(*qp)) continue;
    // N2 whose  acquire peer_id  <- N1 (modify.cpp): the names are that peer's
    const bool theirs = qp->peer_id.load(std::memory_order_acquire) != 0 &&
                        qp->dest_high.load(std::memory_order_relaxed) == peer_name.high &&
                        qp->dest_low.load(std::memory_order_relaxed) == peer_name.low &&
                        qp->dest.load(std::memory_order_relaxed) == peer_qpn;
    return theirs ? qp : nullptr;
  }
  return nullptr;
}

bool attach(queue_pair& qp, bool early) noexcept {
  PENSTOCK_ASSERT(qp.sending.is_mine(), ==, true);
  if (!qp.remote || qp.remote->dead.load(std::memory_order_relaxed)) return false;
  const std::uint32_t dest = peer_qpn(qp);
  auto* e = qp.remote->entry<qp_entry>(table::qp, qp.owner->entry_of(dest));
  if (e == nullptr) return false;
  // L2 ready?  load-acquire life  <- L1 (qp.cpp, faults.cpp)
  const std::uint32_t life = e->life.load(std::memory_order_acquire);
  const auto state = static_cast<qp_public>(life & 0xff);
  const bool ours = e->qpn.load(std::memory_order_relaxed) == dest &&
                    e->dest_qpn.load(std::memory_order_relaxed) == qp.qp_num &&
                    e->dest_high.load(std::memory_order_relaxed) == qp.owner->name.high &&
                    e->dest_low.load(std::memory_order_relaxed) == qp.owner->name.low;
  const bool ready = state == qp_public::ready && ours;
  const bool made =
      early && state == qp_public::made && e->qpn.load(std::memory_order_relaxed) == dest;
  if (!ready && !made) return false;
  const ring_geometry g{e->ring_slots.load(std::memory_order_relaxed),
                        e->ring_data.load(std::memory_order_relaxed)};
  const std::uint64_t offset = e->ring.load(std::memory_order_relaxed);
  if (!qp.tx.connected()) {
    const std::uint32_t srq = e->srq.load(std::memory_order_relaxed);
    auto* bell = qp.remote->entry<cq_entry>(table::cq, e->recv_cq.load(std::memory_order_relaxed));
    auto* shared = srq != 0 ? qp.remote->entry<srq_entry>(table::srq, srq - 1) : nullptr;
    if (!plausible(g, offset) || bell == nullptr || (srq != 0 && shared == nullptr)) return false;
    qp.shown->claims.store(0, std::memory_order_relaxed);
    // G1 write to it  store-release producing  -> G2: the claims are this ring's
    qp.shown->producing.store(offset, std::memory_order_release);
    e->written.store(1,
                     std::memory_order_release);  // release: after G1, for who gives the ring back
    light_fence();  // F2: a peer that goes away keeps the ring for us, or we see that it has gone
    if (e->life.load(std::memory_order_relaxed) >> 8 != life >> 8) {
      qp.shown->producing.store(0, std::memory_order_relaxed);  // relaxed: nothing was written
      return false;
    }
    // The user of the direct path decides how long the ring is.
    qp.tx = ring_tx(ring_memory(qp.remote->base + offset, g), ring_length::holding(1, 0, g));
    qp.to = link{};
    qp.patience = {};
    qp.to.remote = e;
    qp.to.srq = shared;
    qp.to.bell = bell;
  }
  if (qp.shown->producing.load(std::memory_order_relaxed) != offset) return false;  // another life
  if (!early && !qp.tx.lengthen(ring_length::all(g))) return false;
  if (ready) qp.to.ready = life;
  return true;
}

void disconnect(queue_pair& qp) noexcept {
  context& c = *qp.owner;
  if (c.carrier) c.carrier->disconnect(qp);
  // F1, see attach() and claim(): after this the peer claims and attaches no more.
  // T6 gone  store life, before this fence  <-> T2 (onesided.cpp): nor touches our memory anew
  heavy_fence();
  outlast_access(qp);
  std::shared_ptr<peer> remote;
  const std::uint64_t ring = qp.ring;
  qp_entry* writer = nullptr;
  {
    const hold poll(of(qp.recv_cq).poll);
    const hold guard(qp.sending);
    remote = std::move(qp.remote);
    qp.peer_id.store(0, std::memory_order_relaxed);  // relaxed: nobody looks behind a 0
    if (remote) writer = remote->entry<qp_entry>(table::qp, c.entry_of(peer_qpn(qp)));
    if (ring != 0) return_claims(qp, writer);
    qp.selected = nullptr;
    qp.message.active = qp.message.refused = false;
    qp.srq_taken = 0;
    qp.last_wqe = false;
    qp.closed = false;
    qp.direct.store(false, std::memory_order_relaxed);
    qp.rx = ring_rx();
    qp.aside.reset();
    qp.has_aside.store(false, std::memory_order_relaxed);
    qp.ring = 0;
    return_claim(qp);
    qp.works.reset();
    qp.tx = ring_tx();
    qp.to = link{};
    qp.near_key = 0;
    qp.verdict.store(IBV_WC_WR_FLUSH_ERR, std::memory_order_relaxed);
    qp.near.reset();
    qp.kept.clear();
    {
      const hold lock(qp.receives.lock);
      qp.receives.reset();
    }
    if (qp.unfinished.exchange(false, std::memory_order_relaxed)) {
      of(qp.send_cq).unfinished.fetch_sub(1, std::memory_order_relaxed);
      c.unfinished.fetch_sub(1, std::memory_order_relaxed);
    }
    // This comes last: from here on the peer may reuse the memory to which we wrote.
    // G3 leave  store-release producing  -> G2, G4
    qp.shown->producing.store(0, std::memory_order_release);
  }
  constexpr ring_geometry geometry;
  const std::lock_guard guard(c.objects);
  // Under objects: the service thread gives none to a queue pair that has no peer any more.
  // acq_rel: as in answers.cpp
  delete qp.aside_given.exchange(nullptr, std::memory_order_acq_rel);
  qp.has_aside.store(false, std::memory_order_relaxed);
  if (ring != 0) {
    const bool written = qp.shown->written.exchange(0, std::memory_order_acq_rel) != 0;
    --c.rings;
    PENSTOCK_ASSERT(c.retired.size(), <, c.retired.capacity());
    if (!written)
      c.memory.give_back(ring, geometry.memory());
    else if (remote)
      c.retired.push_back({ring, geometry.memory(), remote, writer});
    // else: a QP writes here that never named its peer; that ring is never used again.
  }
  sweep(c);
  remote.reset();
  std::erase_if(c.peers, [&](const std::shared_ptr<peer>& p) {
    if (p.use_count() != 1) return false;
    c.pusher.remove_peer(*p);
    return true;
  });
}

ring_tx* direct_tx(ibv_qp* handle) noexcept {
  queue_pair& qp = of(handle);
  if (qp.qp_type != IBV_QPT_RC || state_of(qp) != IBV_QPS_RTS) return nullptr;
  const hold guard(qp.sending);
  return qp.tx.connected() || attach(qp, true) ? &qp.tx : nullptr;
}

ring_rx* direct_rx(ibv_qp* handle) noexcept {
  queue_pair& qp = of(handle);
  const ibv_qp_state state = state_of(qp);
  if (qp.qp_type != IBV_QPT_RC || (state != IBV_QPS_RTR && state != IBV_QPS_RTS)) return nullptr;
  completion_queue& cq = of(qp.recv_cq);
  const hold guard(cq.poll);
  if (!qp.direct.exchange(true, std::memory_order_relaxed))
    for (auto* list : {&cq.rings, &cq.hot}) std::erase(*list, &qp);
  return &qp.rx;
}

void direct_wake(ibv_qp* handle) noexcept {
  queue_pair& qp = of(handle);
  light_fence();  // F2: after the push
  if (qp.to.bell->bell.load(std::memory_order_relaxed) != bell_armed) return;
  std::uint32_t armed = bell_armed;
  if (!qp.to.bell->bell.compare_exchange_strong(armed, bell_rung, std::memory_order_relaxed))
    return;
  std::byte nothing{};
  const iovec part{&nothing, sizeof nothing};
  const int e = send_to(qp.owner->pusher.datagram_socket(), qp.remote->direct_bell, &part, 1);
  // A full socket means that its reader has been woken already.
  if (e != 0 && e != EAGAIN)
    qp.remote->tell(qp.remote->make(request_kind::kick, peer_qpn(qp), qp.qp_num));
}

int direct_bell(ibv_context* handle) noexcept {
  return bound_socket(SOCK_DGRAM, name_of(of(handle).name, "-direct"));
}

int kicks_of(ibv_context* handle) noexcept { return of(handle).pusher.shared_bells(); }

bool was_rung(ibv_cq* cq) noexcept {
  return of(cq).bell->bell.load(std::memory_order_relaxed) == bell_rung;
}

void peers_may_be_silent(ibv_context* handle) noexcept { of(handle).greeting_ns = 100'000'000; }

const std::atomic<std::uint32_t>& event_count(ibv_context* handle) noexcept {
  return of(handle).event_count;
}

const std::atomic<std::uint32_t>& datagrams_pending(ibv_context* handle) noexcept {
  return of(handle).datagrams;
}

}  // namespace penstock::nic::shm
