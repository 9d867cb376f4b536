// Every descriptor of the library, the provider and penrun is made through one of these functions.
// Standard input, output and error are the program's also where it has closed them: the first
// descriptor that is opened then gets their numbers, and what the program prints would land in it.
// tools/check_descriptors looks for other openings. Set-up only; any thread.
#pragma once

#include <dirent.h>

#include <cstdio>
#include <memory>
#include <string>

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
