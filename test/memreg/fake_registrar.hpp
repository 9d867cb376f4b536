// A registrar for tests: hands out keys, remembers the registrations, and refuses when told to.
#pragma once

#include <cerrno>
#include <cstddef>
#include <map>
#include <mutex>

#include "memreg/registrar.hpp"

namespace penstock::memreg {

class fake_registrar : public registrar {
 public:
  struct entry {
    void* addr;
    std::size_t bytes;
    unsigned access_bits;
  };

  result<registration> reg(void* addr, std::size_t bytes, unsigned access_bits) override {
    const std::lock_guard guard(lock_);
    if (refuse) return failure{"fake registration", ENOMEM, ""};
    const std::uint32_t key = ++next_;
    live_[key] = {addr, bytes, access_bits};
    ++registered;
    return registration{key, key + 1'000'000, reinterpret_cast<void*>(std::uintptr_t{key})};
  }
  void dereg(registration r) noexcept override {
    const std::lock_guard guard(lock_);
    if (live_.erase(r.lkey) != 1) ++wrong;
    ++deregistered;
  }
  void declare_shared(void*, std::size_t, int, std::uint64_t) override { ++declared; }
  void forget_shared(void*) noexcept override { --declared; }

  [[nodiscard]] std::map<std::uint32_t, entry> live() const {
    const std::lock_guard guard(lock_);
    return live_;
  }
  [[nodiscard]] std::size_t live_bytes() const {
    std::size_t n = 0;
    for (const auto& [key, e] : live()) n += e.bytes;
    return n;
  }
  /// True if key covers [addr, addr+bytes) now.
  [[nodiscard]] bool covers(std::uint32_t key, const void* addr, std::size_t bytes) const {
    const std::lock_guard guard(lock_);
    const auto it = live_.find(key);
    if (it == live_.end()) return false;
    const auto a = reinterpret_cast<std::uintptr_t>(addr);
    const auto b = reinterpret_cast<std::uintptr_t>(it->second.addr);
    return a >= b && a + bytes <= b + it->second.bytes;
  }

  bool refuse = false;
  int registered = 0, deregistered = 0, wrong = 0, declared = 0;

 private:
  mutable std::mutex lock_;
  std::map<std::uint32_t, entry> live_;
  std::uint32_t next_ = 0;
};

}  // namespace penstock::memreg
