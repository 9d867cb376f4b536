// Processes below this one that have ended, and whether the kernel ended them for their processor
// time. For the guard, the keeper and the agent.
#pragma once

#include <sys/types.h>

namespace penrun {

/// As waitpid(-1, &status, WNOHANG). Of one that the kernel killed for its processor time it says
/// so on standard error, since the signal is that of any kill.
pid_t next_ended(int& status);

/// True where ulimit -t is 0: the kernel kills this process and all below it at their first tick.
bool without_processor_time();

}  // namespace penrun
