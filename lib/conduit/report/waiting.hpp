// Counts a request's wait: the number of waits, their time together, and since when the current one
// lasts; and tells the reporter of one that lasts. engine::request() and large.cpp use it while
// they wait. A wait costs two reads of the tick counter; a request that does not wait costs
// nothing.
#pragma once

#include <atomic>
#include <cstdint>

#include "lib/base/clock.hpp"
#include "lib/base/probes.hpp"
#include "lib/base/status.hpp"
#include "lib/base/trace.hpp"
#include "lib/conduit/peer/peer_counts.hpp"
#include "lib/conduit/peer/waits.hpp"
#include "lib/conduit/report/reporter.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// The row of the table of waits for a request that a path has refused with status s.
constexpr wait_for wait_of(status s) noexcept {
  switch (s) {
    case status::no_credit:
      return wait_for::credits;
    case status::no_space:
      return wait_for::room;
    case status::no_chunk:
      return wait_for::send_buffers;
    case status::not_ready:
      return wait_for::connection;
    case status::busy:
      return wait_for::another_thread;
    default:
      return wait_for::transfer_room;
  }
}
/// The name of that row, for messages to the user.
constexpr const char* name_of_wait(status s) noexcept { return row_of(wait_of(s)).name; }

class waiting {
 public:
  /// c: the counters of the peer that the request goes to, rank `to`; they outlive this object.
  /// handler: which the request is for; 0 if it is not the user's. tell: the reporter that is told
  /// of a long wait, or null. drawn: the trace, or null.
  waiting(peer_counts& c, std::uint32_t to, unsigned handler, reporter* tell, trace* drawn) noexcept
      : counts_(c), to_(to), handler_(handler), tell_(tell), drawn_(drawn) {}
  ~waiting() {
    if (began_ != 0) end();
  }
  waiting(const waiting&) = delete;
  waiting& operator=(const waiting&) = delete;

  /// Called after each try that could not send the request yet, with the reason.
  void step(status s) noexcept {
    if (began_ == 0) begin(s);
    if (++steps_ % steps_a_look == 0 && tell_ != nullptr && ticks() - began_ > long_ticks) {
      tell_->somebody_waits();
      tell_ = nullptr;
    }
    if (s == last_) return;
    last_ = s;
    // relaxed: only reports read it
    counts_.waits_for.store(static_cast<std::uint8_t>(s), std::memory_order_relaxed);
  }

 private:
  static constexpr unsigned steps_a_look = 64;
  static constexpr std::uint64_t long_ticks = std::uint64_t{1} << 31;  // about a second

  void begin(status s) noexcept {
    began_ = ticks();
    if (drawn_ != nullptr) [[unlikely]]
      began_ns_ = now_ns();
    PENSTOCK_PROBE(stall_begin, to_, static_cast<unsigned>(s));
    count_shared(counts_.waits, 1);
    // relaxed, all of it: of several threads that wait for one peer the first one's time is shown
    if (counts_.waiters.fetch_add(1, std::memory_order_relaxed) == 0) {
      counts_.waits_handler.store(static_cast<std::uint16_t>(handler_), std::memory_order_relaxed);
      counts_.waiting_since.store(began_, std::memory_order_relaxed);
    }
  }
  void end() noexcept {
    if (drawn_ != nullptr) [[unlikely]]
      drawn_->event("stall", name_of_wait(last_), to_, began_ns_);
    PENSTOCK_PROBE(stall_end, to_, static_cast<unsigned>(last_));
    count_shared(counts_.wait_ticks, ticks() - began_);
    if (counts_.waiters.fetch_sub(1, std::memory_order_relaxed) == 1)
      counts_.waiting_since.store(0, std::memory_order_relaxed);
  }

  peer_counts& counts_;
  const std::uint32_t to_;
  const unsigned handler_;
  reporter* tell_;
  trace* const drawn_;
  std::uint64_t began_ns_ = 0;  // for drawn_
  unsigned steps_ = 0;
  std::uint64_t began_ = 0;
  status last_ = status::ok;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
