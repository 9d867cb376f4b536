// Starts one process of the job.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "lib/base/result.hpp"
#include "lib/job/wire.hpp"
#include "tools/penrun/binding.hpp"
#include "tools/penrun/options.hpp"

namespace penrun {

/// The objects that all processes of the job inherit.
struct shared_ends {
  int board = -1;  ///< the page, read-only
  int bell = -1;   ///< eventfd, written when the job is over
  std::string name;
  std::uint32_t host_first = 0, host_size = 0;  ///< ranks on this host
  int input = 0;                                ///< standard input of rank 0
  binding places;                               ///< of the processes on this host
  /// Makes the pages, for that many ranks, and the eventfd; null, with errno, if that fails. The
  /// pages are this process's to write.
  penstock::job::board* make(std::uint32_t ranks);
};

/// A started process, with our ends of its socket and pipes.
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
