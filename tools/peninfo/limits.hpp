// The limits of a process started here, as text for people.
#pragma once

#include <string>

namespace peninfo {

/// A line for each limit that a job may meet, with what it is and what needs it.
std::string limits_text();

}  // namespace peninfo
