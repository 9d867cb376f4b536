// Files that are written at a process's end: whether that can succeed is asked at its start, so
// that no job runs for nothing.
#pragma once

#include <string>

#include "lib/base/result.hpp"

namespace penstock {

/// Fails, naming the setting, if `path` cannot be written: its folder is missing or closed to this
/// user, or it is a folder itself. Leaves nothing behind.
result<void> can_write(const char* setting, const std::string& path);

}  // namespace penstock
