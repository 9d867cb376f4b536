// What penrun inherits from its parent and must not depend on: dispositions of signals and the
// mask; and the signals that it heeds.
#pragma once

#include <csignal>
#include <initializer_list>
#include <vector>

namespace penrun {

/// Gives every signal its default disposition and unblocks it. The signals of a terminal stay
/// ignored if the parent ignores them, since nohup and the background jobs of scripts ask for that
/// so. To be called before anything else.
void start_from_a_known_state();

/// Those of `signals` that penrun heeds: all but the ignored ones, which the kernel would deliver
/// once they are blocked.
sigset_t heeded(std::initializer_list<int> signals);

/// Takes what is pending at a signalfd, which must not block; EAGAIN and EINTR give nothing. The
/// kernel gives the lowest number first; here a SIGCONT stands before what was sent after it, so
/// that nobody is continued who has been told to end.
std::vector<int> taken(int signals);

}  // namespace penrun
