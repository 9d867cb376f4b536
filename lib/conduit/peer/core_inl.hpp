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
#include "lib/conduit/message/codec.hpp"
#include "lib/conduit/message/delivery.hpp"
#include "lib/conduit/peer/core.hpp"

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

template <class Counts>
bool core::run_handler(token_state& t, codec::parts at, std::uint32_t chunk, std::size_t large,
                       Counts&& counts) noexcept {
  const wire::kind k = t.header.kind();
  const delivery m = deliver(handlers_, t.header, at, large, segment());
  if (m.to == nullptr) [[unlikely]]
    return false;
  if (m.packed != nullptr) {
    if (t.from != nullptr)
      tsan_hear_peer(t.from);  // the sender knows that its last payload there has been read
    std::memcpy(m.at.payload, m.packed, m.bytes);
  }
  if (trace_ != nullptr) [[unlikely]]
    call_traced(*m.to, t, m.at, m.bytes, chunk);
  else
    call_handler(*m.to, t, m.at.fixed, m.at.payload, m.bytes);
  if (counts(k, m.bytes)) [[likely]]
    count_run(t, k, m.bytes);
  return true;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
