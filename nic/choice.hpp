// The rules by which a device, a port and a GID are chosen. They stand apart from real devices, so
// that tests can try them on devices that do not exist. Used by device.cpp and by tests.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nic/device.hpp"

namespace penstock::nic {

/// What kind of address a row of the GID table is.
enum class gid_kind : std::uint8_t { ib, roce_v1, roce_v2 };

/// A non-zero row of a port's GID table.
struct gid_row {
  int index = 0;
  ibv_gid gid{};
  gid_kind kind = gid_kind::ib;
};

/// The parts, joined one after the other.
std::string joined(std::initializer_list<std::string_view> parts);
/// "10.0.0.1" for an IPv4-mapped GID, else eight groups of hexadecimal digits.
std::string gid_text(const ibv_gid& gid);
/// "RoCE v2" and so on.
const char* gid_kind_text(gid_kind kind) noexcept;
/// True for ::ffff:a.b.c.d.
inline bool is_ipv4_mapped(const ibv_gid& gid) noexcept {
  static constexpr std::uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, prefix, sizeof prefix) == 0;
}

/// The row that best reaches other hosts: RoCE v2 with an IPv4 address, then RoCE v2 with an IPv6
/// address that is not link-local, any RoCE v2, then the first row. Null if there is none.
const gid_row* best_gid(std::span<const gid_row> rows) noexcept;

/// The non-zero rows of the port's GID table that an address vector can name (the first 256), with
/// their kinds where the library knows them.
std::vector<gid_row> read_gids(const calls& verbs, ibv_context* context, std::uint8_t port,
                               int table_length);

/// Splits "rxe0" into that name and 0, "rxe0:2" into "rxe0" and 2. False if the text after the
/// colon is no port number. A PCI address, which has colons of its own, is a name.
bool split_device_name(const std::string& text, std::string& name, std::uint32_t& port);

/// True for "0000:03:00.0" and "03:00.0".
bool is_pci_address(std::string_view text) noexcept;

/// Which other name than its own the kernel (sysfs) has for a device.
struct known_as {
  bool matches = false;
  bool by_gid = false;     ///< the name is an interface's, and some of the port's GIDs belong to it
  std::uint32_t port = 0;  ///< the port that the name means, 0 if any
};
/// name: a PCI address (0000:03:00.0 or 03:00.0) or a network interface (eth0, a VLAN, ib0).
known_as also_known_as(const ibv_device& d, const std::string& name);
/// True if row `index` of the port's GID table belongs to that network interface.
bool has_interface(const ibv_device& d, std::uint8_t port, int index, const std::string& name);
/// False if the device is attached to processors none of which this process may use.
bool is_near(const ibv_device& d);
/// Moves the near devices to the front; otherwise the order stays.
void near_first(std::vector<ibv_device*>& devices);

/// A flow label for one of many connections: not 0, and a hash of 20 bits.
std::uint32_t spread_label(std::uint32_t seed, std::uint64_t flow) noexcept;

/// Why a device cannot be used, whatever its ports; null if it can.
const char* unfit(const ibv_device& d) noexcept;

/// Opens shm0 as the settings want it; null with errno. `says` gets a description, for the user, of
/// what the device pretends to be.
result<ibv_context*> open_shm(ibv_device* dev, const settings& s, std::string& says);

/// Opens tcp0; `secret` as in open_device().
result<ibv_context*> open_tcp(ibv_device* dev, const settings& s, std::string_view secret);

/// The device list of one library, freed at the end of the scope.
class device_list {
 public:
  explicit device_list(const calls& v) : verbs_(v), list_(v.get_device_list(&count_)) {
    if (list_ == nullptr) count_ = 0, failed_ = errno;
  }
  ~device_list() {
    if (list_ != nullptr) verbs_.free_device_list(list_);
  }
  device_list(const device_list&) = delete;
  device_list& operator=(const device_list&) = delete;
  [[nodiscard]] std::span<ibv_device* const> all() const noexcept {
    return {list_, static_cast<std::size_t>(count_)};
  }
  /// The errno with which the library gave no list; 0 if it gave one.
  [[nodiscard]] int failed() const noexcept { return failed_; }

 private:
  const calls& verbs_;
  int count_ = 0, failed_ = 0;
  ibv_device** list_;
};

/// open_device() over the given libraries in this order; "auto" falls back to shm0, and takes tcp0
/// where that is the last one.
result<device> open_device_of(std::span<const calls* const> libraries, const settings& s,
                              std::string_view secret = {});
/// list_devices() over the given libraries.
std::vector<device_info> list_devices_of(std::span<const calls* const> libraries);

}  // namespace penstock::nic
