#include "lib/gasnet/coll/shared.hpp"

#include <cstring>

#include "lib/base/log.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

void shared_lines::say(std::uint64_t turn, std::uint64_t what, const void* from,
                       std::size_t bytes) noexcept {
  shared_line& mine = line(turn, rank_);
  mine.what = what;
  said_ = turn;
  if (bytes != 0) std::memcpy(mine.bytes, from, bytes);
  // S4 say  release turn  -> S5, S6: the bytes, what this process did before, and that it needs no
  // line of the turn before
  mine.turn.store(turn, std::memory_order_release);
}

// Compares what was said in the turn before. Nobody writes over lines of that turn before this
// member has written for `turn` (S3). Then it looks whether all have said turn + 1 - depth; that
// goes on where the last call has stopped.
bool shared_lines::look_back(std::uint64_t turn) noexcept {
  const std::uint64_t mine = line(turn - 1, rank_).what;
  for (std::uint32_t r = 0; r < size_ && turn > 1; ++r)
    if (const shared_line* const his = heard(turn - 1, r); his != nullptr && his->what != mine) {
      differs_ = {r, mine, his->what};
      return false;
    }
  for (; slowest_ < size_ && turn >= depth_; ++slowest_) {
    // S5 hear  acquire turn  <- S4
    const std::uint64_t his = line(turn + 1, slowest_).turn.load(std::memory_order_acquire);
    if (his == before(before(turn + 1))) {
      look_closer(before(turn + 1), slowest_, his);
      return false;
    }
    if (his != turn + 1 && his != before(turn + 1)) broken();
  }
  slowest_ = 0;
  return true;
}

// Asks whether a line that does not say `turn` is one that is not written yet. If member r has
// written for a later turn, it was written, and is no more.
void shared_lines::look_closer(std::uint64_t turn, std::uint32_t r,
                               std::uint64_t his) const noexcept {
  if (his != before(turn)) broken();
  // S6 hear of the next  acquire turn  <- S4
  if (line(turn + 1, r).turn.load(std::memory_order_acquire) >= turn + 1 &&
      line(turn, r).turn.load(std::memory_order_relaxed) < turn)  // relaxed: written before
    broken();
  // relaxed: this member's own
  if (said_ != 0 && line(said_, rank_).turn.load(std::memory_order_relaxed) != said_) broken();
}

void shared_lines::broken() noexcept {
  fatal(1, "a line of a collective makes no sense: a process of this host has written over it");
}

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
