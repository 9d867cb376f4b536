// Shared by the device's tests: one side of a connection (context, PD, CQ, memory, QP), and the
// waiting and connecting around it. Two sides may live in one process, each with its own context.
#pragma once

#include <doctest/doctest.h>
#include <infiniband/verbs.h>
#include <sched.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "lib/base/clock.hpp"
#include "nic/device.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/direct.hpp"

namespace rig {

using penstock::nic::shm_calls;

/// Polls `ready` until it holds; false after ten seconds. Gives the core away now and then, not
/// each time: where others wait for it, each costs a turn of theirs.
inline bool wait_for(const std::function<bool()>& ready, double seconds = 10) {
  const std::uint64_t until = penstock::now_ns() + static_cast<std::uint64_t>(seconds * 1e9);
  for (unsigned i = 1; !ready(); ++i) {
    if (i % 32 != 0) continue;
    if (penstock::now_ns() > until) return false;
    ::sched_yield();
  }
  return true;
}

/// What the QPs of a side are made with.
struct options {
  ibv_qp_type type = IBV_QPT_RC;
  std::uint32_t send_wr = 64, recv_wr = 64, sges = 4, inline_bytes = 256;
  int cqe = 256;
  std::uint32_t srq_wr = 0;  ///< 0: no SRQ
  bool channel = false;
  bool tcp = false;  ///< tcp0 instead of shm0
  bool signal_all = false;
  std::size_t memory = 1 << 20;
  const penstock::nic::shm::identity* device = nullptr;  ///< the provider's way of addressing
  bool lids = false;                                     ///< and by LIDs
  void (*opened)(ibv_context*) = nullptr;                ///< called before anything is made
  // connection
  std::uint8_t timeout = 14, retry_cnt = 1, rnr_retry = 7, min_rnr_timer = 1, reads = 16;
  int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
               IBV_ACCESS_REMOTE_ATOMIC;
};

/// The registered memory is moved to where peers can map it, as the provider's is.
inline options moving() {
  options o;
  o.opened = [](ibv_context* c) {
    penstock::nic::shm::of(c).moves_memory.store(true, std::memory_order_relaxed);
  };
  return o;
}

/// One end. Everything is destroyed in order, unless the test has done so (and nulled it).
struct side {
  const penstock::nic::calls& v;
  options o;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq *send_cq = nullptr, *recv_cq = nullptr;
  ibv_srq* srq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
  std::vector<std::byte> memory;
  ibv_gid gid{};

  explicit side(options opts = {})
      : v(opts.tcp ? penstock::nic::tcp_calls() : shm_calls()), o(opts), memory(opts.memory) {
    ibv_device** list = v.get_device_list(nullptr);
    penstock::nic::shm::pretence p;
    p.device = o.device;
    p.plays.has_lids = o.lids;
    context = o.device == nullptr ? v.open_device(list[0])
                                  : penstock::nic::shm::open_device_as(list[0], p);
    v.free_device_list(list);
    REQUIRE(context != nullptr);
    if (o.opened != nullptr) o.opened(context);
    REQUIRE(v.query_gid(context, 1, 0, &gid) == 0);
    pd = v.alloc_pd(context);
    if (o.channel) channel = v.create_comp_channel(context);
    send_cq = v.create_cq(context, o.cqe, this, nullptr, 0);
    recv_cq = v.create_cq(context, o.cqe, this, channel, 0);
    if (o.srq_wr != 0) {
      ibv_srq_init_attr a{};
      a.attr = {o.srq_wr, o.sges, 0};
      srq = v.create_srq(pd, &a);
      REQUIRE(srq != nullptr);
    }
    mr = v.reg_mr(pd, memory.data(), memory.size(),
                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                      IBV_ACCESS_REMOTE_ATOMIC);
    REQUIRE(mr != nullptr);
    make_qp();
  }
  side(const side&) = delete;
  side& operator=(const side&) = delete;
  ~side() {
    if (qp != nullptr) CHECK(v.destroy_qp(qp) == 0);
    if (srq != nullptr) CHECK(v.destroy_srq(srq) == 0);
    if (mr != nullptr) CHECK(v.dereg_mr(mr) == 0);
    if (send_cq != nullptr) CHECK(v.destroy_cq(send_cq) == 0);
    if (recv_cq != nullptr) CHECK(v.destroy_cq(recv_cq) == 0);
    if (channel != nullptr) CHECK(v.destroy_comp_channel(channel) == 0);
    if (pd != nullptr) CHECK(v.dealloc_pd(pd) == 0);
    if (context != nullptr) CHECK(v.close_device(context) == 0);
  }

  ibv_qp* new_qp() {
    ibv_qp_init_attr a{};
    a.qp_context = this;
    a.send_cq = send_cq;
    a.recv_cq = recv_cq;
    a.srq = srq;
    a.cap = {o.send_wr, o.recv_wr, o.sges, o.sges, o.inline_bytes};
    a.qp_type = o.type;
    a.sq_sig_all = o.signal_all ? 1 : 0;
    return v.create_qp(pd, &a);
  }
  void make_qp() {
    qp = new_qp();
    REQUIRE(qp != nullptr);
    REQUIRE(to_init(qp) == 0);
  }
  int to_init(ibv_qp* q) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    if (o.type == IBV_QPT_UD) {
      a.qkey = 0x1234;
      mask |= IBV_QP_QKEY;
    } else {
      a.qp_access_flags = static_cast<unsigned>(o.access);
      mask |= IBV_QP_ACCESS_FLAGS;
    }
    return v.modify_qp(q, &a, mask);
  }
  static ibv_ah_attr path(const ibv_gid& to) {
    ibv_ah_attr a{};
    a.is_global = 1;
    a.grh.dgid = to;
    a.grh.hop_limit = 1;
    a.port_num = 1;
    return a;
  }
  int to_rtr(ibv_qp* q, const ibv_gid& to, std::uint32_t qpn) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTR;
    if (o.type == IBV_QPT_UD) return v.modify_qp(q, &a, IBV_QP_STATE);
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = qpn;
    a.max_dest_rd_atomic = o.reads;
    a.min_rnr_timer = o.min_rnr_timer;
    a.ah_attr = path(to);
    const int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (o.type == IBV_QPT_UC) return v.modify_qp(q, &a, mask);
    return v.modify_qp(q, &a, mask | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  }
  int to_rts(ibv_qp* q) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTS;
    if (o.type != IBV_QPT_RC) return v.modify_qp(q, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
    a.timeout = o.timeout;
    a.retry_cnt = o.retry_cnt;
    a.rnr_retry = o.rnr_retry;
    a.max_rd_atomic = o.reads;
    return v.modify_qp(q, &a,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                           IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  int set_state(ibv_qp_state s) {
    ibv_qp_attr a{};
    a.qp_state = s;
    return v.modify_qp(qp, &a, IBV_QP_STATE);
  }
  ibv_qp_state state() {
    ibv_qp_attr a{};
    ibv_qp_init_attr i{};
    v.query_qp(qp, &a, IBV_QP_STATE, &i);
    return a.qp_state;
  }
  void connect(const side& to) {
    REQUIRE(to_rtr(qp, to.gid, to.qp->qp_num) == 0);
    REQUIRE(to_rts(qp) == 0);
  }

  ibv_sge piece(std::size_t offset, std::size_t bytes) const {
    return {reinterpret_cast<std::uint64_t>(memory.data() + offset),
            static_cast<std::uint32_t>(bytes), mr->lkey};
  }
  int receive(std::uint64_t id, std::size_t offset, std::size_t bytes) {
    ibv_sge s = piece(offset, bytes);
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.wr_id = id;
    wr.sg_list = &s;
    wr.num_sge = bytes != 0 ? 1 : 0;
    return srq != nullptr ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad);
  }
  /// A request on memory [offset, offset + bytes); more is set by the caller through `edit`.
  int post(std::uint64_t id, ibv_wr_opcode op, std::size_t offset, std::size_t bytes,
           unsigned flags = IBV_SEND_SIGNALED, const std::function<void(ibv_send_wr&)>& edit = {}) {
    ibv_sge s = piece(offset, bytes);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.wr_id = id;
    wr.opcode = op;
    wr.sg_list = &s;
    wr.num_sge = bytes != 0 ? 1 : 0;
    wr.send_flags = flags;
    if (edit) edit(wr);
    return ibv_post_send(qp, &wr, &bad);
  }
  int send(std::uint64_t id, std::size_t offset, std::size_t bytes,
           unsigned flags = IBV_SEND_SIGNALED) {
    return post(id, IBV_WR_SEND, offset, bytes, flags);
  }
  /// One completion within ten seconds; status GENERAL_ERR and wr_id ~0 if none came.
  static ibv_wc next(ibv_cq* cq) {
    ibv_wc wc{};
    if (!wait_for([&] { return ibv_poll_cq(cq, 1, &wc) != 0; })) {
      wc = {};
      wc.wr_id = ~std::uint64_t{0};
      wc.status = IBV_WC_GENERAL_ERR;
    }
    return wc;
  }
  ibv_wc sent() const { return next(send_cq); }
  ibv_wc received() const { return next(recv_cq); }
  static bool empty(ibv_cq* cq) {
    ibv_wc wc;
    return ibv_poll_cq(cq, 1, &wc) == 0;
  }
};

/// Two connected sides in one process.
struct pair {
  side a, b;
  explicit pair(options o = {}) : pair(o, o) {}
  pair(options oa, options ob) : a(oa), b(ob) {
    a.connect(b);
    b.connect(a);
  }
};

}  // namespace rig
