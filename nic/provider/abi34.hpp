// The interface between libibverbs and its providers under the private ABI number 34 (rdma-core 39
// to 50). These are facts of a binary interface, declared here because no Debian package installs
// them. Whatever can be checked against the library in use is checked when a context is opened
// (device.cpp).
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace penstock::nic::provider::abi34 {

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

struct device_operations {
  const char* name;
  std::uint32_t lowest_abi, highest_abi;
  const match* matches;
  const void* static_providers;
  bool (*match_device)(found_device*);
  verbs_context* (*alloc_context)(ibv_device*, int command_fd, void* private_data);
  verbs_context* (*import_context)(ibv_device*, int command_fd);
  device* (*alloc_device)(found_device*);
  void (*uninit_device)(device*);
};
static_assert(sizeof(device_operations) == 72);

/// Indices into the table of operations, which is in alphabetical order. An entry that stays 0
/// keeps libibverbs's own function, which refuses with EOPNOTSUPP.
enum operation : int {
  advise_mr = 0,
  alloc_mw = 2,
  alloc_pd = 5,
  async_event = 7,
  bind_mw = 10,
  close_xrcd = 11,
  cq_event = 12,
  create_ah = 13,
  create_cq = 15,
  create_cq_ex = 16,
  create_qp = 19,
  create_qp_ex = 20,
  create_srq = 22,
  create_srq_ex = 23,
  dealloc_mw = 25,
  dealloc_pd = 26,
  dereg_mr = 28,
  destroy_ah = 29,
  destroy_cq = 31,
  destroy_qp = 34,
  destroy_srq = 36,
  free_context = 39,
  get_srq_num = 41,
  modify_qp = 47,
  modify_srq = 49,
  open_xrcd = 52,
  poll_cq = 53,
  post_recv = 54,
  post_send = 55,
  post_srq_recv = 57,
  query_device_ex = 58,
  query_port = 60,
  query_qp = 61,
  query_srq = 64,
  reg_mr = 68,
  req_notify_cq = 69,
  rereg_mr = 70,
  resize_cq = 71,
  operations = 76,
};

using any_function = void (*)();
struct operation_table {
  any_function at[operations];
};

/// What libibverbs reads behind an ibv_qp_ex: whether the QP has the functions ibv_wr_*.
inline constexpr std::uint32_t qp_has_work_requests = 1u << 1;

extern "C" {
void verbs_register_driver_34(const device_operations*);
/// A zeroed block of `bytes` in which, at `offset`, a verbs_context is made ready.
void* _verbs_init_and_alloc_context(ibv_device*, int command_fd, std::size_t bytes,
                                    verbs_context* offset, std::uint32_t driver);
void verbs_uninit_context(verbs_context*);
void verbs_set_ops(verbs_context*, const operation_table*);
}

}  // namespace penstock::nic::provider::abi34
