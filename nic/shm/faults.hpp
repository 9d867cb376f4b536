// What a context does when it has a fault plan (fault_plan.hpp). A context without a plan has no
// object of this class: its operations are the ordinary ones (fill_operations), and the rest of the
// device asks for it only where a program would enter the kernel on an adapter.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "nic/shm/fault_plan.hpp"
#include "nic/shm/layout.hpp"
#include "nic/shm/lock.hpp"

namespace penstock::nic::shm {

struct context;
struct queue_pair;
struct completion_queue;
struct send_work;
enum class outcome : std::uint8_t;  // qp.hpp

class faults {
 public:
  faults(context& c, const fault_plan& p);

  const fault_plan plan;

  /// Counts a call; answers the errno with which this one has to end, or 0.
  int call(verb v) noexcept;
  /// True with that probability.
  bool happens(double share) noexcept;
  std::uint64_t random() noexcept;

  [[nodiscard]] bool gone() const noexcept { return gone_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool port_is_down() const noexcept { return down_.load(std::memory_order_relaxed); }
  /// Sends take time: a poll looks at unfinished sends every time.
  [[nodiscard]] bool plays_a_link() const noexcept {
    return plan.delay_ns != 0 || plan.ns_per_byte != 0;
  }
  /// A send, a datagram or the device's end waits for the clock: the pusher has to look again soon.
  [[nodiscard]] bool has_dates() const noexcept {
    return dates_left_.load(std::memory_order_relaxed);
  }

  /// Plans a send that is being posted: it will fail, or it begins at its time.
  void plan_send(const queue_pair& qp, send_work& w) noexcept;
  /// Takes the device or the port away, or gives the port back, when that is due. Any thread that
  /// holds no lock of the device.
  void look_at_the_clock() noexcept;
  /// Called when completions of receives are handed out: turns the k-th into an error.
  void look_at_receives(completion_queue& cq, int n, ibv_wc* wc) noexcept;

  /// A datagram that waits until another one has overtaken it. Under context::datagram_lock.
  struct {
    std::vector<std::byte> bytes;
    std::uint64_t until_ns = 0;
  } overtaken;

  // The QPs of the context, so that any poll begins the sends whose time has come.
  void know(queue_pair& qp);
  void forget(queue_pair& qp) noexcept;
  void push_all() noexcept;

 private:
  bool due(const fault_plan::moment& m, std::uint64_t now) const noexcept;
  void cut_off(qp_public from, qp_public to) noexcept;

  context& context_;
  const std::uint64_t opened_ns_;
  std::atomic<std::uint64_t> counts_[static_cast<std::size_t>(verb::count)]{};
  std::atomic<std::uint64_t> sends_{0}, receives_{0}, random_;
  std::atomic<std::uint64_t> link_free_ns_{0};
  std::atomic<bool> gone_{false}, down_{false}, was_down_{false}, dates_left_;
  spin_lock clock_lock_;
  std::uint64_t down_since_ns_ = 0;  // under clock_lock_
  spin_lock qps_lock_;
  std::vector<queue_pair*> qps_;  // under qps_lock_
};

// played.cpp: the functions that take the place of the ordinary operations.
int played_post_send(ibv_qp*, ibv_send_wr*, ibv_send_wr** bad) noexcept;
int played_post_recv(ibv_qp*, ibv_recv_wr*, ibv_recv_wr** bad) noexcept;
int played_post_srq_recv(ibv_srq*, ibv_recv_wr*, ibv_recv_wr** bad) noexcept;
int played_poll_cq(ibv_cq*, int n, ibv_wc* wc) noexcept;
int played_req_notify_cq(ibv_cq*, int solicited_only) noexcept;
/// post_held() and attempt() of such a context.
int played_post(queue_pair& qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept;
outcome played_attempt(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept;
/// Moves the bytes of a WRITE in pieces, in any order.
int move_in_any_order(queue_pair& qp, send_work& w) noexcept;

}  // namespace penstock::nic::shm
