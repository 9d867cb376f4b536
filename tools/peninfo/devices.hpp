// Devices as text for the user.
#pragma once

#include <string>
#include <vector>

#include "nic/device.hpp"

namespace peninfo {

/// A block of lines for each device: limits, ports, GIDs, or why it cannot be used.
std::string devices_text(const std::vector<penstock::nic::device_info>& devices);

}  // namespace peninfo
