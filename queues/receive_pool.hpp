// ReqRB on verbs: receive buffers of one size behind a shared receive queue, with spares, so that a
// buffer that holds a request is replaced before the request's handler runs.
//
// Invariant 1: as many buffers are posted as there are credits for this size, at all times but
// between taking a completion and replace(), which the engine does before it returns any credit.
// Spares in hand come first: a thread polls for requests only when it holds one.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "lib/base/build_mode.hpp"
#include "lib/base/index_pool.hpp"
#include "lib/base/result.hpp"
#include "memreg/arena.hpp"
#include "nic/device.hpp"

namespace penstock::queues {

class receive_pool {
 public:
  /// posted buffers of `bytes` each on a new SRQ, and `spares` more. Memory comes from the arena.
  static result<std::unique_ptr<receive_pool>> open(nic::device& dev, ibv_pd* pd,
                                                    memreg::arena& memory, std::uint32_t posted,
                                                    std::uint32_t spares, std::uint32_t bytes);
  ~receive_pool();

  [[nodiscard]] ibv_srq* srq() const noexcept { return srq_; }
  [[nodiscard]] std::byte* at(std::uint32_t buffer) const noexcept {
    return memory_.base + std::size_t{buffer} * bytes_;
  }
  [[nodiscard]] std::uint32_t buffer_bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint32_t buffers() const noexcept { return count_; }
  [[nodiscard]] std::size_t pinned() const noexcept { return std::size_t{count_} * bytes_; }

  [[nodiscard]] std::optional<std::uint32_t> take_spare() noexcept { return spares_.take(); }
  void give_spare(std::uint32_t buffer) noexcept { spares_.give(buffer); }
  [[nodiscard]] bool no_spare() const noexcept { return spares_.empty(); }
  /// Posts buffer. 0 or an errno (only a broken device refuses: the SRQ is as deep as there are
  /// buffers).
  int post(std::uint32_t buffer) noexcept;

 private:
  receive_pool(nic::device& dev, std::uint32_t posted, std::uint32_t spares, std::uint32_t bytes)
      : dev_(dev), count_(posted + spares), bytes_(bytes), spares_(count_, posted) {}
  nic::device& dev_;
  std::uint32_t count_, bytes_;
  memreg::piece memory_;
  ibv_srq* srq_ = nullptr;
  index_pool<build_mode> spares_;
};

}  // namespace penstock::queues
