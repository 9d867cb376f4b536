// What the four programs are written over, and what a library must offer to run them. A library has
// two ways: `mail`, messages with handlers at their targets, and `memory`, one-sided operations on
// words; and the two ways by which faces of the heat equation travel (heat.hpp). over_penstock.cpp,
// over_mpi.cpp and over_gasnetex.cpp offer them. Used by this folder alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "lib/base/clock.hpp"
#include "lib/base/mix.hpp"

namespace penstock::programs {

using word = std::uint64_t;
using rank_number = std::uint32_t;

/// A message of three words. A larger one is a span of up to `most_words` words.
struct letter {
  word kind, a, b;
};
inline constexpr std::size_t most_words = 500;  // with a header: below 4,032 and 4,096 bytes

/// The words of a larger message, of any alignment.
class words_view {
 public:
  explicit words_view(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size() / sizeof(word); }
  [[nodiscard]] word operator[](std::size_t i) const noexcept {
    word w;
    std::memcpy(&w, bytes_.data() + i * sizeof(word), sizeof w);
    return w;
  }

 private:
  std::span<const std::byte> bytes_;
};

// mail<Program>(job, program): program.on(envelope, letter) and program.on(envelope, words_view)
// run at the target of a message while it polls. An envelope has from() and answer(), at most once
// for a message that is no answer; handlers send nothing else.
//   send(to, letter)                one message
//   send(to, std::vector<word>&)    one message; the vector is empty afterwards
//   poll(), wait(condition)
//   settle()   collective: all messages of all ranks that are no answers have been handled
//
// memory(job, words): so many words of each rank, 0 at first. Calls are blocking but exclusive_or.
//   get(from, at), get(from, at, span), put(to, at, span)
//   compare_and_swap(to, at, expected, desired), fetch_add(to, at, value): the former word
//   exclusive_or(to, at, value), flush(): all those of this rank have been done
//   here(): this rank's words, after a barrier
//   poll()
//
// job: rank(), size(), barrier(), sum(word), the last of all ranks' words.

/// What a program comes to.
struct outcome {
  double seconds;
  bool right;
};

/// How long a part of a program takes that all ranks begin and end together.
template <class Job, class Body>
double timed(Job& job, Body&& body) {
  job.barrier();
  const std::uint64_t began = now_ns();
  body();
  job.barrier();
  return static_cast<double>(now_ns() - began) * 1e-9;
}

/// Number i of a rank's random numbers: what is random here is a function of its number.
constexpr word random_word(rank_number rank, word i) noexcept {
  return mix(((word{rank} + 1) << 40) + i);
}
/// A rank, by the upper half of a hash.
constexpr rank_number rank_by(word hash, rank_number ranks) noexcept {
  return static_cast<rank_number>(((hash >> 32) * ranks) >> 32);
}

}  // namespace penstock::programs
