// Where libibverbs looks for the operations of a provider, and how long its verbs_context is. Both
// have grown in the middle or in front, so places differ between releases of rdma-core. The names
// and their order are those of all releases; the facts and where they come from are in README.md.
#pragma once

#include <algorithm>
#include <cstddef>

#include "nic/provider/abi34.hpp"

namespace penstock::nic::provider::abi {

/// The releases of rdma-core that brought a layout. It holds until the next of them.
enum release : int {
  release39 = 39,
  release59 = 59,
  release62 = 62,
  release64 = 64,
  release65 = 65
};

/// All operations, in alphabetical order: the table of each release has those that it knows, in
/// this order. An entry that stays 0 keeps libibverbs's own function, which refuses with
/// EOPNOTSUPP.
enum operation : int {
  advise_mr,
  alloc_buf,
  alloc_dm,
  alloc_dmah,
  alloc_mw,
  alloc_null_mr,
  alloc_parent_domain,
  alloc_pd,
  alloc_td,
  async_event,
  attach_counters_point_flow,
  attach_mcast,
  bind_mw,
  close_xrcd,
  cq_event,
  create_ah,
  create_comp_cntr,
  create_counters,
  create_cq,
  create_cq_ex,
  create_flow,
  create_flow_action_esp,
  create_qp,
  create_qp_ex,
  create_rwq_ind_table,
  create_srq,
  create_srq_ex,
  create_wq,
  dealloc_dmah,
  dealloc_mw,
  dealloc_pd,
  dealloc_td,
  dereg_mr,
  destroy_ah,
  destroy_comp_cntr,
  destroy_counters,
  destroy_cq,
  destroy_flow,
  destroy_flow_action,
  destroy_qp,
  destroy_rwq_ind_table,
  destroy_srq,
  destroy_wq,
  detach_mcast,
  dm_export_dmabuf_fd,
  free_buf,
  free_context,
  free_dm,
  get_srq_num,
  import_dm,
  import_mr,
  import_pd,
  inc_comp_cntr,
  inc_err_comp_cntr,
  modify_cq,
  modify_flow_action_esp,
  modify_qp,
  modify_qp_rate_limit,
  modify_srq,
  modify_wq,
  open_qp,
  open_xrcd,
  poll_cq,
  post_recv,
  post_send,
  post_srq_ops,
  post_srq_recv,
  qp_attach_comp_cntr,
  query_comp_cntr_caps,
  query_device_ex,
  query_ece,
  query_port,
  query_port_speed,
  query_qp,
  query_qp_data_in_order,
  query_rt_values,
  query_srq,
  read_comp_cntr,
  read_counters,
  read_err_comp_cntr,
  reg_dm_mr,
  reg_dmabuf_mr,
  reg_mr,
  reg_mr_ex,
  req_notify_cq,
  rereg_mr,
  resize_cq,
  set_comp_cntr,
  set_ece,
  set_err_comp_cntr,
  unimport_dm,
  unimport_mr,
  unimport_pd,
  operations
};

constexpr release came_with(operation o) noexcept {
  switch (o) {
    case alloc_dmah:
    case dealloc_dmah:
    case reg_mr_ex:
      return release59;
    case dm_export_dmabuf_fd:
    case query_port_speed:
      return release62;
    case alloc_buf:
    case free_buf:
      return release64;
    case create_comp_cntr:
    case destroy_comp_cntr:
    case inc_comp_cntr:
    case inc_err_comp_cntr:
    case qp_attach_comp_cntr:
    case query_comp_cntr_caps:
    case read_comp_cntr:
    case read_err_comp_cntr:
    case set_comp_cntr:
    case set_err_comp_cntr:
      return release65;
    default:
      return release39;
  }
}

/// The operation's place in the table of the release, which has place(operations, r) entries.
constexpr std::size_t place(operation o, release r) noexcept {
  std::size_t before = 0;
  for (int other = 0; other < o; ++other)
    if (came_with(static_cast<operation>(other)) <= r) ++before;
  return before;
}
static_assert(place(operations, release39) == 76 && place(operations, release59) == 79 &&
              place(operations, release62) == 81 && place(operations, release64) == 83 &&
              place(operations, release65) == 93 && operations == 93);
static_assert(place(alloc_mw, release39) == 2 && place(poll_cq, release39) == 53 &&
              place(unimport_pd, release39) == 75 && place(unimport_pd, release65) == 92);

using any_function = void (*)();
/// libibverbs reads as many entries as it knows; a vendor's may know some that are not here.
struct operation_table {
  any_function at[operations + 64];
};

struct layout {
  int number;                 ///< of the private ABI
  release since;              ///< gives the places of the operations
  std::size_t context_bytes;  ///< of verbs_context, which libibverbs writes into it
};
inline constexpr layout layouts[] = {
    {34, release39, 648}, {57, release39, 648}, {59, release59, 672},
    {59, release62, 680}, {64, release64, 696}, {65, release65, 696},
};

inline constexpr std::size_t longest_context =
    std::ranges::max(layouts, {}, &layout::context_bytes).context_bytes;

}  // namespace penstock::nic::provider::abi
