// The table of control calls for the kernel's devices: libibverbs, one line a call. Wrappers stand
// where the header offers a macro or an inline function instead of an address.
#include <mutex>

#include "lib/base/log.hpp"
#include "nic/device.hpp"

namespace penstock::nic {
namespace {

/// A forked child must not take pages away from the parent's registrations. To be called before
/// anything is registered. Kernels from 5.12 on copy such pages at fork. ibv_fork_init does not
/// ask: it would take registered pages, and what else lies in them, away from every child.
void protect_from_fork() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (ibv_is_fork_initialized() == IBV_FORK_UNNEEDED) return;
    if (const int e = ibv_fork_init(); e != 0)
      log(log_level::warning,
          "ibv_fork_init failed (%d): a process that forks may lose incoming data", e);
  });
}

ibv_context* open_device(ibv_device* d) {
  protect_from_fork();
  return ibv_open_device(d);
}

int query_port(ibv_context* c, std::uint8_t port, ibv_port_attr* a) {
  return ibv_query_port(c, port, a);
}

ibv_mr* reg_mr(ibv_pd* pd, void* addr, std::size_t bytes, int access) {
  return ibv_reg_mr(pd, addr, bytes, static_cast<unsigned>(access));
}

constexpr calls table{
    .library = "libibverbs",
    .get_device_list = ibv_get_device_list,
    .free_device_list = ibv_free_device_list,
    .get_device_name = ibv_get_device_name,
    .open_device = open_device,
    .close_device = ibv_close_device,
    .query_device = ibv_query_device,
    .query_port = query_port,
    .query_gid = ibv_query_gid,
    .query_pkey = ibv_query_pkey,
    .alloc_pd = ibv_alloc_pd,
    .dealloc_pd = ibv_dealloc_pd,
    .alloc_td = ibv_alloc_td,
    .dealloc_td = ibv_dealloc_td,
    .alloc_parent_domain = ibv_alloc_parent_domain,
    .reg_mr = reg_mr,
    .dereg_mr = ibv_dereg_mr,
    .create_comp_channel = ibv_create_comp_channel,
    .destroy_comp_channel = ibv_destroy_comp_channel,
    .create_cq = ibv_create_cq,
    .resize_cq = ibv_resize_cq,
    .destroy_cq = ibv_destroy_cq,
    .get_cq_event = ibv_get_cq_event,
    .ack_cq_events = ibv_ack_cq_events,
    .create_srq = ibv_create_srq,
    .modify_srq = ibv_modify_srq,
    .query_srq = ibv_query_srq,
    .destroy_srq = ibv_destroy_srq,
    .create_qp = ibv_create_qp,
    .modify_qp = ibv_modify_qp,
    .query_qp = ibv_query_qp,
    .destroy_qp = ibv_destroy_qp,
    .create_ah = ibv_create_ah,
    .destroy_ah = ibv_destroy_ah,
    .get_async_event = ibv_get_async_event,
    .ack_async_event = ibv_ack_async_event,
    .wc_status_str = ibv_wc_status_str,
    .event_type_str = ibv_event_type_str,
};

}  // namespace

const calls& verbs_calls() noexcept { return table; }

}  // namespace penstock::nic
