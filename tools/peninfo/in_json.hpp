// What peninfo says, for scripts.
#pragma once

#include <string>
#include <vector>

#include "lib/base/settings.hpp"
#include "nic/device.hpp"

namespace peninfo {

/// One JSON object: "devices" (name, library, problem, ports with their GIDs, limits),
/// "libraries_without_devices" (by name, why), "choice" (the device that a program would use, and
/// why; or "problem"), "settings" (name, value, default, source, level, help, allowed, also; values
/// as text, as --settings prints them), "files" (the files of settings that were read).
std::string in_json(const std::vector<penstock::nic::device_info>& devices,
                    const penstock::result<penstock::nic::device>& choice,
                    const penstock::settings& s);

}  // namespace peninfo
