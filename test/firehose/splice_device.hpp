// A device that really holds pages, as an RDMA device does, but without RDMA. Registering puts
// references to the pages into a pipe (vmsplice), and reading through a registration copies from
// those very pages, whatever is mapped at the address by then. So a stale registration reads old
// data. It cannot write through a registration.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "memreg/registrar.hpp"

namespace penstock::firehose {

class splice_device final : public memreg::registrar {
 public:
  result<memreg::registration> reg(void* addr, std::size_t bytes, unsigned bits) override {
    constexpr int populate_write =
        23;  // fails on read-only memory; breaks copy-on-write like a pin
    if ((bits & memreg::access::local_write) != 0 && madvise(addr, bytes, populate_write) != 0)
      return failure{"pinning pages", errno, ""};
    auto held = std::make_shared<pages>();
    held->base = static_cast<std::byte*>(addr);
    held->bytes = bytes;
    if (pipe2(held->ends, O_CLOEXEC | O_NONBLOCK) != 0) return failure{"pipe", errno, ""};
    fcntl(held->ends[1], F_SETPIPE_SZ, static_cast<int>(std::max<std::size_t>(bytes, 4096)));
    for (std::size_t at = 0; at < bytes;) {
      iovec v{held->base + at, bytes - at};
      const ssize_t n = vmsplice(held->ends[1], &v, 1, SPLICE_F_NONBLOCK);
      if (n <= 0) return failure{"vmsplice", n < 0 ? errno : EAGAIN, ""};
      at += static_cast<std::size_t>(n);
    }
    const std::lock_guard guard(lock_);
    const std::uint32_t key = ++next_;
    live_[key] = held;
    registered.fetch_add(1, std::memory_order_relaxed);
    return memreg::registration{key, key, held.get()};
  }

  void dereg(memreg::registration r) noexcept override {
    std::shared_ptr<pages> last;  // closed outside the lock
    const std::lock_guard guard(lock_);
    const auto it = live_.find(r.lkey);
    if (it == live_.end()) return;
    last = it->second;
    live_.erase(it);
  }

  /// Copies what the registration's pages hold at addr; false if the key does not cover it.
  bool read(std::uint32_t key, const void* addr, std::size_t bytes, void* out) {
    std::shared_ptr<pages> held;
    {
      const std::lock_guard guard(lock_);
      const auto it = live_.find(key);
      if (it == live_.end()) return false;
      held = it->second;
    }
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(addr) - held->base);
    if (offset > held->bytes || bytes > held->bytes - offset) return false;
    // tee() copies references without taking them out; one reader at a time, or it sees a part.
    const std::lock_guard one(held->reading);
    int copy[2];
    if (pipe2(copy, O_CLOEXEC | O_NONBLOCK) != 0) return false;
    fcntl(copy[1], F_SETPIPE_SZ, static_cast<int>(std::max<std::size_t>(held->bytes, 4096)));
    std::vector<std::byte> all(offset + bytes);
    std::size_t got = 0;
    if (tee(held->ends[0], copy[1], held->bytes, SPLICE_F_NONBLOCK) > 0)
      while (got < all.size()) {
        const ssize_t n = ::read(copy[0], all.data() + got, all.size() - got);
        if (n <= 0) break;
        got += static_cast<std::size_t>(n);
      }
    close(copy[0]);
    close(copy[1]);
    if (got != all.size()) return false;
    std::memcpy(out, all.data() + offset, bytes);
    return true;
  }

  std::atomic<int> registered{0};

 private:
  struct pages {
    int ends[2] = {-1, -1};
    std::byte* base = nullptr;
    std::size_t bytes = 0;
    std::mutex reading;
    ~pages() {
      for (int e : ends)
        if (e >= 0) close(e);
    }
  };
  std::mutex lock_;
  std::map<std::uint32_t, std::shared_ptr<pages>> live_;
  std::uint32_t next_ = 0;
};

}  // namespace penstock::firehose
