// Sequences of verbs calls to shm0, in any order and with any values. Memory that was never
// registered stays as it was.
#include <infiniband/verbs.h>

#include <array>
#include <vector>

#include "nic/device.hpp"
#include "test/fuzz/target.hpp"

namespace {

const penstock::nic::calls& v = penstock::nic::shm_calls();

constexpr std::size_t guard = 4096, inner = 64 << 10;
alignas(4096) std::array<std::uint8_t, 2 * guard + inner> memory;

struct job {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_gid gid{};
  job() {
    ibv_device** const list = v.get_device_list(nullptr);
    context = v.open_device(list[0]);
    v.free_device_list(list);
    FUZZ_CHECK(context != nullptr && v.query_gid(context, 1, 0, &gid) == 0);
    pd = v.alloc_pd(context);
    FUZZ_CHECK(pd != nullptr);
  }
};

struct state {
  std::vector<ibv_cq*> cqs;
  std::vector<ibv_qp*> qps;
  std::vector<ibv_srq*> srqs;
  std::vector<ibv_mr*> mrs;
};

template <class T>
T* one_of(std::vector<T*>& all, fuzz::input& in) {
  const std::uint8_t i = in.byte();
  return all.empty() ? nullptr : all[i % all.size()];
}

template <class T>
void take_out(std::vector<T*>& all, T* which) {
  all.erase(std::find(all.begin(), all.end(), which));
}

ibv_sge piece(state& s, fuzz::input& in, bool readable) {
  const ibv_mr* const mr = one_of(s.mrs, in);
  ibv_sge g{};
  g.addr = reinterpret_cast<std::uintptr_t>(memory.data() + guard) + in.take<std::uint16_t>();
  g.length = in.take<std::uint16_t>() % 3000;
  g.lkey = mr == nullptr ? in.take<std::uint32_t>() : mr->lkey + (in.byte() == 77);
  if (!readable && in.byte() == 200)
    g.addr = in.take<std::uint64_t>(), g.length = in.take<std::uint32_t>();
  return g;
}

void make_qp(job& j, state& s, fuzz::input& in) {
  static constexpr ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UD, IBV_QPT_UC, IBV_QPT_RAW_PACKET};
  ibv_qp_init_attr a{};
  a.send_cq = one_of(s.cqs, in);
  a.recv_cq = one_of(s.cqs, in);
  if (a.send_cq == nullptr) return;
  if (in.byte() % 3 == 0) a.srq = one_of(s.srqs, in);
  a.cap = {in.byte() % 70u, in.byte() % 70u, in.byte() % 6u, in.byte() % 6u, in.byte()};
  if (in.byte() == 9) a.cap.max_send_wr = in.take<std::uint32_t>();
  a.qp_type = types[in.byte() % std::size(types)];
  a.sq_sig_all = in.byte() % 2;
  if (ibv_qp* const qp = s.qps.size() < 6 ? v.create_qp(j.pd, &a) : nullptr) s.qps.push_back(qp);
}

void modify(job& j, state& s, fuzz::input& in) {
  ibv_qp* const qp = one_of(s.qps, in);
  if (qp == nullptr) return;
  ibv_qp_attr a{};
  a.port_num = 1;
  a.qp_access_flags = 15;
  a.path_mtu = IBV_MTU_1024;
  const ibv_qp* const other = one_of(s.qps, in);
  a.dest_qp_num = other->qp_num;
  a.ah_attr.is_global = 1;
  a.ah_attr.grh.dgid = j.gid;
  a.ah_attr.port_num = 1;
  a.max_dest_rd_atomic = a.max_rd_atomic = in.byte() % 20;
  a.min_rnr_timer = 1, a.timeout = 1, a.retry_cnt = in.byte() % 8, a.rnr_retry = in.byte() % 7;
  const bool rc = qp->qp_type == IBV_QPT_RC, ud = qp->qp_type == IBV_QPT_UD;
  static constexpr ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT,   IBV_QPS_RTR,
                                            IBV_QPS_RTS,   IBV_QPS_SQD,    IBV_QPS_SQE,
                                            IBV_QPS_ERR,   IBV_QPS_UNKNOWN};
  a.qp_state = states[in.byte() % std::size(states)];
  int mask = IBV_QP_STATE;
  if (a.qp_state == IBV_QPS_INIT)
    mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
  if (a.qp_state == IBV_QPS_RTR && !ud)
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
            (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
  if (a.qp_state == IBV_QPS_RTS)
    mask |=
        IBV_QP_SQ_PSN |
        (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0);
  if (in.byte() % 16 == 0) mask ^= 1 << in.byte() % 21;
  (void)v.modify_qp(qp, &a, mask);
}

void post(state& s, fuzz::input& in) {
  ibv_qp* const qp = one_of(s.qps, in);
  if (qp == nullptr) return;
  static constexpr ibv_wr_opcode opcodes[] = {
      IBV_WR_SEND,      IBV_WR_SEND_WITH_IMM,       IBV_WR_RDMA_WRITE,
      IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_ATOMIC_FETCH_AND_ADD,
      IBV_WR_LOCAL_INV, IBV_WR_SEND_WITH_INV,       IBV_WR_ATOMIC_CMP_AND_SWP,
      IBV_WR_TSO};
  ibv_send_wr wr{}, *bad = nullptr;
  std::array<ibv_sge, 8> sges{};
  wr.opcode = opcodes[in.byte() % std::size(opcodes)];
  wr.send_flags = in.byte() % 32u;
  wr.num_sge = in.byte() % 6;
  const bool inlined = (wr.send_flags & IBV_SEND_INLINE) != 0;  // read at once, without a key
  for (int i = 0; i < wr.num_sge; ++i) sges[static_cast<std::size_t>(i)] = piece(s, in, inlined);
  wr.sg_list = sges.data();
  const ibv_mr* const there = one_of(s.mrs, in);
  wr.wr.rdma = {reinterpret_cast<std::uintptr_t>(memory.data() + guard) + in.take<std::uint16_t>(),
                there == nullptr ? in.take<std::uint32_t>() : there->rkey};
  if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    const auto to = wr.wr.rdma;
    wr.wr.atomic = {to.remote_addr, 1, 2, to.rkey};
  }
  if (qp->qp_type == IBV_QPT_UD) wr.wr.ud = {nullptr, in.take<std::uint32_t>(), 0};
  if (qp->qp_type == IBV_QPT_UD && wr.wr.ud.ah == nullptr)
    return;  // a pointer of the caller's, as in every provider
  (void)ibv_post_send(qp, &wr, &bad);
}

void receive(state& s, fuzz::input& in) {
  std::array<ibv_sge, 8> sges{};
  ibv_recv_wr wr{}, *bad = nullptr;
  wr.num_sge = in.byte() % 6;
  for (int i = 0; i < wr.num_sge; ++i) sges[static_cast<std::size_t>(i)] = piece(s, in, false);
  wr.sg_list = sges.data();
  if (in.byte() % 3 == 0) {
    if (ibv_srq* const srq = one_of(s.srqs, in)) (void)ibv_post_srq_recv(srq, &wr, &bad);
  } else if (ibv_qp* const qp = one_of(s.qps, in)) {
    (void)ibv_post_recv(qp, &wr, &bad);
  }
}

void step(job& j, state& s, fuzz::input& in) {
  switch (in.byte() % 16) {
    case 0:
      if (ibv_cq* const cq = s.cqs.size() < 4
                                 ? v.create_cq(j.context, in.byte() % 100, nullptr, nullptr, 0)
                                 : nullptr)
        s.cqs.push_back(cq);
      break;
    case 1:
      make_qp(j, s, in);
      break;
    case 2:
    case 3:
    case 4:
      modify(j, s, in);
      break;
    case 5:
    case 6:
    case 7:
      post(s, in);
      break;
    case 8:
    case 9:
      receive(s, in);
      break;
    case 10:
    case 11:
      if (ibv_cq* const cq = one_of(s.cqs, in)) {
        std::array<ibv_wc, 8> wc;
        const int n = ibv_poll_cq(cq, 1 + in.byte() % 8, wc.data());
        FUZZ_CHECK(n <= 8);
      }
      break;
    case 12: {
      const std::size_t at = in.take<std::uint16_t>(), most = inner - at;
      const int access = in.byte() % 16;
      ibv_mr* const mr = s.mrs.size() < 6 ? v.reg_mr(j.pd, memory.data() + guard + at,
                                                     in.take<std::uint16_t>() % (most + 1), access)
                                          : nullptr;
      if (mr != nullptr) s.mrs.push_back(mr);
      break;
    }
    case 13: {
      ibv_srq_init_attr a{};
      a.attr = {in.byte() % 40u, in.byte() % 5u, in.byte() % 50u};
      if (ibv_srq* const srq = s.srqs.size() < 3 ? v.create_srq(j.pd, &a) : nullptr)
        s.srqs.push_back(srq);
      break;
    }
    case 14:  // in whatever order: a call refuses what is in use
      if (ibv_mr* const mr = in.byte() % 2 ? one_of(s.mrs, in) : nullptr) {
        if (v.dereg_mr(mr) == 0) take_out(s.mrs, mr);
      } else if (ibv_cq* const cq = in.byte() % 2 ? one_of(s.cqs, in) : nullptr) {
        if (v.destroy_cq(cq) == 0) take_out(s.cqs, cq);
      } else if (ibv_srq* const srq = in.byte() % 2 ? one_of(s.srqs, in) : nullptr) {
        if (v.destroy_srq(srq) == 0) take_out(s.srqs, srq);
      } else if (ibv_qp* const qp = one_of(s.qps, in)) {
        if (v.destroy_qp(qp) == 0) take_out(s.qps, qp);
      }
      break;
    default:
      if (ibv_cq* const cq = in.byte() % 2 ? one_of(s.cqs, in) : nullptr) {
        (void)v.resize_cq(cq, in.byte());
        (void)ibv_req_notify_cq(cq, in.byte() % 2);
      } else if (ibv_qp* const qp = one_of(s.qps, in)) {
        ibv_qp_attr a{};
        ibv_qp_init_attr i{};
        (void)v.query_qp(qp, &a, in.take<int>(), &i);
      }
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  static job j;
  memory.fill(0xa5);
  fuzz::input in(data, bytes);
  state s;
  while (!in.empty()) step(j, s, in);
  for (ibv_qp* const qp : s.qps) FUZZ_CHECK(v.destroy_qp(qp) == 0);
  for (ibv_srq* const srq : s.srqs) FUZZ_CHECK(v.destroy_srq(srq) == 0);
  for (ibv_mr* const mr : s.mrs) FUZZ_CHECK(v.dereg_mr(mr) == 0);
  for (ibv_cq* const cq : s.cqs) FUZZ_CHECK(v.destroy_cq(cq) == 0);
  const auto untouched = [](std::size_t from) {
    return std::all_of(memory.begin() + static_cast<std::ptrdiff_t>(from),
                       memory.begin() + static_cast<std::ptrdiff_t>(from + guard),
                       [](std::uint8_t b) { return b == 0xa5; });
  };
  FUZZ_CHECK(untouched(0) && untouched(guard + inner));
  return 0;
}
