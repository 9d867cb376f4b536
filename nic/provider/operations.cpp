#include "nic/provider/operations.hpp"

#include <cerrno>
#include <cstring>

#include "nic/provider/kernel.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/cq.hpp"
#include "nic/shm/limits.hpp"
#include "nic/shm/qp.hpp"
#include "nic/shm/region.hpp"
#include "nic/shm/srq.hpp"
#include "nic/shm/xrc.hpp"

namespace penstock::nic::provider {
namespace {

int query_device_ex(ibv_context* c, const ibv_query_device_ex_input* input, ibv_device_attr_ex* to,
                    std::size_t bytes) {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  ibv_device_attr_ex a{};
  if (const int e = shm::query_device(c, &a.orig_attr)) return e;
  a.device_cap_flags_ex = a.orig_attr.device_cap_flags;
  a.phys_port_cnt_ex = 1;
  // Nothing is pinned, and memory that is registered IBV_ACCESS_ON_DEMAND need not even exist.
  a.odp_caps.general_caps = IBV_ODP_SUPPORT;
  auto& odp = a.odp_caps.per_transport_caps;
  odp.ud_odp_caps = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
  odp.uc_odp_caps = odp.ud_odp_caps | IBV_ODP_SUPPORT_WRITE;
  odp.rc_odp_caps = odp.uc_odp_caps | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
  a.xrc_odp_caps = odp.rc_odp_caps;
  std::memcpy(static_cast<void*>(to), &a, bytes < sizeof a ? bytes : sizeof a);
  return 0;
}

ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t seen_as, int access) {
  // A remote address is the address of the memory in this process.
  if (seen_as != reinterpret_cast<std::uint64_t>(address)) return errno = EOPNOTSUPP, nullptr;
  return shm::reg_mr(pd, address, bytes, access);
}

ibv_cq* create_cq(ibv_context* c, int cqe, ibv_comp_channel* channel, int vector) {
  shm::channel_events* events = channel != nullptr ? events_of(channel->fd) : nullptr;
  if (channel != nullptr && events == nullptr) return errno = EINVAL, nullptr;
  return shm::make_cq(c, cqe, nullptr, channel, events, vector);
}

template <class Function>
abi34::any_function any(Function* f) noexcept {
  return reinterpret_cast<abi34::any_function>(f);
}

}  // namespace

const abi34::operation_table& operations(bool played) noexcept {
  static constexpr auto fill = [](bool looks_at_faults) {
    ibv_context_ops data_path{};
    shm::fill_operations(data_path, looks_at_faults);
    abi34::operation_table t{};
    t.at[abi34::advise_mr] = any(shm::advise_mr);
    t.at[abi34::alloc_mw] = any(data_path.alloc_mw);
    t.at[abi34::alloc_pd] = any(shm::alloc_pd);
    t.at[abi34::bind_mw] = any(data_path.bind_mw);
    t.at[abi34::close_xrcd] = any(shm::close_xrcd);
    t.at[abi34::create_ah] = any(shm::create_ah);
    t.at[abi34::create_cq] = any(create_cq);
    t.at[abi34::create_cq_ex] = any(create_cq_ex);
    t.at[abi34::create_qp] = any(shm::create_qp);
    t.at[abi34::create_qp_ex] = any(create_qp_ex);
    t.at[abi34::create_srq] = any(shm::create_srq);
    t.at[abi34::create_srq_ex] = any(shm::create_srq_ex);
    t.at[abi34::dealloc_mw] = any(data_path.dealloc_mw);
    t.at[abi34::dealloc_pd] = any(shm::dealloc_pd);
    t.at[abi34::dereg_mr] = any(shm::dereg_mr);
    t.at[abi34::destroy_ah] = any(shm::destroy_ah);
    t.at[abi34::destroy_cq] = any(shm::destroy_cq);
    t.at[abi34::destroy_qp] = any(shm::destroy_qp);
    t.at[abi34::destroy_srq] = any(shm::destroy_srq);
    t.at[abi34::free_context] = any(free_context);
    t.at[abi34::get_srq_num] = any(shm::get_srq_num);
    t.at[abi34::modify_qp] = any(shm::modify_qp);
    t.at[abi34::modify_srq] = any(shm::modify_srq);
    t.at[abi34::open_xrcd] = any(shm::open_xrcd);
    t.at[abi34::poll_cq] = any(data_path.poll_cq);
    t.at[abi34::post_recv] = any(data_path.post_recv);
    t.at[abi34::post_send] = any(data_path.post_send);
    t.at[abi34::post_srq_recv] = any(data_path.post_srq_recv);
    t.at[abi34::query_device_ex] = any(query_device_ex);
    t.at[abi34::query_port] = any(shm::query_port);
    t.at[abi34::query_qp] = any(shm::query_qp);
    t.at[abi34::query_srq] = any(shm::query_srq);
    t.at[abi34::reg_mr] = any(reg_mr);
    t.at[abi34::req_notify_cq] = any(data_path.req_notify_cq);
    t.at[abi34::rereg_mr] = any(shm::rereg_mr);
    t.at[abi34::resize_cq] = any(shm::resize_cq);
    return t;
  };
  static const abi34::operation_table ordinary = fill(false), playing = fill(true);
  return played ? playing : ordinary;
}

}  // namespace penstock::nic::provider
