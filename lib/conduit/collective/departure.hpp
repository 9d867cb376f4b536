// How an endpoint's processes leave, all together or one early. The engine's close(), its barrier
// and its waits use it.
//
// close() is collective. A process that closes meets the others at the launcher's fence, twice, and
// polls meanwhile. After the first fence all that was sent has arrived, and is handled; after the
// second no process needs another one any more. A fence is no arrival at a barrier: barriers have
// counters of their own (meeting.hpp).
//
// A process that is alone at the first fence says that it leaves, and how many barriers it has
// begun, to the ranks that it is connected to and to those that wait for it in barriers. A barrier
// that it has not begun can never complete: it fails in the other ranks with an error that names
// the leaver, and each of them tells its own partners, so that all ranks learn of it.
//
// If a leaver went while another one still handles messages, the fence could not hold, and messages
// would be lost. So a leaver that handles messages says so: the word goes to the ranks at distances
// of powers of two, and a rank that has it from a distance passes it on to the shorter ones. So all
// have it after log2 n hops, and no word goes round. A leaver goes on waiting while such words come
// (patience.hpp).
//
// When the exit limit is over, the leaver goes without the others, and says so; so does a process
// whose fence fails since another one has left before. Its end is then no error to the others.
// Requests to it fail; and a wait that hears from no rank for the exit limit fails, too, since what
// it waits for may never come.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/event_counter.hpp"
#include "lib/base/status.hpp"
#include "lib/base/zero_pages.hpp"
#include "lib/conduit/collective/patience.hpp"
#include "penstock/mode.hpp"

namespace penstock::PENSTOCK_ABI {
class token;
}  // namespace penstock::PENSTOCK_ABI

namespace penstock::conduit::PENSTOCK_ABI {

class core;
class credit_flow;
class engine;
class ways;

class departure {
 public:
  /// Registers its handler with e. Before start().
  departure(engine& e, core& c, credit_flow& f, ways& w);
  departure(const departure&) = delete;
  departure& operator=(const departure&) = delete;
  /// Collective; waits, polling, for limit_ns of watched time as a rule (patience.hpp). After it no
  /// thread may poll.
  void leave(std::uint64_t limit_ns) noexcept;

  /// To be asked in a wait for the barrier of that number: peer_dead if a rank has left before it,
  /// which is logged once.
  status check_barrier(std::uint32_t number) noexcept;
  /// True if a rank has left, or is about to, before this process; waits then ask the functions
  /// below. relaxed: a hint, asked again in the next step.
  [[nodiscard]] bool news() const noexcept { return news_.load(std::memory_order_relaxed); }
  /// To be called in every step of a wait while news() is true. heard: a message came in this step.
  /// peer_dead: no message has come for the exit limit, which is logged once.
  status in_wait(bool heard) noexcept;
  /// True if rank r has said that it leaves, so that its end is no error.
  [[nodiscard]] bool has_left(std::uint32_t r) const noexcept;
  /// True if it has said so, and its process has gone without the others.
  [[nodiscard]] bool is_gone(std::uint32_t r) const noexcept;
  /// Judges the peers to which contact was lost: the end of one that has said that it leaves is no
  /// error, and any other end is the job's. In a poll, outside all ends of queues.
  void judge_lost() noexcept;
  /// Notes that rank r is gone, so that messages to it do not arrive any more. After has_left(r).
  void note_gone(std::uint32_t r) noexcept;

 private:
  static void on_word(void* self, token&, const std::uint32_t* args, std::byte*, std::size_t);
  void note(std::uint32_t r, std::uint32_t barriers, bool gone) noexcept;
  enum class meeting_end : std::uint8_t { all, alone, failed };
  meeting_end meet(std::uint64_t limit_ns, bool first) noexcept;
  void pass_on(std::uint32_t r, std::uint32_t barriers, bool gone);
  bool tell_some() noexcept;
  void tell_of_traffic() noexcept;
  bool tell(std::uint32_t r, const std::uint32_t* words) noexcept;
  void note_traffic(std::uint64_t watched_ns, std::uint32_t told) noexcept;
  [[nodiscard]] std::uint64_t handled() const noexcept;
  [[nodiscard]] std::uint32_t distances() const noexcept;
  void tell_all() noexcept;
  void finish_sends(std::uint64_t limit_ns) noexcept;

  engine& engine_;
  core& core_;
  credit_flow& credits_;
  ways& ways_;
  enum state : std::uint8_t { stays = 0, leaves, is_away };
  // By rank; its pages take memory once a rank leaves. One thread writes a state and all may read
  // it; relaxed: nothing else is read because of it.
  zero_array<std::atomic<std::uint8_t>> states_;
  // The fewest barriers that a leaving rank has begun (high half), and that rank; nobody: none
  // leaves.
  static constexpr std::uint64_t nobody = ~0ull;
  std::atomic<std::uint64_t> first_{nobody};
  std::atomic<std::uint32_t> away_{~0u};    // a rank that is gone; ~0: none is
  watched_time waited_;                     // of all waits and of leave(), since a rank has left
  std::atomic<std::uint64_t> heard_ns_{0};  // waited_ when a wait last got a message
  // waited_ when a leaver was last known to handle messages (0: never), and to how many distances
  // this is yet to be told.
  std::atomic<std::uint64_t> traffic_ns_{0};
  std::atomic<std::uint32_t> distances_{0};
  event_counter words_;  // words of this class that were handled
  std::atomic<bool> news_{false}, said_{false}, broken_{false}, away_passed_on_{false};
  // What this process tells, and the ranks that are yet to be told; for the thread that has set
  // telling_.
  struct notice {
    std::uint32_t words[3];
    std::vector<std::uint32_t> untold;
  };
  std::atomic<bool> telling_{false};
  std::vector<notice> notices_;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
