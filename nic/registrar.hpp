// Registers memory with one protection domain of an opened device. It has the members that the
// memory folder asks of a registrar, but does not know that folder: code that knows both names the
// interface, as in registrar_as<memreg::registrar, memreg::registration>.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>

#include "nic/device.hpp"

namespace penstock::nic {

/// One registration. The access bits are IBV_ACCESS_*.
struct registered {
  std::uint32_t lkey = 0, rkey = 0;
  ibv_mr* mr = nullptr;
};

/// reg_mr of the device, with an error that says what to do. Any thread, several at once.
result<registered> register_memory(const device& d, ibv_pd* pd, void* addr, std::size_t bytes,
                                   unsigned access);
/// Ends a registration. A refusal is logged; the memory may be unmapped already.
void deregister_memory(const device& d, ibv_mr* mr) noexcept;
/// Tells the shared-memory device that the range maps fd from offset on; does nothing on other
/// devices.
void declare_shared_memory(const device& d, void* addr, std::size_t bytes, int fd,
                           std::uint64_t offset);
void forget_shared_memory(const device& d, void* addr) noexcept;

/// Implements `Interface` by a device and a protection domain, which both outlive it.
template <class Interface, class Registration>
class registrar_as final : public Interface {
 public:
  registrar_as(const device& d, ibv_pd* pd) noexcept : device_(d), pd_(pd) {}

  result<Registration> reg(void* addr, std::size_t bytes, unsigned access_bits) override {
    auto r = register_memory(device_, pd_, addr, bytes, access_bits);
    if (!r) return r.error();
    return Registration{r->lkey, r->rkey, r->mr};
  }
  void dereg(Registration r) noexcept override {
    deregister_memory(device_, static_cast<ibv_mr*>(r.handle));
  }
  void declare_shared(void* addr, std::size_t bytes, int fd, std::uint64_t offset) override {
    declare_shared_memory(device_, addr, bytes, fd, offset);
  }
  void forget_shared(void* addr) noexcept override { forget_shared_memory(device_, addr); }

 private:
  const device& device_;
  ibv_pd* pd_;
};

}  // namespace penstock::nic
