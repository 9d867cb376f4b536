// The second device of a job that has both paths: queue pairs to other hosts are the NIC's, rings
// to the processes that share memory with this one are shm0's, which is opened beside it. Where a
// job goes one path only, the engine's device is that path's, and this one does not exist. (On shm0
// alone, where SUPERNODE_MAXSIZE divides a host, it is shm0 opened twice.)
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

/// The settings of shm0 in a job that asks for another device.
settings shm0_beside(settings s);

/// Made and ended by the engine; who makes lanes, maps, and looks for events reads it.
struct near_device {
  nic::device device;
  ibv_pd* pd = nullptr;
  const std::atomic<std::uint32_t>* events = nullptr;  ///< raised by the device
  std::atomic<std::uint32_t> events_seen{0};
  ibv_comp_channel* channel = nullptr;  ///< with a progress thread only
  std::byte* segment = nullptr;         ///< where this process's segment lies, once it is known
  ibv_mr* registration = nullptr;       ///< of it

  static result<std::unique_ptr<near_device>> open(const settings& s, bool with_channel);
  /// Others may map the segment from here on.
  result<void> show(const memreg::segment& s);
  near_device() = default;
  near_device(const near_device&) = delete;
  near_device& operator=(const near_device&) = delete;
  ~near_device();
};

}  // namespace penstock::conduit::PENSTOCK_ABI
