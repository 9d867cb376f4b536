// The second device of a job that has both paths: queue pairs to other hosts belong to the NIC, and
// rings to the processes that share memory with this one belong to shm0, which is opened beside it.
// A job of one path has the engine's device alone. (On shm0, where SUPERNODE_MAXSIZE divides a
// host, shm0 is opened twice.)
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "lib/base/result.hpp"
#include "lib/base/settings.hpp"
#include "memreg/memreg.hpp"
#include "nic/device.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// The settings by which shm0 is opened in a job whose settings name another device.
settings shm0_beside(settings s);

/// The engine makes and ends it. Code that makes lanes, maps segments or looks for events reads it.
struct near_device {
  nic::device device;
  ibv_pd* pd = nullptr;
  const std::atomic<std::uint32_t>* events = nullptr;  ///< raised by the device
  std::atomic<std::uint32_t> events_seen{0};
  ibv_comp_channel* channel = nullptr;  ///< where somebody sleeps until messages come
  std::byte* segment = nullptr;         ///< this process's segment, after show()
  ibv_mr* registration = nullptr;       ///< of the segment

  static result<std::unique_ptr<near_device>> open(const settings& s, bool with_channel);
  /// Registers the segment, so that other processes can map it.
  result<void> show(const memreg::segment& s);
  near_device() = default;
  near_device(const near_device&) = delete;
  near_device& operator=(const near_device&) = delete;
  ~near_device();
};

}  // namespace penstock::conduit::PENSTOCK_ABI
