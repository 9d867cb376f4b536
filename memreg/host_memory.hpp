// What this host has: page sizes, physical and available memory, control-group limits. Read from
// the kernel when asked; nothing is cached, since it changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "lib/base/page.hpp"

namespace penstock::memreg {

/// "No limit" wherever bytes are counted.
inline constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

using penstock::page_bytes;
/// Size of the default huge page in bytes, or 0 where the kernel has none.
std::size_t huge_page_bytes() noexcept;

/// n rounded up or down to a multiple of unit (a power of two). Rounding up near 2^64 wraps to 0.
constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t unit) noexcept {
  return (n + unit - 1) & ~(unit - 1);
}
constexpr std::uint64_t round_down(std::uint64_t n, std::uint64_t unit) noexcept {
  return n & ~(unit - 1);
}

/// Memory of this host as this process may use it, in bytes.
struct host_memory {
  std::uint64_t physical = 0;  ///< installed, or the control group's limit if that is smaller
  /// Could be allocated now without swapping (estimate of the kernel); unlimited: not known.
  std::uint64_t available = 0;
  bool group_limited = false;  ///< the control group, not the host, sets `physical`
};
/// Reads it: three small files, tens of microseconds.
host_memory probe_host_memory();

/// "64.0 GiB", "8.0 MiB", "512 bytes", "unlimited".
std::string human_bytes(std::uint64_t bytes);

}  // namespace penstock::memreg
