#include "lib/gasnet/coll/shared_call.hpp"

#include <cstring>

#include "lib/base/log.hpp"
#include "lib/gasnet/coll/operation.hpp"
#include "lib/gasnet/coll/team.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

bool shared_call::possible(const team& t, bool by_image, const request& r) noexcept {
  if (t.lines() == nullptr || r.bytes > most_shared_bytes) return false;
  if (by_image && t.images() != t.size()) return false;
  switch (r.what) {
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

shared_call::shared_call(team& t, std::uint32_t number, const request& r, call_word call) noexcept
    : call_(call), number_(number) {
  const std::uint32_t before = (r.sync & in_all) != 0, after = (r.sync & out_all) != 0;
  turn_ = t.lines()->take(before + 1 + after);
  main_turn_ = turn_ + before;
  last_turn_ = main_turn_ + after;
}

// The members whose lines this one needs in its turn.
shared_call::members shared_call::needed(const team& t, const request& r) const noexcept {
  constexpr members none{0, 0};
  const members all{0, t.size()};
  if (turn_ != main_turn_) return all;
  const bool is_root = r.root == t.rank();
  switch (r.what) {
    case kind::broadcast:
      return is_root ? none : members{r.root, r.root + 1};
    case kind::gather:
    case kind::reduce:
      return is_root ? all : none;
    default:
      return all;
  }
}

std::uint32_t shared_call::waits_for(const team& t, const request& r) const noexcept {
  return said_ ? needed(t, r).first + heard_ : t.lines()->slowest();
}

bool shared_call::advance(team& t, const request& r) {
  while (advance_turn(t, r)) {
    if (turn_ == last_turn_) return true;
    ++turn_;
    said_ = false;
    heard_ = 0;
  }
  return false;
}

// Goes on with one turn. True: it is complete.
bool shared_call::advance_turn(team& t, const request& r) {
  shared_lines& lines = *t.lines();
  const bool is_main = turn_ == main_turn_;
  if (!said_) {
    if (!lines.may_say(turn_)) {
      if (const auto* const d = lines.differs(); d != nullptr)
        fatal(1, "the last collective over a team of %u was %s, and on rank %u it was %s", t.size(),
              describe(d->here).c_str(), t.job_rank(d->rank), describe(d->there).c_str());
      return false;
    }
    const bool sends = is_main && (r.what != kind::broadcast || r.root == t.rank());
    lines.say(turn_, call_, r.src, sends ? r.bytes : 0);
    said_ = true;
  }
  const members from = needed(t, r);
  for (; from.first + heard_ < from.end; ++heard_) {
    const std::uint32_t m = from.first + heard_;
    const shared_line* const his = lines.heard(turn_, m);
    if (his == nullptr) return false;
    if (his->what != call_) disagree(t, number_, call_, m, his->what);
  }
  if (is_main && r.bytes != 0) take_lines(t, r, from);
  lines.complete(turn_, from.end - from.first == t.size());
  return true;
}

// Takes the bytes of those members' lines.
void shared_call::take_lines(const team& t, const request& r, const members& from) const {
  const shared_lines& lines = *t.lines();
  auto* const dst = static_cast<std::byte*>(r.dst);
  if (r.what == kind::broadcast && r.root == t.rank() && dst != r.src)
    std::memmove(dst, r.src, r.bytes);
  for (std::uint32_t m = from.first; m < from.end; ++m) {
    const std::byte* const his = lines.bytes(turn_, m);
    if (r.what == kind::gather || r.what == kind::gather_all) {
      std::memcpy(dst + m * r.bytes, his, r.bytes);
    } else if (m == from.first) {
      std::memcpy(dst, his, r.bytes);
    } else {
      alignas(16) std::byte spoilt[most_shared_bytes];
      std::memcpy(spoilt, his, r.bytes);
      r.how->combine(*r.how, dst, spoilt, r.bytes / r.how->element_bytes);
      if (r.how->result_in_right) std::memcpy(dst, spoilt, r.bytes);
    }
  }
}

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
