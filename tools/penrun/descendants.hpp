// Everything that was started below this process, whatever session or process group it moved to.
#pragma once

#include <sys/types.h>

#include <vector>

namespace penrun {

/// True from the moment the process begins to end, whatever the reason, until it is reaped: before
/// anything that it had open is seen to close.
bool is_ending(pid_t pid);

/// Live processes below this one. A subreaper's descendants cannot leave it, so none is missed
/// except those born meanwhile.
std::vector<pid_t> descendants();

/// Those of them that have a handler for SIGQUIT get it: GASNet programs, which may be told so that
/// the job ends when they do not poll. By default the signal would leave a core file.
void tell_to_quit();

/// Kills (SIGKILL) and reaps all of them, those born meanwhile too. Gives up after five seconds on
/// what the kernel does not let go of.
void kill_descendants();

}  // namespace penrun
