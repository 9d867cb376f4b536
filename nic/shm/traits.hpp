// What is told of each device of a command, beside its addresses: the NUMA node near which it lies
// and the rate of its link (`penverbs --devices`). Programs choose a device by them; they change
// nothing else.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/base/result.hpp"

namespace penstock::nic::shm {

/// A rate that links have, as ibv_query_port and /sys tell it.
struct link_rate {
  std::uint32_t gbit;
  std::uint8_t width, speed;  ///< ibv_port_attr::active_width and active_speed
  const char* text;           ///< /sys's
};

struct device_traits {
  int numa_node = -1;  ///< -1: near none, as /sys says it
  const link_rate* rate;
};

/// Reads how many devices there are, such as "2", or what each is like, such as
/// "numa=0:rate=200,numa=1:rate=400". Empty: one device. At most most_devices.
result<std::vector<device_traits>> parse_devices(std::string_view text);

}  // namespace penstock::nic::shm
