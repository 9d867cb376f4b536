// Hot bodies that more than one part of the engine inlines: what a poll looks at, and the run of a
// handler. Only parts of the engine include it.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "lib/base/assert.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/cross_process.hpp"
#include "lib/base/probes.hpp"
#include "lib/conduit/channel/core.hpp"
#include "lib/conduit/message/codec.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

inline poller& core::my_poller(std::uint32_t tag, const domain& d) noexcept {
  auto& mine = pollers_[tag - 1];
  if (!mine) [[unlikely]]
    mine = std::make_unique<poller[]>(domain_count_);
  return mine[d.index];
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
