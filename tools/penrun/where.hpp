// Reports what a process is doing that should have ended, when the job's time is over.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace penrun {

/// Prints state, system call and kernel wait of every thread of these processes (with their ranks),
/// then the stacks, if gdb is installed and may attach, of as many as there is time for: five
/// seconds for all together.
void print_where(const std::vector<std::pair<std::uint32_t, pid_t>>& processes);

}  // namespace penrun
