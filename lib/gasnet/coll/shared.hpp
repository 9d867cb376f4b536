// Small operations from all to all, by memory that all share: each process writes its bytes into a
// line of its own, and reads the others' lines when they are written. It is used where few
// processes are on one host and map each other's segments; the lines lie in the front part of rank
// 0's segment.
//
// Operations go one by one, in turns. (S1) A process writes for turn t + 1 when its turn t is
// complete. So it writes for t + 2 after all have written for t + 1, and thus after all have read
// the lines of turn t: two sets of lines, by the turn's parity, are enough.
//
// An operation is one exchange of lines, where trees and dissemination take a message for each
// step. 8 bytes between two processes take 1.02 times a bare exchange of words, and by messages
// 2.16 times. Eight processes on two cores yield the core once instead of three times, and take 1.4
// barriers instead of 5.3.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/base/mode.hpp"
#include "penstock/mode.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

inline constexpr std::size_t most_shared_bytes = 48;
inline constexpr std::uint32_t most_sharing = 32;

/// What a process writes in a turn.
struct alignas(cache_line) shared_line {
  std::atomic<std::uint64_t> turn{0};
  std::uint64_t what = 0;  ///< the call, for all to compare (call_word.hpp)
  std::byte bytes[most_shared_bytes] = {};
};
struct shared_lines {
  shared_line at[2][most_sharing];
};
static_assert(sizeof(shared_lines) == 4096);

namespace shared {

/// Called before the first barrier of all processes: true if this process can reach the lines.
bool prepare() noexcept;
/// Says whether all processes can.
void use(bool all) noexcept;
[[nodiscard]] bool usable() noexcept;

// To be called inside the engine of collectives.
/// The turn of the operation that begins now.
std::uint64_t next_turn() noexcept;
/// Writes this process's line. False: the turn before is not complete.
[[nodiscard]] bool say(std::uint64_t turn, std::uint64_t what, const void* from,
                       std::size_t bytes) noexcept;
/// The line of rank r; null: it is not written yet.
[[nodiscard]] const shared_line* heard(std::uint64_t turn, std::uint32_t r) noexcept;
void complete(std::uint64_t turn) noexcept;

}  // namespace shared
}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
