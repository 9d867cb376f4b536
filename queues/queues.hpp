// The umbrella header of queues: what one engine needs of a verbs device, under the names of the
// seeds.
//
//   SAFE_EQ  send_cq (completions of what was sent), reply_cq (replies and system messages):
//            polled any time, their handling waits for nothing                     (I3)
//   AM_EQ    am_cq (requests): polled only by who holds a reply chunk and a spare of either size
//   SYS_EQ   the UD queue pair's queue (lib/conduit/connecting/datagrams.hpp)
//   ReqSB    request_chunks; a request's chunk receives its reply by RDMA write with immediate
//   RplSB    reply_chunks
//   ReqRB    small (256-byte) receive_pool, an SRQ; larger messages are placed in a space of their
//            sender's, and take a small receive each. Where there is no space for all senders: bulk
//            (full-size) receive_pool, an SRQ with queue pairs of its own
// Capacity (I6): am_cq holds a completion for every posted buffer, reply_cq
// for every receive of the reply SRQ, send_cq one for each ticket of send_room and for each work
// request that may be unsignalled (dimensions::leaves_unsignalled).
//
// All of these have room for a few peers at start, and are made longer before a further one is
// connected (admit_peer): first the completion queues, then the SRQs, and last the receives are
// posted and the tickets given out. A device that cannot make SRQs longer gets them at full length,
// and so it is with completion queues.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <memory>
#include <mutex>

#include "lib/base/build_mode.hpp"
#include "lib/base/result.hpp"
#include "memreg/memreg.hpp"
#include "nic/device.hpp"
#include "queues/chunk_pool.hpp"
#include "queues/completion_room.hpp"
#include "queues/dimensions.hpp"
#include "queues/lane.hpp"
#include "queues/placed_ring.hpp"
#include "queues/qp_table.hpp"
#include "queues/receive_pool.hpp"

namespace penstock::queues::PENSTOCK_ABI {

enum side { small_side, reply_side, bulk_side };

class message_queues {
 public:
  /// channel (or null): gets an event for the completions in am_cq and reply_cq, when one is asked
  /// for.
  static result<std::unique_ptr<message_queues>> open(nic::device& dev, ibv_pd* pd,
                                                      memreg::registrar& registrar,
                                                      const dimensions& d,
                                                      ibv_comp_channel* channel = nullptr);
  ~message_queues();

  /// Makes room for one peer more: to be called before a queue pair to it is made, and before its
  /// loan is lent to others. Any thread; a failure leaves everything as it was, or somewhat longer.
  result<void> admit_peer();

  /// The block of one peer more (dimensions::block), filled with zeros, which the queues own; null:
  /// no messages are placed in this job. take_block() takes it. One thread at a time.
  [[nodiscard]] std::byte* block_of_next() const noexcept {
    if (size.block == 0) return nullptr;
    PENSTOCK_ASSERT(blocks_taken_, <, size.senders());
    return blocks_.base + std::size_t{blocks_taken_} * size.block;
  }
  void take_block() noexcept { ++blocks_taken_; }
  [[nodiscard]] std::uint32_t blocks_rkey() const noexcept { return blocks_.keys.rkey; }
  [[nodiscard]] std::uint32_t blocks_lkey() const noexcept { return blocks_.keys.lkey; }

  /// Whether the lanes have to signal every work request.
  [[nodiscard]] bool signals_all() const noexcept { return !size.leaves_unsignalled(dev_.limits); }
  /// Fills in the attributes of a queue pair of that side, except its context.
  void describe(side s, ibv_qp_init_attr& init) const noexcept;
  /// Makes completions on qp findable.
  /// identity: the caller's name for it, below 2^32 - 1.
  void announce(const ibv_qp* qp, std::uint32_t identity) noexcept {
    table_.insert(qp->qp_num, identity);
  }
  /// qp is to be destroyed, and no completion on it is left. announce() and forget() are for one
  /// thread at a time.
  void forget(const ibv_qp* qp) noexcept { table_.remove(qp->qp_num); }
  /// The identity that was announced, or qp_table::unknown.
  [[nodiscard]] std::uint32_t identity_of(std::uint32_t qpn) const noexcept {
    return table_.find(qpn);
  }
  /// True if the next work request on the lane may be posted: the lane has a place for it. If it is
  /// signalled, because it asks for that or because one is due, this also takes a ticket for it.
  /// Called by the thread that posts.
  [[nodiscard]] bool admits(const lane& l, bool asks, room_share share) noexcept {
    if (!l.has_room()) [[unlikely]]
      return false;
    if (!asks && !l.signals_next()) [[likely]]
      return true;
    return send_room.try_take(share);
  }
  /// Reposts zero-length receives behind the reply lanes: the n <= receives_a_post just taken, and
  /// the `late` ones that this thread has not yet reposted. A thread that holds a spare waits until
  /// there are several. 0 or an errno.
  int replace_reply_receives(std::uint32_t n, std::uint32_t& late, bool spare) noexcept {
    late += n;
    if (late < (spare ? size.late_receives : 1)) return 0;
    const std::uint32_t due = std::min(late, dimensions::receives_a_post);
    late -= due;
    return post_reply_receives(due);
  }

  const dimensions size;
  ibv_cq *send_cq = nullptr, *reply_cq = nullptr, *am_cq = nullptr;
  /// The tickets of send_cq: one for each signalled work request; it comes back when the completion
  /// is polled.
  completion_room<build_mode> send_room;
  ibv_srq* reply_srq = nullptr;
  std::unique_ptr<chunk_pool> request_chunks, reply_chunks;
  std::unique_ptr<receive_pool> small, bulk;  // bulk: null where messages are placed

 private:
  int post_reply_receives(std::uint32_t n) noexcept;
  result<void> make_room_for(std::uint32_t peers);
  result<void> lengthen(ibv_cq* cq, std::uint32_t entries);
  result<void> lengthen(ibv_srq* srq, std::uint32_t entries);
  result<void> post_replies_up_to(std::uint32_t n);
  message_queues(nic::device& dev, memreg::registrar& r, const dimensions& d);
  result<void> set_up(ibv_pd* pd, ibv_comp_channel* channel);
  nic::device& dev_;
  memreg::arena memory_;
  memreg::arena more_;  // for what is added after the start
  qp_table table_;
  memreg::piece blocks_;
  std::uint32_t blocks_taken_ = 0;
  bool longer_cqs_ = false, longer_srqs_ = false;  // the device can make them longer

  std::mutex growing_;                     // guards the rest
  std::uint32_t admitted_ = 0, room_ = 0;  // peers
  std::uint32_t sends_ = 0;                // entries of send_cq that have tickets
  std::uint32_t replies_posted_ = 0;       // receives of the reply SRQ
};

}  // namespace penstock::queues::PENSTOCK_ABI
