// The bytes that processes tell each other at start. introduce.cpp exchanges and checks them; tests
// make those of ranks that are not there.
#pragma once

#include <array>
#include <cstdint>

#include "lib/conduit/collective/host_page.hpp"
#include "lib/conduit/message/outgoing.hpp"
#include "nic/device.hpp"
#include "penstock/penstock.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

inline constexpr std::uint32_t wire_version = 1;

/// The settings of the credit system that must be equal everywhere, in the order of
/// credit_names (introduce.cpp).
using credit_numbers = std::array<std::uint32_t, 11>;

/// What each process tells all others at start, as bytes; every receiver checks it.
struct introduction {
  std::uint32_t version = wire_version;
  std::uint32_t max_eager_bytes = max_eager;
  nic::address address, near_address;
  std::uint32_t datagram_qp = 0;
  std::uint32_t handlers = 0;  ///< fingerprint of the handler table
  std::uint64_t credits = 0;   ///< fingerprint of the credit settings
  credit_numbers each_credit{};
  std::uint32_t credits_move = 1, room = 0;  ///< credit::room
  std::uint64_t segment_base = 0, segment_bytes = 0, segment_mapped = 0;
  std::uint32_t segment_rkey = 0, map_rkey = 0;
  std::uint32_t direct = 0, supernode_size = 0, chunk_bytes = 0;
  std::uint32_t leader = 0;  ///< the first of the ranks that share memory with it
  std::uint32_t domains = 1;
  std::uint32_t wakes = 0;  ///< 1: it has a progress thread, which senders must wake
  std::uint32_t reads = 1, device_atomics = 0;  ///< what its device can do
  std::uint32_t everything = 0, unused2 = 0;    ///< puts and gets may go anywhere
  host_page::ticket page;                       ///< from rank 0, if barriers are to be counted
};

}  // namespace penstock::conduit::PENSTOCK_ABI
