#include "nic/provider/operations.hpp"

#include <cerrno>
#include <cstring>

#include "nic/provider/kernel.hpp"
#include "nic/shm/boundary.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/cq.hpp"
#include "nic/shm/limits.hpp"
#include "nic/shm/qp.hpp"
#include "nic/shm/region.hpp"
#include "nic/shm/srq.hpp"
#include "nic/shm/xrc.hpp"

namespace penstock::nic::provider {
namespace {

using shm::c_call;

int query_device_ex(ibv_context* c, const ibv_query_device_ex_input* input, ibv_device_attr_ex* to,
                    std::size_t bytes) noexcept {
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

}  // namespace

abi::operation_table operations(abi::release r, const shm::context& c) noexcept {
  ibv_context_ops data_path{};
  shm::fill_operations(data_path, c);
  abi::operation_table t{};
  // As shm::enter(), by which the data path's have come.
  const auto put = [&]<class R, class... A>(abi::operation o, R (*function)(A...) noexcept) {
    t.at[abi::place(o, r)] = reinterpret_cast<abi::any_function>(function);
  };
  const auto put_entered = [&](abi::operation o, auto* function) {
    t.at[abi::place(o, r)] = reinterpret_cast<abi::any_function>(function);
  };
  put(abi::advise_mr, shm::advise_mr);
  put_entered(abi::alloc_mw, data_path.alloc_mw);
  put(abi::alloc_parent_domain, c_call<shm::alloc_parent_domain>);
  put(abi::alloc_pd, c_call<shm::alloc_pd>);
  put(abi::alloc_td, c_call<shm::alloc_td>);
  put_entered(abi::bind_mw, data_path.bind_mw);
  put(abi::close_xrcd, shm::close_xrcd);
  put(abi::create_ah, c_call<shm::create_ah>);
  put(abi::create_cq, c_call<create_cq>);
  put(abi::create_cq_ex, c_call<create_cq_ex>);
  put(abi::create_qp, c_call<shm::create_qp>);
  put(abi::create_qp_ex, c_call<create_qp_ex>);
  put(abi::create_srq, c_call<shm::create_srq>);
  put(abi::create_srq_ex, c_call<shm::create_srq_ex>);
  put_entered(abi::dealloc_mw, data_path.dealloc_mw);
  put(abi::dealloc_pd, shm::dealloc_pd);
  put(abi::dealloc_td, shm::dealloc_td);
  put(abi::dereg_mr, dereg_mr);
  put(abi::destroy_ah, shm::destroy_ah);
  put(abi::destroy_cq, shm::destroy_cq);
  put(abi::destroy_qp, shm::destroy_qp);
  put(abi::destroy_srq, shm::destroy_srq);
  put(abi::free_context, free_context);
  put(abi::get_srq_num, shm::get_srq_num);
  put(abi::modify_qp, c_call<shm::modify_qp>);
  put(abi::modify_srq, c_call<shm::modify_srq>);
  put(abi::open_xrcd, c_call<shm::open_xrcd>);
  put_entered(abi::poll_cq, data_path.poll_cq);
  put_entered(abi::post_recv, data_path.post_recv);
  put_entered(abi::post_send, data_path.post_send);
  put_entered(abi::post_srq_recv, data_path.post_srq_recv);
  put(abi::query_device_ex, query_device_ex);
  put(abi::query_port, shm::query_port);
  put(abi::query_qp, shm::query_qp);
  put(abi::query_srq, shm::query_srq);
  put(abi::reg_dmabuf_mr, c_call<reg_dmabuf_mr>);
  put(abi::reg_mr, c_call<reg_mr>);
  put_entered(abi::req_notify_cq, data_path.req_notify_cq);
  put(abi::rereg_mr, rereg_mr);
  put(abi::resize_cq, c_call<shm::resize_cq>);
  return t;
}

}  // namespace penstock::nic::provider
