// Messages for people, on stderr, one line each, written with one write(2) so that lines of many
// processes do not mix. The fatal handler is the only place where the library ends the process.
#pragma once

#include <cstdarg>

namespace penstock {

/// How much is said. Set once at start from the setting PENSTOCK_LOG.
enum class log_level : int { error = 0, warning = 1, info = 2, debug = 3 };

/// Names this process in every line, where the time of day stands beside it ("penstock[3/8
/// 13:05:09.123]: …"). Call once the rank is known.
void log_identity(unsigned rank, unsigned size) noexcept;
void log_threshold(log_level level) noexcept;
[[nodiscard]] bool log_enabled(log_level level) noexcept;

/// printf-like. Any thread, also from signal handlers' aftermath (no allocation). At most 1000
/// bytes.
[[gnu::format(printf, 2, 3)]] void log(log_level level, const char* format, ...) noexcept;

/// What fatal() does after printing: installed by the job so that the launcher learns the exit
/// code.
using fatal_hook = void (*)(int exit_code) noexcept;
void set_fatal_hook(fatal_hook hook) noexcept;
/// What fatal() does between the line and the hook: shows where the program was. Once.
void set_fatal_witness(void (*witness)() noexcept) noexcept;

/// Prints one line naming this process, then ends it (through the hook, else _exit) with exit_code.
[[noreturn, gnu::cold, gnu::format(printf, 2, 3)]] void fatal(int exit_code, const char* format,
                                                              ...) noexcept;

}  // namespace penstock
