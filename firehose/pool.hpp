// The local victim pool: registrations of this process's memory outside the segment. They are made
// when first needed and kept until room is wanted, so that using a buffer again costs a lookup.
//
// acquire(addr, len) answers a lease that covers [addr, addr + lease.bytes()): at least one byte,
// at most to the end of the window of the maximum region size. Longer buffers take several leases;
// the caller cuts its transfer there.
//
// What a miss registers: the whole pages asked for, cut at the window, and the pages of registered
// regions that overlap or touch them, which the new region replaces. So small neighbours grow
// together, up to the maximum region size. Nothing else is registered: a page that no caller asked
// for may be changing.
//
// What may be kept: a region is kept only while every change to its pages would become known, by
// the interposed calls or by the kernel's events. Where neither works, each lease is a registration
// of its own, which ends with the lease. README.md lists what each of the two covers.
//
// Threads: any, several at once. acquire() may register, wait for another thread that registers the
// same pages, and allocate; try_hit() does none of it. Not from a signal handler.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "firehose/changes.hpp"
#include "firehose/region_table.hpp"
#include "lib/base/result.hpp"
#include "lib/base/status.hpp"
#include "memreg/registrar.hpp"

namespace penstock::firehose {

class kernel_events;

/// How stale registrations are kept out.
enum class protection : std::uint8_t {
  automatic,  ///< interposed calls; the kernel's events where those cannot be put in place
  calls,      ///< interposed calls only
  events,     ///< the kernel's events only: a miss costs 2 to 10 microseconds more
  both,       ///< both of the two, for programs that make mapping system calls of their own
  none,       ///< keeps everything and watches nothing: for tests that show why watching is needed
};

struct pool_settings {
  std::uint64_t max_bytes = 0;       ///< M: GASNET_FIREHOSE_MAXVICTIM_M; 0: R · region size
  std::uint32_t max_regions = 1024;  ///< R: GASNET_FIREHOSE_MAXVICTIM_R; at most 2^20
  std::uint64_t max_region_bytes = std::uint64_t{128} << 10;  ///< GASNET_FIREHOSE_MAXREGION_SIZE
  unsigned access_bits = memreg::access::local_write;         ///< of writable memory
  protection protect = protection::automatic;
};

struct pool_statistics {
  std::uint64_t hits = 0;           ///< leases of a region that was registered already
  std::uint64_t misses = 0;         ///< leases that registered
  std::uint64_t evictions = 0;      ///< regions given up for room
  std::uint64_t invalidations = 0;  ///< regions lost because their memory changed
  std::uint64_t merges = 0;         ///< regions replaced by a larger one
  std::uint64_t refusals = 0;       ///< acquire() that could not register
  std::uint64_t bytes_pinned = 0;   ///< now
  std::uint32_t regions = 0;        ///< registered now, with those waiting for their last lease
};

class pool final : private change_listener {
 public:
  /// The registrar must outlive the pool. Errors: no memory for the tables.
  static result<std::unique_ptr<pool>> create(memreg::registrar& device,
                                              const pool_settings& settings);
  /// All leases must have been returned.
  ~pool();

  /// A lease if a registration is there already. About 10 ns; takes no lock, writes no line that
  /// another thread reads.
  bool try_hit(const void* addr, std::size_t len, purpose use, lease& out) noexcept {
    // E2 look  load-acquire gate  <- E1: changes that an event reported are in the table
    if (gate_->load(std::memory_order_acquire) != changes::gate::open) [[unlikely]]
      return false;
    return table_.hit(0, reinterpret_cast<std::uint64_t>(addr), len, use, out);
  }

  /// A lease of as much of [addr, addr+len) (len > 0) as one region takes. A source may be
  /// read-only.
  ///   ok            out holds it
  ///   no_ticket     every region is leased: complete transfers, or use a bounce buffer
  ///   device_error  the device cannot register this memory (`*why` says why): use a bounce buffer
  ///   unsupported   this is a forked child
  status acquire(const void* addr, std::size_t len, purpose use, lease& out,
                 failure* why = nullptr) {
    if (try_hit(addr, len, use, out)) [[likely]]
      return status::ok;
    return acquire_slow(reinterpret_cast<std::uint64_t>(addr), len, use, out, why);
  }

  /// Gives up registrations whose memory changed and whose last lease is returned. Called by
  /// acquire() too; a load when there is nothing to do.
  void reap() {
    if (dead_.load(std::memory_order_relaxed) != 0) [[unlikely]]
      reap_slow();
  }

  /// Gives up every region that is not leased. Returns how many.
  std::uint32_t drop_idle();

  /// For callers that hand a lease's key to other processes: true once the memory behind the lease
  /// may have changed, so that the key must not be used for new transfers; true also of a region
  /// that was never kept. Takes the lock; ask when changed_count() has changed.
  [[nodiscard]] bool changed(const lease& l) const noexcept;
  /// True while the kernel has reported changes that changed_count() does not show yet: ask this
  /// first. One load.
  [[nodiscard]] bool changes_pending() const noexcept {
    // E2 look  load-acquire gate  <- E1: changes that an event reported are counted
    return gate_->load(std::memory_order_acquire) == changes::gate::pending;
  }
  /// Changes whenever changed() becomes true of some region. One load.
  [[nodiscard]] std::uint64_t changed_count() const noexcept {
    // S2 look  load-acquire changed_  <- S1 (pool_evict.cpp)
    return changed_.load(std::memory_order_acquire);
  }

  [[nodiscard]] pool_statistics statistics() const;
  [[nodiscard]] const pool_settings& settings() const noexcept { return settings_; }
  /// What keeps stale registrations out in this process: one line for the log and peninfo.
  [[nodiscard]] const char* protection_text() const noexcept;

 private:
  pool(memreg::registrar& device, const pool_settings& settings);
  struct wish;
  // Notes on a region (region::mark) while it is not absent.
  static constexpr std::uint32_t note_doomed = 1;   // filling, and its pages have changed
  static constexpr std::uint32_t note_dead = 2;     // counted in dead_
  static constexpr std::uint32_t note_changed = 4;  // its pages may be others than its addresses'

  void on_change(std::uint64_t start, std::uint64_t end) noexcept override;
  [[nodiscard]] bool keeps(std::uint64_t start, std::uint64_t end) noexcept override;

  status acquire_slow(std::uint64_t addr, std::size_t len, purpose use, lease& out, failure* why);
  // Called under the lock:
  bool find(const wish& w, lease& out, bool& filling) noexcept;
  void widen(wish& w) noexcept;
  void kill(std::uint32_t i) noexcept;
  void forget(std::uint32_t i) noexcept;
  void replace_neighbours(std::uint32_t i) noexcept;
  std::uint32_t pick_dead(std::uint32_t* which, std::uint32_t most) noexcept;
  std::uint32_t close(std::uint32_t* which, std::uint32_t count) noexcept;
  [[nodiscard]] bool fits(std::uint64_t bytes) const noexcept;
  // Called without it:
  result<memreg::registration> enter(wish& w, std::uint32_t i);
  std::uint32_t evict(std::uint64_t bytes);
  std::uint32_t retire(const std::uint32_t* which, std::uint32_t count);
  void lose_calls();
  void reap_slow();

  memreg::registrar& device_;
  const pool_settings settings_;
  const std::atomic<changes::gate>* gate_;
  region_table table_;
  std::shared_ptr<kernel_events> events_;
  std::atomic<bool> calls_seen_{false};  // cleared once, under the lock

  // under changes::lock()
  alignas(cache_line) pool_statistics stats_;
  std::atomic<std::uint64_t> changed_{0};
  std::atomic<std::uint32_t> dead_{0};  // regions in state dead; read without the lock as a hint
};

}  // namespace penstock::firehose
