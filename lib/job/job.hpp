// This process's place in its job: rank, size, the exchange of addresses, and how the job ends. The
// engine and lib/gasnet use it. It sends no messages of the client and knows no device.
#pragma once

#include <atomic>
#include <cerrno>
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
  /// The process has ended the job by job::end(): all others leave with its code, without a line.
  bool ordered = false;

  /// "rank 3 was killed by signal 9 (Killed)", "rank 3 ended with code 7".
  [[nodiscard]] std::string text() const;
};

/// One process of a job. A process makes it once, and ends it once.
/// Threads: one thread at a time calls exchange(), fence() and finalize(); any thread the others.
class job {
 public:
  /// Joins the job that this process was started in: penrun's, else a PMIx or PMI launcher's, else
  /// a job of its own of size 1. Collective over the job. It installs the hook through which
  /// fatal() tells the launcher the exit code, and sets the rank that log lines name. Cost: a
  /// message each way to the launcher. It fails when the launcher cannot be reached.
  static result<std::unique_ptr<job>> join(const settings& s);

  /// The job that this process has joined, or null. A program may use both programming interfaces:
  /// the second one to start finds the job here.
  [[nodiscard]] static job* joined() noexcept;

  virtual ~job();
  job(const job&) = delete;
  job& operator=(const job&) = delete;

  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  /// The ranks on this host, in ascending order; this process's own is at index host_rank().
  [[nodiscard]] const std::vector<std::uint32_t>& host_ranks() const noexcept {
    return host_ranks_;
  }
  [[nodiscard]] std::uint32_t host_rank() const noexcept { return host_rank_; }
  [[nodiscard]] std::uint32_t host_size() const noexcept {
    return static_cast<std::uint32_t>(host_ranks_.size());
  }
  /// The ranks of this host that share memory with this one, itself among them, where a host's
  /// ranks do so in groups of `most`; 0: all of the host.
  [[nodiscard]] std::span<const std::uint32_t> neighbours(std::uint32_t most) const noexcept;
  /// The job's name: 32 hex digits, the same in all processes, which cannot be guessed.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Returns the bytes of all processes, by rank. Collective. It waits, and fails if a process ends
  /// before it has taken part.
  virtual result<std::vector<std::vector<std::byte>>> exchange(std::span<const std::byte> mine) = 0;
  /// Returns when all processes have called it, or begin_fence(). Collective. It fails as
  /// exchange() does.
  virtual result<void> fence() = 0;
  /// fence() in two halves, for a process that has work to do meanwhile: this half begins the
  /// fence, and does not wait. Where a launcher has no such call, the second half waits.
  virtual result<void> begin_fence() { return {}; }
  /// The second half, which does not wait: true once all have begun the fence; it fails as fence()
  /// does. To be called after begin_fence(), until it has been true or has failed; until then every
  /// other collective fails. Cost: a system call.
  virtual result<bool> fence_is_over() {
    if (auto met = fence(); !met) return met.error();
    return true;
  }
  /// False: the launcher cannot complete a fence that a process has begun and not waited for, so
  /// the others must begin none after that process has left.
  [[nodiscard]] virtual bool outlives_leavers() const noexcept { return true; }

  /// Ends the whole job: prints `why` (if it is not null), tells the launcher, and exits at once
  /// with `code` (1 if it is 0). The other processes see ended(), and are killed when the
  /// launcher's grace is over.
  [[noreturn]] void abort(int code, const char* why);
  /// Ends the whole job with exactly that code, which may be 0: flushes the streams of stdio, tells
  /// the launcher, and exits at once. The other processes see ended(), and are killed when the
  /// launcher's grace is over.
  [[noreturn]] void end(int code);
  /// Tells the launcher that this process leaves in good order, so that its exit is no death.
  /// `code` becomes the job's exit code if it is the first one that is not zero. It does not end
  /// the process, and may be called again.
  virtual void finalize(int code) = 0;
  /// Tells the launcher that this process leaves without the others: a rank that cannot be told,
  /// since it is stopped, learns it by has_left(). Cost: a message to the launcher.
  virtual void tell_left() noexcept {}
  /// True if `rank`, one of the job, has told so. PMI's and PMIx's launchers do not know. Cost: a
  /// load.
  [[nodiscard]] virtual bool has_left([[maybe_unused]] std::uint32_t rank) const noexcept {
    return false;
  }
  /// Notes whether this process could start what all start together. ECANCELED: another process has
  /// left, which waits for nobody.
  void note_start(const result<void>& r) noexcept {
    began_ |= r.has_value();
    missed_ = !began_ && r.error().code != ECANCELED;
  }
  /// True if the others would wait for this process in vain, since it could start nothing. Then its
  /// end is one without finalize(). For the thread that calls note_start().
  [[nodiscard]] bool missed() const noexcept { return missed_; }

  /// True once the launcher has announced that the job is over. It costs one load, so that every
  /// poll may ask.
  [[nodiscard]] bool ended() const noexcept {
    // J2 poll  load-acquire *ended_  <- J1 (announce, in the launcher or in announce())
    return ended_->load(std::memory_order_acquire) != 0;
  }
  /// The process that ended the job, and how; nothing while ended() is false.
  [[nodiscard]] std::optional<death> ended_by() const noexcept;
  /// A descriptor that is readable from the moment ended() is true, for threads that sleep in
  /// poll(2); -1 in a job without launcher. It must not be read from.
  [[nodiscard]] int ended_fd() const noexcept { return ended_fd_; }

 protected:
  job() : ended_(&own_ended_) {}
  /// Tells the launcher of abort(). Async-signal-safe where the launcher's protocol allows it.
  virtual void tell_abort(int code) noexcept = 0;
  /// Tells it of end(). Launchers other than penrun end the others then, and do not say why.
  virtual void tell_end(int code) noexcept;
  /// For launchers that call back: makes ended() true. Only the first call counts.
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
  bool began_ = false, missed_ = false;
};

}  // namespace penstock::job
