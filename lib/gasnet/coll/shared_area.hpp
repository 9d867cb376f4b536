// Where the shared lines of teams lie (shared.hpp): each process has an area for them in the front
// part of its segment, and the first member of a team that has room there makes it the team's. The
// team of all has the front of rank 0's area.
//
// Room that a team has left may only be used again when no member reads there any more. So each
// member that forgets the team says so behind the lines, and the owner takes the room back when all
// have. Until then, and where no member has room, teams go by messages.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lib/gasnet/coll/shared.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

/// A process's area: units of 16 lines, and for each a line in which the members of the team whose
/// lines begin there say that they have left.
struct alignas(cache_line) shared_area {
  static constexpr std::uint32_t unit_lines = 16, units = 15;
  struct alignas(cache_line) leavers {
    std::atomic<std::uint8_t> left[cache_line]{};
  };
  shared_line lines[units * unit_lines];
  leavers behind[units];
};
static_assert(most_sharing <= cache_line);

/// The room of a team's lines: units of the area of the job's rank `owner`.
struct shared_room {
  std::uint32_t owner = 0;
  std::uint32_t first = 0, units = 0;
};
constexpr std::uint32_t units_for(std::uint32_t size) noexcept {
  return (shared_lines::needed(size) + shared_area::unit_lines - 1) / shared_area::unit_lines;
}
static_assert(units_for(16) <= shared_area::units && units_for(most_sharing) <= shared_area::units);

/// The lines of a team, as one of its members holds them. The end of the object is that member's
/// goodbye.
class shared_hold {
 public:
  shared_hold(const shared_room& room, shared_area& there, std::uint32_t size,
              std::uint32_t rank) noexcept
      : lines_(there.lines + std::size_t{room.first} * shared_area::unit_lines, size, rank),
        goodbye_(there.behind[room.first].left[rank]) {}
  shared_hold(const shared_hold&) = delete;
  shared_hold& operator=(const shared_hold&) = delete;
  ~shared_hold() {
    // L1 leave  release left  -> L2: the last line has been read
    goodbye_.store(1, std::memory_order_release);
  }
  [[nodiscard]] shared_lines& lines() noexcept { return lines_; }

 private:
  shared_lines lines_;
  std::atomic<std::uint8_t>& goodbye_;
};

namespace shared {

/// Called before the first barrier of all processes: true if this process shares memory with rank
/// 0, whose segment has the lines of the team of all. It is not connected for that yet.
bool prepare() noexcept;
/// Says whether all processes can.
void use(bool all) noexcept;
/// The lines of the team of all, which connects to rank 0; null: it has none.
std::unique_ptr<shared_hold> for_world();

// To be called inside the engine of collectives, by the owner of an area.
/// The units of this process's area (a bit for each) that a new team may have. They stay set aside
/// until settle().
std::uint32_t offer() noexcept;
/// Says that a team of `size` has taken that room of the offer (null: none has), and gives the rest
/// back.
void settle(std::uint32_t offered, const shared_room* taken, std::uint32_t size);
/// Takes that room back, which no member has used.
void take_back(const shared_room& room) noexcept;

/// Chooses the room of a new team: each member's job rank and offer, in the team's order, which is
/// the same on all. Null: nobody has enough, or they do not share memory.
struct offered {
  std::uint32_t rank, units;
};
std::optional<shared_room> choose(const std::vector<offered>& members) noexcept;
/// The area of a rank, where it is mapped here; null: it cannot be. May wait for a connection, so
/// not inside the engine of collectives.
shared_area* area_of(std::uint32_t rank) noexcept;

}  // namespace shared
}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
