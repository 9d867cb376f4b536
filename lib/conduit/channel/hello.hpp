// What two connectors say to each other of a connection (connect.cpp, parting.cpp).
#pragma once

#include <cstdint>

#include "lib/conduit/channel/parting.hpp"
#include "lib/conduit/channel/peer.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

inline constexpr std::uint32_t hello_magic = 0x50454e53;

/// Travels in one datagram; checked field by field on arrival.
struct hello {
  std::uint32_t magic = hello_magic;
  std::uint32_t from = 0;
  std::uint64_t job = 0;  ///< the job's secret, so that a stranger's datagram is dropped
  std::uint8_t made = 0, bound = 0, want = 0;
  std::uint8_t domain = 0;  ///< the sender's, and the receiver's
  std::uint32_t qpn[lane_count] = {};
  std::uint32_t psn[lane_count] = {};
  /// Verbs path: the sender's chunks, for replies. Ring path: its buffers of Mediums by rendezvous;
  /// 0: they have not been made.
  std::uint32_t buffers_rkey = 0;
  std::uint64_t buffers_base = 0;
  std::uint32_t generation = 0;  ///< of the queue pairs
  std::uint32_t ask = 0;         ///< as peer::ask
  vote answer{};                 ///< to that ask
  std::uint8_t please = 0;       ///< the sender would like to part, and the receiver leads
  std::uint8_t needed = 0;       ///< lanes that messages have asked for
  std::uint8_t lowered = 0;      ///< the sender lends the receiver the minimum alone (meetings.hpp)
};

}  // namespace penstock::conduit::PENSTOCK_ABI
