// The barrier of an engine's processes: split-phase, named or anonymous; its shape is a setting.
// Used by lib/gasnet. The words of dissemination.hpp, tree.hpp and staged.hpp go by store where the
// partner's slots are mapped here (one host), and otherwise by a put, or by Short if the setting
// says so; the receiver looks at the same slot in all cases. On soft-RoCE, two processes: 152 us by
// puts, 224 us by Shorts. The fastest is the default. Where the processes have a page of their host
// (host_page.hpp) the first barrier goes so, which connects them, and all later ones count arrivals
// there.
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

/// One barrier. notify() and pass()/try_pass() alternate, one thread at a time; kick() from any
/// thread at any time outside handlers. Cost between two processes of a host: one store, and loads
/// of one line.
class barrier {
 public:
  /// Registers its handler under that index of the engine's system handlers: before start(), and
  /// the same on every rank. The engine must outlive it.
  barrier(engine& e, std::uint8_t handler_index);
  barrier(const barrier&) = delete;
  barrier& operator=(const barrier&) = delete;
  ~barrier();

  /// After start(): says that every rank's segment begins with a page (sizeof(barrier_slots)) that
  /// is the barrier's. Without it all words travel as messages.
  void use_segment() noexcept;

  /// Arrives; does not wait for others (but, the first times, for connections).
  void notify(const barrier_vote& own) noexcept;
  /// True if all have arrived; then outcome is what they said.
  bool try_pass(barrier_vote& outcome) noexcept;
  /// The same with a few looks: a word that is on its way comes sooner than a poll of all queues
  /// ends.
  bool try_pass_spinning(barrier_vote& outcome) noexcept;
  /// Waits for that, polling. A failure is the engine's.
  status pass(barrier_vote& outcome) noexcept;
  /// True where who comes to wait polls first, as nobody needs a poll of it to arrive: messages are
  /// handled by who does nothing but barriers, too.
  [[nodiscard]] bool polls_first() const noexcept { return count_.has_value(); }
  /// Passes words on between notify and pass. Everything that polls calls it, so that a process
  /// that has notified holds nobody up while it waits for something else.
  void kick() noexcept {
    // A hint; who sees it late kicks in its next poll.
    if (relaying_.load(std::memory_order_relaxed)) [[unlikely]]
      (void)advance();
  }

 private:
  bool advance() noexcept;
  [[gnu::noinline]] bool try_pass_counted(barrier_vote& outcome) noexcept;
  bool send(unsigned link, std::uint32_t to, unsigned parity, unsigned slot,
            std::uint64_t word) noexcept;
  static void on_word(void* self, token& t, const std::uint32_t* args, std::byte* payload,
                      std::size_t bytes);

  engine& engine_;
  const std::uint8_t handler_;
  bool in_segment_ = false;
  bool by_put_ = false;       // words go by put where the partner's slots are not mapped
  op_counter puts_{0};        // of those in flight; nobody waits for them
  barrier_slots* slots_;      // where this process receives
  owner<build_mode> inside_;  // who may touch logic_, partners_ and passed_
  std::atomic<bool> relaying_{false};
  bool passed_ = true;
  std::variant<dissemination, tree, staged> logic_;
  std::optional<counting> count_;  // from the second barrier on, if at all
  std::array<barrier_slots*, barrier_steps_max>
      partners_{};     // where to store; null: not mapped or not known
  barrier_slots own_;  // while there is no page in the segment
};

}  // namespace penstock::conduit::PENSTOCK_ABI
