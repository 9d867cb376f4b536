// How one-sided operations wait for what they are short of. Only rma*.cpp include it.
#pragma once

#include "lib/conduit/engine.hpp"
#include "lib/conduit/one_sided/rma.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

// The size of a slot, in which the bytes of small gets and of atomics land before they are copied.
inline constexpr std::uint32_t slot_bytes = 64;

inline domain& transfers::home() noexcept {
  return everything_ ? core_.domains()[0] : core_.my_domain(thread_tag());
}

// Transfers of all domains take bounce chunks from the first domain's pool.
inline queues::chunk_pool& transfers::chunks() noexcept {
  return *core_.domains()[0].queues->request_chunks;
}

inline peer& transfers::channel(rank_id r) noexcept { return core_.begun(home().peers[r]); }

// Repeats attempt() while it is short of something, and polls in between.
template <class Try>
status transfers::retry(Try&& attempt) noexcept {
  status s = attempt();
  if (!is_short(s)) [[likely]]
    return s;
  const long_wait named(core_.waits(), wait_for::transfer_room);
  for (unsigned empty = 0; is_short(s); s = attempt()) {
    if (reap() != 0) continue;
    if (const status w = engine_.wait_step(empty); is_failure(w)) return w;
  }
  return s;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
