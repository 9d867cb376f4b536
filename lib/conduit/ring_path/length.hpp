// How long rings are. A request ring is as long as the credits that its peer has lent: for each
// there are a slot and 256 bytes of data, and there is room for what the consumer has taken and not
// yet told. A reply ring has its full length while requests come. A ring that has carried nothing
// for an epoch has its shortest length, without data, and its pages go back to the system. So only
// pairs of ranks that talk have memory. length.cpp and the report of memory use this file.
#pragma once

#include <cstdint>

#include "credit/credit.hpp"
#include "lib/conduit/ring_path/ring_path_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// The length of a request ring for `credits` credits; 0: of a ring that is not used.
inline nic::shm::ring_length length_for(std::uint32_t credits) noexcept {
  using nic::shm::ring_length;
  if (credits == 0) return ring_length::holding(1, 0);
  if (credits >= most_unanswered) return ring_length::all();
  // The consumer may have taken an eighth and not told it yet; and a message may have to skip as
  // much data as it has itself.
  const std::uint32_t slots = credits + credits / 8 + 2;
  const std::uint32_t data = (credits + credits / 8) * credit::unit_bytes + limits::longest_message;
  return ring_length::holding(slots, data);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
