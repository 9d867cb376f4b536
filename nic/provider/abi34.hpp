// The interface between libibverbs and its providers, as it has been since the private ABI number
// 34: later numbers changed only what is in layouts.hpp. These are facts of a binary interface,
// declared here because no Debian package installs them. Whatever can be checked against the
// library in use is checked when a context is opened (device.cpp).
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace penstock::nic::provider::abi {

/// How libibverbs finds a device: by a pattern on "rdma_device:N<name>".
struct match {
  void* data = nullptr;
  const char* pattern = nullptr;
  std::uint16_t vendor = 0, device = 0;
  std::uint8_t kind = 0;  ///< 0 ends the table
};
inline constexpr std::uint8_t match_by_pattern = 2;
static_assert(sizeof(match) == 24);

struct found_device;  ///< libibverbs's own; only passed on

struct device {
  ibv_device visible;
  const void* operations;
  int references;
  void* list[2];
  found_device* found;
  std::uint64_t core_support;
  std::byte spare[256];  ///< zero: programs peek past the public structure
};

/// noexcept: libibverbs is C.
struct device_operations {
  const char* name;
  std::uint32_t lowest_abi, highest_abi;
  const match* matches;
  const void* static_providers;
  bool (*match_device)(found_device*) noexcept;
  verbs_context* (*alloc_context)(ibv_device*, int command_fd, void* private_data) noexcept;
  verbs_context* (*import_context)(ibv_device*, int command_fd) noexcept;
  device* (*alloc_device)(found_device*) noexcept;
  void (*uninit_device)(device*) noexcept;
};
static_assert(sizeof(device_operations) == 72);

/// What libibverbs reads behind an ibv_qp_ex: whether the QP has the functions ibv_wr_*.
inline constexpr std::uint32_t qp_has_work_requests = 1u << 1;

struct operation_table;

extern "C" {
/// A zeroed block of `bytes` in which, at `offset`, a verbs_context is made ready.
void* _verbs_init_and_alloc_context(ibv_device*, int command_fd, std::size_t bytes,
                                    verbs_context* offset, std::uint32_t driver);
void verbs_uninit_context(verbs_context*);
void verbs_set_ops(verbs_context*, const operation_table*);
}

}  // namespace penstock::nic::provider::abi
