// Small operations from all to all, by memory that all share: each process writes what it has into
// its own line, and reads the others' when they are there. Where all processes are on one host and
// map each other's segments, and are few: the lines lie in the front part of rank 0's segment.
//
// Operations go one by one, in turns. (S1) A process writes for turn t + 1 when its turn t is
// complete. So it writes for t + 2 after all have written for t + 1, thus after all have read what
// is of turn t: two sets of lines, by the turn's parity, are enough.
//
// One exchange of lines, where trees and dissemination take a message a step. 8 bytes: between two
// processes 1.02 times a bare exchange of words, by messages 2.16 times; eight processes on two
// cores give the core away once instead of three times, and take 1.4 barriers instead of 5.3.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/base/mode.hpp"
#include "penstock/mode.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

inline constexpr std::size_t most_shared_bytes = 48;
inline constexpr std::uint32_t most_sharing = 32;

/// What one process says in a turn.
struct alignas(cache_line) shared_line {
  std::atomic<std::uint64_t> turn{0};
  std::uint64_t what = 0;  ///< kind of operation and bytes, for all to compare
  std::byte bytes[most_shared_bytes] = {};
};
struct shared_lines {
  shared_line at[2][most_sharing];
};
static_assert(sizeof(shared_lines) == 4096);

namespace shared {

/// Before the first barrier of all: true if this process has the lines.
bool prepare() noexcept;
/// All have them, or not all.
void use(bool all) noexcept;
[[nodiscard]] bool usable() noexcept;

// Inside the engine of collectives.
/// The turn of the operation that begins now.
std::uint64_t next_turn() noexcept;
/// False: the one before is not complete.
[[nodiscard]] bool say(std::uint64_t turn, std::uint64_t what, const void* from,
                       std::size_t bytes) noexcept;
/// What rank r says; null: not yet.
[[nodiscard]] const shared_line* heard(std::uint64_t turn, std::uint32_t r) noexcept;
void complete(std::uint64_t turn) noexcept;

}  // namespace shared
}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
