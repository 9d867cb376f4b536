// A message of a collective that has come to this process: what operation.hpp and combiner.hpp keep
// until its turn.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/gasnet/coll/call_word.hpp"
#include "lib/gasnet/coll/collective.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

/// A message that has come, for an operation or for a loan of one. Its payload is aligned for any
/// type of elements.
struct alignas(16) arrival {
  arrival* next = nullptr;
  std::uint64_t team = 0;
  std::uint32_t number = 0, lane = 0;
  call_word call = 0;  ///< the sender's
  /// A question asks for nothing but that the receiver compares the two calls.
  enum class type : std::uint8_t { data, offer, wanted, question } type = type::data;
  std::uint32_t from = 0, tag = 0;
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;  ///< of the offered bytes, or where they are wanted
  std::uint64_t loan = 0;     ///< the sender's
  std::uint64_t place = 0;    ///< the receiver's, by its token
  std::byte* payload() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
  /// Without a size: the payload makes it larger than its type.
  static void operator delete(void* p) noexcept { ::operator delete(p); }
};

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
