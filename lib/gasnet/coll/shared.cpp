#include "lib/gasnet/coll/shared.hpp"

#include <cstring>
#include <new>

#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll::shared {
namespace {

shared_lines* lines = nullptr;
bool used = false;
std::uint64_t begun = 0, done = 0;  // turns

}  // namespace

bool prepare() noexcept {
  if (self.everything || self.engine->size() > most_sharing || !self.options.coll_shared)
    return false;
  for (const gasnet_nodeinfo_t& n : self.nodes)
    if (n.host != self.nodes.front().host) return false;
  std::byte* const front = self.engine->segment_here(0);
  if (front == nullptr) return false;
  // Fresh pages of a segment are zero, and a line with turn 0 belongs to no turn.
  lines = std::launder(reinterpret_cast<shared_lines*>(front + sizeof(conduit::barrier_slots)));
  return true;
}

void use(bool all) noexcept { used = all && lines != nullptr; }
bool usable() noexcept { return used; }

std::uint64_t next_turn() noexcept { return ++begun; }

bool say(std::uint64_t turn, std::uint64_t what, const void* from, std::size_t bytes) noexcept {
  if (done + 1 != turn) return false;
  shared_line& mine = lines->at[turn & 1][self.engine->rank()];
  mine.what = what;
  if (bytes != 0) std::memcpy(mine.bytes, from, bytes);
  // S2 say  release turn  -> S3: the bytes, and what this process did before
  mine.turn.store(turn, std::memory_order_release);
  return true;
}

const shared_line* heard(std::uint64_t turn, std::uint32_t r) noexcept {
  const shared_line& his = lines->at[turn & 1][r];
  // S3 hear  acquire turn  <- S2
  return his.turn.load(std::memory_order_acquire) == turn ? &his : nullptr;
}

void complete(std::uint64_t turn) noexcept { done = turn; }

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll::shared
