// What penrun checks before it starts the first process: limits, and the program itself.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.hpp"

namespace penrun {

/// Fails, naming the limit, if this user may not have `processes` more processes, or penrun may not
/// have the descriptors to serve them.
penstock::result<void> room_for(std::uint32_t processes);

/// The MPI library that the program (looked for in PATH) is linked with, as "libmpi.so.40"; empty
/// if none, or if it cannot be read.
std::string mpi_library_of(const std::string& program);

/// Why execvp of the program gave this errno, and what to do; empty where the errno says it all.
std::string why_not_run(const std::string& program, int code);

}  // namespace penrun
