// Extended reliable connections: a receiving QP has no receives of its own; each message names the
// shared receive queue that it is for. QPs and queues that may meet belong to one domain.
//
// How it goes. A sender puts the number of the queue into its peer's ring, before the message
// (kind_select), and claims its receive from that queue's entry. The rings of a domain's receiving
// QPs are looked at through a completion queue of the domain's own, in which nothing is ever
// stored: a receive completes in the completion queue that its shared receive queue was made with,
// and whoever polls or arms that one looks at the domain's rings first.
//
// Not here: domains that processes share (each process that names the same file has its own), and
// ibv_open_qp.
#pragma once

#include <infiniband/verbs.h>

#include <sys/types.h>

#include <atomic>
#include <cstdint>

namespace penstock::nic::shm {

struct completion_queue;
struct queue_pair;
struct shared_receive_queue;

struct xrc_domain {
  std::uint32_t number = 0;           ///< in the context; never 0
  completion_queue* rings = nullptr;  ///< the domain's own, through which its QPs' rings are seen
  dev_t device = 0;                   ///< of the file that names it; both 0: nothing does
  ino_t file = 0;
  std::uint32_t handles = 0;                ///< under context::objects
  std::atomic<std::uint32_t> users{0};      ///< QPs and shared receive queues
  std::atomic<std::uint32_t> pd_number{0};  ///< of the queue that was made last
  std::atomic<std::uint32_t> queues{0};     ///< completion queues that take its receives, at least
};

struct xrc_handle : ibv_xrcd {
  xrc_domain* domain = nullptr;
};
inline xrc_domain& of(ibv_xrcd* x) noexcept { return *static_cast<xrc_handle*>(x)->domain; }

ibv_xrcd* open_xrcd(ibv_context*, ibv_xrcd_init_attr*);
int close_xrcd(ibv_xrcd*);
/// Basic and XRC; others end with EOPNOTSUPP.
ibv_srq* create_srq_ex(ibv_context*, ibv_srq_init_attr_ex*);
int get_srq_num(ibv_srq*, std::uint32_t* number);
/// A QP of type XRC_RECV.
ibv_qp* create_xrc_receiver(ibv_context*, ibv_qp_init_attr*, xrc_domain&);

/// Takes in what lies in the rings whose receives complete in this queue. Under its poll.
void gather(completion_queue& cq) noexcept;
/// Lets senders of those ring, on behalf of a program that is about to sleep; the fence between
/// arm_domains() and look_at_domains() is the caller's.
void arm_domains(completion_queue& cq) noexcept;
void look_at_domains(completion_queue& cq) noexcept;
/// The queue of that number, if the QP's domain has it and a receive may complete in it now.
shared_receive_queue* select_queue(queue_pair& qp, std::uint32_t number) noexcept;
/// A queue or completion queue that is being destroyed is no QP's any more.
void forget_queue(shared_receive_queue& srq) noexcept;

}  // namespace penstock::nic::shm
