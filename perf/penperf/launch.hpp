// Starting the programs that lie beside this one.
#pragma once

#include <string>
#include <vector>

namespace penstock::penperf {

/// The folder of the running program.
std::string own_folder();

/// Becomes the first of `candidates` that exists (the last one is looked up in PATH, too), with
/// these arguments. It returns only if none could be started, and then says why.
std::string become(const std::vector<std::string>& candidates,
                   const std::vector<std::string>& args);

/// Binds this process to one core if it may run on several: the n-th of those allowed, in turn.
void pin_to_core(unsigned n) noexcept;
/// Pins this process to the CPU of that number. False: it may not run there.
bool pin_to_cpu(unsigned cpu) noexcept;

}  // namespace penstock::penperf
