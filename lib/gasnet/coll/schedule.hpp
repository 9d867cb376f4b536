// The steps of one process in a collective operation: rounds of sends, receives, copies and
// combinations. A round begins when all of the one before is done. The steps of a round begin in
// order; sends and receives then go on at the same time. Receives that combine what comes do so one
// after the other, in their order. algorithms.cpp and reductions.cpp write schedules, and
// operation.cpp carries them out. A schedule knows no messages, and members of a team only by rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "penstock/mode.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

enum class act : std::uint8_t {
  send,
  receive,
  receive_left,   ///< and combines: `to` becomes to ∘ what comes
  receive_right,  ///< and combines: `to` becomes what comes ∘ to
  copy,
  combine_left,
  combine_right
};
constexpr bool receives(act a) noexcept {
  return a == act::receive || a == act::receive_left || a == act::receive_right;
}

struct step {
  act what;
  bool matched;        ///< a receive whose message has come
  std::uint32_t peer;  ///< rank in the team
  std::uint32_t tag;   ///< the same at sender and receiver; names one message between them
  std::byte* to;       ///< the destination of a receive or copy; the result of a combination
  const std::byte* from;
  std::size_t bytes;
};

class schedule {
 public:
  void clear() noexcept {
    steps_.clear();
    ends_.clear();
    scratch_.clear();
  }
  void send(std::uint32_t peer, std::uint32_t tag, const void* from, std::size_t bytes) {
    add({act::send, false, peer, tag, nullptr, static_cast<const std::byte*>(from), bytes});
  }
  void receive(std::uint32_t peer, std::uint32_t tag, void* to, std::size_t bytes) {
    add({act::receive, false, peer, tag, static_cast<std::byte*>(to), nullptr, bytes});
  }
  /// Receives that combine, chunk by chunk as the bytes come.
  void receive_left(std::uint32_t peer, std::uint32_t tag, void* to, std::size_t bytes) {
    add({act::receive_left, false, peer, tag, static_cast<std::byte*>(to), nullptr, bytes});
  }
  void receive_right(std::uint32_t peer, std::uint32_t tag, void* to, std::size_t bytes) {
    add({act::receive_right, false, peer, tag, static_cast<std::byte*>(to), nullptr, bytes});
  }
  /// Adds a copy, unless the bytes are at `to` already.
  void copy(void* to, const void* from, std::size_t bytes) {
    if (to != from && bytes != 0)
      add({act::copy, false, 0, 0, static_cast<std::byte*>(to), static_cast<const std::byte*>(from),
           bytes});
  }
  /// `to` becomes to ∘ from, and `from` is overwritten.
  void combine_left(void* to, const void* from, std::size_t bytes) {
    add({act::combine_left, false, 0, 0, static_cast<std::byte*>(to),
         static_cast<const std::byte*>(from), bytes});
  }
  /// `to` becomes from ∘ to, and `from` is overwritten.
  void combine_right(void* to, const void* from, std::size_t bytes) {
    add({act::combine_right, false, 0, 0, static_cast<std::byte*>(to),
         static_cast<const std::byte*>(from), bytes});
  }
  /// Steps that are added after this call begin when all before it are done.
  void next_round() {
    const auto n = static_cast<std::uint32_t>(steps_.size());
    if (n != (ends_.empty() ? 0 : ends_.back())) ends_.push_back(n);
  }
  /// Memory for intermediate bytes, which lasts until clear() and is aligned for any type.
  std::byte* scratch(std::size_t bytes) {
    scratch_.emplace_back(new std::byte[bytes + 1]);
    return scratch_.back().get();
  }

  [[nodiscard]] std::size_t rounds() const noexcept { return ends_.size(); }
  [[nodiscard]] step* begin(std::size_t round) noexcept {
    return steps_.data() + (round == 0 ? 0 : ends_[round - 1]);
  }
  [[nodiscard]] step* end(std::size_t round) noexcept { return steps_.data() + ends_[round]; }

 private:
  void add(const step& s) { steps_.push_back(s); }
  std::vector<step> steps_;
  std::vector<std::uint32_t> ends_;
  std::vector<std::unique_ptr<std::byte[]>> scratch_;
};

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
