// A device as programs see it. All contexts that programs of a host open on one device have the
// same GIDs, GUID and LID, as on an adapter; the QP number says which context is meant. For the
// provider's contexts. A context of the engine is named by its own GID instead, which is random.
//
//   QP number, 24 bits:   context, 10 bits | QP of the context, 14 bits
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>

#include "nic/shm/layout.hpp"

namespace penstock::nic::shm {

inline constexpr unsigned most_devices = 16;
inline constexpr unsigned own_bits = 14;  ///< of a QP number: which QP of the context
/// Contexts of one device at a time. The last number is left out: 0xffffff names all of a multicast
/// group.
inline constexpr std::uint32_t most_contexts = (1u << (24 - own_bits)) - 1;
inline constexpr int gid_rows = 4;

struct identity {
  unsigned index = 0;
  nonce seed;
  std::uint16_t lid = 0;

  /// Rows 0 and 1: fe80:: and the GUID; rows 2 and 3: an IPv4 address of the loopback interface. In
  /// each pair the first is of RoCE v1 and the second of v2.
  [[nodiscard]] ibv_gid gid(int row) const noexcept;
  /// As adapters have it in their registers: big-endian.
  [[nodiscard]] std::uint64_t guid() const noexcept;
  [[nodiscard]] bool has(const ibv_gid& g) const noexcept;
};

/// The device shm<index> of this host: of the network namespace, or of the folder that
/// use_fabric() named. index < most_devices.
const identity& device_identity(unsigned index) noexcept;
/// The GUID as /sys shows it, and the address of rows 2 and 3.
std::string guid_text(const identity& d);
std::string gid_text(const ibv_gid& g);
/// The network interface to which a row of RoCE belongs: the one that has its IPv4 address, else
/// the loopback. UCX looks whether there is a route from it to the peer's address.
std::string netdev_of(const ibv_gid& g);

/// The name of the context of that device to which a QP number belongs.
nonce context_name(const nonce& device, std::uint32_t qpn) noexcept;

/// The processes that meet in this folder take each other's devices for those of one host, whatever
/// network namespace they are in: their sockets lie there. Before the first use of a device. 0 or
/// an errno.
int use_fabric(const char* folder) noexcept;
/// That folder, open; -1: there is none.
int fabric() noexcept;

}  // namespace penstock::nic::shm
