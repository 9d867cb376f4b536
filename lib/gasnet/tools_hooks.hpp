// The calls by which gasnet_init sets up the tools: whether this process displays settings, and
// that faults are to be watched. Programs that use the tools alone call none of these.
#pragma once

namespace penstock::gasnet {

/// False silences the display of settings in this process (every rank but 0).
void set_speaker(bool speaks) noexcept;

/// Watches for fatal signals that the program has no handler for, and for fatal errors of the
/// library. Before such an end the process prints a backtrace, if GASNET_BACKTRACE asks for it on
/// this rank (GASNET_BACKTRACE_NODES), and waits for a debugger, if GASNET_FREEZE_ON_ERROR asks for
/// that. GASNET_BACKTRACE_SIGNAL prints a backtrace and goes on. It calls prepare_freezing(), and
/// is to be called once.
void watch_faults(unsigned rank, unsigned size) noexcept;

/// Reads GASNET_FREEZE_ON_ERROR and GASNET_FREEZE_SIGNAL, which have effect from here on, and
/// GASNET_FREEZE: if that is set, it returns only when a debugger or a signal lets the process go
/// on.
void prepare_freezing() noexcept;
/// True if GASNET_FREEZE_ON_ERROR was set when prepare_freezing() read it.
[[nodiscard]] bool freezes_on_error() noexcept;
/// Waits for a debugger if freezes_on_error(). Signal handlers may call it, too.
void freeze_on_error() noexcept;

/// Installs a handler for the signal that a setting names, such as SIGUSR1. It logs the reason if
/// it cannot, since there is no such signal, or the signal has a handler already.
void watch_signal(const char* setting, void (*handler)(int)) noexcept;

}  // namespace penstock::gasnet
