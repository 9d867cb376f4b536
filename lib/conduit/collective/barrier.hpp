// The split-phase barrier of an engine's processes, named or anonymous; a setting chooses its
// shape. lib/gasnet uses it. The words of dissemination.hpp, tree.hpp and staged.hpp are stored
// where the partner's slots are mapped here (one host); otherwise they go by a put, or by a Short
// if the setting says so. The receiver looks at the same slot in all cases. On soft-RoCE with two
// processes a barrier takes 152 us by puts and 224 us by Shorts; the fastest way is the default.
// Where the processes share a page of their host (host_page.hpp), only the first barrier goes so,
// which connects them, and all later ones count arrivals in the page.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <variant>

#include "lib/base/build_mode.hpp"
#include "lib/base/owner.hpp"
#include "lib/base/status.hpp"
#include "lib/conduit/collective/counting.hpp"
#include "lib/conduit/collective/dissemination.hpp"
#include "lib/conduit/collective/staged.hpp"
#include "lib/conduit/collective/tree.hpp"
#include "lib/conduit/engine.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// A barrier. Calls of notify() and of pass() or try_pass() alternate, by one thread at a time; any
/// thread may call kick() at any time, but not in a handler. Between two processes of a host it
/// costs one store, and loads of one line.
class barrier {
 public:
  /// Registers its handler at that index of the engine's system handlers, before start(); the index
  /// is the same on every rank. The engine must outlive the barrier.
  barrier(engine& e, std::uint8_t handler_index);
  barrier(const barrier&) = delete;
  barrier& operator=(const barrier&) = delete;
  ~barrier();

  /// After start(): says that every rank's segment begins with a page (sizeof(barrier_slots)) for
  /// the barrier. Without this call all words travel as messages.
  void use_segment() noexcept;

  /// Arrives. It waits for no other rank to arrive, but the first times for connections.
  void notify(const barrier_vote& own) noexcept;
  /// True if all ranks have arrived; outcome is then the combined vote.
  bool try_pass(barrier_vote& outcome) noexcept;
  /// The same with a few looks, since a word under way may come sooner than a poll of all queues
  /// ends.
  bool try_pass_spinning(barrier_vote& outcome) noexcept;
  /// Waits, polling, until all ranks have arrived. A failure is that of engine::wait_step().
  status pass(barrier_vote& outcome) noexcept;
  /// True where a thread that comes to wait has to poll first: arrivals are counted without polls,
  /// and a process that does nothing but barriers must handle messages all the same.
  [[nodiscard]] bool polls_first() const noexcept { return count_.has_value(); }
  /// Passes words on between notify and pass. Each poll calls it, so that a process that has
  /// notified, and waits for something else, holds up no other one.
  void kick() noexcept {
    // relaxed: a hint; a thread that sees it late kicks in its next poll
    if (relaying_.load(std::memory_order_relaxed)) [[unlikely]]
      (void)advance();
  }

 private:
  static constexpr std::uint32_t looks_a_check = 1024;
  bool advance() noexcept;
  [[gnu::noinline]] void check_awaited() noexcept;
  [[gnu::noinline]] void expect_partners() noexcept;
  [[gnu::noinline]] bool try_pass_counted(barrier_vote& outcome) noexcept;
  bool send(unsigned link, std::uint32_t to, unsigned parity, unsigned slot,
            std::uint64_t word) noexcept;
  static void on_word(void* self, token& t, const std::uint32_t* args, std::byte* payload,
                      std::size_t bytes);

  engine& engine_;
  const std::uint8_t handler_;
  bool in_segment_ = false;
  bool by_put_ = false;       // words go by put where the partner's slots are not mapped
  op_counter puts_{0};        // puts in flight; only the destructor waits for them
  barrier_slots* slots_;      // where this process receives
  owner<build_mode> inside_;  // its holder may touch logic_, partners_ and passed_
  std::atomic<bool> relaying_{false};
  bool passed_ = true;
  std::uint32_t looks_ = 0;            // (inside_)
  barrier_slot::content spoilt_;       // (inside_) what check_awaited() found, and since when
  std::uint64_t spoilt_since_ns_ = 0;  // (inside_)
  bool expected_ = false;              // the partners have been named to the engine
  std::variant<dissemination, tree, staged> logic_;
  std::optional<counting> count_;  // set after the first barrier, if there is a page of the host
  std::array<barrier_slots*, barrier_steps_max>
      partners_{};     // where to store; null: not mapped or not known
  barrier_slots own_;  // while there is no page in the segment
};

}  // namespace penstock::conduit::PENSTOCK_ABI
