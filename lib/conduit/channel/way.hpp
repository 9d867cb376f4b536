// The ways for messages to travel, and what else follows from a peer's way. No switch has a
// default, so that the compiler finds each place that must know a new way; ways/ways.hpp is the
// only other one.
#pragma once

#include <cstdint>

#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// How messages to and from a peer travel. A peer's way is fixed when it begins.
enum class way : std::uint8_t {
  rings,  ///< slots of rings in shared memory: it is on the same host
  verbs,  ///< work requests on queue pairs of the device
};

inline constexpr way all_ways[] = {way::rings, way::verbs};

/// The path of a way: the class that meets the contract of path.hpp.
template <way>
class path_by;

/// True if this process can map the memory of a peer of that way: puts and gets are copies.
[[nodiscard]] constexpr bool maps_memory(way w) noexcept {
  switch (w) {
    case way::rings:
      return true;
    case way::verbs:
      return false;
  }
  __builtin_unreachable();
}

/// True if the lanes to such a peer have rings, and the near device holds them where there is one.
[[nodiscard]] constexpr bool has_rings(way w) noexcept {
  switch (w) {
    case way::rings:
      return true;
    case way::verbs:
      return false;
  }
  __builtin_unreachable();
}

/// True if each message to such a peer is a work request, with a completion: its queue pairs are
/// known to the domain's queues, may be taken down when they are idle, and have a lane for Mediums.
[[nodiscard]] constexpr bool posts_messages(way w) noexcept {
  switch (w) {
    case way::rings:
      return false;
    case way::verbs:
      return true;
  }
  __builtin_unreachable();
}

/// The way to this process itself, where `host` is the way to the other ranks of its group.
[[nodiscard]] constexpr way way_to_itself(way host) noexcept { return host; }

}  // namespace penstock::conduit::PENSTOCK_ABI
