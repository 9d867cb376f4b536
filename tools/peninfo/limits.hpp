// The limits of a process started here, as text for the user.
#pragma once

#include <string>

namespace peninfo {

/// A line for each limit that a job may meet: its value, and what needs it.
std::string limits_text();

}  // namespace peninfo
