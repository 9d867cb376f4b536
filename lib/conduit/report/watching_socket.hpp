// The socket at which processes of this host tell each other, and pentop, what they have counted:
// its ends' common calls. The reporter's.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI::report {

/// The abstract address of that name, and how long it is.
socklen_t address_of(const std::string& name, sockaddr_un& to) noexcept;
/// Nobody is waited for much longer than a fifth of a second.
void limit_waits(int fd) noexcept;
/// The other end is this user, or root.
bool same_user(int fd) noexcept;
void send_all(int fd, const std::string& text) noexcept;
/// What the process at that socket answers to that word, at most a few bytes; empty: nothing.
std::string ask(const std::string& socket, const char* word);

}  // namespace penstock::conduit::PENSTOCK_ABI::report
