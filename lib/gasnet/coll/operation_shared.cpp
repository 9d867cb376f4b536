// Operations that go by a team's shared lines (shared.hpp), and not by a schedule of messages.
#include <cstring>

#include "lib/base/log.hpp"
#include "lib/gasnet/coll/operation.hpp"
#include "lib/gasnet/coll/team.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

// True if the operation may go by shared lines. The answer is the same on all members, since it
// depends only on what they agree on.
bool operation::may_share() const noexcept {
  if (team_->lines() == nullptr || asked_.bytes > most_shared_bytes) return false;
  if (lane_ == team::by_image && team_->images() != team_->size()) return false;
  switch (asked_.what) {
    case kind::barrier:
    case kind::broadcast:
    case kind::gather:
    case kind::gather_all:
    case kind::reduce:
    case kind::reduce_all:
      return true;
    default:
      return false;
  }
}

void operation::begin_shared() {
  const std::uint32_t before = (asked_.sync & in_all) != 0, after = (asked_.sync & out_all) != 0;
  turn_ = team_->lines()->take(before + 1 + after);
  main_turn_ = turn_ + before;
  last_turn_ = main_turn_ + after;
}

// The members whose lines this one needs in its turn.
operation::members operation::needed() const noexcept {
  constexpr members none{0, 0};
  const members all{0, team_->size()};
  if (turn_ != main_turn_) return all;
  const bool is_root = asked_.root == team_->rank();
  switch (asked_.what) {
    case kind::broadcast:
      return is_root ? none : members{asked_.root, asked_.root + 1};
    case kind::gather:
    case kind::reduce:
      return is_root ? all : none;
    default:
      return all;
  }
}

std::uint32_t operation::waits_for() const noexcept {
  return said_ ? needed().first + heard_ : team_->lines()->slowest();
}

bool operation::advance_shared() {
  while (advance_turn()) {
    if (turn_ == last_turn_) return finish();
    ++turn_;
    said_ = false;
    heard_ = 0;
  }
  return false;
}

// Goes on with one turn. True: it is complete.
bool operation::advance_turn() {
  shared_lines& lines = *team_->lines();
  const bool is_main = turn_ == main_turn_;
  if (!said_) {
    if (!lines.may_say(turn_)) {
      if (const auto* const d = lines.differs(); d != nullptr)
        fatal(1, "the last collective over a team of %u was %s, and on rank %u it was %s",
              team_->size(), describe(d->here).c_str(), team_->job_rank(d->rank),
              describe(d->there).c_str());
      return false;
    }
    const bool sends = is_main && (asked_.what != kind::broadcast || asked_.root == team_->rank());
    lines.say(turn_, call_, images_.front().src, sends ? asked_.bytes : 0);
    said_ = true;
  }
  const members from = needed();
  for (; from.first + heard_ < from.end; ++heard_) {
    const std::uint32_t r = from.first + heard_;
    const shared_line* const his = lines.heard(turn_, r);
    if (his == nullptr) return false;
    if (his->what != call_) disagree(r, his->what);
  }
  if (is_main && asked_.bytes != 0) take_lines(from);
  lines.complete(turn_, from.end - from.first == team_->size());
  return true;
}

// Takes the bytes of those members' lines.
void operation::take_lines(const members& from) {
  const shared_lines& lines = *team_->lines();
  const buffers& mine = images_.front();
  const std::size_t bytes = asked_.bytes;
  if (asked_.what == kind::broadcast && asked_.root == team_->rank() && mine.dst != mine.src)
    std::memmove(mine.dst, mine.src, bytes);
  for (std::uint32_t r = from.first; r < from.end; ++r) {
    const std::byte* const his = lines.heard(turn_, r)->bytes;
    if (asked_.what == kind::gather || asked_.what == kind::gather_all) {
      std::memcpy(mine.dst + r * bytes, his, bytes);
    } else if (r == from.first) {
      std::memcpy(mine.dst, his, bytes);
    } else {
      alignas(16) std::byte spoilt[most_shared_bytes];
      std::memcpy(spoilt, his, bytes);
      how_.combine(how_, mine.dst, spoilt, bytes / how_.element_bytes);
      if (how_.result_in_right) std::memcpy(mine.dst, spoilt, bytes);
    }
  }
}

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
