// What penrun checks before it starts the first process: limits, and the program itself.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.hpp"

namespace penrun {

/// Fails, naming the limit, if this user may not have `processes` more processes, or penrun may not
/// have the descriptors to serve them.
penstock::result<void> room_for(std::uint32_t processes);

/// The file that is run for this name: the name itself if it holds a slash, else the program in
/// PATH, or where PATH has none, the one in the current folder. Empty: there is none.
std::string program_path(const std::string& program);

/// True for a file that only a processor can run; a script, with #! or without, is none.
bool is_for_a_machine(const std::string& path);

/// The MPI library that the program (found as by program_path) is linked with, as "libmpi.so.40";
/// empty if none, or if it cannot be read.
std::string mpi_library_of(const std::string& program);

/// Why execv of the file gave this errno, and what to do; empty where the errno says it all.
std::string why_not_run(const std::string& path, int code);

}  // namespace penrun
