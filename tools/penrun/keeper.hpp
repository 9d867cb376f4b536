// Runs the job: starts its processes, serves them, and ends them when one has ended the job.
#pragma once

#include "tools/penrun/options.hpp"

namespace penrun {

/// Returns the job's exit code: the first that is not zero, 128 + signal for a death, 124 when the
/// time limit was reached. No process that it started is left when it returns. lifeline: readable
/// when the program that started penrun is gone, which ends the job at once.
int keep(const options& o, int lifeline);

}  // namespace penrun
