// Files of settings, which stand below the environment: that of the system, that of the user, and
// the one that PENSTOCK_CONFIG names, each above those before it. read_settings() alone calls this.
#pragma once

#include <unistd.h>

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.hpp"

namespace penstock {

/// A line NAME = VALUE of a file. The name is one that the environment has for the setting, also
/// without PENSTOCK_.
struct setting_line {
  std::string where;  ///< "/etc/penstock.conf:3"
  std::string name, value;
};

struct setting_files {
  std::vector<std::string> read;    ///< the paths of those that are there
  std::vector<setting_line> lines;  ///< of all, the later above the earlier
  /// Why a file of the system's or the user's cannot be read; whose the user's is if another's.
  std::vector<std::string> warnings;
};

/// The system's file.
inline constexpr const char* system_settings = "/etc/penstock.conf";

/// What decides which files are read; the texts are those of the environment, and may be empty.
struct setting_places {
  std::string_view config;    ///< PENSTOCK_CONFIG: a path; auto; none, which reads no file at all
  std::string_view xdg_home;  ///< XDG_CONFIG_HOME
  std::string_view home;      ///< HOME
  std::string system = system_settings;
  ::uid_t user = ::geteuid();
};

/// Reads them. A file of the system or of the user may be absent or unreadable; the user's counts
/// also if another user owns it, with a warning. Fails, with the path and the number of the line,
/// where PENSTOCK_CONFIG's cannot be read, and where a line is neither empty, nor a comment (#),
/// nor NAME = VALUE.
result<setting_files> read_setting_files(const setting_places& at);

}  // namespace penstock
