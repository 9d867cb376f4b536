// Every descriptor of the library, the provider and penrun is made through one of these functions.
// Standard input, output and error are the program's also where it has closed them: the first
// descriptor that is opened then gets their numbers, and what the program prints would land in it.
// tools/check_descriptors looks for other openings. Set-up only; any thread.
#pragma once

#include <dirent.h>
#include <poll.h>

#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace penstock {

/// A descriptor that was opened just now, moved above 2 and closed on exec if it was moved. A
/// negative fd comes back as it is. -1 with errno where it cannot be moved; fd is closed then.
int above_stdio(int fd) noexcept;

/// The same for what a call opened that must not fail: a refusal is kept for refused_call(). `call`
/// is a literal.
int opened(const char* call, int fd) noexcept;
/// The same for a call that opened two descriptors. False with errno if there are none.
bool opened(const char* call, int result, int (&pair)[2]) noexcept;
/// The answer of any other system call that must not fail: a refusal is kept for refused_call().
int asked(const char* call, int result) noexcept;
void* asked(const char* call, void* result) noexcept;

/// Ends the process with a line if `code` says that a descriptor of the library's is closed, or is
/// that of another file: only the program can have closed it. opened() and asked() look themselves.
void refuse_closed(const char* call, int code) noexcept;
/// The same for what poll() has found.
void refuse_closed(std::span<const pollfd> polled) noexcept;

/// Notes a descriptor that lasts until close_kept(), so that look_for_closed() knows it; returns
/// it. Negative ones are not noted. 128 at most are; any further one is not looked for.
int kept(int fd) noexcept;
/// Closes it, unless it is negative; a variable becomes -1. One that was not noted is closed as
/// well.
void close_kept(const int& fd) noexcept;
inline void close_kept(int& fd) noexcept { close_kept(std::as_const(fd)), fd = -1; }
/// Ends the process with a line if a descriptor that was noted is open no more, or is another
/// file's. A call each: for waits that have lasted, and for the end of a job. Any thread.
void look_for_closed() noexcept;

/// Adds one to an eventfd, so that who sleeps on it wakes. Async-signal-safe.
void ring_bell(int fd) noexcept;
/// Takes what was rung, of an eventfd or a timer that does not block. False if nothing was.
bool hush_bell(int fd) noexcept;

/// The name of this thread's last call that went through opened() or asked() and was refused, if
/// that was with this errno; else null.
const char* refused_call(int code) noexcept;

using stdio_file = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
/// fopen() above standard error, close-on-exec; `mode` is "r" or "w". Null with errno.
stdio_file open_file(const char* path, const char* mode) noexcept;
/// All that can be read of a file; empty if it cannot be opened.
std::string text_of(const std::string& path);
/// Replaces a file in one step, so that a program that reads it sees either the old text or the new
/// one. False with errno.
bool replace_file(const std::string& path, const std::string& text);
/// opendir() above standard error.
DIR* open_folder(const char* path) noexcept;

/// Opens /dev/null in place of standard input, output and error where they are closed. For programs
/// that give them to others, before they open anything.
void open_missing_stdio() noexcept;

}  // namespace penstock
