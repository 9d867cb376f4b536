// The cold part of temporary.hpp: the calls to the device.
#include "memreg/temporary.hpp"

namespace penstock::memreg {

status temporary_pool::try_register(void* addr, std::size_t bytes, unsigned access_bits,
                                    temporary& out, failure* why) {
  if (!tickets_.try_take()) return status::no_ticket;
  auto r = device_.reg(addr, bytes, access_bits);
  if (!r) {
    tickets_.give();
    if (why != nullptr) *why = r.error();
    return status::device_error;
  }
  out.reset();
  out.pool_ = this;
  out.keys_ = *r;
  return status::ok;
}

void temporary::reset() noexcept {
  if (pool_ == nullptr) return;
  pool_->device_.dereg(keys_);
  pool_->tickets_.give();
  pool_ = nullptr;
  keys_ = {};
}

}  // namespace penstock::memreg
