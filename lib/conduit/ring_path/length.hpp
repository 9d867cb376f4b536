// How long rings are. A request ring is as long as the credits that its peer has lent: slots for as
// many messages, 256 bytes of data for each, and what its consumer has taken and not yet told. A
// reply ring is as long as can be while requests come. Either is as short as can be, without data,
// when nothing has gone that way for an epoch; then its pages go back to the system. So those who
// talk have memory, and others do not. Used by length.cpp and the report of memory.
#pragma once

#include <cstdint>

#include "credit/credit.hpp"
#include "lib/conduit/ring_path/ring_path_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// Of a request ring that so many credits may fill; none: of a ring that is not used.
inline nic::shm::ring_length length_for(std::uint32_t credits) noexcept {
  using nic::shm::ring_length;
  if (credits == 0) return ring_length::holding(1, 0);
  if (credits >= most_unanswered) return ring_length::all();
  // An eighth is what may have been taken and not told; a message may have to skip as much as it
  // has itself.
  const std::uint32_t slots = credits + credits / 8 + 2;
  const std::uint32_t data = (credits + credits / 8) * credit::unit_bytes + limits::longest_message;
  return ring_length::holding(slots, data);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
