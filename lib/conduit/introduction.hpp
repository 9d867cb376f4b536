// The bytes that processes tell each other at start. introduce.cpp exchanges and checks them; tests
// make those of ranks that are not there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/settings_table.hpp"
#include "lib/conduit/collective/host_page.hpp"
#include "lib/conduit/message/handler_names.hpp"
#include "lib/conduit/message/handlers.hpp"
#include "lib/conduit/message/outgoing.hpp"
#include "nic/device.hpp"
#include "nic/shm/direct.hpp"
#include "penstock/penstock.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

inline constexpr std::uint32_t wire_version = 1;

/// What all processes must have alike. Every exchange at start begins with it, so that the
/// processes notice also where they do not come to the same exchange.
struct common_ground {
  std::uint32_t version = wire_version;
  std::uint32_t max_eager_bytes = max_eager;
  common_settings values{};
  std::uint64_t everything = 0;  ///< puts and gets may go anywhere
  std::uint64_t device = 0;      ///< index of device_kinds (introduce.cpp); it may differ

  common_ground() = default;
  common_ground(const settings& s, bool all, const nic::device& d)
      : values(common_settings_of(s)),
        everything(all),
        device(d.shared_memory ? 1u
               : d.pins        ? 0u
                               : 2u) {}
};

/// Compares the common grounds of all ranks, by rank; the failure names each setting that differs,
/// the values and their ranks.
result<void> compare_grounds(const std::vector<std::vector<std::byte>>& of_ranks);

/// What a rank says of its user handlers when the tables differ: a line for each, by its index.
std::vector<std::byte> handlers_told(const handler_entry* table, const handler_names& names);
/// The first handler that one rank has otherwise than another, as each of the two told it.
std::string handler_that_differs(const std::vector<std::vector<std::byte>>& of_ranks);

/// What each process tells all others at start, as bytes; every receiver checks it.
struct introduction {
  common_ground ground;
  nic::address address, near_address;
  std::uint32_t datagram_qp = 0;
  std::uint32_t handlers = 0;                ///< fingerprint of the handler table
  std::uint64_t credits = 0;                 ///< fingerprint of the credit settings
  std::uint32_t credits_move = 1, room = 0;  ///< credit::room
  std::uint64_t segment_base = 0, segment_bytes = 0, segment_mapped = 0;
  std::uint32_t segment_rkey = 0, map_rkey = 0;
  std::uint64_t chunk_bytes = 0;
  std::uint32_t leader = 0;  ///< the first of the ranks that share memory with it
  std::uint32_t domains = 1;
  std::uint32_t wakes = 0;  ///< 1: a thread of it sleeps, by rings, and senders must wake it
  /// 1: its program sleeps on event_fd(), so no rank counts barriers in a page.
  std::uint32_t sleeps = 0;
  std::uint32_t reads = 1, device_atomics = 0;  ///< what its device can do
  nic::shm::whereabouts place;                  ///< of its process, where shm0 is to find it
  host_page::ticket page;                       ///< from rank 0, if barriers are to be counted
};

}  // namespace penstock::conduit::PENSTOCK_ABI
