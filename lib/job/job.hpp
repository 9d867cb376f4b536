// This process's place in the job that started it: rank, size, one exchange of addresses, and how
// the job ends. Used by the engine only. It sends no messages of the client and knows no device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/result.hpp"
#include "lib/base/settings.hpp"

namespace penstock::job {

/// The launcher's announcement that the job is over: which process ended it, and how.
struct death {
  int rank;            ///< -1: the launcher itself (a signal to it, its time limit)
  int code_or_signal;  ///< exit code, or the negated signal number
  /// The process has ended the job by job::end(): all others leave with its code, and no more
  /// words.
  bool ordered = false;

  /// "rank 3 was killed by signal 9 (Killed)", "rank 3 ended with code 7".
  [[nodiscard]] std::string text() const;
};

/// One process of a job. Made once, by the first endpoint of the process; ended once.
/// Threads: exchange(), fence() and finalize() from one thread at a time; the rest from any.
class job {
 public:
  /// Joins the job this process was started in: penrun's, else a PMIx launcher's, else a job of its
  /// own of size 1. Collective over the job. Installs the hook through which fatal() tells the
  /// launcher the exit code, and names this process in log lines. Cost: a message each way to the
  /// launcher. Fails when the launcher cannot be talked to.
  static result<std::unique_ptr<job>> join(const settings& s);

  /// The job that this process has joined, or null. So the two programming interfaces may be used
  /// by one program: who comes second finds it here.
  [[nodiscard]] static job* joined() noexcept;

  virtual ~job();
  job(const job&) = delete;
  job& operator=(const job&) = delete;

  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  /// The ranks on this host, ascending; this process's own is among them at host_rank().
  [[nodiscard]] const std::vector<std::uint32_t>& host_ranks() const noexcept {
    return host_ranks_;
  }
  [[nodiscard]] std::uint32_t host_rank() const noexcept { return host_rank_; }
  [[nodiscard]] std::uint32_t host_size() const noexcept {
    return static_cast<std::uint32_t>(host_ranks_.size());
  }
  /// Those of them that share memory with this one, itself among them, where a host's ranks do so
  /// in groups of `most`; 0: all of the host.
  [[nodiscard]] std::span<const std::uint32_t> neighbours(std::uint32_t most) const noexcept;
  /// Unguessable, the same in all processes, 32 hex digits.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Everybody's bytes, by rank. Collective. Waits; fails if a process ends before it took part.
  virtual result<std::vector<std::vector<std::byte>>> exchange(std::span<const std::byte> mine) = 0;
  /// Returns when all processes have called it, or begin_fence(). Collective. Fails like
  /// exchange().
  virtual result<void> fence() = 0;
  /// fence() in two halves, for a process that has something to do meanwhile: this one begins it,
  /// and does not wait. A launcher that knows no halves waits in the second one.
  virtual result<void> begin_fence() { return {}; }
  /// True once all have begun it; fails like fence(). Does not wait. After begin_fence(), until it
  /// has been true or has failed; until then every other collective fails. Cost: a system call.
  virtual result<bool> fence_is_over() {
    if (auto met = fence(); !met) return met.error();
    return true;
  }
  /// False: the launcher must not complete a fence that a process has begun and not waited for, so
  /// the others begin none after that one has left.
  [[nodiscard]] virtual bool outlives_leavers() const noexcept { return true; }

  /// Ends the whole job: prints `why` (if any), tells the launcher, exits at once with `code` (1 if
  /// it is 0). The other processes see ended() and are killed when the launcher's grace is over.
  [[noreturn]] void abort(int code, const char* why);
  /// Ends the whole job with exactly that code, 0 too: flushes the streams of stdio, tells the
  /// launcher, exits at once. The other processes see ended(), and are killed when the launcher's
  /// grace is over.
  [[noreturn]] void end(int code);
  /// Says that this process leaves in good order: its exit is then no death. `code` is the job's
  /// exit code if it is the first that is not zero. Does not end the process. Idempotent.
  virtual void finalize(int code) = 0;

  /// True once the launcher has announced that the job is over. One load: a poll may ask every
  /// time.
  [[nodiscard]] bool ended() const noexcept {
    // J2 poll  load-acquire *ended_  <- J1 (announce, in the launcher or in announce())
    return ended_->load(std::memory_order_acquire) != 0;
  }
  /// Who ended it and how; nothing while ended() is false.
  [[nodiscard]] std::optional<death> ended_by() const noexcept;
  /// Readable from the moment ended() is true, for those who sleep in poll(2); -1 in a job without
  /// launcher. Never read from it.
  [[nodiscard]] int ended_fd() const noexcept { return ended_fd_; }

 protected:
  job() noexcept : ended_(&own_ended_) {}
  /// What abort() tells the launcher. Async-signal-safe where the launcher's protocol allows it.
  virtual void tell_abort(int code) noexcept = 0;
  /// What end() tells it.
  virtual void tell_end(int code) noexcept { tell_abort(code); }
  /// For launchers that call back: makes ended() true. First call counts.
  void announce(death d) noexcept;

  std::uint32_t rank_ = 0;
  std::uint32_t size_ = 1;
  std::uint32_t host_rank_ = 0;
  std::vector<std::uint32_t> host_ranks_{0};
  std::string name_;
  int ended_fd_ = -1;
  const std::atomic<std::uint64_t>* ended_;  ///< own_ended_, or a word the launcher writes

 private:
  std::atomic<std::uint64_t> own_ended_{0};
};

}  // namespace penstock::job
