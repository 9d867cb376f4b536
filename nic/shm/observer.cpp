#include "nic/shm/observer.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "lib/base/descriptors.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/cq.hpp"
#include "nic/shm/qp.hpp"

namespace penstock::nic::shm {
namespace {

void add(std::atomic<std::uint64_t>& to, std::uint64_t n) noexcept {
  to.fetch_add(n, std::memory_order_relaxed);  // relaxed: a count
}

std::uint64_t packets_of(const queue_pair& qp, std::uint64_t bytes) noexcept {
  const std::uint64_t mtu = connected(qp) ? 128ull << qp.attr.path_mtu : 4096;
  return std::max<std::uint64_t>(1, (bytes + mtu - 1) / mtu);
}

}  // namespace

traffic_file* traffic_file::map(const char* path, bool make) noexcept {
  const int fd =
      opened("open", ::open(path, O_RDWR | O_CLOEXEC | (make ? O_CREAT | O_TRUNC : 0), 0600));
  if (fd < 0) return nullptr;
  struct stat st {};
  void* p = MAP_FAILED;
  if ((make ? ::ftruncate(fd, sizeof(traffic_file)) : ::fstat(fd, &st)) == 0) {
    if (make || st.st_size == sizeof(traffic_file))
      p = ::mmap(nullptr, sizeof(traffic_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    else
      errno = EINVAL;
  }
  const int e = errno;
  ::close(fd);
  return p == MAP_FAILED ? (errno = e, nullptr) : static_cast<traffic_file*>(p);
}

qp_traffic* traffic_file::take() noexcept {
  const std::uint32_t i = used.fetch_add(1, std::memory_order_relaxed);  // relaxed: a place
  return i < most ? &at[i] : nullptr;
}

std::uint32_t traffic_file::count() const noexcept {
  return std::min(used.load(std::memory_order_relaxed), most);  // relaxed: penverbs looks again
}

std::unique_ptr<observer> observer::of_environment(context& c) noexcept {
  const char *stats = std::getenv("PENVERBS_STATS"), *trace = std::getenv("PENVERBS_TRACE");
  errno = 0;
  if (stats == nullptr && trace == nullptr) return nullptr;
  std::unique_ptr<observer> o(new (std::nothrow) observer);
  if (!o) return errno = ENOMEM, nullptr;
  if (stats != nullptr && (o->traffic_ = traffic_file::map(stats, false)) == nullptr)
    return nullptr;
  if (trace != nullptr) {
    if (const int e = o->trace_.open(trace)) return errno = e, nullptr;
    o->traces_ = true;
  }
  o->poll = played(c) ? played_poll_cq : poll_cq;
  o->attempt = c.attempt;
  c.attempt = observed_attempt;
  if (c.play == nullptr) c.post = observed_post;
  return o;
}

void observer::know(queue_pair& qp) {
  if (traffic_ == nullptr) return;
  const std::lock_guard guard(lock_);
  const auto at = qps_.insert_or_assign(qp.qp_num, &qp).first;  // before it is counted for good
  if ((qp.traffic = traffic_->take()) == nullptr) return void(qps_.erase(at));
  qp.traffic->device = qp.owner->device != nullptr ? qp.owner->device->index : 0;
  qp.traffic->pid = static_cast<std::uint32_t>(::getpid());
  qp.traffic->qpn = qp.qp_num;
  qp.traffic->type = qp.qp_type;
}

void observer::forget(const queue_pair& qp) noexcept {
  const std::lock_guard guard(lock_);
  qps_.erase(qp.qp_num);
}

void observer::sent(queue_pair& qp, const send_work& w, ibv_wc_status status) noexcept {
  if (w.opcode == IBV_WR_BIND_MW || w.opcode == IBV_WR_LOCAL_INV) return;  // no message
  if (traces_) trace_.message(qp, w, status);
  qp_traffic* t = qp.traffic;
  if (t == nullptr) return;
  if (status != IBV_WC_SUCCESS) {
    if (status != IBV_WC_WR_FLUSH_ERR) add(t->errors, 1);
    return;
  }
  t->peer_qpn.store(connected(qp) ? peer_qpn(qp) : w.datagram_qpn, std::memory_order_relaxed);
  const bool answers =  // bytes come back
      w.opcode == IBV_WR_RDMA_READ || w.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
      w.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  const bool reaches =
      answers || w.opcode == IBV_WR_RDMA_WRITE || w.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  add(t->sent, 1);
  add(t->sent_bytes, answers ? 0 : w.bytes);
  add(t->sent_packets, answers ? 1 : packets_of(qp, w.bytes));
  if (!reaches) add(t->sends, 1);
  if (answers) add(t->received_bytes, w.bytes), add(t->received_packets, packets_of(qp, w.bytes));
}

void observer::received(const ibv_wc* wc, int n) noexcept {
  if (traffic_ == nullptr) return;
  for (int i = 0; i < n; ++i) {
    if (wc[i].status != IBV_WC_SUCCESS || (wc[i].opcode & IBV_WC_RECV) == 0) continue;
    const std::lock_guard guard(lock_);
    const auto at = qps_.find(wc[i].qp_num);
    if (at == qps_.end()) continue;
    // The bytes of a WRITE with immediate have come, too.
    add(at->second->traffic->received, 1);
    add(at->second->traffic->received_bytes, wc[i].byte_len);
    add(at->second->traffic->received_packets, packets_of(*at->second, wc[i].byte_len));
  }
}

int observed_poll_cq(ibv_cq* cq, int n, ibv_wc* wc) noexcept {
  observer& o = *of(cq).owner->watched;
  const int got = o.poll(cq, n, wc);
  o.received(wc, got);
  return got;
}

int observed_post_send(ibv_qp* handle, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  queue_pair& qp = of(handle);
  if (qp.owner->play != nullptr) return played_post_send(handle, wr, bad);
  const hold guard(qp.sending);
  return qp.owner->post(qp, wr, bad);
}

outcome observed_attempt(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept {
  observer& o = *qp.owner->watched;
  const outcome result = o.attempt(qp, w, why);
  if (result != outcome::wait) o.sent(qp, w, result == outcome::done ? IBV_WC_SUCCESS : *why);
  return result;
}

}  // namespace penstock::nic::shm
