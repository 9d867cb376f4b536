// The short way by rings, for a message that costs one credit, when that credit is leased, the
// handlers' table takes the message, and no other thread sends to the peer. The code makes few
// stores, since these queue up behind cache lines on their way to this core, and no call, so that
// no register has to be saved. This folder and ways/ways.hpp include it.
#pragma once

#include "lib/base/assert.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/cross_process.hpp"
#include "lib/conduit/credit_flow/credit_flow_inl.hpp"
#include "lib/conduit/message/codec.hpp"
#include "lib/conduit/peer/core_inl.hpp"
#include "lib/conduit/ring_path/ring_path.hpp"
#include "nic/shm/direct.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

using nic::shm::op_direct;

// For how long a stream's requests may pile up: 100 to 200 ns, the time that a cache line takes
// from a distant core.
inline constexpr std::uint64_t back_off_ticks = 400;

// Room in a reply ring without which no request is taken: for its reply, and for some messages of
// the engine's own.
inline constexpr std::uint32_t reply_slots = 8;
inline constexpr std::uint32_t reply_data = codec::in_slot(wire::max_fixed, max_eager).data_bytes;

// The most requests to a peer that may be unanswered, or whose answers have not been taken, as
// request_marks tells them; each needs one slot, whatever it costs. All their replies fit the reply
// ring, beside the eighth that its consumer may have taken and not yet told, and beside messages of
// the engine's own. So a peer can take each request that has been sent, even while its sender does
// not poll. request_marks takes requests to be answered in order; those whose handlers were
// relieved of their end are answered later, so it may count that many too few.
inline constexpr std::uint32_t most_relieved =
    16;  // of a peer's requests at a time, but for a race
inline constexpr std::uint32_t most_unanswered = nic::shm::ring_geometry{}.slots -
                                                 nic::shm::ring_geometry{}.slots / 8 -
                                                 3 * reply_slots - most_relieved;

// These hold so that every message can go at last: an empty reply ring has room for two of the
// longest replies, and the longest reply fits the ring's data.
static_assert(nic::shm::ring_tx::worst(2, reply_data) <= nic::shm::ring_geometry{}.data_bytes);
static_assert(reply_data <= nic::shm::ring_geometry{}.longest());
static_assert(reply_slots + 1 < nic::shm::ring_geometry{}.slots && most_unanswered > 0);

// A function that writes m, whose layout is l, to the room that a ring has for it. A Long's payload
// must be in its place already.
template <codec::words W>
[[gnu::always_inline]] inline auto ring_writer(const outgoing& m,
                                               const codec::in_slot& l) noexcept {
  return [&m, &l ](std::byte * body, std::byte * data) __attribute__((always_inline)) {
    l.write<W>(m, body, data);
  };
}

// The word of m's header on a ring; h has the fields that concern credits.
[[gnu::always_inline]] inline std::uint64_t ring_word(const outgoing& m,
                                                      const wire::header& h) noexcept {
  return wire::word_of(codec::describe(m, h));
}

// Sends m by push(ring, header), which writes it if the ring allows so. False: it was not sent.
template <bool quick, class Push>
[[gnu::always_inline]] inline bool ring_path::push_leased(const handler_table& handlers, peer& p,
                                                          std::uint32_t tag, const outgoing& m,
                                                          Push&& push) noexcept {
  // A3 ready  acquire p.stream  <- R3 (send.cpp); never set for this process itself
  nic::shm::ring_tx* const tx = p.stream.load(std::memory_order_acquire);
  if (tx == nullptr || !handlers.takes(m.kind, m.handler, m.nargs)) [[unlikely]]
    return false;
  if (!(quick ? p.request_out.try_enter_biased(tag) : p.request_out.try_enter(tag))) [[unlikely]]
    return false;
  const bool sent = push(*tx, wire::header{.credit = 1});
  if (m.kind == wire::kind::medium && sent) p.counts.sent.medium(m.bytes);
  if (sent) PENSTOCK_PROBE(request, p.rank, m.handler, static_cast<unsigned>(m.kind), m.bytes);
  p.request_out.leave(tag);
  return sent;
}

template <bool quick>
[[gnu::always_inline]] inline bool ring_path::push_quick(const handler_table& handlers, peer& p,
                                                         std::uint32_t tag,
                                                         const outgoing& m) noexcept {
  if (m.kind == wire::kind::short_)
    return push_leased<quick>(handlers, p, tag, m,
                              [&m](nic::shm::ring_tx& tx, const wire::header& h) {
                                return tx.push_allowed(op_direct, ring_word(m, h), m.args, m.nargs);
                              });
  if (m.bytes > cheap_medium || m.payload == nullptr) [[unlikely]]
    return false;
  return push_leased<quick>(
      handlers, p, tag, m, [&m](nic::shm::ring_tx& tx, const wire::header& h) {
        const auto l = codec::in_slot::fitting(m.nargs, static_cast<std::uint32_t>(m.bytes));
        return tx.push_allowed(op_direct, ring_word(m, h), l.data_bytes,
                               ring_writer<codec::words::pairs>(m, l));
      });
}

template <class... What>
[[gnu::always_inline]] inline bool ring_path::request_quick(peer& p, std::uint32_t tag,
                                                            What... what) noexcept {
  const auto push = [&]() __attribute__((always_inline)) {
    return push_quick<false>(c_.handlers(), p, tag, of_user(what...));
  };
  return (concurrent(build_mode) && push()) || (quick_ && renew(p, tag) && push());
}

// Notes that t was answered. There was room for the reply, or the request would
// not have been taken.
inline void ring_path::note_replied(inside<end_of::request_in> in, peer& p,
                                    token_state& t) noexcept {
  PENSTOCK_ASSERT(t.replied, ==, false);      // (I5)
  PENSTOCK_ASSERT(p.reply_room[in], !=, 0u);  // (I3)
  --p.reply_room[in];
  p.credits.settled(in);
  t.replied = true;
  t.lane = nullptr;
}

// t.lane is set where a plain reply may be written to a ring at once; last of all it is asked
// whether this thread still has the end.
[[gnu::always_inline]] inline bool ring_path::reply_at_once(const handler_table& handlers,
                                                            token_state& t,
                                                            const outgoing& m) noexcept {
  const bool carries = m.kind == wire::kind::medium;
  if (t.lane == nullptr || running != &t ||
      (carries && (m.bytes > max_eager || m.payload == nullptr)) ||
      !handlers.takes(m.kind, m.handler, m.nargs) || !places[known_tag()].back()) [[unlikely]]
    return false;
  peer& p = *t.from;
  if (carries) p.counts.replied.medium(m.bytes);
  tsan_tell_peer(&p);
  const std::uint64_t word = ring_word(m, returning(p.credits.due() + t.cost));
  if (carries) {
    const auto l = codec::in_slot::fitting(m.nargs, static_cast<std::uint32_t>(m.bytes));
    t.lane->push(op_direct, word, l.data_bytes, ring_writer<codec::words::pairs>(m, l));
  } else {
    t.lane->push_words(op_direct, word, m.args, m.nargs);
  }
  note_replied(p.request_in.inside_owner(known_tag()), p, t);
  places[known_tag()].lend(&p.request_in);
  return true;
}

// Called after a push: wakes a thread of p that sleeps, if it has one. Either lane's queue
// pair would do, since both have the same completion queue at p.
inline void ring_path::wake(peer& p) noexcept {
  if (p.wakes) [[unlikely]]
    nic::shm::direct_wake(p.lanes[lane_request].qp);
}

// True while requests of p are better left to pile up (back_off_in_stream). A clock that has gone
// back, as it may on another core, ends this, too.
inline bool rests(peer& p) noexcept {
  const std::uint64_t until = p.back_off_until.load(std::memory_order_relaxed);
  if (until == 0) [[likely]]
    return false;
  if (const std::uint64_t left = until - ticks(); left != 0 && left <= back_off_ticks) return true;
  p.back_off_until.store(0, std::memory_order_relaxed);
  return false;
}

inline bool ring_path::replies_news(peer& p) noexcept { return p.reply_rx.seen()->ready_hint(); }

// True if p's requests, or the credits that it is owed, need work. Costs a few loads of lines that
// stay in this core's cache while nothing comes.
inline bool ring_path::requests_news(peer& p) noexcept {
  return (!rests(p) && p.request_rx.seen()->ready_hint()) || p.credits.due() != 0;
}

template <class Quiet, class Rest>
[[gnu::always_inline]] inline status ring_path::poll_at_once(unsigned* n, domain& d,
                                                             std::uint32_t tag, Quiet&& quiet,
                                                             Rest&& rest) noexcept {
  const std::uint32_t all = d.rings.count();
  if (all <= poller::few_peers) [[likely]] {
    for (std::uint32_t i = 0; i < all; ++i)
      if (peer& p = d.rings[i]; replies_news(p)) return poll_replies_news(n, p, i);
    for (std::uint32_t i = 0; i < all; ++i)
      if (peer& p = d.rings[i]; requests_news(p)) return poll_requests_news(n, p, i);
    if (quiet()) [[likely]]
      return status::ok;
  } else if (quiet()) [[likely]] {
    const unsigned got = poll_in_turn(d, tag, all);
    if (n != nullptr) *n += got;
    return status::ok;
  }
  return rest();
}

}  // namespace penstock::conduit::PENSTOCK_ABI
