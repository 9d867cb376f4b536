// A protection domain for queue pairs to which one thread at a time posts (verbs: a thread domain
// inside a parent domain). The provider then needs no lock around a post, and gives them a doorbell
// page of their own: mlx5 locks neither, and else takes two locks for each post. Where the device
// knows no such domains, it is the plain protection domain.
//
// Not for queues that two threads touch: completion queues, which the connector makes longer and
// clears of a queue pair that it destroys, and shared receive queues, to which it posts receives.
#pragma once

#include "nic/device.hpp"

namespace penstock::nic {

class thread_domain {
 public:
  thread_domain() = default;
  /// Over plain, which outlives it. Never fails: pd() is `plain` then, and why_not() says why.
  thread_domain(device& d, ibv_pd* plain) noexcept;
  /// The queue pairs are destroyed before.
  ~thread_domain() { close(); }
  thread_domain(thread_domain&& o) noexcept { *this = static_cast<thread_domain&&>(o); }
  thread_domain& operator=(thread_domain&& o) noexcept;

  [[nodiscard]] ibv_pd* pd() const noexcept { return parent_ != nullptr ? parent_ : plain_; }
  /// True if the provider takes no lock for posts to a queue pair of pd().
  [[nodiscard]] bool lock_free() const noexcept { return parent_ != nullptr; }
  /// The errno for which there is no such domain; 0 if there is one, or none was asked for.
  [[nodiscard]] int why_not() const noexcept { return why_not_; }

 private:
  void close() noexcept;
  const calls* verbs_ = nullptr;
  ibv_pd *plain_ = nullptr, *parent_ = nullptr;
  ibv_td* td_ = nullptr;
  int why_not_ = 0;
};

}  // namespace penstock::nic
