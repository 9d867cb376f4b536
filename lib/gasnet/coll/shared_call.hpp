// An operation that goes by a team's shared lines (shared.hpp), and not by a schedule of messages:
// how far it has come. It is small and needs no memory, so a call that finds nothing in flight over
// its team begins one on its stack, and makes an operation of it only if the other members are
// late (collective.cpp).
//
// One thread at a time touches it, inside the engine of collectives. A member writes one line in a
// turn and reads one of each member that it hears; there are no RMWs.
#pragma once

#include <cstdint>

#include "lib/gasnet/coll/call_word.hpp"
#include "penstock/mode.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

class team;
struct request;

class shared_call {
 public:
  /// True if the call may go by shared lines. The answer is the same on all members, since it
  /// depends only on what they agree on.
  [[nodiscard]] static bool possible(const team& t, bool by_image, const request& r) noexcept;

  /// Goes by no lines.
  shared_call() = default;
  /// Takes the next turns of the team's lines. number: of the operation.
  shared_call(team& t, std::uint32_t number, const request& r, call_word call) noexcept;

  [[nodiscard]] bool begun() const noexcept { return turn_ != 0; }
  /// Goes on as far as it can. True: it is complete. t and r as at its beginning, where r.how may
  /// be a copy by now.
  bool advance(team& t, const request& r);
  /// The member, by its rank in the team, for which it waits.
  [[nodiscard]] std::uint32_t waits_for(const team& t, const request& r) const noexcept;

 private:
  struct members {
    std::uint32_t first, end;  // ranks in the team
  };
  [[nodiscard]] members needed(const team& t, const request& r) const noexcept;
  bool advance_turn(team& t, const request& r);
  void take_lines(const team& t, const request& r, const members& from) const;

  // The turn that it is in, or 0. Up to three turns: a barrier with in_all, the operation, a
  // barrier with out_all.
  std::uint64_t turn_ = 0;
  std::uint64_t main_turn_ = 0, last_turn_ = 0;
  call_word call_ = 0;
  std::uint32_t number_ = 0;
  std::uint32_t heard_ = 0;  // of the members that it needs
  bool said_ = false;
};

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
