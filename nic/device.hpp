// The one table of verbs control calls, with two fillings (libibverbs; the shared-memory device),
// and the choice of a device, port and GID. The data path is not here: ibv_post_send,
// ibv_post_srq_recv, ibv_post_recv, ibv_poll_cq and ibv_req_notify_cq are inline calls through
// context->ops for both.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.hpp"

namespace penstock {
struct settings;
}

namespace penstock::nic {

/// Control calls with the meaning, and the signatures, of <infiniband/verbs.h>.
struct calls {
  const char* library;  ///< "libibverbs" or "shm"
  ibv_device** (*get_device_list)(int* count);
  void (*free_device_list)(ibv_device** list);
  const char* (*get_device_name)(ibv_device*);
  ibv_context* (*open_device)(ibv_device*);
  int (*close_device)(ibv_context*);
  int (*query_device)(ibv_context*, ibv_device_attr*);
  int (*query_port)(ibv_context*, std::uint8_t port, ibv_port_attr*);
  int (*query_gid)(ibv_context*, std::uint8_t port, int index, ibv_gid*);
  /// In network order. Null: the device knows no partitions.
  int (*query_pkey)(ibv_context*, std::uint8_t port, int index, __be16*);
  ibv_pd* (*alloc_pd)(ibv_context*);
  int (*dealloc_pd)(ibv_pd*);  ///< also of a parent domain
  /// Null, all three: the device knows no thread domains (thread_domain.hpp).
  ibv_td* (*alloc_td)(ibv_context*, ibv_td_init_attr*);
  int (*dealloc_td)(ibv_td*);
  ibv_pd* (*alloc_parent_domain)(ibv_context*, ibv_parent_domain_init_attr*);
  ibv_mr* (*reg_mr)(ibv_pd*, void* addr, std::size_t bytes, int access);
  int (*dereg_mr)(ibv_mr*);
  ibv_comp_channel* (*create_comp_channel)(ibv_context*);
  int (*destroy_comp_channel)(ibv_comp_channel*);
  ibv_cq* (*create_cq)(ibv_context*, int cqe, void* cq_context, ibv_comp_channel*, int vector);
  int (*resize_cq)(ibv_cq*, int cqe);
  int (*destroy_cq)(ibv_cq*);
  int (*get_cq_event)(ibv_comp_channel*, ibv_cq**, void** cq_context);
  void (*ack_cq_events)(ibv_cq*, unsigned n);
  ibv_srq* (*create_srq)(ibv_pd*, ibv_srq_init_attr*);
  int (*modify_srq)(ibv_srq*, ibv_srq_attr*, int mask);
  int (*query_srq)(ibv_srq*, ibv_srq_attr*);
  int (*destroy_srq)(ibv_srq*);
  ibv_qp* (*create_qp)(ibv_pd*, ibv_qp_init_attr*);
  int (*modify_qp)(ibv_qp*, ibv_qp_attr*, int mask);
  int (*query_qp)(ibv_qp*, ibv_qp_attr*, int mask, ibv_qp_init_attr*);
  int (*destroy_qp)(ibv_qp*);
  ibv_ah* (*create_ah)(ibv_pd*, ibv_ah_attr*);
  int (*destroy_ah)(ibv_ah*);
  int (*get_async_event)(ibv_context*, ibv_async_event*);
  void (*ack_async_event)(ibv_async_event*);
  const char* (*wc_status_str)(ibv_wc_status);
  const char* (*event_type_str)(ibv_event_type);
};

/// The table of the kernel's devices, through libibverbs.
const calls& verbs_calls() noexcept;
/// The table of the shared-memory device shm0, which is always there.
const calls& shm_calls() noexcept;
/// The table of tcp0, the device over TCP, which is always there.
const calls& tcp_calls() noexcept;

/// How other hosts address a port; exchanged between processes as bytes.
struct address {
  ibv_gid gid{};
  std::uint16_t lid = 0;
  std::uint8_t port = 1;
  std::uint8_t gid_index = 0;
  std::uint8_t is_global = 0;  ///< 1: address by GID (RoCE, shm0), 0: by LID
  std::uint8_t mtu = IBV_MTU_1024;
};

/// The path attributes that the fabric's administrators decide; from the settings of these names.
struct fabric {
  std::uint8_t service_level = 0, traffic_class = 0, hop_limit = 64;
  std::uint16_t pkey_index = 0;  ///< row of the port's table, for all QPs
  std::uint32_t flow_label = 0;
  bool flow_spread = false;
};

/// A number that tells the connection of two QPs from others, for device::path_to().
constexpr std::uint64_t flow_of(std::uint32_t own_qpn, std::uint32_t remote_qpn) noexcept {
  return std::uint64_t{own_qpn} << 32 | remote_qpn;
}

/// An opened device with the chosen port and GID. Move only; closes the context.
class device {
 public:
  device() = default;
  device(device&&) noexcept;
  device& operator=(device&&) noexcept;
  ~device();

  const calls* verbs = nullptr;
  ibv_context* context = nullptr;
  std::string name;    ///< "shm0", "mlx5_0", "rxe0" …
  std::string reason;  ///< why this device, port and GID were chosen, one line
  ibv_device_attr limits{};
  ibv_port_attr port{};
  address self;
  fabric paths;
  bool cqe_set = false;              ///< limits.max_cqe is the setting MAX_CQE
  std::uint32_t max_inline = 0;      ///< largest inline send, found by trying
  unsigned registration_access = 0;  ///< IBV_ACCESS bits of every registration (MEM_CONSISTENCY)
  bool shared_memory = false;  ///< true for shm0: nic/shm/direct.hpp may be used on its objects
  bool pins = true;            ///< a registration pins pages: a kernel's device, not shm0 or tcp0

  /// Address vector to a remote port, for RC (in ibv_qp_attr) and UD (create_ah). flow: any number
  /// that tells connections apart, for FLOW_SPREAD.
  [[nodiscard]] ibv_ah_attr path_to(const address& remote, std::uint64_t flow = 0) const noexcept;
  /// The port carries nothing at the moment; false also where the device does not tell. Any thread.
  /// Cost: a system call.
  [[nodiscard]] bool port_is_down() const noexcept;
  /// Largest message of RC on this port.
  [[nodiscard]] std::uint32_t max_message() const noexcept { return port.max_msg_sz; }
};

/// A device as peninfo shows it: of any kind, opened or with the reason why it cannot be. Without a
/// name it stands for a library that has no device, with the reason.
struct device_info {
  std::string name, library, problem;
  ibv_device_attr limits{};
  struct port_info {
    std::uint8_t number = 0;
    ibv_port_attr attr{};
    std::vector<std::pair<int, ibv_gid>> gids;  ///< non-zero entries of the GID table
  };
  std::vector<port_info> ports;
};
std::vector<device_info> list_devices();

/// Opens the device that the settings ask for. "auto" takes a kernel device with an active port,
/// one near the processors of this process before others, else shm0. A kernel device may be named
/// by its name, its network interface or its PCI address. Port 0 means the first active one.
/// gid_index -1 means the best GID (best_gid()). Errors name what was asked for and which devices
/// exist. Of several rails this is the first.
/// secret: what tcp0's processes know each other by; empty: the setting TCP_SECRET.
result<device> open_device(const settings& s, std::string_view secret = {});

/// The settings of each rail that DEVICE names, as in "mlx5_0,mlx5_1"; "mlx5_0:1,2+mlx5_1", ports
/// and devices of which the first that can be used is taken, is one rail. SHM_FAULT may differ: its
/// parts are separated by a slash, and the last one holds for all further rails.
std::vector<settings> rails_of(const settings& s);

}  // namespace penstock::nic
