// The progress thread of an endpoint (PENSTOCK_PROGRESS_THREAD): it sleeps until a message or an
// event comes, and handles it while the program computes. It exists in PAR alone, since handlers
// run in it. The engine owns it.
//
//   asleep ---- a completion event, a ring's bell, a device's event, the job's end ----> look
//     ^                                                                                    |
//     | arm the completion queues, look once more                                          |
//     +---- no message left <---- handle messages, give owed credits back <---------------+
//                                 … or nap, when the program's own threads poll
//
// It sleeps in poll(2) on descriptors only: those that armed_queues.hpp names, the job's end, and
// its own bell.
//
// A program that polls needs no help, and its peers should not pay for waking a thread that comes
// too late. So when the thread is woken and sees that the program has polled meanwhile, it naps
// with the queues not armed, longer each time.
//
// After its polls it calls the step of the engine's user, who advances there what messages have
// brought (collectives). The step runs outside handlers, holds nothing of the engine's, and may
// send, and so wait. It answers whether it has work of which no message would tell; then the thread
// looks again soon. Such work that the program begins is told by wake().
#pragma once

#include <infiniband/verbs.h>
#include <poll.h>

#include <atomic>
#include <cstdint>
#include <ctime>
#include <memory>
#include <thread>
#include <vector>

#include "lib/base/build_mode.hpp"
#include "lib/base/result.hpp"
#include "lib/conduit/progress/armed_queues.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class core;
class engine;
class transfers;
class ways;

class progress {
 public:
  /// What the thread does besides. parts: idle connections are taken down, for which a poll looks.
  /// step: called after its polls; true: it has found work (null: nothing).
  struct duties {
    bool parts = false;
    bool (*step)() noexcept = nullptr;
  };
  /// Starts the thread, after the engine has started. A failure names what the kernel refused.
  static result<std::unique_ptr<progress>> start(engine& e, core& c, ways& w,
                                                 ibv_comp_channel* channel, duties d);
  /// Waits for the thread.
  ~progress();
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  /// Ends the thread and waits until it has ended, for limit_ns at most. Called by the thread
  /// itself, in a handler, it does not wait. True: the thread handles nothing any more.
  bool stop(std::uint64_t limit_ns) noexcept;
  /// Has the thread look, if it sleeps. Any thread; costs a system call.
  void wake() noexcept;

 private:
  progress(engine& e, core& c, ways& w, ibv_comp_channel* channel, duties d);
  void run() noexcept;
  void let_starter_return() noexcept;
  unsigned handle() noexcept;
  [[nodiscard]] std::uint32_t attended() const noexcept;
  void forget_bell() noexcept;
  void sleep(bool armed, std::uint64_t ns) noexcept;

  core& core_;
  const transfers& transfers_;
  const duties duties_;
  armed_queues queues_;
  std::vector<pollfd> sleep_on_[2];  // by whether the queues are armed; the job's end is the second
  bool busy_ = false;                // the engine's user has work of which no message tells
  clockid_t starter_{};              // the processor time of the thread that started this one
  std::uint64_t started_ns_ = 0;
  int bell_ = -1;  // an eventfd, written when the thread shall stop or look
  std::atomic<bool> stopping_{false}, stopped_{false};
  std::thread thread_;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
