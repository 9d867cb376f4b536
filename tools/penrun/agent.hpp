// penrun on another host of a job. It starts the processes of that host, and passes on their
// messages and ends to the penrun that the user started, which makes all decisions.
#pragma once

namespace penrun {

/// Serves the link on standard input and output until it ends; then no process that it started is
/// left. lifeline: readable when this process's guard is gone.
int serve_as_agent(int lifeline);

}  // namespace penrun
