// How much memory this process may pin, which limit says so, and an account that keeps to it. The
// sizes come from settings, the kernel's limits from the kernel; nobody else computes them.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "lib/base/mode.hpp"
#include "lib/base/result.hpp"
#include "lib/base/settings.hpp"
#include "memreg/host_memory.hpp"
#include "memreg/registrar.hpp"

namespace penstock::memreg {

/// What this process may pin, and why.
struct pin_budget {
  std::uint64_t physical = 0;     ///< of the host, or of its control group
  std::uint64_t host_limit = 0;   ///< what the settings allow all processes of the host together
  std::uint64_t memlock = 0;      ///< RLIMIT_MEMLOCK after raising it to its hard limit
  bool memlock_exempt = false;    ///< CAP_IPC_LOCK: the limit does not bind
  bool by_memlock = false;        ///< it does, and is the smallest
  std::uint64_t per_process = 0;  ///< the smallest of all that
  std::string binding;            ///< which one that is, for messages: "ulimit -l (8.0 MiB)"
  std::string hint;               ///< what to raise
};

/// Reads the limits; raises the soft RLIMIT_MEMLOCK to the hard one. `host_limit` is the setting
/// PHYSMEM_MAX, for all of the job's `processes_on_host` (> 0) together. device_pins: the device in
/// use pins what is registered; with one that does not, RLIMIT_MEMLOCK limits nothing. Set-up only.
pin_budget probe_pin_budget(memory_limit host_limit, unsigned processes_on_host,
                            bool device_pins = true);

/// Counts pinned bytes against a budget. Any thread; one atomic operation a call.
class pin_account {
 public:
  explicit pin_account(const pin_budget& budget) : budget_(budget) {}

  /// Takes `bytes` from the budget; false if that would exceed it.
  [[nodiscard]] bool try_take(std::uint64_t bytes) noexcept;
  void give(std::uint64_t bytes) noexcept;
  [[nodiscard]] std::uint64_t taken() const noexcept {
    return taken_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] const pin_budget& budget() const noexcept { return budget_; }

  /// Why pinning `bytes` more is refused, naming the limit to raise.
  [[nodiscard]] failure refusal(std::uint64_t bytes) const;

 private:
  pin_budget budget_;
  // A count that nothing else is ordered by, hence relaxed throughout.
  alignas(cache_line) std::atomic<std::uint64_t> taken_{0};
};

/// A registrar that keeps an account: refuses what exceeds the budget before the kernel does, and
/// turns the device's ENOMEM into a message that names the limit. dereg() needs the size, so the
/// handle is a small object of its own.
class accounted_registrar final : public registrar {
 public:
  /// Both must outlive this object.
  accounted_registrar(registrar& device, pin_account& account) noexcept
      : device_(device), account_(account) {}

  result<registration> reg(void* addr, std::size_t bytes, unsigned access_bits) override;
  void dereg(registration r) noexcept override;
  void declare_shared(void* addr, std::size_t bytes, int fd, std::uint64_t offset) override {
    device_.declare_shared(addr, bytes, fd, offset);
  }
  void forget_shared(void* addr) noexcept override { device_.forget_shared(addr); }

 private:
  registrar& device_;
  pin_account& account_;
};

}  // namespace penstock::memreg
