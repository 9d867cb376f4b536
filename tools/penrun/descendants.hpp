// All processes that were started below this one, whatever session or process group they moved to.
#pragma once

#include <sys/types.h>

#include <vector>

namespace penrun {

/// True from the moment the process begins to end, whatever the reason, until it is reaped.
/// Descriptors that it had open close only after that moment.
bool is_ending(pid_t pid);

/// Live processes below this one. A subreaper's descendants cannot leave it, so none is missed
/// except those born meanwhile.
std::vector<pid_t> descendants();

/// Sends SIGQUIT to those of them that have a handler for it. These are GASNet programs, which may
/// learn in this way that the job ends when they do not poll. By default the signal would leave a
/// core file.
void tell_to_quit();

/// Kills (SIGKILL) and reaps all of them, including those born meanwhile. After five seconds it
/// gives up on processes that the kernel keeps.
void kill_descendants();

}  // namespace penrun
