// The kernel's part in libibverbs's work. Some of libibverbs's calls do not come to a provider but
// go to the kernel, by write, ioctl and read on descriptors of the device. Calls on our descriptors
// are answered here, by functions that replace libibverbs's own (redirect.cpp). So nothing has to
// be preloaded, and a libibverbs that was opened by dlopen is served, too.
//
// The calls that are answered: making a completion channel (write), reading its events and the
// context's (read), GID queries (ioctl), closing. All others are refused as an old kernel would
// refuse them.
#pragma once

#include "nic/shm/context.hpp"
#include "nic/shm/cq.hpp"

namespace penstock::nic::provider {

/// Redirects libibverbs's calls; once. False: they cannot be redirected, and there are no events.
bool answer_for_the_kernel();

/// `command_fd` and `async_fd` belong to this context until forget_context(). Closing `async_fd`
/// remains libibverbs's.
void remember_context(int command_fd, int async_fd, shm::context* c);
void forget_context(const shm::context* c) noexcept;

/// Events of a channel that was made through a command descriptor; null if it was not.
shm::channel_events* events_of(int channel_fd) noexcept;

}  // namespace penstock::nic::provider
