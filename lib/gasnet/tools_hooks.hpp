// What gasnet_init tells the tools: where the job's environment is, whether this process is the one
// that speaks, and that faults are to be watched. Programs that use the tools alone call none of
// these.
#pragma once

namespace penstock::gasnet {

/// Looks a name up in the environment of the job; null if it is not set there.
using environment_lookup = char* (*)(const char* key);

/// Makes gasnett_getenv ask lookup first. Once, before threads start.
void set_job_environment(environment_lookup lookup) noexcept;

/// False silences the display of settings in this process (every rank but 0).
void set_speaker(bool speaks) noexcept;

/// From here on, a fatal signal that the program has no handler for, or a fatal error of the
/// library, prints where the process was before it ends it, if GASNET_BACKTRACE says so for this
/// rank (GASNET_BACKTRACE_NODES), and waits for a debugger, if GASNET_FREEZE_ON_ERROR says so.
/// GASNET_BACKTRACE_SIGNAL prints it without an end. Calls prepare_freezing(). Once.
void watch_faults(unsigned rank, unsigned size) noexcept;

/// Heeds GASNET_FREEZE_ON_ERROR and GASNET_FREEZE_SIGNAL from here on, and GASNET_FREEZE at once:
/// then it returns when somebody lets the process go on.
void prepare_freezing() noexcept;
/// Whether GASNET_FREEZE_ON_ERROR was set when prepare_freezing() looked.
[[nodiscard]] bool freezes_on_error() noexcept;
/// Waits for a debugger if freezes_on_error(). Also in signal handlers.
void freeze_on_error() noexcept;

/// Gives the signal that a setting names, as in SIGUSR1, a handler. A line says why not if the name
/// is no signal's, or the signal has a handler already.
void watch_signal(const char* setting, void (*handler)(int)) noexcept;

}  // namespace penstock::gasnet
