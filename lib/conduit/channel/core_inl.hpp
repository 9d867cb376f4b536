// Hot bodies that more than one part of the engine inlines: what a poll looks at, credits on
// messages, and the run of a handler. Only parts of the engine include it.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/assert.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/cross_process.hpp"
#include "lib/base/probes.hpp"
#include "lib/conduit/channel/credit_flow.hpp"
#include "lib/conduit/message/codec.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

inline poller& core::my_poller(std::uint32_t tag, const domain& d) noexcept {
  auto& mine = pollers_[tag - 1];
  if (!mine) [[unlikely]]
    mine = std::make_unique<poller[]>(domain_count_);
  return mine[d.index];
}

/// The credit byte of a request that costs `cost` credits.
inline std::uint8_t credit_flow::request_credit_byte(inside<end_of::request_out>, peer& p,
                                                     std::uint32_t cost) noexcept {
  const auto count = static_cast<std::uint8_t>(cost < 15 ? cost : 15);
  if (p.credits.say.load(std::memory_order_relaxed) == 0) [[likely]]
    return count;
  return static_cast<std::uint8_t>(p.credits.say.exchange(0, std::memory_order_relaxed) | count);
}

/// Called when a request came: grants the credits that it asks for. True: its sender waits for
/// credits, so it is answered without delay.
inline bool credit_flow::note_request(peer& p, token_state& t) noexcept {
  return (t.header.credit & 0xf0) == 0 ? false : grant_more(p, t);
}

/// Called when a request that cost `cost` came from p, which `unreturned` credits are still to be
/// given back to: p cannot have spent more than it was lent. Each peer has credits for a Short at
/// any time.
inline void credit_flow::check_claim(const peer& p, std::uint32_t cost,
                                     std::uint32_t unreturned) noexcept {
  if (cost > credit::min_credits && !p.home->ledger->may_have_spent(p.rank, unreturned + cost))
      [[unlikely]]
    peer_failed(p, overdrawn);
}

/// attention() for the near device; near_ must not be null.
inline bool core::attention_to_near() const noexcept {
  return near_->events->load(std::memory_order_relaxed) !=
         near_->events_seen.load(std::memory_order_relaxed);
}

/// True if slow_progress() has something to do. A few loads of lines that seldom change.
inline bool core::attention() noexcept {
  if (near_ != nullptr && attention_to_near()) [[unlikely]]
    return true;
  return events_ != nullptr ? attention_to_device() : attention_to_kernel();
}

/// attention() on the shared-memory device. Every poll calls it, so it has one branch.
inline bool core::attention_to_device() const noexcept {
  const auto news =
      static_cast<unsigned>(job_.ended()) | static_cast<unsigned>(intents_.is_up()) |
      deferred_.load(std::memory_order_relaxed) | handed_.load(std::memory_order_relaxed) |
      (events_->load(std::memory_order_relaxed) ^ events_seen_.load(std::memory_order_relaxed));
  return news != 0;
}

/// The header of a reply that gives `returned` credits back and tells no other news of credits.
inline wire::header returning(std::uint32_t returned) noexcept {
  wire::header h;
  h.chunk = static_cast<std::uint16_t>(returned);
  h.credit = static_cast<std::uint8_t>(std::min<std::uint32_t>(returned, 15));
  return h;
}

/// The header of a reply that gives `returned` credits back, and tells of an epoch's end and of a
/// grant where there is one.
inline wire::header credit_flow::reply_header(peer& p, const token_state& t,
                                              std::uint32_t returned) noexcept {
  wire::header h = returning(returned);
  const bool mark = p.home->ledger->take_epoch_mark(p.rank);
  if (mark || t.grant != 0) [[unlikely]]
    h.credit |= credit::credit_byte{mark, t.grant, 0}.encode();
  return h;
}

/// Hands the credits that replies have given back to the ledger.
inline void credit_flow::tell_returned(inside<end_of::reply_in> in, peer& p) noexcept {
  std::uint32_t& returned = p.credits.returned[in];
  if (returned == 0) return;
  if (p.home->ledger->on_credits(p.rank, std::exchange(returned, 0), 0, false) != status::ok)
      [[unlikely]]
    peer_failed(p, malformed);
}

/// Called when a reply has given n credits back. The ledger is told of lease_messages credits at a
/// time, and at the latest when p's next lease is taken.
inline void credit_flow::note_returned(inside<end_of::reply_in> in, peer& p,
                                       std::uint32_t n) noexcept {
  if ((p.credits.returned[in] += n) >= credit::lease_messages) [[unlikely]]
    tell_returned(in, p);
}

/// note_returned() from outside reply_in. False: another thread is inside, and no credit was noted.
inline bool credit_flow::try_note_returned(peer& p, std::uint32_t n, std::uint32_t tag) noexcept {
  const auto in = p.reply_in.try_enter(tag);
  if (!in) [[unlikely]]
    return false;
  note_returned(*in, p, n);
  p.reply_in.leave(tag);
  return true;
}

/// Called when a message came from p that tells more of credits than the number returned, or that
/// is a message of credits alone.
inline void credit_flow::absorb_credits(peer& p, const wire::header& h, std::uint32_t returned,
                                        std::uint32_t granted, std::uint32_t tag,
                                        reply_right at) noexcept {
  settle_returned(p, tag, at);  // before an epoch ends
  const bool epoch = credit::credit_byte::decode(h.credit).end_epoch;
  if (p.home->ledger->on_credits(p.rank, returned, granted, epoch) != status::ok) [[unlikely]]
    peer_failed(p, malformed);
}
/// The same for a reply, whose field XXX says what was granted.
inline void credit_flow::absorb_reply(peer& p, const wire::header& h, std::uint32_t tag,
                                      reply_right at) noexcept {
  absorb_credits(p, h, h.chunk, credit::credit_byte::decode(h.credit).need, tag, at);
}

/// Most payload bytes of a Medium that costs one credit with any arguments that fit a slot.
inline constexpr std::size_t cheap_medium =
    wire::credit_bytes - wire::packed_bytes(nic::shm::slot_body, 0);
static_assert(cheap_medium % 8 == 0);

// The caller is inside no end of a queue, or inside one that no thread waits for (I4).
inline void core::call_handler(const handler_entry& e, token_state& t, const std::byte* args,
                               std::byte* payload, std::size_t bytes) noexcept {
  PENSTOCK_ASSERT(running == nullptr, ==, true);  // (I4): no handler inside another
  PENSTOCK_ASSERT(e.call != nullptr, ==, true);
  running = &t;
  token tok = t.make();
  PENSTOCK_PROBE(handler_in, t.from != nullptr ? t.from->rank : rank_, t.header.handler,
                 t.header.kind_args, bytes, t.request);
  e.call(e.context, tok, reinterpret_cast<const std::uint32_t*>(args), payload, bytes);
  PENSTOCK_PROBE(handler_out, t.header.handler);
  running = nullptr;
  if (t.from != nullptr) tsan_tell_peer(t.from);
}

/// Counts a message of kind k whose handler has run; plain handlers are counted elsewhere.
inline void core::count_run(const token_state& t, wire::kind k, std::size_t bytes) noexcept {
  peer_counts& c = t.from != nullptr ? t.from->counts : channel(rank_, my_tag()).counts;
  (t.request ? c.handled : c.answered).note_shared(k, bytes, t.header.system());
}

inline bool core::run_handler(token_state& t, codec::parts at, std::uint32_t chunk,
                              std::size_t large) noexcept {
  return run_handler(t, at, chunk, large, [](wire::kind, std::size_t) { return true; });
}

// Finds the payload of a Long in the segment, and copies there what has travelled along. False: the
// bytes are malformed.
[[gnu::always_inline]] inline bool core::find_long(const token_state& t, codec::parts& at,
                                                   std::size_t& bytes) noexcept {
  wire::long_block lb;
  std::memcpy(&lb, at.fixed, sizeof lb);
  at.fixed += sizeof lb;
  const auto own = segment();
  const std::uint64_t offset = lb.dest - reinterpret_cast<std::uintptr_t>(own.data());
  if (lb.bytes != 0 && (offset > own.size() || lb.bytes > own.size() - offset)) [[unlikely]]
    return false;
  auto* const place = reinterpret_cast<std::byte*>(lb.dest);  // unchecked where bytes is 0
  if (t.header.kind() == wire::kind::packed_long) {
    if (lb.bytes != t.header.length) [[unlikely]]
      return false;
    if (lb.bytes != 0) {
      if (t.from != nullptr)
        tsan_hear_peer(t.from);  // the sender knows that its last payload there has been read
      std::memcpy(place, at.payload, lb.bytes);
    }
  }
  at.payload = place;
  bytes = lb.bytes;
  return true;
}

template <class Counts>
bool core::run_handler(token_state& t, codec::parts at, std::uint32_t chunk, std::size_t large,
                       Counts&& counts) noexcept {
  const wire::header h = t.header;
  const wire::kind k = h.kind();
  if (h.nargs() > max_args) [[unlikely]]
    return false;
  if (h.system() && h.handler >= system_handlers) [[unlikely]]
    return false;
  const handler_entry& e = handlers_.of(h.handler, h.system());
  if (e.call == nullptr || (e.words != any_args && e.words != h.nargs())) [[unlikely]]
    return false;
  std::size_t bytes = h.length;
  bool known = false;  // a peer may send the value that is no kind
  switch (k) {
    case wire::kind::short_:
      known = true;
      bytes = 0;
      break;
    case wire::kind::medium:
      known = h.length <= max_eager;
      if (large != 0) [[unlikely]]
        bytes = large;
      break;
    case wire::kind::long_:
    case wire::kind::packed_long:
      known = find_long(t, at, bytes);
      break;
    case wire::kind::credits:
    case wire::kind::system:
    case wire::kind::large:  // these have no handler: they are taken before
      break;
  }
  if (!known) [[unlikely]]
    return false;
  if (e.payload != handler_entry::takes::either &&
      (e.payload == handler_entry::takes::payload) != (k != wire::kind::short_)) [[unlikely]]
    return false;
  if (trace_ != nullptr) [[unlikely]]
    call_traced(e, t, at, bytes, chunk);
  else
    call_handler(e, t, at.fixed, at.payload, bytes);
  if (counts(k, bytes)) [[likely]]
    count_run(t, k, bytes);
  return true;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
