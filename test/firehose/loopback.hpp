// A verbs device that a process uses with itself: two connected queue pairs of the same process,
// one transfer at a time. For programs that need a device that really keeps old pages
// (staleness.cpp); it uses none of the library's own device code.
#pragma once

#include <infiniband/verbs.h>

#include <sched.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/clock.hpp"
#include "lib/base/result.hpp"
#include "memreg/registrar.hpp"

namespace penstock::firehose {

/// The first device with an active port, and its GID.
class verbs_device final : public memreg::registrar {
 public:
  /// False and an errno in problem(): there is none.
  bool open();
  ~verbs_device() override;

  result<memreg::registration> reg(void* addr, std::size_t bytes, unsigned bits) override {
    ibv_mr* mr = ibv_reg_mr(pd, addr, bytes, static_cast<int>(bits));
    if (mr == nullptr) return failure{"ibv_reg_mr", errno, ""};
    return memreg::registration{mr->lkey, mr->rkey, mr};
  }
  void dereg(memreg::registration r) noexcept override {
    (void)ibv_dereg_mr(static_cast<ibv_mr*>(r.handle));
  }

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_port_attr port{};
  std::uint8_t port_number = 1;
  int gid_index = 0;
  ibv_gid gid{};
};

/// A connected pair of RC queue pairs; transfers go from the first, which accesses memory of this
/// process as if it were remote. One thread.
class loopback {
 public:
  static result<std::unique_ptr<loopback>> make(verbs_device& device);
  ~loopback();

  /// Transfers and waits, 10 s at most. True on success; else what() tells.
  bool transfer(ibv_wr_opcode opcode, void* local, std::uint32_t lkey, std::uint32_t bytes,
                const void* remote, std::uint32_t rkey);
  [[nodiscard]] const std::string& what() const noexcept { return what_; }

 private:
  explicit loopback(verbs_device& d) : device_(d) {}
  bool connect(ibv_qp* qp, std::uint32_t to) noexcept;

  verbs_device& device_;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_[2] = {nullptr, nullptr};
  std::string what_;
};

inline bool verbs_device::open() {
  // Kernels that do not copy pinned pages for a forked child need this before anything else.
  if (ibv_is_fork_initialized() != IBV_FORK_UNNEEDED) (void)ibv_fork_init();
  int n = 0;
  ibv_device** all = ibv_get_device_list(&n);
  for (int i = 0; i < n && context == nullptr; ++i) {
    context = ibv_open_device(all[i]);
    if (context == nullptr) continue;
    if (ibv_query_port(context, 1, &port) != 0 || port.state != IBV_PORT_ACTIVE) {
      ibv_close_device(context);
      context = nullptr;
    }
  }
  if (all != nullptr) ibv_free_device_list(all);
  if (context == nullptr) return false;
  // The last GID that is not empty: on RoCE the IPv4 ones follow the link-local.
  for (int i = 0; i < port.gid_tbl_len && i < 32; ++i) {
    ibv_gid g{};
    if (ibv_query_gid(context, port_number, i, &g) != 0) break;
    if (g.global.interface_id == 0) continue;
    gid = g;
    gid_index = i;
  }
  pd = ibv_alloc_pd(context);
  return pd != nullptr;
}

inline verbs_device::~verbs_device() {
  if (pd != nullptr) ibv_dealloc_pd(pd);
  if (context != nullptr) ibv_close_device(context);
}

inline result<std::unique_ptr<loopback>> loopback::make(verbs_device& device) {
  std::unique_ptr<loopback> l(new loopback(device));
  l->cq_ = ibv_create_cq(device.context, 16, nullptr, nullptr, 0);
  if (l->cq_ == nullptr) return failure{"ibv_create_cq", errno, ""};
  for (ibv_qp*& qp : l->qp_) {
    ibv_qp_init_attr a{};
    a.send_cq = a.recv_cq = l->cq_;
    a.cap.max_send_wr = a.cap.max_recv_wr = 4;
    a.cap.max_send_sge = a.cap.max_recv_sge = 1;
    a.qp_type = IBV_QPT_RC;
    qp = ibv_create_qp(device.pd, &a);
    if (qp == nullptr) return failure{"ibv_create_qp", errno, ""};
  }
  for (int i : {0, 1})
    if (!l->connect(l->qp_[i], l->qp_[1 - i]->qp_num)) return failure{"ibv_modify_qp", errno, ""};
  return l;
}

inline loopback::~loopback() {
  for (ibv_qp* qp : qp_)
    if (qp != nullptr) ibv_destroy_qp(qp);
  if (cq_ != nullptr) ibv_destroy_cq(cq_);
}

inline bool loopback::connect(ibv_qp* qp, std::uint32_t to) noexcept {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = device_.port_number;
  a.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
    return false;
  a = {};
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = device_.port.active_mtu;
  a.dest_qp_num = to;
  a.max_dest_rd_atomic = 1;
  a.min_rnr_timer = 1;
  a.ah_attr.port_num = device_.port_number;
  a.ah_attr.dlid = device_.port.lid;
  if (device_.port.link_layer == IBV_LINK_LAYER_ETHERNET) {
    a.ah_attr.is_global = 1;
    a.ah_attr.grh.dgid = device_.gid;
    a.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(device_.gid_index);
    a.ah_attr.grh.hop_limit = 64;
  }
  if (ibv_modify_qp(qp, &a,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
    return false;
  a = {};
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 14;
  a.retry_cnt = 6;
  a.rnr_retry = 6;
  a.max_rd_atomic = 1;
  return ibv_modify_qp(qp, &a,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

inline bool loopback::transfer(ibv_wr_opcode opcode, void* local, std::uint32_t lkey,
                               std::uint32_t bytes, const void* remote, std::uint32_t rkey) {
  ibv_sge sge{reinterpret_cast<std::uint64_t>(local), bytes, lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(remote);
  wr.wr.rdma.rkey = rkey;
  if (const int code = ibv_post_send(qp_[0], &wr, &bad); code != 0) {
    what_ = "ibv_post_send: " + failure{"", code, ""}.message();
    return false;
  }
  const std::uint64_t limit = now_ns() + 10'000'000'000;
  ibv_wc wc{};
  int n = 0;
  while ((n = ibv_poll_cq(cq_, 1, &wc)) == 0) {
    sched_yield();
    if (now_ns() > limit) {
      what_ = "no completion for 10 s";
      return false;
    }
  }
  if (n < 0 || wc.status != IBV_WC_SUCCESS) {
    what_ = n < 0 ? "ibv_poll_cq failed" : ibv_wc_status_str(wc.status);
    return false;
  }
  return true;
}

}  // namespace penstock::firehose
