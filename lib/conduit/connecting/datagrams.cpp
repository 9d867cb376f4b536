#include "lib/conduit/connecting/datagrams.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "lib/base/log.hpp"
#include "lib/base/mapped_memory.hpp"
#include "lib/base/shortage.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr std::uint32_t qkey = 0x11111111;

}  // namespace

result<std::unique_ptr<datagrams>> datagrams::open(nic::device& dev, ibv_pd* pd,
                                                   std::uint32_t buffers,
                                                   ibv_comp_channel* channel) {
  std::unique_ptr<datagrams> d(new datagrams);
  d->dev_ = &dev;
  if (auto r = d->set_up(pd, buffers, channel); !r) return r.error();
  return d;
}

result<void> datagrams::set_up(ibv_pd* pd, std::uint32_t buffers, ibv_comp_channel* channel) {
  const nic::calls& v = *dev_->verbs;
  const auto failed = [this](const char* what, int e) {
    return failure{std::string(what) + " for connection set-up on " + dev_->name, e,
                   what_to_raise(e)};
  };
  pd_ = pd;
  buffers_ = buffers;
  memory_bytes_ = std::size_t{buffers} * (grh + max_bytes) + std::size_t{sends} * max_bytes;
  void* m =
      mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m == MAP_FAILED) return failed("mmap", errno);
  memory_ = static_cast<std::byte*>(m);
  note_mapped("datagrams", m, memory_bytes_);
  mr_ = v.reg_mr(pd, memory_, memory_bytes_, IBV_ACCESS_LOCAL_WRITE);
  if (mr_ == nullptr) return failed("ibv_reg_mr", errno);
  send_cq_ = v.create_cq(dev_->context, sends, nullptr, nullptr, 0);
  recv_cq_ = v.create_cq(dev_->context, static_cast<int>(buffers), nullptr, channel, 0);
  if (send_cq_ == nullptr || recv_cq_ == nullptr) return failed("ibv_create_cq", errno);
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_UD;
  init.send_cq = send_cq_;
  init.recv_cq = recv_cq_;
  init.cap = {.max_send_wr = sends,
              .max_recv_wr = buffers,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  init.sq_sig_all = 1;
  qp_ = v.create_qp(pd, &init);
  if (qp_ == nullptr) return failed("ibv_create_qp", errno);
  return start();
}

result<void> datagrams::start() {
  const nic::calls& v = *dev_->verbs;
  const auto failed = [this](const char* what, int e) {
    return failure{std::string(what) + " for connection set-up on " + dev_->name, e,
                   what_to_raise(e)};
  };
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = dev_->self.port;
  a.pkey_index = dev_->paths.pkey_index;
  a.qkey = qkey;
  if (int e = v.modify_qp(qp_, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
      e != 0)
    return failed("ibv_modify_qp to INIT", e);
  for (std::uint32_t i = 0; i < buffers_; ++i) post(i);
  a.qp_state = IBV_QPS_RTR;
  if (int e = v.modify_qp(qp_, &a, IBV_QP_STATE); e != 0) return failed("ibv_modify_qp to RTR", e);
  a.qp_state = IBV_QPS_RTS;
  a.sq_psn = 0;
  if (int e = v.modify_qp(qp_, &a, IBV_QP_STATE | IBV_QP_SQ_PSN); e != 0)
    return failed("ibv_modify_qp to RTS", e);
  return {};
}

// Brings the queue pair back after an error, which has stopped it. The datagrams that it held are
// lost, as datagrams may be: hellos are repeated.
void datagrams::start_again(const char* why) noexcept {
  const nic::calls& v = *dev_->verbs;
  log(log_level::info, "connection set-up on %s starts again: %s", dev_->name.c_str(), why);
  ibv_qp_attr a{};
  ibv_wc wc[sends];
  a.qp_state = IBV_QPS_ERR;
  [[maybe_unused]] const int stopped = v.modify_qp(qp_, &a, IBV_QP_STATE);
  for (ibv_cq* cq : {send_cq_, recv_cq_})
    while (ibv_poll_cq(cq, sends, wc) > 0) {
    }
  a.qp_state = IBV_QPS_RESET;
  const int e = v.modify_qp(qp_, &a, IBV_QP_STATE);
  const auto started = e == 0 ? start() : failure{"ibv_modify_qp to RESET", e, ""};
  if (!started)
    fatal(1, "connection set-up on %s failed (%s), and does not start again: %s",
          dev_->name.c_str(), why, started.error().message().c_str());
  free_sends_ = sends;
}

datagrams::~datagrams() {
  const nic::calls& v = *dev_->verbs;
  for (auto& [rank, ah] : handles_) v.destroy_ah(ah);
  if (qp_ != nullptr) v.destroy_qp(qp_);
  if (send_cq_ != nullptr) v.destroy_cq(send_cq_);
  if (recv_cq_ != nullptr) v.destroy_cq(recv_cq_);
  if (mr_ != nullptr) v.dereg_mr(mr_);
  forget_mapped(memory_);
  if (memory_ != nullptr) munmap(memory_, memory_bytes_);
}

int datagrams::poll(ibv_cq* cq, int most, ibv_wc* wc) noexcept {
  const int n = ibv_poll_cq(cq, most, wc);
  if (n < 0) fatal(1, "ibv_poll_cq of connection set-up failed on %s", dev_->name.c_str());
  return n;
}

void datagrams::post(std::uint32_t i) noexcept {
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(memory_ + i * (grh + max_bytes)), grh + max_bytes,
              mr_->lkey};
  ibv_recv_wr wr{.wr_id = i, .next = nullptr, .sg_list = &sge, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  if (ibv_post_recv(qp_, &wr, &bad) != 0)
    log(log_level::warning, "a receive buffer for connection set-up is lost");
}

void datagrams::send(std::uint32_t rank, const nic::address& to, std::uint32_t qpn,
                     const void* bytes, std::size_t n) noexcept {
  ibv_wc wc[sends];
  const int done = poll(send_cq_, sends, wc);
  free_sends_ += static_cast<std::uint32_t>(done);
  for (int i = 0; i < done; ++i)
    if (wc[i].status != IBV_WC_SUCCESS) {
      start_again(dev_->verbs->wc_status_str(wc[i].status));
      break;
    }
  ibv_ah*& ah = handles_[rank];
  if (ah == nullptr) {
    ibv_ah_attr path = dev_->path_to(to, nic::flow_of(qp_->qp_num, qpn));
    ah = dev_->verbs->create_ah(pd_, &path);
    if (ah == nullptr)
      log(log_level::error, "ibv_create_ah for rank %u: %s", rank, std::strerror(errno));
  }
  if (ah != nullptr && free_sends_ != 0) {
    std::byte* const at =
        memory_ + std::size_t{buffers_} * (grh + max_bytes) + next_send_ * max_bytes;
    std::memcpy(at, bytes, n);
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(at), static_cast<std::uint32_t>(n), mr_->lkey};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = qpn;
    wr.wr.ud.remote_qkey = qkey;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp_, &wr, &bad) == 0) {
      --free_sends_;
      next_send_ = (next_send_ + 1) % sends;
    }
  }
}

bool datagrams::receive(std::byte* bytes, std::size_t& n) noexcept {
  ibv_wc wc;
  if (poll(recv_cq_, 1, &wc) != 1) return false;
  const auto i = static_cast<std::uint32_t>(wc.wr_id);
  n = 0;
  if (wc.status == IBV_WC_SUCCESS && wc.byte_len >= grh && wc.byte_len <= grh + max_bytes) {
    n = wc.byte_len - grh;
    std::memcpy(bytes, memory_ + i * (grh + max_bytes) + grh, n);
  }
  if (wc.status == IBV_WC_SUCCESS)
    post(i);
  else
    start_again(dev_->verbs->wc_status_str(wc.status));
  return true;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
