// Messages to the user, on stderr, one line each. Each is one write(2), so that lines of several
// processes do not mix. The fatal handler is the only place where the library ends the process.
#pragma once

#include <cstdarg>

namespace penstock {

/// The level of a message. Those above the setting PENSTOCK_LOG, which is read at start, are left
/// out.
enum class log_level : int { error = 0, warning = 1, info = 2, debug = 3 };

/// Sets the rank that every further line names, beside the time of day ("penstock[3/8
/// 13:05:09.123]: …"). To be called when the rank is known.
void log_identity(unsigned rank, unsigned size) noexcept;
void log_threshold(log_level level) noexcept;
[[nodiscard]] bool log_enabled(log_level level) noexcept;

/// Writes a line as printf would, of at most 1000 bytes. Any thread may call it; it does not
/// allocate.
[[gnu::format(printf, 2, 3)]] void log(log_level level, const char* format, ...) noexcept;

/// What fatal() does after its line. The job installs a hook by which the launcher learns the exit
/// code.
using fatal_hook = void (*)(int exit_code) noexcept;
void set_fatal_hook(fatal_hook hook) noexcept;
/// What fatal() does between the line and the hook, once: it shows where the program was.
void set_fatal_witness(void (*witness)() noexcept) noexcept;

/// Prints one line that names this process, and ends it with exit_code, by the hook or else by
/// _exit.
[[noreturn, gnu::cold, gnu::format(printf, 2, 3)]] void fatal(int exit_code, const char* format,
                                                              ...) noexcept;

}  // namespace penstock
