// What all members of a team must pass alike to a collective operation, in one word: every message
// of the operation carries it, and every shared line. So a process that is in another operation, or
// in one with other arguments, is noticed with the first word that one of them sees of the other.
#pragma once

#include <cstdint>
#include <string>

#include "penstock/mode.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

struct request;

/// kind (4 bits) | sync (2) | code of the reduction (8) | root (18) | bytes (32). A root or a
/// number of bytes that has no room is cut: differences above are not noticed.
using call_word = std::uint64_t;
call_word word_of(const request& r) noexcept;
/// For the line that ends the job: "a reduction to all of 8 bytes (ADD on U64)".
std::string describe(call_word w);

/// Codes of reductions: how elements are combined. 0 is not compared with a name.
inline constexpr unsigned ex_types = 7, ex_operations = 10;  // of gasnetex.h
constexpr std::uint8_t ex_code(unsigned type, unsigned operation) noexcept {
  return static_cast<std::uint8_t>(1 + type * ex_operations + operation);
}
constexpr std::uint8_t function_code(unsigned function) noexcept {
  return static_cast<std::uint8_t>(128 + function % 128);
}

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
