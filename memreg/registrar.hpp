// What memreg and firehose know of a device: how to register memory with it. The owner of the
// protection domain implements it over ibv_reg_mr or the shared-memory device; tests have fakes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/result.hpp"

namespace penstock::memreg {

/// One registration: what a work request needs, and the device's own object (ibv_mr*).
struct registration {
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
  void* handle = nullptr;   ///< null: no registration
  std::uint64_t bytes = 0;  ///< what an account counts for it (account.hpp)
};

/// Access bits; numerically IBV_ACCESS_*, so that an implementation passes them through.
namespace access {
inline constexpr unsigned local_read = 0;  ///< source only; the pages may be read-only
inline constexpr unsigned local_write = 1u << 0;
inline constexpr unsigned remote_write = 1u << 1;
inline constexpr unsigned remote_read = 1u << 2;
inline constexpr unsigned remote_atomic = 1u << 3;
inline constexpr unsigned all = local_write | remote_write | remote_read | remote_atomic;
}  // namespace access

/// Registers memory with one protection domain. Any thread, several at once. Expensive
/// (microseconds and a system call on a kernel device); may allocate.
class registrar {
 public:
  virtual ~registrar() = default;

  /// Registers [addr, addr+bytes); the pages stay pinned (where the device pins) until dereg().
  /// Errors carry the errno of the device: ENOMEM when a limit on pinned memory was met.
  virtual result<registration> reg(void* addr, std::size_t bytes, unsigned access_bits) = 0;

  /// Ends a registration. The memory may be unmapped already. It cannot fail.
  virtual void dereg(registration r) noexcept = 0;

  /// Tells the device that [addr, addr+bytes) maps fd from offset on, so that same-host peers may
  /// map it instead of copying through the kernel. Called before reg(); the default ignores it.
  virtual void declare_shared(void* addr, std::size_t bytes, int fd, std::uint64_t offset) {
    (void)addr, (void)bytes, (void)fd, (void)offset;
  }
  /// Undoes declare_shared(); called before the memory is unmapped.
  virtual void forget_shared(void* addr) noexcept { (void)addr; }
};

}  // namespace penstock::memreg
