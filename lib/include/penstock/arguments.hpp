// The arguments of handlers: how values of the program travel in the 32-bit words of a message.
// Included by penstock.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "penstock/mode.hpp"

namespace penstock::PENSTOCK_ABI {

/// The largest number of 32-bit argument words of one message.
inline constexpr unsigned max_args = 16;

namespace detail {

/// Argument types: trivially copyable; each takes its size rounded up to 32-bit words.
template <class T>
concept argument = std::is_trivially_copyable_v<T> && !std::is_reference_v<T>;

template <class T>
inline constexpr unsigned words_of = (sizeof(T) + 3) / 4;

template <class... A>
inline constexpr unsigned total_words = (0u + ... + words_of<A>);

/// Packs arguments into words, in order.
template <argument... A>
struct packed {
  static_assert(total_words<A...> <= max_args, "more than 16 words of arguments");
  // Shorts and Mediums are read in pairs of words: there is room for an even number.
  std::array<std::uint32_t, total_words<A...> == 0 ? 2 : (total_words<A...> + 1) / 2 * 2> w{};
  explicit packed(const A&... a) noexcept {
    [[maybe_unused]] std::uint32_t* p = w.data();
    ((std::memcpy(p, &a, sizeof a), p += words_of<A>), ...);
  }
};

template <argument T>
T unpack(const std::uint32_t*& p) noexcept {
  T x;
  std::memcpy(static_cast<void*>(&x), p, sizeof x);  // x may have default member values
  p += words_of<T>;
  return x;
}

}  // namespace detail
}  // namespace penstock::PENSTOCK_ABI
