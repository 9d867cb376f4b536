// How one-sided operations wait for what they are short of; for rma*.cpp.
#pragma once

#include "lib/conduit/engine.hpp"
#include "lib/conduit/one_sided/rma.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

// Gets and atomics whose bytes land in memory of ours first: how large these slots are.
inline constexpr std::uint32_t slot_bytes = 64;

inline domain& transfers::home() noexcept {
  return everything_ ? engine_.domains_[0] : engine_.my_domain(thread_tag());
}

// Bounce chunks are the first domain's, for all.
inline queues::chunk_pool& transfers::chunks() noexcept {
  return *engine_.domains_[0].queues->request_chunks;
}

inline peer& transfers::channel(rank_id r) noexcept { return home().peers[r]; }

// Repeats what is short of something, polling in between.
template <class Try>
status transfers::retry(Try&& attempt) noexcept {
  status s = attempt();
  if (!is_short(s)) [[likely]]
    return s;
  const long_wait named(engine_.waits(), wait_for::transfer_room);
  for (unsigned empty = 0; is_short(s); s = attempt()) {
    if (reap() != 0) continue;
    if (const status w = engine_.wait_step(empty); is_failure(w)) return w;
  }
  return s;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
