// What a user can do about an errno that means that a limit of the process or the machine was
// reached. Failures at set-up have it as their hint.
#pragma once

#include <cstdint>
#include <string>

namespace penstock {

/// "raise ulimit -n (1024 now)" for EMFILE and so on; empty for codes that name no limit.
/// Where a call that went through opened() or asked() of descriptors.hpp was refused with that
/// code, a sandbox is named, and the call.
std::string what_to_raise(int code);
/// The same for a queue whose length a setting gives: what is short of memory, or too long for the
/// device, is cured by lowering that setting, too; any other refusal is not.
std::string what_to_raise(int code, const char* or_lower);

/// False if the kernel would send SIGXFSZ to this process for a file of that many bytes. The caller
/// then fails with EFBIG, and does not ask for the file.
bool file_may_have(std::uint64_t bytes) noexcept;

}  // namespace penstock
