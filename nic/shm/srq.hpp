// Shared receive queues.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

#include "lib/base/use_count.hpp"
#include "nic/shm/layout.hpp"
#include "nic/shm/receive_queue.hpp"

namespace penstock::nic::shm {

struct context;
struct completion_queue;
struct xrc_domain;

struct shared_receive_queue : ibv_srq {
  shm::context* owner;
  std::uint32_t index;
  srq_entry* shown;  ///< in our arena: what senders claim from
  receive_queue works;
  std::uint32_t limit = 0;  // under works.lock
  // Of an XRC queue (xrc.hpp), fixed.
  xrc_domain* domain = nullptr;
  completion_queue* cq = nullptr;  ///< where its receives complete
  std::uint32_t pd_number = 0;
  use_count users;
  std::atomic<std::uint32_t> async_delivered{0};  ///< events handed out; see destroy
};

inline shared_receive_queue& of(ibv_srq* s) noexcept {
  return *static_cast<shared_receive_queue*>(s);
}

/// Claims a receive that nobody has claimed. False when there is none.
inline bool try_claim(srq_entry& e) noexcept {
  std::int64_t n = e.available.load(std::memory_order_relaxed);
  while (n > 0)
    // S2 claim  acquire available  <- S1
    if (e.available.compare_exchange_weak(n, n - 1, std::memory_order_acquire,
                                          std::memory_order_relaxed))
      return true;
  return false;
}

/// Takes the oldest receive, for which a claim has been made; raises the limit event when fewer
/// than the limit are left. False when there is none.
bool take(shared_receive_queue& srq, receive_work& w, ibv_sge* list) noexcept;

int post_srq_recv(ibv_srq*, ibv_recv_wr*, ibv_recv_wr** bad) noexcept;
ibv_srq* create_srq(ibv_pd*, ibv_srq_init_attr*);
int modify_srq(ibv_srq*, ibv_srq_attr*, int mask);
int query_srq(ibv_srq*, ibv_srq_attr*) noexcept;
int destroy_srq(ibv_srq*) noexcept;

}  // namespace penstock::nic::shm
