// What gasnet_init tells the tools: where the job's environment is, and whether this process is the
// one that speaks. Programs that use the tools alone never call these.
#pragma once

namespace penstock::gasnet {

/// Looks a name up in the environment of the job; null if it is not set there.
using environment_lookup = char* (*)(const char* key);

/// Makes gasnett_getenv ask lookup first. Once, before threads start.
void set_job_environment(environment_lookup lookup) noexcept;

/// False silences the display of settings in this process (every rank but 0).
void set_speaker(bool speaks) noexcept;

/// From here on, if GASNET_BACKTRACE says so for this rank (GASNET_BACKTRACE_NODES): where the
/// process was is printed when a fatal signal that the program has no handler for, or a fatal error
/// of the library, ends it; and, without an end, on GASNET_BACKTRACE_SIGNAL.
void watch_faults(unsigned rank, unsigned size) noexcept;

}  // namespace penstock::gasnet
