// The two processes of a measurement: rank 0 requests and measures, rank 1 serves. Orders to the
// target travel as active messages, so that they work on any device. Other ranks only wait.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/base/log.hpp"
#include "penstock/penstock.hpp"
#include "perf/penperf/options.hpp"
#include "perf/penperf/pair_memory.hpp"
#include "perf/penperf/settle.hpp"
#include "perf/penperf/twin.hpp"
#include "perf/probe.hpp"

namespace penstock::penperf {

/// The two ranks of a job of two, and of the first pair of more.
inline constexpr rank_id requester_rank = 0, target_rank = 1;

/// Which ranks measure: the first half of those in pairs requests, each from its target in the
/// second half.
class pair_place {
 public:
  pair_place(rank_id rank, unsigned pairs) noexcept : rank_(rank), pairs_(pairs) {}
  [[nodiscard]] bool measures() const noexcept { return rank_ < 2 * pairs_; }
  [[nodiscard]] bool requests() const noexcept { return rank_ < pairs_; }
  [[nodiscard]] rank_id number() const noexcept { return requests() ? rank_ : rank_ - pairs_; }
  [[nodiscard]] rank_id other() const noexcept {
    return requests() ? rank_ + pairs_ : rank_ - pairs_;
  }

 private:
  rank_id rank_, pairs_;
};

/// Ends the job with a message if s is a failure.
inline void must(status s, const char* what) {
  if (is_failure(s)) [[unlikely]]
    fatal(1, "%s: %s", what, describe(s));
}

class rig {
 public:
  /// Registers its handlers: before the endpoint starts, in every rank.
  rig(world& w, endpoint& ep, const options& o);
  /// Collective; after the endpoint has started. size: payload of the measurement. bare_verbs: the
  /// twin is bare verbs even on the shared-memory device.
  void start(std::size_t size, bool bare_verbs);

  [[nodiscard]] endpoint& ep() noexcept { return ep_; }
  [[nodiscard]] const options& opts() const noexcept { return options_; }
  [[nodiscard]] rank_id other() const noexcept { return place_.other(); }
  [[nodiscard]] bool requests() const noexcept { return place_.requests(); }
  [[nodiscard]] std::string device_name() const;
  /// The library reaches the other process through its memory, not through verbs calls.
  [[nodiscard]] bool is_direct() const;

  // At the requester; the target does its part meanwhile.
  /// Cache-line round trip in ns; 0 where the processes share no memory.
  double probe();
  /// As in twin; zeros where there is no twin between these processes.
  figures raw_trips(leg there, leg back, std::uint64_t warm_up, std::span<std::uint64_t> samples);
  figures raw_flood(leg one_way, manner how, std::uint64_t batch, std::span<std::uint64_t> samples);
  figures raw_accesses(access what, std::uint64_t bytes, std::span<std::uint64_t> samples);
  figures raw_stream(access what, manner how, std::uint64_t bytes, std::uint64_t count);
  /// Waits until the requesters of all pairs have called this; does nothing with one pair.
  void meet();
  /// Lets the target's additional threads poll (--threads), or stops them.
  void pollers(bool on);
  /// Runs the function given to at_target() there, with this number; does not wait for its end.
  void call_target(std::uint64_t number);
  /// In every rank, before the measurement starts.
  void at_target(std::function<void(std::uint64_t)> f) { called_ = std::move(f); }
  void quit();

  /// Called at the target: polls, which runs the benchmark's handlers, and carries out orders,
  /// until quit.
  void serve();

 private:
  enum class order : std::uint32_t {
    probe,
    trips,
    flood,
    accesses,
    stream,
    pollers,
    call,
    meet,
    quit
  };
  struct command {
    order what = order::quit;
    std::uint32_t placed = 0;  ///< bit 0: there, bit 1: back; or the kind of access
    manner how{};
    std::uint64_t there = 0, back = 0, warm_up = 0, count = 0;
  };
  using blob = std::array<std::byte, 64>;

  void on_command(token& t, command c);
  void on_blob(token& t, blob b);
  void tell(const command& c);
  command await_command();
  bool obey(const command& c);
  bool swap_blobs(const void* mine, void* theirs);

  world& world_;
  endpoint& ep_;
  const options& options_;
  pair_place place_;
  short_handler<command> command_;
  short_handler<blob> blob_;
  // Handlers may run on a poller's thread.
  std::mutex lock_;
  std::deque<command> commands_;   ///< guarded by lock_
  std::deque<blob> blobs_;         ///< guarded by lock_
  std::atomic<bool> told_{false};  ///< there are commands
  std::atomic<bool> pollers_on_{false}, pollers_quit_{false};
  pair_memory memory_;
  perf::probe_line* line_ = nullptr;
  std::unique_ptr<twin> twin_;
  std::vector<std::uint64_t> scratch_;
  std::function<void(std::uint64_t)> called_;
};

}  // namespace penstock::penperf
