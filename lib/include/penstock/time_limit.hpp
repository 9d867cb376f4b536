// Deadlines of waits. penstock.hpp includes it.
#pragma once

#include <chrono>
#include <cstdint>

#include "penstock/mode.hpp"

namespace penstock::PENSTOCK_ABI {

/// Ends this thread's waits at a moment, while it lives: a call that still waits then returns
/// timed_out. Nothing is lost: a request was not sent, and a barrier, quiet() or the wait for an
/// operation goes on when it is called again. A call always polls once, and looks once more for
/// what it waits for, before it times out: a limit of 0 makes it a test. Of two limits, one inside
/// the other, the earlier one counts.
///
/// It is heeded by requests, commit(), wait_until(), quiet(), barrier(), operation::wait(),
/// wait_all(), wait_some(), wait_puts(), wait_gets() and wait_implicit(). A blocking put, get or
/// atomic, which the device may have begun, waits to its end; one with a handle and a wait() has a
/// limit. The destructors of endpoints and operations wait, too. A local variable only. Cost: two
/// writes, and a read of the clock (25 ns) for each step of a wait.
///
///   const time_limit limit(std::chrono::milliseconds(50));
///   if (ep.barrier() == status::timed_out) …
class [[nodiscard]] time_limit {
 public:
  explicit time_limit(std::chrono::steady_clock::time_point until) noexcept;  ///< a moment
  explicit time_limit(std::chrono::nanoseconds from_now) noexcept;            ///< a time from now
  ~time_limit();
  time_limit(const time_limit&) = delete;
  time_limit& operator=(const time_limit&) = delete;

 private:
  const std::uint64_t outer_ns_;
};

}  // namespace penstock::PENSTOCK_ABI
