// penrun on another host of a job: starts the processes of that host, and passes on what they say
// and how they end to the penrun that the user started, which decides everything.
#pragma once

namespace penrun {

/// Serves the link on standard input and output until it ends; then nothing it started is left.
/// lifeline: readable when this process's guard is gone.
int serve_as_agent(int lifeline);

}  // namespace penrun
