// The launcher's end of what a rank says to its launcher at start, where every byte is counted. It
// plays penrun for one rank of a job whose other ranks are none but what they say in exchanges, or
// stands between a rank and the penrun that has started it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "lib/base/settings.hpp"
#include "lib/job/job.hpp"

namespace penstock::start {

/// Bytes of frames, as they pass the rank's socket.
struct traffic {
  std::uint64_t sent = 0, received = 0;
};

class launcher {
 public:
  /// What rank r contributes to an exchange, made from what the rank here does.
  using contribution =
      std::function<std::vector<std::byte>(std::uint32_t r, std::span<const std::byte> own)>;

  /// Changes s.launch so that job::join(s) comes here, in a played job of `ranks` processes, at
  /// most of_host of them on this host. This one has the middle rank.
  launcher(settings& s, std::uint32_t ranks, std::uint32_t of_host, contribution said);
  /// The same where penrun has written s.launch, and answers.
  explicit launcher(settings& s) : launcher(s, 0, 0, nullptr) {}
  launcher(const launcher&) = delete;
  launcher& operator=(const launcher&) = delete;
  /// Ends with the rank's membership, which must be gone.
  ~launcher();

  [[nodiscard]] traffic passed() const noexcept { return {sent_, received_}; }

 private:
  void play() noexcept;
  void pass_on() noexcept;

  std::uint32_t ranks_;
  contribution said_;
  int here_ = -1, penrun_ = -1;
  std::atomic<std::uint64_t> sent_{0}, received_{0};
  std::thread thread_;
};

/// A job whose collectives are measured: how many there are, and what they take of this thread.
class watched_job final : public job::job {
 public:
  explicit watched_job(std::unique_ptr<job> of);

  result<std::vector<std::vector<std::byte>>> exchange(std::span<const std::byte> mine) override;
  result<void> fence() override { return of_->fence(); }
  result<void> begin_fence() override { return of_->begin_fence(); }
  result<bool> fence_is_over() override { return of_->fence_is_over(); }
  void finalize(int code) override { of_->finalize(code); }
  void tell_left() noexcept override { of_->tell_left(); }
  [[nodiscard]] bool has_left(std::uint32_t r) const noexcept override { return of_->has_left(r); }

  std::uint64_t exchanges = 0, cpu_ns = 0;
  std::uint64_t held = 0;  ///< the most heap that the answer of an exchange took

 protected:
  void tell_abort(int code) noexcept override { of_->abort(code, nullptr); }

 private:
  std::unique_ptr<job> of_;
};

/// Processor time of the calling thread.
std::uint64_t thread_cpu_ns() noexcept;

}  // namespace penstock::start
