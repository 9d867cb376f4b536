// What a process is doing that should have ended: for the report when the job's time is over.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace penrun {

/// Prints state, system call and kernel wait of every thread, and the stacks if gdb is installed
/// and may attach. Bounded to about ten seconds a process.
void print_where(std::uint32_t rank, pid_t pid);

}  // namespace penrun
