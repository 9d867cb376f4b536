// Registrations for one transfer, and the tickets that limit how many exist at a time
// (GASNET_PORTAL_NUM_TMPMD; GASNET_GNI_NUM_PD is similar). They are for memory that no cache should
// or can hold.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "lib/base/mode.hpp"
#include "lib/base/status.hpp"
#include "memreg/registrar.hpp"

namespace penstock::memreg {

/// Counts permits. Any threads; try_take and give are one atomic read-modify-write each (try_take
/// retries while others take, too). It orders nothing, since a permit protects no shared memory.
template <template <class> class Atomic = std::atomic>
class ticket_counter {
 public:
  explicit ticket_counter(std::uint32_t limit) noexcept : limit_(limit), free_(limit) {}

  [[nodiscard]] bool try_take() noexcept {
    std::uint32_t now = free_.load(std::memory_order_relaxed);
    do {
      if (now == 0) return false;
    } while (!free_.compare_exchange_weak(now, now - 1, std::memory_order_relaxed,
                                          std::memory_order_relaxed));
    return true;
  }
  void give() noexcept { free_.fetch_add(1, std::memory_order_relaxed); }

  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }
  [[nodiscard]] std::uint32_t available() const noexcept {
    return free_.load(std::memory_order_relaxed);
  }

 private:
  const std::uint32_t limit_;
  alignas(cache_line) Atomic<std::uint32_t> free_;
};

/// Default of the limit, after GASNET_PORTAL_NUM_TMPMD.
inline constexpr std::uint32_t default_temporaries = 1024;

class temporary_pool;

/// One temporary registration; ends with the object. Move only; one thread at a time. Keep it until
/// the transfer is complete.
class temporary {
 public:
  temporary() = default;
  temporary(temporary&& o) noexcept
      : pool_(std::exchange(o.pool_, nullptr)), keys_(std::exchange(o.keys_, {})) {}
  temporary& operator=(temporary&& o) noexcept {
    std::swap(pool_, o.pool_);
    std::swap(keys_, o.keys_);
    return *this;
  }
  ~temporary() { reset(); }

  /// Ends the registration before the object is destroyed.
  void reset() noexcept;
  [[nodiscard]] std::uint32_t lkey() const noexcept { return keys_.lkey; }
  [[nodiscard]] std::uint32_t rkey() const noexcept { return keys_.rkey; }
  explicit operator bool() const noexcept { return pool_ != nullptr; }

 private:
  friend class temporary_pool;
  temporary_pool* pool_ = nullptr;
  registration keys_;
};

/// Makes temporary registrations up to a limit. Must outlive them. Any thread.
class temporary_pool {
 public:
  temporary_pool(registrar& device, std::uint32_t limit) noexcept
      : device_(device), tickets_(limit) {}

  /// Registers [addr, addr+bytes). no_ticket: the limit is reached; poll and try again.
  /// device_error: the device refused (`*why`, if given, says what); use a bounce buffer.
  /// Cost: a ticket and a plain registration.
  status try_register(void* addr, std::size_t bytes, unsigned access_bits, temporary& out,
                      failure* why = nullptr);

  [[nodiscard]] std::uint32_t in_use() const noexcept {
    return tickets_.limit() - tickets_.available();
  }

 private:
  friend class temporary;
  registrar& device_;
  ticket_counter<> tickets_;
};

}  // namespace penstock::memreg
