// Calls for both ends of the socket at which processes of this host tell each other, and pentop,
// their counters. The reporter uses them.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI::report {

/// Writes the abstract address of that name to `to`, and returns its length.
socklen_t address_of(const std::string& name, sockaddr_un& to) noexcept;
/// Limits reads and writes of fd to about a fifth of a second.
void limit_waits(int fd) noexcept;
/// True if the other end is of this user, or of root.
bool same_user(int fd) noexcept;
void send_all(int fd, const std::string& text) noexcept;
/// The answer of the process at that socket to the word, a few bytes at most; empty: there was
/// none.
std::string ask(const std::string& socket, const char* word);

}  // namespace penstock::conduit::PENSTOCK_ABI::report
