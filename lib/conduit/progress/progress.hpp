// The progress thread of an endpoint (PENSTOCK_PROGRESS_THREAD): it sleeps until something comes
// and handles it while the program computes. Only in PAR, since handlers run in it. The engine's.
//
//   asleep ---- a completion event, a datagram, the device's trouble, the job's end ----> look
//     ^                                                                                    |
//     | arm the completion queues, look once more                                          |
//     +---- nothing is left <---- handle what there is, give back what is owed <-----------+
//                                 … or nap, when the program's own threads poll
//
// It sleeps in poll(2) on descriptors only: the channel of the completion queues, what rings for
// the rings of the direct path, the device's own events, the job's end, and its own bell. On the
// direct path a sender that has pushed a message looks whether the receiver's queue is armed, one
// load of a line that seldom changes, and only to peers that said they have such a thread: nobody
// else pays.
//
// A program that polls needs no help, and its peers should not pay for waking one who comes too
// late: who is woken and sees that the program has polled meanwhile naps, longer each time, with
// the queues not armed.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <ctime>
#include <memory>
#include <thread>
#include <vector>

#include "lib/base/build_mode.hpp"
#include "lib/base/result.hpp"
#include "nic/device.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class engine;

class progress {
 public:
  /// Starts the thread; the engine has started. Names what the kernel refused.
  static result<std::unique_ptr<progress>> start(engine& e, ibv_comp_channel* channel);
  /// Waits for the thread.
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  /// Ends the thread and waits until it has ended, limit_ns at most. Called by the thread itself,
  /// from a handler, it waits for nothing. True: the thread does nothing any more.
  bool stop(std::uint64_t limit_ns) noexcept;

 private:
  progress(engine& e, ibv_comp_channel* channel);
  void run() noexcept;
  void let_starter_return() noexcept;
  unsigned handle() noexcept;
  [[nodiscard]] std::uint32_t attended() const noexcept;
  [[nodiscard]] bool waiting() noexcept;
  void give_back() noexcept;
  template <class F>
  void for_each_peer(F&& f) const noexcept;
  void arm() noexcept;
  void forget_events() noexcept;
  void forget_events_of(const nic::calls& verbs, ibv_comp_channel* channel) noexcept;
  void sleep(bool armed, std::uint64_t ns) noexcept;

  struct armable {
    ibv_cq* cq = nullptr;
    bool armed = false;
  };

  engine& engine_;
  ibv_comp_channel* channel_;
  clockid_t starter_{};  // the processor time of the thread that started this one
  std::uint64_t started_ns_ = 0;
  int bell_ = -1;      // an eventfd: look whether to stop
  int messages_ = -1;  // direct path: senders have pushed
  std::vector<armable> queues_;
  std::atomic<bool> stopping_{false}, stopped_{false};
  std::thread thread_;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
