// Sending by rings, and how the rings' queue pairs are made and connected.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/base/assert.hpp"
#include "lib/base/log.hpp"
#include "lib/base/shortage.hpp"
#include "lib/conduit/message/cost.hpp"
#include "lib/conduit/ring_path/ring_path_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

std::uint32_t ring_path::cost_of(const peer&, const outgoing& m) const noexcept {
  return wire::cost_of_request(m.kind, m.nargs, m.carried());
}

// Lengthens the request ring where it is too short for the loan: the loan has grown, or the ring
// was not used for an epoch.
inline void ring_path::fit_request_ring(inside<end_of::request_out> in, peer& p) noexcept {
  if (const std::uint32_t held = p.home->ledger->send_credits(p.rank); held > p.ring_credits[in])
      [[unlikely]]
    lengthen_request_ring(in, p, held);
}

// Sees the mark by which p has made its reply ring longer again: p can use the length only after
// that (claim 6).
inline void ring_path::look_for_mark(peer& p, std::uint32_t tag) noexcept {
  if (!p.reply_rx.seen()->mark_hint()) [[likely]]
    return;
  const auto in = p.reply_in.try_enter(tag);
  if (!in) return;
  (void)p.reply_rx[*in]->follow();
  p.reply_in.leave(tag);
}

// Takes a lease for m, of `cost` credits, and for some messages that may follow, as far as
// most_unanswered allows.
status ring_path::lease(inside<end_of::request_out> in, peer& p, const outgoing& m,
                        std::uint32_t cost, std::uint32_t tag) noexcept {
  credits_.collect_returned(p, tag);
  fit_request_ring(in, p);
  look_for_mark(p, tag);
  // Each credit of the lease may become a request. Without flow control none is in use.
  const std::uint32_t open =
      p.marks[in].unanswered(p.home->ledger->in_use(p.rank), p.credits.lease[in],
                             static_cast<std::uint32_t>(p.request_tx[in]->pushed()));
  if (open != 0 && open + cost > most_unanswered) return status::no_space;
  return credits_.take_credits(
      in, p, m, cost, most_unanswered - std::min(most_unanswered, open + p.credits.lease[in]));
}

bool ring_path::renew(peer& p, std::uint32_t tag) noexcept {
  // A3 ready  acquire p.stream  <- R3 (below)
  nic::shm::ring_tx* const tx = p.stream.load(std::memory_order_acquire);
  if (tx == nullptr || p.wakes || c_.spins_before_yield() == 1 || c_.attention_to_device())
      [[unlikely]]
    return false;
  const auto entered = p.request_out.try_enter(tag);
  if (!entered) [[unlikely]]
    return false;
  const auto in = *entered;
  const std::uint32_t left = tx->recall();
  p.credits.lease[in] += left;
  std::uint32_t allowed = 0;
  if (left == 0 && (p.credits.lease[in] != 0 || lease(in, p, {}, 1, tag) == status::ok) &&
      p.credits.say.load(std::memory_order_relaxed) == 0) [[likely]] {
    (void)tx->has_room(p.credits.lease[in], 0);
    p.credits.lease[in] -= allowed = tx->allow(p.credits.lease[in]);
    PENSTOCK_ASSERT(p.credits.lease[in], <=, credit::counter_max);
  }
  p.request_out.leave(tag);
  return allowed != 0;
}

status ring_path::try_request(peer& p, const outgoing& m) noexcept {
  if (!connections::is_ready(p, lane_request)) [[unlikely]]
    return connections_.connect(p, lane_request);
  const std::uint32_t tag = my_tag();
  const auto entered = p.request_out.try_enter(tag);
  if (!entered) [[unlikely]]
    return status::busy;
  const auto in = *entered;
  status s = status::ok;
  const std::uint32_t cost = cost_of(p, m);
  p.credits.lease[in] += p.request_tx[in]->recall();
  const bool leases = p.credits.lease[in] < cost;
  if (leases) s = lease(in, p, m, cost, tag);
  if (s == status::ok) [[likely]] {
    PENSTOCK_ASSERT(p.credits.lease[in], >=, cost);  // (I1)
    // Room is looked for before a Long's payload is put in place, so that a failed try leaves
    // nothing behind.
    const codec::in_slot l(m);
    bool room = p.request_tx[in]->has_room(1, l.data_bytes);
    if (!room) [[unlikely]]
      fit_request_ring(in, p), room = p.request_tx[in]->has_room(1, l.data_bytes);
    if (!room) [[unlikely]] {
      s = status::no_space;
    } else {
      if (m.kind == wire::kind::long_ && m.bytes != 0)
        if (std::byte* const there = p.segment_here.load(std::memory_order_relaxed) +
                                     (static_cast<std::byte*>(m.dest) - p.segment_base);
            there != m.payload)
          std::memcpy(there, m.payload, m.bytes);
      wire::header h;
      h.credit = credits_.request_credit_byte(in, p, cost);
      p.request_tx[in]->push(op_direct, ring_word(m, h), l.data_bytes,
                             ring_writer<codec::words::exact>(m, l));
      p.counts.sent.note(m.kind, m.bytes, m.system());
      if (c_.drawn() != nullptr) [[unlikely]]
        c_.trace_sent(p, m, 0, false);
      PENSTOCK_PROBE(request, p.rank, m.handler, static_cast<unsigned>(m.kind), m.bytes);
      // The rest of the lease is for the Shorts that may follow (request_short).
      p.credits.lease[in] -= cost;
      if (!p.wakes) [[likely]]
        p.credits.lease[in] -= p.request_tx[in]->allow(p.credits.lease[in]);
      PENSTOCK_ASSERT(p.credits.lease[in], <=, credit::counter_max);  // no more than there was
    }
  }
  p.request_out.leave(tag);
  wake(p);
  if (leases && s == status::ok) {
    credits_.ask_early(p, cost);
    if (c_.spins_before_yield() == 1) [[unlikely]]
      c_.share_core(credit::lease_messages);
  }
  return s;
}

// A Long's place is its destination. A Medium gets none: in the ring it would hold up all messages
// behind it.
void ring_path::reserve(peer& p, draft& d, std::size_t, std::size_t most) noexcept {
  if (d.dest == nullptr) return;
  // A8 mapped  acquire p.segment_here  <- R8
  std::byte* const base = p.segment_here.load(std::memory_order_acquire);
  if (base == nullptr) return;
  std::byte* const there = base + (static_cast<std::byte*>(d.dest) - p.segment_base);
  if (reinterpret_cast<std::uintptr_t>(there) % alignof(std::max_align_t) != 0) return;
  d.payload = there;
  d.most = most;
}

// A Long's payload is written to its destination; that of a Medium lies in the ring, whose end no
// handler may hold.
void ring_path::reserve(token_state& t, const outgoing& m, reply_place& at,
                        std::size_t most) noexcept {
  peer& p = *t.from;
  if (m.kind != wire::kind::long_ || m.dest == nullptr || !c_.in_segment(p, m.dest, most)) return;
  // A8 mapped  acquire p.segment_here  <- R8
  std::byte* const base = p.segment_here.load(std::memory_order_acquire);
  if (base != nullptr) at.payload = base + (static_cast<std::byte*>(m.dest) - p.segment_base);
}

status ring_path::reply(token_state& t, const outgoing& m) noexcept {
  peer& p = *t.from;
  if (m.kind == wire::kind::long_ && m.bytes != 0) {
    if (!c_.in_segment(p, m.dest, m.bytes)) return status::out_of_segment;
    // The segment is not mapped yet if the request has overtaken its sender's hello.
    // A8 mapped  acquire p.segment_here  <- R8
    std::byte* base = p.segment_here.load(std::memory_order_acquire);
    if (base == nullptr) [[unlikely]]
      base = segment_for_reply(p);
    std::byte* const to = base + (static_cast<std::byte*>(m.dest) - p.segment_base);
    if (to != m.payload) std::memcpy(to, m.payload, m.bytes);
  }
  tsan_tell_peer(&p);
  thread_place& place = places[my_tag()];
  if (!place.back()) [[unlikely]]
    return reply_outside(t, m);
  const auto in = p.request_in.inside_owner(my_tag());
  answer(in, t, m);
  note_replied(in, p, t);
  if (m.kind == wire::kind::large) p.reply_room[in] = 0;  // looks again (find_reply_room)
  place.lend(&p.request_in);
  return status::ok;
}

// Sends m, which answers t, and for which room is set aside.
void ring_path::answer(inside<end_of::request_in> in, token_state& t, const outgoing& m) noexcept {
  peer& p = *t.from;
  const codec::in_slot l(m);
  PENSTOCK_ASSERT(p.credits.due() + t.cost, <=, credit::counter_max);
  const wire::header h = credits_.reply_header(p, t, p.credits.due() + t.cost);
  p.reply_tx[in]->push(op_direct, ring_word(m, h), l.data_bytes,
                       ring_writer<codec::words::exact>(m, l));
  p.counts.replied.note(m.kind, m.bytes, m.system());
  if (c_.drawn() != nullptr) [[unlikely]]
    c_.trace_sent(p, m, 0, true);
  wake(p);
}

// A message of the engine's own is sent if there is more room than replies may need.
bool ring_path::say(peer& p, const wire::header& h) noexcept {
  if (!connections::is_ready(p, lane_reply)) {
    (void)connections_.connect(p, lane_reply);
    return false;
  }
  const std::uint32_t tag = thread_tag();
  const auto in = p.request_in.try_enter(tag);
  if (!in) return false;
  const bool room = p.reply_tx[*in]->has_room(p.reply_room[*in] + p.replies_kept + 1, 0);
  if (room) {
    p.reply_tx[*in]->push_words(op_direct, wire::word_of(h), nullptr, 0);
    p.counts.words.add(1);
  }
  p.request_in.leave(tag);
  wake(p);
  return room;
}

// Sends the credits that p is owed as a message of their own. Where there is no
// room, the next reply takes along what is owed, but not what was lent: that is put off.
void ring_path::give_credits_back(inside<end_of::request_in> in, peer& p, std::uint32_t) noexcept {
  if (!p.reply_tx[in]->has_room(p.reply_room[in] + p.replies_kept + 1, 0)) [[unlikely]] {
    if (p.credits.grant[in] != 0) credits_.put_credits_off(p);
    return;
  }
  p.reply_tx[in]->push_words(op_direct, wire::word_of(credits_.credits_header(in, p)), nullptr, 0);
  p.credit_messages.add(1);
  wake(p);
}

// ---- opening and connecting ----

result<void> ring_path::open(ibv_comp_channel* bell) {
  nic::device& dev = c_.ring_device();
  cq_ = dev.verbs->create_cq(dev.context, 16, nullptr, c_.near() ? c_.near()->channel : bell, 0);
  ibv_srq_init_attr init{};
  init.attr.max_wr = 1;
  init.attr.max_sge = 1;
  srq_ = dev.verbs->create_srq(c_.near() ? c_.near()->pd : c_.pd(), &init);
  if (cq_ == nullptr || srq_ == nullptr)
    return failure{"ibv_create_cq or ibv_create_srq on " + dev.name, errno, ""};
  return {};
}

void ring_path::close() noexcept {
  free_left();
  const nic::calls* const v = c_.ring_device().verbs;
  if (srq_ != nullptr) v->destroy_srq(std::exchange(srq_, nullptr));
  if (cq_ != nullptr) v->destroy_cq(std::exchange(cq_, nullptr));
}

// The queue pair carries nothing; it only holds the rings.
void ring_path::describe_lane(peer&, unsigned, ibv_qp_init_attr& init) noexcept {
  init.send_cq = init.recv_cq = cq_;
  init.srq = srq_;
  init.cap.max_send_wr = 1;
}

void ring_path::attached(peer& p) noexcept {
  p.request_tx[inside<end_of::request_out>::alone()] =
      nic::shm::direct_tx(p.lanes[lane_request].qp);
  p.request_rx[inside<end_of::request_in>::alone()] = nic::shm::direct_rx(p.lanes[lane_request].qp);
  p.reply_tx[inside<end_of::request_in>::alone()] = nic::shm::direct_tx(p.lanes[lane_reply].qp);
  p.reply_rx[inside<end_of::reply_in>::alone()] = nic::shm::direct_rx(p.lanes[lane_reply].qp);
  PENSTOCK_ASSERT(p.request_tx.seen() != nullptr && p.request_rx.seen() != nullptr, ==, true);
  PENSTOCK_ASSERT(p.reply_tx.seen() != nullptr && p.reply_rx.seen() != nullptr, ==, true);
  p.home->rings.add(p);
}

result<void> ring_path::reached(peer& p) noexcept {
  if (p.segment_bytes.load(std::memory_order_relaxed) != 0 &&
      p.segment_here.load(std::memory_order_relaxed) == nullptr)
    if (auto r = map_segment(p, while_connecting_ns); !r) return r;
  // If the buffers cannot be mapped now, the first message that needs them tries again.
  if (p.buffers_base != 0 && p.large_here.load(std::memory_order_relaxed) == nullptr)
    (void)map_large(p, p.buffers_base, p.buffers_rkey, while_connecting_ns);
  PENSTOCK_ASSERT(p.request_tx.seen() != nullptr, ==, true);
  // R3 ready  release p.stream  -> A3 (ring_path_inl.hpp, credit_flow.cpp)
  p.stream.store(p.request_tx.seen(), std::memory_order_release);
  return {};
}

// A process shows its memory only to a queue pair that it has bound. So this is called after p's
// hello has said so, or after a message of p has come. Any thread may call it; the device gives all
// the same address.
result<void> ring_path::map_segment(peer& p, std::uint64_t patience_ns) noexcept {
  auto* const here = static_cast<std::byte*>(nic::shm::map_remote(
      p.lanes[lane_request].qp, reinterpret_cast<std::uintptr_t>(p.segment_base), p.segment_mapped,
      p.map_rkey, patience_ns));
  if (here == nullptr)
    return failure{"the segment of rank " + std::to_string(p.rank) + " cannot be mapped", errno,
                   nic::shm::means_gone(errno) ? "its process has ended" : what_to_raise(errno)};
  // R8 mapped  release p.segment_here  -> A8 (reply): the pages are there
  p.segment_here.store(here, std::memory_order_release);
  return {};
}

std::byte* ring_path::segment_for_reply(peer& p) noexcept {
  for (long_wait named(c_.waits(), wait_for::mapping, p.rank);; named.step()) {
    const auto mapped = map_segment(p, while_polling_ns);
    if (mapped) return p.segment_here.load(std::memory_order_relaxed);
    const failure& why = mapped.error();
    if (nic::shm::means_gone(why.code)) c_.peer_failed(p, why.message().c_str());
    if (why.code != ETIMEDOUT) fatal(1, "%s", why.message().c_str());
    c_.slow_progress_in_wait();
  }
}

}  // namespace penstock::conduit::PENSTOCK_ABI
