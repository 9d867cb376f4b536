// Small operations by memory that all members of a team share: a member writes its bytes into a
// line of its own, and those that need them read the line when it is written. It is used where few
// members share the memory of a host. The lines lie in the front part of one member's segment
// (shared_area.hpp).
//
// Operations go one by one, in turns, and each member writes its line in every turn, where it has
// no bytes, too. Turn t has the lines of the set t mod depth.
//
// (S1) A member writes for turn t + 1 when its turn t is complete: it has read what it needs of t.
// (S2) So a member that has seen a line of turn t knows that its writer needs no line of t - 1.
// (S3) A member writes for turn t when it has seen lines of turn t + 1 - depth, or of later turns,
// from all. So the line that it writes over, of turn t - depth, has been read by all. Where it has
// read all lines of turn t - 1 anyway, that needs no look of its own.
//
// So a line of turn t is either written, or says what it said in turn t - depth. Another process
// that writes over lines is noticed by a member that waits for the line, or for others after it has
// written it, and the job ends (look_closer). One word is not noticed: turn t - depth where t was,
// in the line of a member that begins no further operation.
//
// An operation is one exchange of lines, where trees and dissemination take a message for each
// step. Eight processes on two cores yield the core once instead of three times.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/base/mode.hpp"
#include "penstock/mode.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

inline constexpr std::size_t most_shared_bytes = 48;
inline constexpr std::uint32_t most_sharing = 32;

/// What a member writes in a turn.
struct alignas(cache_line) shared_line {
  std::atomic<std::uint64_t> turn{0};
  std::uint64_t what = 0;  ///< the call, for all to compare (call_word.hpp)
  std::byte bytes[most_shared_bytes] = {};
};
static_assert(sizeof(shared_line) == cache_line);

/// One member's view of its team's lines. One thread at a time calls its functions, inside the
/// engine of collectives.
class shared_lines {
 public:
  /// at: zero at first; needed(size) lines. size: at most most_sharing.
  shared_lines(shared_line* at, std::uint32_t size, std::uint32_t rank) noexcept
      : at_(at), size_(size), rank_(rank), depth_(depth_of(size)) {}

  static constexpr std::uint32_t depth_of(std::uint32_t size) noexcept {
    return size <= 16 ? 8 : 4;
  }
  static constexpr std::uint32_t needed(std::uint32_t size) noexcept {
    return size * depth_of(size);
  }

  /// The first of the next `turns` turns, which are the caller's.
  std::uint64_t take(std::uint32_t turns) noexcept {
    const std::uint64_t first = begun_ + 1;
    begun_ += turns;
    return first;
  }
  /// True if this member's line of that turn may be written, by S1 and S3.
  [[nodiscard]] bool may_say(std::uint64_t turn) noexcept {
    return done_ + 1 == turn && (seen_ + 1 == turn || look_back(turn));
  }
  /// Writes it.
  void say(std::uint64_t turn, std::uint64_t what, const void* from, std::size_t bytes) noexcept;
  /// The line of member r; null: it is not written yet.
  [[nodiscard]] const shared_line* heard(std::uint64_t turn, std::uint32_t r) const noexcept {
    const shared_line& his = line(turn, r);
    // S5 hear  acquire turn  <- S4
    const std::uint64_t his_turn = his.turn.load(std::memory_order_acquire);
    if (his_turn == turn) [[likely]]
      return &his;
    look_closer(turn, r, his_turn);
    return nullptr;
  }
  /// The bytes of a line that has been heard.
  [[nodiscard]] const std::byte* bytes(std::uint64_t turn, std::uint32_t r) const noexcept {
    return line(turn, r).bytes;
  }
  /// This member has read what it needs. by_all: the lines of all members.
  void complete(std::uint64_t turn, bool by_all) noexcept {
    done_ = turn;
    if (by_all) seen_ = turn;
  }

  /// The member for which may_say() waits.
  [[nodiscard]] std::uint32_t slowest() const noexcept { return slowest_; }
  /// A member that has said something else in the turn before. By then each of the two has seen the
  /// other's line, or will see it in its next turn. Null: there is none, as far as may_say() saw.
  struct difference {
    std::uint32_t rank;
    std::uint64_t here, there;  ///< what
  };
  [[nodiscard]] const difference* differs() const noexcept {
    return differs_.here != differs_.there ? &differs_ : nullptr;
  }

 private:
  [[nodiscard]] shared_line& line(std::uint64_t turn, std::uint32_t r) const noexcept {
    return at_[(turn & (depth_ - 1)) * size_ + r];
  }
  bool look_back(std::uint64_t turn) noexcept;
  // What a line of that turn says before it is written: the turn of the set's last use.
  [[nodiscard]] std::uint64_t before(std::uint64_t turn) const noexcept {
    return turn > depth_ ? turn - depth_ : 0;
  }
  void look_closer(std::uint64_t turn, std::uint32_t r, std::uint64_t his) const noexcept;
  [[noreturn, gnu::cold]] static void broken() noexcept;

  shared_line* const at_;
  const std::uint32_t size_, rank_, depth_;
  std::uint32_t slowest_ = 0;  // all before it have said the turn that look_back() asks for
  std::uint64_t begun_ = 0, done_ = 0, said_ = 0;
  std::uint64_t seen_ = 0;  // the last turn of which this member has read all lines
  difference differs_{0, 0, 0};
};

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
