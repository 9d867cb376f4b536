// The seam below queue pairs: what carries the requests of a context that shares no memory with its
// peers. Protection domains, regions, completion queues, receive queues, the state machine, posting
// and its checks are the device's own in either case; a context of shm0 has no carrier, and reaches
// its peers by rings and by their memory (send.cpp, onesided.cpp). nic/tcp has one.
//
// How a request goes. Posting stores it in its queue pair's send queue, and push_on() calls
// advance(), which hands requests on in order, many at a time. When a peer has answered, the
// carrier notes it and calls push_on(), which asks context::attempt about the oldest request: done,
// failed with a status, or wait. What comes from peers the carrier puts into posted receives,
// memory and completion queues, from progress(), which a thread that polls or the pusher thread
// calls.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

namespace penstock::nic::shm {

struct context;
struct queue_pair;
struct send_work;
enum class outcome : std::uint8_t;  // qp.hpp

/// What a carrier keeps for one queue pair.
struct carried {
  virtual ~carried() = default;
};

class carrier {
 public:
  virtual ~carrier() = default;

  /// Takes an address, and says which: the context's name, which is its GID, and its block of QP
  /// numbers. Before the context's threads. 0 or an errno.
  virtual int open(context& c) = 0;
  /// Hands over what is left, and ends. The context's threads have ended, its queue pairs are gone.
  virtual void close() noexcept = 0;
  /// A descriptor that is readable while progress() finds something to do.
  [[nodiscard]] virtual int fd() const noexcept = 0;

  /// Takes in what has come from peers, and hands on what may wait no longer. False: another thread
  /// is doing so. Any thread that holds no lock of the device. The cost is a system call; with
  /// `again`, of a thread that calls in a loop, none for a moment after one that found nothing.
  virtual bool progress(bool again) noexcept = 0;
  /// Something waits that flush() would hand on. Any thread; sequentially consistent, since the
  /// pusher thread asks before it sleeps.
  [[nodiscard]] virtual bool holds_back() const noexcept = 0;
  /// Hands on all that waits, since no thread may come by soon; unless another thread is inside
  /// progress().
  virtual void flush() noexcept = 0;

  /// For a new queue pair, which is in no list yet.
  virtual std::unique_ptr<carried> make(queue_pair& qp) = 0;
  /// INIT to RTR: fixes the peer. Waits for nobody. 0 or an errno.
  virtual int connect(queue_pair& qp, const ibv_qp_attr& a) = 0;
  /// After this nothing comes to the queue pair, and nothing of its program's memory is read.
  virtual void disconnect(queue_pair& qp) noexcept = 0;
  /// Hands on requests of the send queue, as many as may be under way; in the error state, lets go
  /// of those that are. Under `sending`. Waits for nobody.
  virtual void advance(queue_pair& qp) noexcept = 0;
  /// What has come of the oldest request; also sends a datagram. Under `sending`.
  virtual outcome attempt(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept = 0;
  /// Returns when no thread reads or writes the memory of that key, which is invalid already.
  virtual void wait_untouched(std::uint32_t rkey) noexcept = 0;
};

}  // namespace penstock::nic::shm
