// The direct path: messages between processes of one host through the rings of the shared-memory
// device's queue pairs, without work requests. A message is written once, into the ring, and its
// handler reads it there.
//
// Why nothing waits for ever: a request that finds no room or credits is answered "short", and its
// caller polls; a request is taken out of its ring only when room for the longest reply has been
// set aside in the reply ring towards its sender (invariant 3), which what the engine itself says
// on that lane leaves alone; replies are taken out at any time, since their handlers send nothing.
// So reply rings always drain, and then requests do. And while a process does not poll, its
// requests can be taken all the same: no more are on their way than their replies have slots
// (most_unanswered). Only replies with much payload fill the data of their ring, and wait for it.
#include <cstring>

#include "lib/conduit/engine_inl.hpp"
#include "nic/shm/direct.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

using nic::shm::op_direct;

// Room kept in a reply ring before a request is taken: its reply, and a few words of the engine.
constexpr std::uint32_t reply_slots = 8;
constexpr std::uint32_t reply_data = codec::in_slot(wire::max_fixed, max_medium).data_bytes;

// Most credits in use of a peer: as many requests at least have not been answered, or their answers
// not been taken. All of these fit the reply ring, with what the consumer has taken and not yet
// told, an eighth, and with the engine's own: so a peer can take each request that has been sent,
// even while its sender does not poll.
constexpr std::uint32_t most_unanswered =
    nic::shm::ring_geometry{}.slots - nic::shm::ring_geometry{}.slots / 8 - 3 * reply_slots;

// Each is possible: a reply ring that is empty takes a request with the longest reply, and then one
// more; a message of the highest cost is sent when no other is out.
static_assert(nic::shm::ring_tx::worst(2, reply_data) <= nic::shm::ring_geometry{}.data_bytes);
static_assert(reply_data <= nic::shm::ring_geometry{}.longest());
static_assert(reply_slots + 1 < nic::shm::ring_geometry{}.slots && most_unanswered > 0);

// What writes m where a ring has room for it, l being its layout. A Long's payload must be in place
// already.
template <codec::words W>
[[gnu::always_inline]] inline auto writer_of(const outgoing& m, const codec::in_slot& l) noexcept {
  return [&m, &l ](std::byte * body, std::byte * data) __attribute__((always_inline)) {
    l.write<W>(m, body, data);
  };
}

// The word of m's header on a ring; h says what travels with it of credits.
[[gnu::always_inline]] inline std::uint64_t word_of(const outgoing& m,
                                                    const wire::header& h) noexcept {
  return wire::word_of(codec::describe(m, h));
}

}  // namespace

// What the request with that header cost its sender.
std::uint32_t engine::cost_of(const wire::header& h) noexcept {
  return credit::cost(
      static_cast<credit::kind>(h.kind()),
      wire::packed_bytes(wire::fixed_bytes(h.kind(), h.nargs()), wire::carried_bytes(h)));
}

// Sends m, which costs one credit, by push(ring, header with the credit), if one is leased, the
// handler takes it, and nobody else is sending. False: it goes the long way. quick: calls nobody.
template <bool quick, class Push>
[[gnu::always_inline]] inline bool engine::push_leased(rank_id to, const outgoing& m,
                                                       Push&& push) noexcept {
  if (to >= size_ || running != nullptr) [[unlikely]]
    return false;
  const std::uint32_t tag = quick ? known_tag() : my_tag();
  if (quick && tag == 0) [[unlikely]]
    return false;
  peer& p = concurrent(build_mode) ? channels_of_[tag - 1][to] : peers_[to];
  // A3 ready  acquire p.stream  <- R3 (connect.cpp); never set for this process itself
  nic::shm::ring_tx* const tx = p.stream.load(std::memory_order_acquire);
  if (tx == nullptr || !handlers_.takes(m.kind, m.handler, m.nargs)) [[unlikely]]
    return false;
  if (!(quick ? p.request_out.try_enter_biased(tag) : p.request_out.try_enter(tag))) [[unlikely]]
    return false;
  const bool sent = push(*tx, wire::header{.credit = 1});
  p.request_out.leave(tag);
  return sent;
}

template <bool quick>
[[gnu::always_inline]] inline bool engine::push_short(rank_id to, const outgoing& m) noexcept {
  return push_leased<quick>(to, m, [&m](nic::shm::ring_tx& tx, const wire::header& h) {
    return tx.push_allowed(op_direct, word_of(m, h), m.args, m.nargs);
  });
}

template <bool quick>
[[gnu::always_inline]] inline bool engine::push_medium(rank_id to, const outgoing& m) noexcept {
  if (m.bytes > cheap_medium || m.payload == nullptr) [[unlikely]]
    return false;
  return push_leased<quick>(to, m, [&m](nic::shm::ring_tx& tx, const wire::header& h) {
    const auto l = codec::in_slot::fitting(m.nargs, static_cast<std::uint32_t>(m.bytes));
    return tx.push_allowed(op_direct, word_of(m, h), l.data_bytes,
                           writer_of<codec::words::pairs>(m, l));
  });
}

// A Short, when all it needs is at hand; anything else goes the long way. Kept to few stores, since
// they queue up behind lines that are on their way to this core, and without a call, so that no
// register has to be saved.
status engine::request_short(rank_id to, std::uint8_t handler, const std::uint32_t* args,
                             unsigned nargs) noexcept {
  if (push_short<true>(to, short_of(handler, args, nargs))) [[likely]]
    return status::ok;
  return direct_ ? request_short_slow(to, handler, args, nargs)
                 : request_short_verbs(to, handler, args, nargs);
}

status engine::request_short_slow(rank_id to, std::uint8_t handler, const std::uint32_t* args,
                                  unsigned nargs) noexcept {
  const outgoing m = short_of(handler, args, nargs);
  if (concurrent(build_mode) && push_short<false>(to, m)) return status::ok;
  return request(to, m);
}

// A Medium that costs what a Short does, the same way.
status engine::request_medium_direct(rank_id to, std::uint8_t handler, const std::uint32_t* args,
                                     unsigned nargs, const void* payload,
                                     std::size_t bytes) noexcept {
  if (push_medium<true>(to, medium_of(handler, args, nargs, payload, bytes))) [[likely]]
    return status::ok;
  return request_medium_slow(to, handler, args, nargs, payload, bytes);
}

status engine::request_medium_slow(rank_id to, std::uint8_t handler, const std::uint32_t* args,
                                   unsigned nargs, const void* payload,
                                   std::size_t bytes) noexcept {
  const outgoing m = medium_of(handler, args, nargs, payload, bytes);
  if (concurrent(build_mode) && push_medium<false>(to, m)) return status::ok;
  return request(to, m);
}

// Takes a lease, if as many requests may be on their way; inside request_out.
status engine::lease_direct(peer& p, std::uint32_t cost, std::uint32_t tag) noexcept {
  collect_returned(p, tag);
  const std::uint32_t taken = p.home->ledger->in_use(p.rank);  // none without flow control
  const std::uint32_t used = taken - std::min(taken, p.lease);
  if (used != 0 && used + cost > most_unanswered) return status::no_space;
  return take_credits(p, cost, most_unanswered - std::min(most_unanswered, used + p.lease));
}

status engine::request_direct(peer& p, const outgoing& m) noexcept {
  // A2 ready  acquire p.ready  <- R2 (connect.cpp)
  if ((p.ready.load(std::memory_order_acquire) >> lane_request & 1) == 0) [[unlikely]]
    return connect(p, lane_request);
  const std::uint32_t tag = my_tag();
  if (!p.request_out.try_enter(tag)) [[unlikely]]
    return status::busy;
  status s = status::ok;
  const std::uint32_t cost = cost_of(m);
  p.lease += p.request_tx->recall();
  const bool leases = p.lease < cost;
  if (leases) s = lease_direct(p, cost, tag);
  if (s == status::ok) [[likely]] {
    // Looked at before a Long's payload is put in place, so that a failed try leaves nothing
    // behind.
    const codec::in_slot l(m);
    if (!p.request_tx->has_room(1, l.data_bytes)) [[unlikely]] {
      s = status::no_space;
    } else {
      if (m.kind == wire::kind::long_ && m.bytes != 0)
        std::memcpy(p.segment_here.load(std::memory_order_relaxed) +
                        (static_cast<std::byte*>(m.dest) - p.segment_base),
                    m.payload, m.bytes);
      wire::header h;
      h.credit = request_credit_byte(p, cost);
      p.request_tx->push(op_direct, word_of(m, h), l.data_bytes,
                         writer_of<codec::words::exact>(m, l));
      // What is left of the lease is for the Shorts that may follow (request_short).
      p.lease -= cost;
      if (!p.wakes) [[likely]]
        p.lease -= p.request_tx->allow(p.lease);
    }
  }
  p.request_out.leave(tag);
  wake(p);
  if (spins_before_yield_ == 1 && leases && s == status::ok) [[unlikely]]
    share_core(credit::lease_messages);
  return s;
}

status engine::reply_direct(token_state& t, const outgoing& m) noexcept {
  peer& p = *t.from;
  if (m.kind == wire::kind::long_ && m.bytes != 0) {
    if (!in_segment(p, m.dest, m.bytes)) return status::out_of_segment;
    // The request may have overtaken the hello that says that its sender is ready.
    // A8 mapped  acquire p.segment_here  <- R8 (connect.cpp)
    std::byte* base = p.segment_here.load(std::memory_order_acquire);
    if (base == nullptr) [[unlikely]]
      base = segment_for_reply(p);
    std::memcpy(base + (static_cast<std::byte*>(m.dest) - p.segment_base), m.payload, m.bytes);
  }
  told_peer(&p);
  const codec::in_slot l(m);
  const wire::header h = reply_header(p, t, p.owed.load(std::memory_order_relaxed) + t.cost);
  p.reply_tx->push(op_direct, word_of(m, h), l.data_bytes, writer_of<codec::words::exact>(m, l));
  note_replied(p, t);
  wake(p);
  return status::ok;
}

// There was room for the reply, or the request would not have been taken. Inside request_in.
inline void engine::note_replied(peer& p, token_state& t) noexcept {
  --p.reply_room;
  p.owed.store(0, std::memory_order_relaxed);
  t.replied = true;
  t.lane = nullptr;
}

// Replies by push(ring, header) where t.lane says that it may, and running that this is its
// handler.
template <class Push>
[[gnu::always_inline]] inline status engine::push_reply(token_state& t, Push&& push) noexcept {
  peer& p = *t.from;
  told_peer(&p);
  push(*t.lane, returning(p.owed.load(std::memory_order_relaxed) + t.cost));
  note_replied(p, t);
  return status::ok;
}

status engine::reply_short(token_state& t, std::uint8_t handler, const std::uint32_t* args,
                           unsigned nargs) noexcept {
  if (t.lane == nullptr || running != &t ||
      !t.engine->handlers_.takes(wire::kind::short_, handler, nargs)) [[unlikely]]
    return reply_short_verbs(t, handler, args, nargs);
  const outgoing m = short_of(handler, args, nargs);
  return push_reply(t, [&m](nic::shm::ring_tx& tx, const wire::header& h) {
    tx.push_words(op_direct, word_of(m, h), m.args, m.nargs);
  });
}

status engine::reply_medium_direct(token_state& t, std::uint8_t handler, const std::uint32_t* args,
                                   unsigned nargs, const void* payload,
                                   std::size_t bytes) noexcept {
  if (running != &t || bytes > max_medium || payload == nullptr ||
      !t.engine->handlers_.takes(wire::kind::medium, handler, nargs)) [[unlikely]]
    return reply_medium_verbs(t, handler, args, nargs, payload, bytes);
  const outgoing m = medium_of(handler, args, nargs, payload, bytes);
  return push_reply(t, [&m](nic::shm::ring_tx& tx, const wire::header& h) {
    const auto l = codec::in_slot::fitting(m.nargs, static_cast<std::uint32_t>(m.bytes));
    tx.push(op_direct, word_of(m, h), l.data_bytes, writer_of<codec::words::pairs>(m, l));
  });
}

// Sends what the engine itself has to say, if there is more room than replies may need; inside
// request_in.
bool engine::push_word_direct(peer& p, const wire::header& h) noexcept {
  if (!p.reply_tx->has_room(p.reply_room + 1, 0)) return false;
  p.reply_tx->push_words(op_direct, wire::word_of(h), nullptr, 0);
  return true;
}

// Sends what p is owed as a message of its own, if there is room; inside request_in.
void engine::push_credits_direct(peer& p) noexcept {
  // Each can announce seven credits. All of them go: with nothing owed there may be no other.
  do {
    if (!p.reply_tx->has_room(p.reply_room + 1, 0)) break;
    p.reply_tx->push_words(op_direct, wire::word_of(credits_header(p)), nullptr, 0);
    p.credit_messages.add(1);
  } while (p.grant != 0);
  wake(p);
}

// Looks how many requests of p may be taken now: for each, the reply ring has room for the longest
// reply, and for what the engine itself may say. False: none.
bool engine::find_reply_room(peer& p) noexcept {
  const auto there_is = [&p](std::uint32_t replies) {
    return p.reply_tx->has_room_for(reply_slots + replies,
                                    nic::shm::ring_tx::worst(replies, reply_data));
  };
  constexpr std::uint32_t many = 12;
  p.reply_room = there_is(many) ? many : there_is(1) ? 1 : 0;
  return p.reply_room != 0;
}

// Calls the handler of the plain Medium of that header at the front, and takes it out; false: it
// lies there otherwise than it should, and nothing was done.
inline bool engine::run_plain_medium(nic::shm::ring_rx& rx, token_state& t) noexcept {
  const wire::header h = t.header;
  if (h.length > max_medium) [[unlikely]]
    return false;
  const auto l = codec::in_slot::fitting(h.nargs(), h.length);
  const auto m = rx.front_of(op_direct, l.data_bytes);
  if (!m) [[unlikely]]
    return false;
  const codec::parts at = l.find(const_cast<std::byte*>(m.slot->body), m.data);
  call_handler(handlers_.user[h.handler], t, at.fixed, at.payload, h.length);
  rx.pop(m);
  return true;
}

// Runs the handler of a message of any kind; false: its bytes make no sense.
inline bool engine::run_direct(const nic::shm::ring_rx::message& m, token_state& t) noexcept {
  const codec::in_slot l(t.header);
  return m.op == op_direct && l.data_bytes == m.data_bytes &&
         run_handler(t, l.find(const_cast<std::byte*>(m.slot->body), m.data));
}

// Takes the request at the front, whose header that is, of whatever kind. True: its sender waits.
bool engine::take_request_direct(peer& p, nic::shm::ring_rx& rx, std::uint64_t word) noexcept {
  token_state t(*this, p, wire::header_of(word), true);
  t.cost = cost_of(t.header);
  if (handlers_.plain(wire::kind::medium, word)) [[likely]] {
    t.lane = p.plain_tx;
    if (!run_plain_medium(rx, t)) [[unlikely]]
      peer_failed(p, malformed);
    if (!t.replied) owe(p, t.cost, 0);
    return false;
  }
  const auto m = rx.front();
  if (!m) [[unlikely]]  // it was there
    peer_failed(p, malformed);
  const bool urgent = note_request(p, t);
  t.lane = t.grant == 0 ? p.plain_tx : nullptr;
  if (!run_direct(m, t)) [[unlikely]]
    peer_failed(p, malformed);
  rx.pop(m);
  if (!t.replied) owe(p, t.cost, t.grant);
  return urgent;
}

// n requests were taken, and no more are there. Each look at the line that p writes next takes it
// away from p, which then waits for it: in a stream of requests that nothing answers, whoever has
// caught up looks away for a moment, and then finds several. Who sends to p meanwhile waits for its
// answer, and goes on looking. Nothing waits for the rest to be over but polls: the progress thread
// looks all the same before it goes to sleep (progress::waiting).
inline void engine::rest_in_stream(peer& p, unsigned n) noexcept {
  constexpr std::uint32_t stream = 16;  // requests
  const std::uint64_t sent = p.request_tx->pushed();
  const bool one_way = sent == p.sent_before && p.owed.load(std::memory_order_relaxed) != 0;
  p.sent_before = sent;
  p.streak = one_way ? p.streak + n : 0;
  if (p.streak >= stream) p.rest_until.store(ticks() + rest_ticks, std::memory_order_relaxed);
}

[[gnu::always_inline]] inline unsigned engine::take_requests(peer& p, std::uint32_t tag) noexcept {
  if (!p.request_in.try_enter(tag)) return 0;
  nic::shm::ring_rx& rx = *p.request_rx;
  const unsigned limit = p.rest_until.load(std::memory_order_relaxed) == 0 ? am_limit_ : 0;
  unsigned n = 0;
  for (; n < limit; ++n) {
    const nic::shm::ring_slot* s;
    const auto seen = rx.peek(op_direct, s);
    if (seen == nic::shm::ring_rx::sight::nothing) {
      if (n != 0) rest_in_stream(p, n);
      break;
    }
    if (p.reply_room == 0 && !find_reply_room(p)) [[unlikely]]
      break;
    if (n == 0) p.reply_tx->answered();
    bool urgent = false;
    const std::uint64_t word = s->header;
    if (seen == nic::shm::ring_rx::sight::plain && handlers_.plain(wire::kind::short_, word))
        [[likely]] {
      token_state t(*this, p, wire::header_of(word), true);
      t.cost = 1;
      t.lane = p.plain_tx;
      call_handler(handlers_.user[t.header.handler], t, s->body, nullptr, 0);
      rx.pop_slot();
      if (!t.replied) owe(p, 1, 0);
    } else {
      urgent = take_request_direct(p, rx, word);
    }
    if (urgent || p.owed.load(std::memory_order_relaxed) >=
                      p.return_batch.load(std::memory_order_relaxed)) [[unlikely]]
      push_credits_direct(p);
  }
  if (n != 0) {
    p.requests_handled.add(n);
    p.home->ledger->count_requests(n);
    p.idle = 0;
    p.plain_tx = p.wakes || p.home->ledger->has_epoch_mark(p.rank) ? nullptr : p.reply_tx;
  } else if (p.owed.load(std::memory_order_relaxed) != 0 && ++p.idle >= idle_polls) {
    p.idle = 0;
    push_credits_direct(p);
  }
  p.request_in.leave(tag);
  return n;
}

// Takes what is at the front of the reply lane, whose header that is, of whatever kind.
void engine::take_reply_direct(peer& p, nic::shm::ring_rx& rx, std::uint64_t word) noexcept {
  const wire::header h = wire::header_of(word);
  if (h.kind() >= wire::kind::credits) {
    const auto m = rx.front_of(op_direct, 0);
    if (!m || !system_message(p, h)) [[unlikely]]
      peer_failed(p, malformed);
    rx.pop(m);
    return;
  }
  absorb_reply(p, h, my_tag());
  token_state t(*this, p, h, false);
  if (handlers_.plain(wire::kind::medium, word)) [[likely]] {
    if (!run_plain_medium(rx, t)) [[unlikely]]
      peer_failed(p, malformed);
  } else {
    const auto m = rx.front();
    if (!m || !run_direct(m, t)) [[unlikely]]
      peer_failed(p, malformed);
    rx.pop(m);
  }
  p.replies_handled.add(1);
  p.request_tx->answered();
}

[[gnu::always_inline]] inline unsigned engine::take_replies(peer& p, std::uint32_t tag) noexcept {
  if (!p.reply_in.try_enter(tag)) return 0;
  unsigned n = 0;
  nic::shm::ring_rx& rx = *p.reply_rx;
  for (; n < safe_limit_; ++n) {
    const nic::shm::ring_slot* s;
    const auto seen = rx.peek(op_direct, s);
    if (seen == nic::shm::ring_rx::sight::nothing) break;
    const std::uint64_t word = s->header;
    if (seen == nic::shm::ring_rx::sight::plain && handlers_.plain(wire::kind::short_, word))
        [[likely]] {
      token_state t(*this, p, wire::header_of(word), false);
      note_returned(p, wire::chunk_of(word));
      call_handler(handlers_.user[t.header.handler], t, s->body, nullptr, 0);
      p.replies_handled.add(1);
      rx.pop_slot();
      p.request_tx->answered();
    } else {
      take_reply_direct(p, rx, word);
    }
  }
  p.reply_in.leave(tag);
  return n;
}

unsigned engine::poll_requests_direct(peer& p, std::uint32_t tag) noexcept {
  return take_requests(p, tag);
}

unsigned engine::poll_replies_direct(peer& p, std::uint32_t tag) noexcept {
  return take_replies(p, tag);
}

// p, the first-th peer, has replies or requests; so may others behind it.
status engine::poll_replies_news(unsigned* n, peer& p, std::uint32_t first) noexcept {
  const std::uint32_t tag = my_tag();
  unsigned got = take_replies(p, tag);
  if (requests_news(p)) [[unlikely]]
    got += poll_requests_direct(p, tag);
  // Who waits for a reply goes on at once: if each of its polls finds one, its requests look
  // around.
  return poll_behind(n, p, first, got);
}
status engine::poll_requests_news(unsigned* n, peer& p, std::uint32_t first) noexcept {
  const unsigned got = take_requests(p, my_tag());
  if (attention_to_device()) [[unlikely]]
    look_around();
  return poll_behind(n, p, first, got);
}
[[gnu::always_inline]] inline status engine::poll_behind(unsigned* n, peer& p, std::uint32_t first,
                                                         unsigned got) noexcept {
  domain& d = *p.home;
  const std::uint32_t all = d.connected.load(std::memory_order_acquire);
  if (first + 1 < all) got += poll_from_direct(d, my_tag(), first + 1, all);
  if (n != nullptr) *n += got;
  return status::ok;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
