// Starts one process of the job.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "lib/base/result.hpp"
#include "tools/penrun/options.hpp"

namespace penrun {

/// What all processes of the job inherit.
struct shared_ends {
  int board;  ///< the page, read-only
  int bell;   ///< eventfd, written when the job is over
  std::string name;
};

/// A started process, with our ends of what connects us to it.
struct spawned {
  pid_t pid;
  int socket;    ///< frames; nonblocking
  int out, err;  ///< its standard output and error; nonblocking
};

/// Forks and executes. The process leads a group of its own, is killed when this process ends, and
/// reads standard input if it is rank 0. Fails with the errno of execvp if the program cannot be
/// run.
penstock::result<spawned> spawn(const options& o, const shared_ends& shared, std::uint32_t rank);

}  // namespace penrun
