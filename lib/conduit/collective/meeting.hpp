// All processes meet: the plain blocking barrier of the C++ interface.
// Dissemination: in round k each process tells the one 2^k places on, and waits for the one 2^k
// places back. Where the processes have a page of their host (host_page.hpp) the first barrier goes
// so, which connects them, and all later ones count arrivals there.
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
  /// Collective; polls meanwhile. One thread at a time, not from a handler. peer_dead: it can never
  /// complete, since a process has left (departure.hpp); nor can any after it.
  status run() noexcept;
  /// How many this process has begun.
  [[nodiscard]] std::uint32_t begun() const noexcept { return generation_; }

 private:
  static void on_arrival(void* self, token&, const std::uint32_t* args, std::byte*, std::size_t);
  status run_counted(std::uint32_t generation) noexcept;
  static constexpr unsigned max_rounds = 32;
  engine& engine_;
  std::uint32_t generation_ = 0;
  std::optional<counting> count_;  // from the second barrier on, if at all
  std::atomic<std::uint32_t> arrived_[max_rounds] =
      {};  // generations whose message of round k came
};

}  // namespace penstock::conduit::PENSTOCK_ABI
