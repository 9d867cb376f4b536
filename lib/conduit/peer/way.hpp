// The ways for messages to travel, and what else follows from a peer's way: one row for each. No
// switch has a default, so the compiler stops at each place that must know a new way: here, and in
// ways/ways.hpp, which has the path of each.
#pragma once

#include <cstdint>

#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// How messages to and from a peer travel. A peer's way is fixed when it begins.
enum class way : std::uint8_t {
  rings,  ///< slots of rings in shared memory: it is on the same host
  verbs,  ///< work requests on queue pairs of the device
};

[[nodiscard]] constexpr bool is_way(unsigned w) noexcept {
  switch (static_cast<way>(w)) {
    case way::rings:
    case way::verbs:
      return true;
  }
  return false;
}

/// The number of ways, which are numbered from 0.
inline constexpr unsigned way_count = [] {
  unsigned n = 0;
  while (is_way(n)) ++n;
  return n;
}();

/// The path of a way: the class that meets the contract of path.hpp.
template <way>
class path_by;

/// What follows from a peer's way.
struct way_facts {
  /// This process can map the peer's memory: puts and gets are copies.
  bool maps_memory;
  /// The lanes to the peer have rings, and the near device holds them where there is one.
  bool has_rings;
  /// Each message to the peer is a work request, with a completion: its queue pairs are known to
  /// the domain's queues, may be taken down when they are idle, and have a lane for Mediums.
  bool posts_messages;
};

[[nodiscard]] constexpr way_facts facts_of(way w) noexcept {
  switch (w) {
    case way::rings:
      return {.maps_memory = true, .has_rings = true, .posts_messages = false};
    case way::verbs:
      return {.maps_memory = false, .has_rings = false, .posts_messages = true};
  }
  __builtin_unreachable();
}

/// The way to this process itself, where `host` is the way to the other ranks of its group.
[[nodiscard]] constexpr way way_to_itself(way host) noexcept { return host; }

}  // namespace penstock::conduit::PENSTOCK_ABI
