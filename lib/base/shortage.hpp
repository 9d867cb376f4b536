// What a user can do about an errno that means a limit of the process or the machine was reached.
// For the hints of failures at set-up.
#pragma once

#include <cstdint>
#include <string>

namespace penstock {

/// "raise ulimit -n (1024 now)" for EMFILE and so on; empty for codes that name no limit.
std::string what_to_raise(int code);

/// False if a file of so many bytes would get this process the signal SIGXFSZ: then the error is
/// EFBIG, and asking for the file is no use.
bool file_may_have(std::uint64_t bytes) noexcept;

}  // namespace penstock
