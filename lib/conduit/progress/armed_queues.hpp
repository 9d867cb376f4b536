// What a thread has that sleeps until a message comes: the queues that tell of one when they are
// armed, what it handles between two sleeps, and what it has to look at before it sleeps. The
// progress thread uses it, and so does a program that sleeps on event_fd().
//
// Three kinds of descriptors become readable: the channels of the completion queues (queue pairs,
// and the rings' queue where the bell is not heard), the bell of the rings, and the devices' own
// events. By rings, a sender that has pushed a message looks whether the receiver's queue is armed,
// which is one load of a line that seldom changes; it does so only for peers that have said that
// they sleep.
#pragma once

#include <infiniband/verbs.h>

#include <vector>

#include "lib/base/result.hpp"
#include "lib/base/status.hpp"
#include "nic/device.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class core;
class engine;
class ways;

/// For one thread at a time.
class armed_queues {
 public:
  /// transfers: the completions of puts, gets and atomics end a sleep, too. e has started.
  armed_queues(engine& e, core& c, ways& w, ibv_comp_channel* channel, bool transfers);
  ~armed_queues();
  armed_queues(const armed_queues&) = delete;
  armed_queues& operator=(const armed_queues&) = delete;
  /// Makes the bell, and reads of the channel never wait.
  result<void> open();

  /// A descriptor that is readable when something has come.
  struct source {
    int fd = -1;
    bool of_messages = false;  ///< else of the device's events
  };
  /// Those of all devices; after open().
  [[nodiscard]] std::vector<source> sources() const;
  /// Sees to events, and asks for one of each message that comes from here on; the caller must poll
  /// afterwards for messages that came before. A queue whose event has not come is still armed. On
  /// shm0 arming costs a fence on all processors.
  /// rung: also those that a peer has rung for; all are of shm0.
  void arm(bool rung = false) noexcept;
  /// Polls, and copies (transfers::go_on_beside), until quiet_polls polls in a row have found
  /// nothing, or `stretch` polls are done; adds the number of messages handled to n. The limit is
  /// for streams: others may poll by now. After each poll it calls step, if there is one, and
  /// stores what it answers. Returns ok, or the failure of a poll.
  status handle(unsigned& n, bool (*step)() noexcept = nullptr, bool* stepped = nullptr) noexcept;
  /// True if there is work that no completion event would tell of.
  [[nodiscard]] bool waiting() noexcept;
  /// Gives all owed credits back, where no other thread polls and would do so.
  void give_back() noexcept;

 private:
  template <class F>
  void for_each_peer(F&& f) const noexcept;
  void forget_events() noexcept;
  void forget_events_of(const nic::calls& verbs, ibv_comp_channel* channel) noexcept;

  struct armable {
    ibv_cq* cq = nullptr;
    bool armed = false;
  };

  engine& engine_;
  core& core_;
  ways& ways_;
  ibv_comp_channel* channel_;
  int messages_ = -1;  // a socket to which senders by rings write
  std::vector<armable> queues_;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
