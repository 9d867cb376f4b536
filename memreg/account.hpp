// One account of the memory that a process registers, whatever it is for: queues, large buffers,
// firehose, temporaries, heaps, and segments where the device pins them. Whole pages count, as they
// are pinned; those that two registrations have in common count twice. The limit is the process's
// share of what its host may pin (limits.hpp), so the accounts of a host's processes together stay
// within the host's limit.
//
// What only saves copies, the caches, leaves an eighth to messages: a Medium by rendezvous that
// finds no registered memory cannot go, and a transfer that finds none is bounced.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "memreg/limits.hpp"
#include "memreg/registrar.hpp"

namespace penstock::memreg {

/// Any thread. It outlives all registrations that are made through it.
class account {
 public:
  account(std::unique_ptr<registrar> device, pin_budget limit);
  ~account();

  /// Registers without counting: memory that is counted by take(), or pins nothing.
  [[nodiscard]] registrar& device() noexcept { return *device_; }
  /// Registers up to the limit. A refusal has ENOMEM, and names limit and remedy.
  [[nodiscard]] registrar& messages() noexcept { return *messages_; }
  /// Registers up to seven eighths of the limit.
  [[nodiscard]] registrar& caches() noexcept { return *caches_; }

  /// Counts bytes that are registered by device(). Errors as of messages().
  result<void> take(std::uint64_t bytes);
  void give(std::uint64_t bytes) noexcept;

  [[nodiscard]] std::uint64_t used() const noexcept {
    return used_.load(std::memory_order_relaxed);
  }
  /// What caches may still register.
  [[nodiscard]] std::uint64_t left_to_caches() const noexcept;

 private:
  class counted;
  result<void> take(std::uint64_t bytes, std::uint64_t most);

  const std::unique_ptr<registrar> device_;
  const pin_budget limit_;
  std::atomic<std::uint64_t> used_{0};
  std::unique_ptr<registrar> messages_, caches_;
};

}  // namespace penstock::memreg
