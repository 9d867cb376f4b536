// Extended reliable connections: a receiving QP has no receives of its own; each message names the
// shared receive queue that it is for. QPs and queues that may meet belong to one domain.
//
// How it works. A sender puts the number of the queue into its peer's ring (kind_select), then
// claims its receive from that queue's entry, then pushes the message. So the ring tells to which
// queue each claim belongs, also that of a message which its sender did not live to push. Each
// domain has a completion queue of its own, through which the rings of its receiving QPs are looked
// at, and in which nothing is ever stored. A receive completes in the completion queue with which
// its shared receive queue was made, and a thread that polls or arms that one looks at the domain's
// rings first.
//
// Not here: domains that processes share (each process that names the same file has its own), and
// ibv_open_qp.
#pragma once

#include <infiniband/verbs.h>

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "lib/base/use_count.hpp"

namespace penstock::nic::shm {

struct completion_queue;
struct queue_pair;
struct shared_receive_queue;

struct xrc_domain {
  std::uint32_t number = 0;           ///< in the context; never 0
  completion_queue* rings = nullptr;  ///< of the domain: it leads to the rings of its QPs
  dev_t device = 0;                   ///< of the file that names the domain; both 0: no file does
  ino_t file = 0;
  std::uint32_t handles = 0;                ///< under context::objects
  use_count users;                          ///< QPs and shared receive queues
  std::atomic<std::uint32_t> pd_number{0};  ///< of the queue that was made last
  std::atomic<std::uint32_t> queues{0};  ///< how many completion queues take its receives, at least
};

struct xrc_handle : ibv_xrcd {
  xrc_domain* domain = nullptr;
};
inline xrc_domain& of(ibv_xrcd* x) noexcept { return *static_cast<xrc_handle*>(x)->domain; }

ibv_xrcd* open_xrcd(ibv_context*, ibv_xrcd_init_attr*);
int close_xrcd(ibv_xrcd*) noexcept;
/// Basic and XRC; others end with EOPNOTSUPP.
ibv_srq* create_srq_ex(ibv_context*, ibv_srq_init_attr_ex*);
int get_srq_num(ibv_srq*, std::uint32_t* number) noexcept;
/// A QP of type XRC_RECV.
ibv_qp* create_xrc_receiver(ibv_context*, ibv_qp_init_attr*, xrc_domain&);

/// Takes in the messages in those rings whose receives complete in this queue. Under its poll.
void gather(completion_queue& cq) noexcept;
/// Lets senders ring the bells of those rings, on behalf of a program that is about to sleep. The
/// caller makes the fence between arm_domains() and look_at_domains().
void arm_domains(completion_queue& cq) noexcept;
void look_at_domains(completion_queue& cq) noexcept;
/// The queue of that number, if the QP's domain has it and a receive may complete in it now; else
/// null.
shared_receive_queue* select_queue(queue_pair& qp, std::uint32_t number) noexcept;
/// To be called for a queue or completion queue that is being destroyed: no QP uses it any more.
void forget_queue(shared_receive_queue& srq) noexcept;

}  // namespace penstock::nic::shm
