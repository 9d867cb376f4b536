// Memory regions of one context. The owner decides about its own memory from the private table
// here; what peers need is copied into the arena's MR table.
#pragma once

#include <infiniband/verbs.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/use_count.hpp"
#include "nic/shm/arena.hpp"
#include "nic/shm/domain.hpp"
#include "nic/shm/moved_memory.hpp"

namespace penstock::nic::shm {

struct context;

/// What reg_mr hands out. libibverbs reads, behind ibv_mr, the kind of the region and its access
/// rights.
struct memory_region : ibv_mr {
  std::int32_t kind = 0;  ///< 0: ordinary memory
  std::int32_t access = 0;
  moved_memory::hold moved;  ///< see context::moves_memory
  use_count windows;         ///< how many windows are bound to it
};

/// A part of memory that maps a file, so that peers may map it too.
struct shared_part {
  std::uint64_t address = 0, bytes = 0, offset = 0;
  int fd = -1;
};

struct memory_window;

/// The private table behind lkeys and rkeys. A key has 6 bits of a generation, 18 of an index and 8
/// more of the generation; in the key of a window these 8 are the user's. A key is never 0.
class region_table {
 public:
  struct region {
    std::atomic<std::uint32_t> key{0}, pd{0}, access{0};
    std::atomic<std::uint64_t> address{0}, length{0};
    std::atomic<bool> moved{false};     ///< the region lies in moved_memory's file
    std::atomic<std::uint32_t> qpn{0};  ///< of a window: the only QP that it is open to, or 0
    memory_window* window = nullptr;    ///< whose entry this is, under context::windows; or null
  };
  static constexpr std::uint32_t index_of(std::uint32_t key) noexcept {
    return key >> 8 & (max_mrs - 1);
  }
  static constexpr std::uint32_t generation_of(std::uint32_t key) noexcept {
    return (key >> 26) << 8 | (key & 0xff);
  }
  static constexpr std::uint32_t key_of(std::uint32_t index, std::uint32_t generation) noexcept {
    return (generation >> 8) << 26 | index << 8 | (generation & 0xff);
  }
  /// A bit of `access` that regions have and windows do not: the key serves as an lkey.
  static constexpr std::uint32_t local_use = 1u << 30;

  region_table();
  ~region_table();
  region_table(const region_table&) = delete;
  region_table& operator=(const region_table&) = delete;

  /// True if [address, address + bytes) lies in the region of key, in domain pd, with all of
  /// `access`. Any thread; five loads.
  [[nodiscard]] bool allows(std::uint32_t key, std::uint32_t pd, std::uint64_t address,
                            std::uint64_t bytes, std::uint32_t access) const noexcept {
    const region& r = regions_[index_of(key)];
    // M3 local check  load-acquire region.key  <- M4 (region.cpp)
    if (key == 0 || r.key.load(std::memory_order_acquire) != key) return false;
    const std::uint64_t first = r.address.load(std::memory_order_relaxed);
    const std::uint64_t length = r.length.load(std::memory_order_relaxed);
    return r.pd.load(std::memory_order_relaxed) == pd &&
           (r.access.load(std::memory_order_relaxed) & access) == access && address >= first &&
           bytes <= length && address - first <= length - bytes;
  }
  [[nodiscard]] region& at(std::uint32_t index) noexcept { return regions_[index]; }

 private:
  region* regions_ = nullptr;  // max_mrs entries, touched as used
};

/// The next key of an entry; it differs from the entry's last 16,382 keys.
std::uint32_t next_key(std::uint32_t index, std::uint64_t last_generation) noexcept;

/// The declared file behind [address, address + bytes), if one part holds all of it
/// (declare_shared).
std::optional<shared_part> find_shared(std::uint64_t address, std::uint64_t bytes);

/// Registered memory must exist, as on an adapter, which pins it. Every page must be mapped (this
/// is checked without touching it), and the ends must be accessible in the way that is asked for. 0
/// or an errno.
int check_mapped(std::uint64_t address, std::size_t bytes, bool writable) noexcept;

/// Whether a message may fill all of a receive's list. If not, it is not certain that a message
/// fits it (receive_queue::doubt).
inline bool may_fill(const region_table& regions, std::uint32_t pd,
                     const ibv_recv_wr& wr) noexcept {
  for (int i = 0; i < wr.num_sge; ++i)
    if (const ibv_sge& s = wr.sg_list[i];
        s.length != 0 && !regions.allows(s.lkey, pd, s.addr, s.length, IBV_ACCESS_LOCAL_WRITE))
      return false;
  return true;
}

/// Waits until no peer is in the middle of an access by rkey, whose table entry is invalid already.
void wait_untouched(context& c, std::uint32_t rkey) noexcept;
/// Until touched() is false: a peer lets go of memory. A peer that is stopped in the middle of a
/// copy for two seconds is not waited for: it would hold up this process.
void outlast(auto touched) noexcept {
  const std::uint64_t until = now_ns() + 2'000'000'000;
  while (touched() && now_ns() < until) ::sched_yield();
}

ibv_mr* reg_mr(ibv_pd*, void* addr, std::size_t bytes, int access);
int dereg_mr(ibv_mr*) noexcept;
/// Gives a region other rights, other memory or another domain under the same keys. Rights that are
/// taken away are gone as after dereg_mr. As after that, messages to queues that have a posted
/// receive with this key complete at their senders only when they have been placed, since the
/// receive may no longer be valid. An error, also in errno, leaves the region as it was.
int rereg_mr(ibv_mr*, int flags, ibv_pd*, void* addr, std::size_t bytes, int access) noexcept;
int advise_mr(ibv_pd*, ibv_advise_mr_advice, std::uint32_t flags, ibv_sge*,
              std::uint32_t count) noexcept;

}  // namespace penstock::nic::shm
