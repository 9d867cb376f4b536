#include "lib/gasnet/coll/shared_area.hpp"

#include <algorithm>
#include <new>

#include "lib/base/immortal.hpp"
#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll::shared {
namespace {

// (inside the engine of collectives)
struct own_area {
  static constexpr std::uint32_t all = (1u << shared_area::units) - 1;
  std::uint32_t free = all;
  struct team {
    shared_room room;
    std::uint32_t size;
  };
  std::vector<team> teams;
};
own_area& own() {
  static immortal<own_area> a;
  return a.value;
}

bool world_shares = false;

constexpr std::uint32_t bits(std::uint32_t first, std::uint32_t count) noexcept {
  return ((1u << count) - 1) << first;
}

bool allowed() noexcept { return !self.everything && self.options.coll_shared; }

// True if all members of the team have left; its lines are then as new ones.
bool is_over(const own_area::team& t, shared_area& here) noexcept {
  shared_area::leavers& behind = here.behind[t.room.first];
  for (std::uint32_t r = 0; r < t.size; ++r)
    // L2 left  acquire left  <- L1 (shared_area.hpp)
    if (behind.left[r].load(std::memory_order_acquire) == 0) return false;
  for (std::uint32_t r = 0; r < t.size; ++r)
    behind.left[r].store(0, std::memory_order_relaxed);  // the next team learns of it by messages
  for (std::uint32_t i = 0; i < t.room.units * shared_area::unit_lines; ++i)
    new (&here.lines[t.room.first * shared_area::unit_lines + i]) shared_line;
  return true;
}

}  // namespace

shared_area* area_of(std::uint32_t rank) noexcept {
  std::byte* const front = self.engine->segment_here(rank);
  if (front == nullptr) return nullptr;
  // Fresh pages of a segment are zero, and a line with turn 0 belongs to no turn.
  return std::launder(reinterpret_cast<shared_area*>(front + sizeof(conduit::barrier_slots)));
}

bool prepare() noexcept {
  const std::uint32_t size = self.engine->size();
  if (!allowed() || size > most_sharing) return false;
  for (const gasnet_nodeinfo_t& n : self.nodes)
    if (n.host != self.nodes.front().host) return false;
  return self.engine->rank() == 0 || self.engine->maps(0);
}

void use(bool all) noexcept {
  world_shares = all;
  if (all && self.engine->rank() == 0) own().free &= ~bits(0, units_for(self.engine->size()));
}

std::unique_ptr<shared_hold> for_world() {
  if (!world_shares) return nullptr;
  // All have agreed on these lines, so there is no other way from here on.
  shared_area* const there = area_of(0);
  if (there == nullptr) {
    if (self.membership->ended()) return nullptr;
    fatal(1, "the lines of collectives, in rank 0's segment, cannot be mapped");
  }
  return std::make_unique<shared_hold>(shared_room{}, *there, self.engine->size(),
                                       self.engine->rank());
}

std::uint32_t offer() noexcept {
  if (!allowed()) return 0;
  own_area& a = own();
  std::erase_if(a.teams, [&](const own_area::team& t) {
    if (!is_over(t, *area_of(self.engine->rank()))) return false;
    a.free |= bits(t.room.first, t.room.units);
    return true;
  });
  return std::exchange(a.free, 0u);
}

void settle(std::uint32_t offered, const shared_room* taken, std::uint32_t size) {
  own_area& a = own();
  a.free |= offered;
  if (taken == nullptr) return;
  a.free &= ~bits(taken->first, taken->units);
  a.teams.push_back({*taken, size});
}

void take_back(const shared_room& room) noexcept {
  own_area& a = own();
  std::erase_if(a.teams, [&](const own_area::team& t) { return t.room.first == room.first; });
  a.free |= bits(room.first, room.units);
}

std::optional<shared_room> choose(const std::vector<offered>& members) noexcept {
  const auto size = static_cast<std::uint32_t>(members.size());
  if (size < 2 || size > most_sharing) return std::nullopt;
  for (const offered& m : members)
    if (self.nodes[m.rank].supernode != self.nodes[members.front().rank].supernode)
      return std::nullopt;
  const std::uint32_t units = units_for(size);
  for (const offered& m : members)
    for (std::uint32_t first = 0; first + units <= shared_area::units; ++first)
      if (const std::uint32_t wanted = bits(first, units); (m.units & wanted) == wanted)
        return shared_room{m.rank, first, units};
  return std::nullopt;
}

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll::shared
