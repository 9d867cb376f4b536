// The blocking barrier of the C++ interface, by dissemination: in round k each process sends to the
// one 2^k places on, and waits for the one 2^k places back. Where the processes share a page of
// their host (host_page.hpp), only the first barrier goes so, which connects them, and all later
// ones count arrivals in the page.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "lib/base/status.hpp"
#include "lib/conduit/collective/counting.hpp"
#include "penstock/mode.hpp"

namespace penstock::PENSTOCK_ABI {
class token;
}

namespace penstock::conduit::PENSTOCK_ABI {

class engine;

class meeting {
 public:
  /// Registers the arrival handler with e. Before start().
  explicit meeting(engine& e) noexcept;
  /// Collective; polls while it waits. One thread at a time may call it, and no handler. peer_dead:
  /// a process has left (departure.hpp), so neither this barrier nor a later one can complete.
  /// timed_out: the next call goes on with the same barrier.
  status run() noexcept;
  /// The number of barriers that this process has begun, and has not left half way.
  [[nodiscard]] std::uint32_t begun() const noexcept {
    return generation_ - (inside_ && !count_ ? 1 : 0);
  }

 private:
  static void on_arrival(void* self, token&, const std::uint32_t* args, std::byte*, std::size_t);
  void expect_partners() noexcept;
  status run_rounds() noexcept;
  status run_counted() noexcept;
  static constexpr unsigned max_rounds = 32;
  engine& engine_;
  std::uint32_t generation_ = 0;
  // Of the barrier that a call has begun and not ended, if inside_: the round, and whether this
  // process has told its partner of it, or has arrived in the page.
  bool inside_ = false, told_ = false;
  std::uint32_t round_ = 0;
  std::optional<counting> count_;  // set after the first barrier, if there is a page of the host
  std::atomic<std::uint32_t> arrived_[max_rounds] =
      {};  // generations whose message of round k came
};

}  // namespace penstock::conduit::PENSTOCK_ABI
