// How an endpoint's processes leave: together, or one early. The engine's close() and barrier, and
// its waits.
//
// close() is collective. Who closes meets the others at the launcher's fence, twice: after the
// first everything that was sent has arrived, and is handled; after the second nobody needs
// anybody any more. It polls meanwhile. Not an arrival at a barrier: barriers have counters of
// their own (meeting.hpp).
//
// Who finds itself alone at the first fence says that it leaves, and how many barriers it has
// begun, to those that it is connected to and to those that wait for it in barriers. Whoever is in
// a later barrier, which can never complete, fails with an error that names it, and tells its own
// partners, so that all learn of it. When the exit limit is over it leaves without the others, and
// says so, as does one whose fence fails since another has left before. Its end is then no death to
// them: requests to it fail, and a wait that hears nothing from anybody for the exit limit fails,
// too, since what it waits for may never come.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/status.hpp"
#include "lib/conduit/collective/patience.hpp"
#include "penstock/mode.hpp"

namespace penstock::PENSTOCK_ABI {
class token;
}  // namespace penstock::PENSTOCK_ABI

namespace penstock::conduit::PENSTOCK_ABI {

class engine;

class departure {
 public:
  /// Registers its handler with e. Before start().
  explicit departure(engine& e) noexcept;
  ~departure() { delete[] states_.load(std::memory_order_relaxed); }
  departure(const departure&) = delete;
  departure& operator=(const departure&) = delete;
  /// Collective; polls, for limit_ns of its watched time as a rule. After it nothing may be polled.
  void leave(std::uint64_t limit_ns) noexcept;

  /// In a wait for the barrier of that number: peer_dead if somebody has left before it, which is
  /// said once.
  status check_barrier(std::uint32_t number) noexcept;
  /// True if somebody has left, or is about to, before this process: what concerns the waits.
  /// relaxed: a hint, asked again in the next step.
  [[nodiscard]] bool news() const noexcept { return news_.load(std::memory_order_relaxed); }
  /// In every step of a wait while there are news; heard: a message has come in it. peer_dead, said
  /// once, when nobody has been heard for too long.
  status in_wait(bool heard) noexcept;
  /// True if rank r has said that it leaves, so that its end is no death.
  [[nodiscard]] bool has_left(std::uint32_t r) const noexcept;
  /// True if it has, and is gone.
  [[nodiscard]] bool is_gone(std::uint32_t r) const noexcept;
  /// What was sent to it does not arrive any more. After has_left(r).
  void note_gone(std::uint32_t r) noexcept;

 private:
  static void on_word(void* self, token&, const std::uint32_t* args, std::byte*, std::size_t);
  void note(std::uint32_t r, std::uint32_t barriers, bool gone) noexcept;
  enum class meeting_end : std::uint8_t { all, alone, failed };
  meeting_end meet(std::uint64_t limit_ns, bool first) noexcept;
  void pass_on(std::uint32_t r, std::uint32_t barriers, bool gone);
  bool tell_some() noexcept;
  void tell_all() noexcept;
  void finish_sends(std::uint64_t limit_ns) noexcept;

  engine& engine_;
  enum state : std::uint8_t { stays = 0, leaves, is_away };
  // By rank; made with the first word. A word is handled by one thread and asked for by all;
  // relaxed: nothing else is read because of it.
  std::atomic<std::atomic<std::uint8_t>*> states_{nullptr};
  // Of all that leave: the fewest barriers, and the rank behind them; nobody: none.
  static constexpr std::uint64_t nobody = ~0ull;
  std::atomic<std::uint64_t> first_{nobody};
  std::atomic<std::uint32_t> away_{~0u};    // one that is gone; ~0: nobody is
  watched_time waited_;                     // of all waits, since somebody has left
  std::atomic<std::uint64_t> heard_ns_{0};  // waited_ when a wait last heard of anybody
  std::atomic<bool> news_{false}, said_{false}, broken_{false}, away_passed_on_{false};
  // What this process tells, and whom still; for the one thread that has set telling_.
  struct notice {
    std::uint32_t words[3];
    std::vector<std::uint32_t> untold;
  };
  std::atomic<bool> telling_{false};
  std::vector<notice> notices_;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
