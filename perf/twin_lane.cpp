// Making, connecting and driving the verbs objects of one measurement.
#include "perf/twin_lane.hpp"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/clock.hpp"

namespace penstock::perf {
namespace {

/// What the two lanes tell each other.
struct lane_address {
  nic::address where;
  std::uint32_t qpn = 0;
  std::uint32_t key = 0;
  std::uint64_t target = 0;
  std::uint8_t reads = 0;
  std::uint8_t failed = 0;
};
static_assert(sizeof(lane_address) <= 64);

failure verb_failed(const char* verb, const nic::device& d, int code) {
  std::string what = "the bare-verbs twin: ";
  what += verb;
  what += " on ";
  what += d.name;
  return {std::move(what), code, ""};
}

}  // namespace

lane::~lane() {
  if (qp_ != nullptr) v_.destroy_qp(qp_);
  if (srq_ != nullptr) v_.destroy_srq(srq_);
  if (sends_ != nullptr) v_.destroy_cq(sends_);
  if (receives_ != nullptr) v_.destroy_cq(receives_);
}

result<void> lane::open(const lane_shape& shape, const blob_swap& swap) {
  shape_ = shape;
  result<void> made = make();
  if (!made) {
    // The peer waits for an address: it gets one that says so.
    lane_address mine;
    mine.failed = 1;
    char out[64] = {}, in[64];
    std::memcpy(out, &mine, sizeof mine);
    (void)swap(out, in);
    return made;
  }
  return connect(swap);
}

result<void> lane::make() {
  const auto whole = [](std::uint32_t n) { return static_cast<int>(n); };
  sends_ = v_.create_cq(device_.context, whole(shape_.depth + 1), nullptr, nullptr, 0);
  receives_ = v_.create_cq(device_.context, whole(shape_.receives + 1), nullptr, nullptr, 0);
  if (sends_ == nullptr || receives_ == nullptr) return verb_failed("create_cq", device_, errno);
  ibv_srq_init_attr srq_init{};
  srq_init.attr.max_wr = shape_.receives;
  srq_init.attr.max_sge = 1;
  srq_ = v_.create_srq(pd_, &srq_init);
  if (srq_ == nullptr) return verb_failed("create_srq", device_, errno);

  // A deep queue may be granted less inline data than a shallow one.
  for (std::uint32_t wanted = device_.max_inline; qp_ == nullptr; wanted /= 2) {
    ibv_qp_init_attr init{};
    init.send_cq = sends_;
    init.recv_cq = receives_;
    init.srq = srq_;
    init.cap.max_send_wr = shape_.depth;
    init.cap.max_send_sge = 1;
    init.cap.max_inline_data = wanted;
    init.qp_type = IBV_QPT_RC;
    qp_ = v_.create_qp(pd_, &init);
    if (qp_ != nullptr) inline_limit_ = std::min(wanted, init.cap.max_inline_data);
    if (qp_ == nullptr && wanted == 0) return verb_failed("create_qp", device_, errno);
  }

  slots_.resize(shape_.receives);
  slot_sges_.resize(shape_.receives);
  for (std::uint32_t i = 0; i < shape_.receives; ++i) {
    slot_sges_[i].addr = reinterpret_cast<std::uintptr_t>(memory_.base) + memory_.slots +
                         std::uint64_t{i} * shape_.stride;
    slot_sges_[i].length = shape_.stride;
    slot_sges_[i].lkey = memory_.mr->lkey;
    slots_[i] = {.wr_id = i,
                 .next = &slots_[(i + 1) % shape_.receives],
                 .sg_list = &slot_sges_[i],
                 .num_sge = 1};
  }
  slots_.back().next = nullptr;
  ibv_recv_wr* bad = nullptr;
  if (const int e = ibv_post_srq_recv(srq_, slots_.data(), &bad); e != 0)
    return verb_failed("post_srq_recv", device_, e);
  slots_.back().next = slots_.data();
  return {};
}

result<void> lane::connect(const blob_swap& swap) {
  lane_address mine, theirs;
  mine.where = device_.self;
  mine.qpn = qp_->qp_num;
  mine.key = memory_.mr->rkey;
  mine.target = reinterpret_cast<std::uintptr_t>(memory_.base) + memory_.target;
  mine.reads = static_cast<std::uint8_t>(std::clamp(
      std::min(device_.limits.max_qp_rd_atom, device_.limits.max_qp_init_rd_atom), 0, 16));
  char out[64] = {}, in[64] = {};
  std::memcpy(out, &mine, sizeof mine);
  if (!swap(out, in)) return verb_failed("connecting (the peer is gone)", device_, 0);
  std::memcpy(&theirs, in, sizeof theirs);
  if (theirs.failed != 0) return verb_failed("connecting (the peer failed)", device_, 0);
  remote_target_ = theirs.target;
  remote_key_ = theirs.key;
  reads_ = std::min(mine.reads, theirs.reads);

  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = device_.self.port;
  a.pkey_index = device_.paths.pkey_index;
  a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  int e =
      v_.modify_qp(qp_, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (e != 0) return verb_failed("modify_qp to INIT", device_, e);
  a = {};
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = static_cast<ibv_mtu>(std::min(mine.where.mtu, theirs.where.mtu));
  a.dest_qp_num = theirs.qpn;
  a.max_dest_rd_atomic = reads_;
  a.min_rnr_timer = 1;
  a.ah_attr = device_.path_to(theirs.where, nic::flow_of(qp_->qp_num, theirs.qpn));
  e = v_.modify_qp(qp_, &a,
                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (e != 0) return verb_failed("modify_qp to RTR", device_, e);
  a = {};
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 14;
  a.retry_cnt = 6;
  a.rnr_retry = 7;
  a.max_rd_atomic = reads_;
  e = v_.modify_qp(qp_, &a,
                   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  if (e != 0) return verb_failed("modify_qp to RTS", device_, e);
  // Neither side sends before both are ready.
  if (!swap(out, in)) return verb_failed("connecting (the peer is gone)", device_, 0);
  return {};
}

void lane::prepare(ibv_send_wr& wr, ibv_sge& sge, std::uint32_t bytes) const noexcept {
  sge = {reinterpret_cast<std::uintptr_t>(memory_.base), bytes, memory_.mr->lkey};
  wr = {};
  wr.sg_list = &sge;
  wr.num_sge = bytes == 0 ? 0 : 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = bytes <= inline_limit_ ? static_cast<unsigned>(IBV_SEND_INLINE) : 0u;
}

bool lane::post(ibv_send_wr& wr, bool signalled) noexcept {
  constexpr auto flag = static_cast<unsigned>(IBV_SEND_SIGNALED);
  ++posted_;
  // The completion carries how many sends are done with it.
  wr.wr_id = posted_;
  wr.send_flags = signalled ? wr.send_flags | flag : wr.send_flags & ~flag;
  ibv_send_wr* bad = nullptr;
  const int e = ibv_post_send(qp_, &wr, &bad);
  return e == 0 || fail("post_send", e);
}

bool lane::reap() noexcept {
  ibv_wc wc[16];
  const int n = ibv_poll_cq(sends_, 16, wc);
  if (n < 0) return fail("poll_cq", EIO);
  for (int i = 0; i < n; ++i) {
    if (wc[i].status != IBV_WC_SUCCESS) return fail(v_.wc_status_str(wc[i].status), 0);
    done_ = static_cast<std::uint32_t>(wc[i].wr_id);
  }
  if (n > 0) found();
  return true;
}

int lane::receive(std::span<ibv_wc> wc) noexcept {
  const int n = ibv_poll_cq(receives_, static_cast<int>(wc.size()), wc.data());
  for (int i = 0; i < n; ++i)
    if (wc[static_cast<std::size_t>(i)].status != IBV_WC_SUCCESS) {
      (void)fail(v_.wc_status_str(wc[static_cast<std::size_t>(i)].status), 0);
      return -1;
    }
  if (n < 0) (void)fail("poll_cq", EIO);
  if (n > 0) found();
  return n;
}

bool lane::repost(std::uint32_t n) noexcept {
  consumed_ += n;
  const std::uint32_t batch = std::max(1u, shape_.receives / 4);
  while (consumed_ >= batch) {
    ibv_recv_wr* const first = &slots_[next_slot_];
    ibv_recv_wr* const last = &slots_[(next_slot_ + batch - 1) % shape_.receives];
    ibv_recv_wr* const after = last->next;
    last->next = nullptr;
    ibv_recv_wr* bad = nullptr;
    const int e = ibv_post_srq_recv(srq_, first, &bad);
    last->next = after;
    if (e != 0) return fail("post_srq_recv", e);
    next_slot_ = (next_slot_ + batch) % shape_.receives;
    consumed_ -= batch;
  }
  return true;
}

bool lane::fail(const char* what, int code) noexcept {
  problem_ = verb_failed(what, device_, code);
  return false;
}

bool lane::idle_slow() noexcept {
  empty_ = 4096 - 16;  // from here on the core is given away at every sixteenth look
  sched_yield();
  const std::uint64_t now = now_ns();
  if (idle_since_ == 0) idle_since_ = now;
  return now - idle_since_ < timeout_ns_ || fail("nothing came within the timeout", ETIMEDOUT);
}

}  // namespace penstock::perf
