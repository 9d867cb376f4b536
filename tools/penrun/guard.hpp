// penrun is two processes: the guard, which the user started, and the keeper, which starts and
// serves the job. Each is a subreaper and outlives the other, so that whichever is killed, even by
// SIGKILL, the other finds every descendant and ends it.
#pragma once

#include <functional>

namespace penrun {

/// Forks the keeper and runs `keep(lifeline)` in it: `lifeline` becomes readable (end of file) when
/// the guard is gone, and the signals that the guard passes on are blocked. The guard forwards
/// signals to the keeper and a terminal's input to its standard input, waits for it, ends all
/// processes that are left, and returns the exit code.
int guard(const std::function<int(int lifeline)>& keep);

}  // namespace penrun
