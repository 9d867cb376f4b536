// The job's other hosts, as the keeper sees them: each a penrun (agent) behind a remote shell.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "lib/base/result.hpp"
#include "tools/penrun/options.hpp"
#include "tools/penrun/relay.hpp"

namespace penrun {

/// One host's agent.
struct remote_host {
  host where;
  pid_t shell = 0;  ///< the remote shell's process; 0 once reaped
  std::unique_ptr<relay> link;
  bool open = true;            ///< the link has not ended
  std::uint64_t asked_ns = 0;  ///< when its agent was asked whether it is there; 0: it has answered

  [[nodiscard]] bool has(std::uint32_t rank) const noexcept {
    return rank - where.first < where.count;
  }
};

/// Starts the agent of h and tells it what to run; does not wait for it. name: the job's. The shell
/// is killed when this process ends. This host, by its own name or as localhost, needs no shell.
penstock::result<remote_host> start_remote(const options& o, const host& h,
                                           const std::string& name);

/// The contents of the first message, which the agent reads.
struct remote_start {
  options o;
  std::string name;
  host where;
  std::string folder;
  mode_t mask = 0;                       ///< of the files that processes make
  std::vector<std::string> environment;  ///< NAME=VALUE

  [[nodiscard]] std::vector<std::byte> pack() const;
  /// False if the bytes are malformed.
  [[nodiscard]] bool unpack(std::span<const std::byte> body);
};

}  // namespace penrun
