// See account.hpp.
#include "memreg/account.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/base/page.hpp"
#include "memreg/host_memory.hpp"

namespace penstock::memreg {
namespace {

// A device pins whole pages.
std::uint64_t in_pages(const void* addr, std::size_t bytes) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(addr);
  return round_up(at + bytes, page_bytes()) - round_down(at, page_bytes());
}

}  // namespace

class account::counted final : public registrar {
 public:
  counted(account& to, std::uint64_t most) noexcept : to_(to), most_(most) {}

  result<registration> reg(void* addr, std::size_t bytes, unsigned access_bits) override {
    const std::uint64_t pinned = in_pages(addr, bytes);
    if (auto room = to_.take(pinned, most_); !room) return room.error();
    auto r = to_.device_->reg(addr, bytes, access_bits);
    if (r)
      r->bytes = pinned;
    else
      to_.give(pinned);
    return r;
  }
  void dereg(registration r) noexcept override {
    to_.device_->dereg(r);
    to_.give(r.bytes);
  }
  void declare_shared(void* addr, std::size_t bytes, int fd, std::uint64_t offset) override {
    to_.device_->declare_shared(addr, bytes, fd, offset);
  }
  void forget_shared(void* addr) noexcept override { to_.device_->forget_shared(addr); }

 private:
  account& to_;
  const std::uint64_t most_;
};

account::account(std::unique_ptr<registrar> device, pin_budget limit)
    : device_(std::move(device)),
      limit_(std::move(limit)),
      messages_(std::make_unique<counted>(*this, limit_.per_process)),
      caches_(std::make_unique<counted>(*this, limit_.per_process - limit_.per_process / 8)) {}

account::~account() = default;

result<void> account::take(std::uint64_t bytes) { return take(bytes, limit_.per_process); }

// relaxed: the count protects no memory
result<void> account::take(std::uint64_t bytes, std::uint64_t most) {
  std::uint64_t now = used_.load(std::memory_order_relaxed);
  do {
    if (now > most || bytes > most - now)
      return failure{"registering " + human_bytes(bytes) + ": " + human_bytes(now) +
                         " are registered, and " + human_bytes(most) + " are allowed by " +
                         limit_.binding,
                     ENOMEM, limit_.hint};
  } while (!used_.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed,
                                        std::memory_order_relaxed));
  return {};
}

void account::give(std::uint64_t bytes) noexcept {
  used_.fetch_sub(bytes, std::memory_order_relaxed);
}

std::uint64_t account::left_to_caches() const noexcept {
  const std::uint64_t most = limit_.per_process - limit_.per_process / 8;
  return most - std::min(most, used());
}

}  // namespace penstock::memreg
