// Shared by the job programs of these tests: a check that ends the whole job, the start, and a
// pattern of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>

#include "lib/base/log.hpp"
#include "penstock/penstock.hpp"

// Ends the job with a line that says what was expected, when ok is false.
#define JOB_CHECK(ok)                                                              \
  do {                                                                             \
    if (!(ok)) ::penstock::fatal(9, "%s:%d: not so: %s", __FILE__, __LINE__, #ok); \
  } while (0)

namespace penstock::test {

/// The job's endpoint, with the settings of the environment; ends the job where there is none.
inline endpoint open_endpoint(world& w) {
  auto opened = endpoint::open(w);
  if (!opened) fatal(3, "%s", opened.error().message().c_str());
  return std::move(*opened);
}

/// Byte i of message `seed`.
constexpr std::byte pattern(std::uint32_t seed, std::size_t i) noexcept {
  return static_cast<std::byte>((seed * 2654435761u + i * 40503u) >> 7);
}
inline void fill(std::span<std::byte> to, std::uint32_t seed) noexcept {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = pattern(seed, i);
}
inline bool holds(std::span<const std::byte> bytes, std::uint32_t seed) noexcept {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != pattern(seed, i)) return false;
  return true;
}

}  // namespace penstock::test
