// The direct path: messages between processes of one host through the rings of the shared-memory
// device's queue pairs, without work requests. A message is written once, into the ring, and its
// handler reads it there.
//
// Why nothing waits for ever: a request that finds no room or credits is answered "short", and its
// caller polls; a request is taken out of its ring only when the reply ring towards its sender has
// room for the longest reply and for what the engine itself says on that lane (invariant 3);
// replies are taken out at any time, since their handlers send nothing. So reply rings always
// drain, and then requests do.
#include <cstring>

#include "lib/base/backoff.hpp"
#include "lib/conduit/engine_inl.hpp"
#include "nic/shm/direct.hpp"

namespace penstock::conduit {
namespace {

using nic::shm::op_direct;

// Room kept in a reply ring before a request is taken: its reply, and a few words of the engine.
constexpr std::uint32_t reply_slots = 8;
constexpr std::uint32_t reply_data = wire::layout(wire::max_fixed, max_medium).data_bytes;

void put_fixed(std::byte* to, const outgoing& m, const void* dest) noexcept {
  if (m.kind == wire::kind::long_) {
    const wire::long_block lb{reinterpret_cast<std::uintptr_t>(dest), m.bytes};
    std::memcpy(to, &lb, sizeof lb);
    to += sizeof lb;
  }
  for (unsigned i = 0; i < m.nargs; ++i) std::memcpy(to + 4 * i, m.args + i, 4);
}

// Where the parts of m lie in a ring.
wire::layout layout_of(const outgoing& m) noexcept {
  return {wire::fixed_bytes(m.kind, m.nargs),
          m.kind == wire::kind::medium ? static_cast<std::uint32_t>(m.bytes) : 0};
}

// The header of m on a ring; h says what travels with it of credits.
wire::header header_of(const outgoing& m, wire::header h) noexcept {
  h.kind_args = wire::kind_args(m.kind, m.nargs);
  h.handler = m.handler;
  h.flags = m.flags;
  h.length = m.kind == wire::kind::medium ? static_cast<std::uint16_t>(m.bytes) : std::uint16_t{0};
  return h;
}

// What writes m where a ring has room for it. A Long's payload must be in place already.
auto writer_of(const outgoing& m, const wire::layout& l) noexcept {
  return [&m, &l](std::byte* body, std::byte* data) {
    put_fixed(l.fixed_in_body ? body : data, m, m.dest);
    if (m.kind == wire::kind::medium && m.bytes != 0)
      std::memcpy((l.payload_in_body ? body : data) + l.payload_at, m.payload, m.bytes);
  };
}

outgoing short_of(std::uint8_t handler, const std::uint32_t* args, unsigned nargs) noexcept {
  return {.kind = wire::kind::short_,
          .handler = handler,
          .nargs = static_cast<std::uint8_t>(nargs),
          .args = args};
}
outgoing medium_of(std::uint8_t handler, const std::uint32_t* args, unsigned nargs,
                   const void* payload, std::size_t bytes) noexcept {
  return {.kind = wire::kind::medium,
          .handler = handler,
          .nargs = static_cast<std::uint8_t>(nargs),
          .args = args,
          .payload = payload,
          .bytes = bytes};
}

// Longest Medium that costs one credit whatever its arguments, if they fit a slot.
constexpr std::size_t cheap_medium =
    wire::credit_bytes - wire::packed_bytes(nic::shm::slot_body, 0);
static_assert(cheap_medium % 8 == 0);

// Finds the parts of a message in the ring; false: its lengths contradict each other.
bool find_parts(const nic::shm::ring_rx::message& m, const wire::header& h, const std::byte*& fixed,
                std::byte*& payload) noexcept {
  const std::uint32_t carried = wire::carried_bytes(h);
  const std::uint32_t fixed_size = wire::fixed_bytes(h.kind(), h.nargs());
  const wire::layout l(fixed_size, carried);
  if (m.op != op_direct || l.data_bytes != m.data_bytes) [[unlikely]]
    return false;
  auto* const body = const_cast<std::byte*>(m.slot->body);
  fixed = l.fixed_in_body ? body : m.data;
  payload = (l.payload_in_body ? body : m.data) + l.payload_at;
  return true;
}

// Enters where another thread may be for the length of one push; never held while anything is
// waited for.
void enter(queue_owner& o, std::uint32_t tag) noexcept {
  backoff b(64);
  while (!o.try_enter(tag)) b.idle();
}

}  // namespace

// What the request with that header cost its sender.
std::uint32_t engine::cost_of(const wire::header& h) noexcept {
  return credit::cost(
      static_cast<credit::kind>(h.kind()),
      wire::packed_bytes(wire::fixed_bytes(h.kind(), h.nargs()), wire::carried_bytes(h)));
}

// True if the user's handler of that index takes a message of kind k, a Short or a Medium, with so
// many words, and they fit a slot.
inline bool engine::takes(wire::kind k, std::uint8_t handler, unsigned nargs) const noexcept {
  const std::uint8_t words = plain_words_[static_cast<unsigned>(k)][handler];
  return nargs <= nic::shm::slot_body / 4 && (words == nargs || words == any_words);
}

// True if what came without data is such a Short: its handler may be called without another look.
inline bool engine::is_plain_short(const wire::header& h) const noexcept {
  static_assert(wire::kind_args(wire::kind::short_, 12) == 12);  // other kinds are more than that
  return h.flags == 0 && takes(wire::kind::short_, h.handler, h.kind_args);
}

// True if it is such a Medium.
inline bool engine::is_plain_medium(const wire::header& h) const noexcept {
  return h.kind() == wire::kind::medium && h.flags == 0 && h.length <= max_medium &&
         takes(wire::kind::medium, h.handler, h.nargs());
}

// Sends a request that costs one credit by push(ring, header with the credit), if one is leased and
// nobody else is sending. False: it goes the long way.
template <class Push>
bool engine::push_leased(rank_id to, Push&& push) noexcept {
  const std::uint32_t tag = my_tag();
  peer& p = concurrent(build_mode) ? channels_of_[tag - 1][to] : peers_[to];
  // A3 ready  acquire p.stream  <- R3 (connect.cpp); never set for this process itself
  nic::shm::ring_tx* const tx = p.stream.load(std::memory_order_acquire);
  if (tx == nullptr || !p.request_out.try_enter(tag)) [[unlikely]]
    return false;
  wire::header h;
  h.credit = 1;
  const bool sent = push(*tx, h);
  p.request_out.leave(tag);
  return sent;
}

// A Short, when all it needs is at hand; anything else goes the long way. Kept to few stores, since
// they queue up behind lines that are on their way to this core.
status engine::request_short(rank_id to, std::uint8_t handler, const std::uint32_t* args,
                             unsigned nargs) noexcept {
  if (to < size_ && running == nullptr && takes(wire::kind::short_, handler, nargs)) [[likely]] {
    const bool sent = push_leased(to, [&](nic::shm::ring_tx& tx, wire::header h) {
      h.handler = handler;
      h.kind_args = wire::kind_args(wire::kind::short_, nargs);
      return tx.push_allowed(op_direct, wire::word_of(h), args, nargs);
    });
    if (sent) [[likely]]
      return status::ok;
  }
  return request_slow(to, short_of(handler, args, nargs));
}

// A Medium that costs what a Short does, the same way.
status engine::request_medium(rank_id to, std::uint8_t handler, const std::uint32_t* args,
                              unsigned nargs, const void* payload, std::size_t bytes) noexcept {
  if (to < size_ && running == nullptr && bytes <= cheap_medium && payload != nullptr &&
      takes(wire::kind::medium, handler, nargs)) [[likely]] {
    const bool sent = push_leased(to, [&](nic::shm::ring_tx& tx, const wire::header& h) {
      const outgoing m = medium_of(handler, args, nargs, payload, bytes);
      const wire::layout l = layout_of(m);
      return tx.push_allowed(op_direct, wire::word_of(header_of(m, h)), l.data_bytes,
                             writer_of(m, l));
    });
    if (sent) [[likely]]
      return status::ok;
  }
  return request_slow(to, medium_of(handler, args, nargs, payload, bytes));
}

status engine::request_slow(rank_id to, const outgoing& m) noexcept { return request(to, m); }

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
  if (leases) s = take_credits(p, cost);
  if (s == status::ok) [[likely]] {
    // Looked at before a Long's payload is put in place, so that a failed try leaves nothing
    // behind.
    const wire::layout l = layout_of(m);
    if (!p.request_tx->has_room(1, l.data_bytes)) [[unlikely]] {
      s = status::no_space;
    } else {
      if (m.kind == wire::kind::long_ && m.bytes != 0)
        std::memcpy(p.segment_here + (static_cast<std::byte*>(m.dest) - p.segment_base), m.payload,
                    m.bytes);
      wire::header h;
      h.credit = request_credit_byte(p, cost);
      p.request_tx->push(op_direct, wire::word_of(header_of(m, h)), l.data_bytes, writer_of(m, l));
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
    std::byte* base = std::atomic_ref(p.segment_here).load(std::memory_order_relaxed);
    if (base == nullptr) [[unlikely]]
      base = map_segment(p);
    std::memcpy(base + (static_cast<std::byte*>(m.dest) - p.segment_base), m.payload, m.bytes);
  }
  const wire::layout l = layout_of(m);
  return push_reply(t, [&](nic::shm::ring_tx& tx, const wire::header& h) {
    return tx.try_push(op_direct, wire::word_of(header_of(m, h)), l.data_bytes, writer_of(m, l));
  });
}

// Replies by push(ring, header with all that is owed), which answers whether it has found room.
// Inside request_in, as owed is.
template <class Push>
status engine::push_reply(token_state& t, Push&& push) noexcept {
  peer& p = *t.from;
  told_peer(&p);
  const std::uint32_t tag = my_tag();
  const wire::header h = reply_header(p, t, p.owed.load(std::memory_order_relaxed) + t.cost);
  enter(p.reply_out, tag);
  const bool pushed = push(*p.reply_tx, h);
  p.reply_out.leave(tag);
  wake(p);
  if (!pushed) [[unlikely]]
    return status::no_space;  // the room was there when the request was taken
  p.owed.store(0, std::memory_order_relaxed);
  t.replied = true;
  return status::ok;
}

// True if t's handler may reply at once, by a message of which takes() is true.
inline bool engine::may_reply(const token_state& t) const noexcept {
  return direct_ && !t.replied && running == &t && t.from != nullptr && !transfers_.must_settle();
}

status engine::reply_short(token_state& t, std::uint8_t handler, const std::uint32_t* args,
                           unsigned nargs) noexcept {
  if (!may_reply(t) || !takes(wire::kind::short_, handler, nargs)) [[unlikely]]
    return reply(t, short_of(handler, args, nargs));
  return push_reply(t, [&](nic::shm::ring_tx& tx, wire::header h) {
    h.handler = handler;
    h.kind_args = wire::kind_args(wire::kind::short_, nargs);
    return tx.try_push_words(op_direct, wire::word_of(h), args, nargs);
  });
}

status engine::reply_medium(token_state& t, std::uint8_t handler, const std::uint32_t* args,
                            unsigned nargs, const void* payload, std::size_t bytes) noexcept {
  if (!may_reply(t) || bytes > cheap_medium || payload == nullptr ||
      !takes(wire::kind::medium, handler, nargs)) [[unlikely]]
    return reply(t, medium_of(handler, args, nargs, payload, bytes));
  return push_reply(t, [&](nic::shm::ring_tx& tx, const wire::header& h) {
    const outgoing m = medium_of(handler, args, nargs, payload, bytes);
    const wire::layout l = layout_of(m);
    return tx.try_push(op_direct, wire::word_of(header_of(m, h)), l.data_bytes, writer_of(m, l));
  });
}

bool engine::push_word_direct(peer& p, const wire::header& h) noexcept {
  return p.reply_tx->try_push(op_direct, wire::word_of(h), 0, [](std::byte*, std::byte*) {});
}

// Sends what p is owed as a message of its own, if there is room; inside request_in.
void engine::push_credits_direct(peer& p, std::uint32_t tag) noexcept {
  if (!p.reply_out.try_enter(tag)) return;  // the next poll does it
  // Each can announce seven credits. All of them go: with nothing owed there may be no other.
  do {
    if (!p.reply_tx->has_room(1, 0)) break;
    (void)push_word_direct(p, credits_header(p));
    p.credit_messages.add(1);
  } while (p.grant != 0);
  p.reply_out.leave(tag);
  wake(p);
}

// How many requests of p may be taken now: for each, the reply ring has room for the longest reply,
// and for what the engine itself may say.
inline unsigned engine::reply_room_direct(peer& p, std::uint32_t tag) noexcept {
  const unsigned most = am_limit_ < 12 ? am_limit_ : 12;
  if (!p.reply_out.try_enter(tag)) return 0;
  using nic::shm::ring_tx;
  const unsigned n = p.reply_tx->has_room_for(reply_slots + most, ring_tx::worst(most, reply_data))
                         ? most
                     : p.reply_tx->has_room_for(reply_slots + 1, ring_tx::worst(1, reply_data)) ? 1
                                                                                                : 0;
  p.reply_out.leave(tag);
  return n;
}

// Runs the handler of a message of any kind; false: its bytes make no sense.
inline bool engine::run_direct(const nic::shm::ring_rx::message& m, token_state& t) noexcept {
  const std::byte* fixed = nullptr;
  std::byte* payload = nullptr;
  if (!find_parts(m, t.header, fixed, payload)) [[unlikely]]
    return false;
  if (!is_plain_medium(t.header)) return run_handler(t, fixed, payload);
  call_handler(user_[t.header.handler], t, fixed, payload, t.header.length);
  return true;
}

// Takes the request at the front, of whatever kind. True: its sender waits.
bool engine::take_request_direct(peer& p, nic::shm::ring_rx& rx) noexcept {
  const auto m = rx.front();
  if (!m) [[unlikely]]  // it was there
    peer_failed(p, malformed);
  token_state t(*this, p, wire::header_of(m.slot->header), true);
  t.cost = cost_of(t.header);
  const bool urgent = note_request(p, t);
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

unsigned engine::poll_requests_direct(peer& p, std::uint32_t tag) noexcept {
  if (!p.request_in.try_enter(tag)) return 0;
  unsigned n = 0, limit = 0;
  nic::shm::ring_rx& rx = *p.request_rx;
  for (;;) {
    if (n == 0 && p.rest_until.load(std::memory_order_relaxed) != 0) break;
    const nic::shm::ring_slot* s;
    const auto seen = rx.peek(op_direct, s);
    if (seen == nic::shm::ring_rx::sight::nothing) {
      if (n != 0) rest_in_stream(p, n);
      break;
    }
    if (n == 0) limit = reply_room_direct(p, tag);
    if (n == limit) break;
    bool urgent = false;
    const std::uint64_t word = s->header;
    if (seen == nic::shm::ring_rx::sight::plain && is_plain_short(wire::header_of(word)))
        [[likely]] {
      token_state t(*this, p, wire::header_of(word), true);
      t.cost = 1;
      urgent = note_request(p, t);
      call_handler(user_[t.header.handler], t, s->body, nullptr, 0);
      rx.pop_slot();
      if (!t.replied) owe(p, 1, t.grant);
    } else {
      urgent = take_request_direct(p, rx);
    }
    ++n;
    if (urgent || p.owed.load(std::memory_order_relaxed) >=
                      p.return_batch.load(std::memory_order_relaxed)) [[unlikely]]
      push_credits_direct(p, tag);
  }
  if (n != 0) {
    p.requests_handled.add(n);
    p.home->ledger->count_requests(n);
    p.idle = 0;
  } else if (p.owed.load(std::memory_order_relaxed) != 0 && ++p.idle >= idle_polls) {
    p.idle = 0;
    push_credits_direct(p, tag);
  }
  p.request_in.leave(tag);
  return n;
}

// Takes what is at the front of the reply lane, of whatever kind.
void engine::take_reply_direct(peer& p, nic::shm::ring_rx& rx) noexcept {
  const auto m = rx.front();
  if (!m) [[unlikely]]  // it was there
    peer_failed(p, malformed);
  const wire::header h = wire::header_of(m.slot->header);
  if (h.kind() >= wire::kind::credits) {
    if (m.op != op_direct || m.data_bytes != 0 || !system_message(p, h)) [[unlikely]]
      peer_failed(p, malformed);
  } else {
    absorb_credits(p, h, h.chunk);
    token_state t(*this, p, h, false);
    if (!run_direct(m, t)) [[unlikely]]
      peer_failed(p, malformed);
    p.replies_handled.add(1);
  }
  rx.pop(m);
}

unsigned engine::poll_replies_direct(peer& p, std::uint32_t tag) noexcept {
  if (!p.reply_in.try_enter(tag)) return 0;
  unsigned n = 0;
  nic::shm::ring_rx& rx = *p.reply_rx;
  for (; n < safe_limit_; ++n) {
    const nic::shm::ring_slot* s;
    const auto seen = rx.peek(op_direct, s);
    if (seen == nic::shm::ring_rx::sight::nothing) break;
    const std::uint64_t word = s->header;
    if (seen == nic::shm::ring_rx::sight::plain && is_plain_short(wire::header_of(word)))
        [[likely]] {
      token_state t(*this, p, wire::header_of(word), false);
      absorb_credits(p, t.header, wire::chunk_of(word));
      call_handler(user_[t.header.handler], t, s->body, nullptr, 0);
      p.replies_handled.add(1);
      rx.pop_slot();
    } else {
      take_reply_direct(p, rx);
    }
  }
  p.reply_in.leave(tag);
  return n;
}

}  // namespace penstock::conduit
