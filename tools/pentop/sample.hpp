// What pentop learns: which processes can be asked, and their answers. No answer is trusted: a
// malformed one counts as none.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace pentop {

/// A process that listens, as its socket's name describes it.
struct place {
  unsigned user = 0;
  std::string job;  ///< its public name
  std::uint32_t rank = 0;
  unsigned endpoint = 0;
  std::string socket;  ///< as in /proc/net/unix, without the @
};

/// All such processes of this user on this host, or of all users for root; table: /proc/net/unix
/// except in tests.
std::vector<place> find(const std::string& table = "/proc/net/unix");

/// Reads one line of that table; false: it is not one of our sockets.
bool read_place(const std::string& line, place& out);

/// The messages and waits of one process with another.
struct pair_figures {
  std::string path, waits_for;
  std::string waits_handler;   ///< of the request that waits, as "3 on_hit"; empty if it has none
  std::uint64_t messages = 0;  ///< requests and replies that it sent, the library's own included
  std::uint64_t bytes = 0;     ///< of these messages, and of puts and gets
  std::uint64_t stalls = 0, waits = 0;
  std::uint64_t waited_ns = 0;   ///< all waits, the current one included
  std::uint64_t waiting_ns = 0;  ///< the current one
  std::uint64_t loan = 0, holds = 0, lent = 0, revoked = 0;
};

/// The answer of one process.
struct process {
  std::uint32_t rank = 0, ranks = 0;
  std::uint64_t pid = 0, polls = 0, bank = 0, credits = 0;
  std::string program, host, device;
  std::map<std::uint32_t, pair_figures> with;
  nlohmann::json whole;  ///< the answer as it came
};

/// Reads an answer; false: it is malformed.
bool read_answer(const std::string& text, process& out);

/// Asks one process; false: it does not answer within `ms`, is another user's, or its answer is
/// malformed.
bool ask(const place& at, int ms, process& out);

/// One look at one job.
struct sample {
  std::uint64_t at_ns = 0;
  std::map<std::uint32_t, process> processes;  ///< by rank
  std::vector<std::uint32_t> silent;           ///< ranks that listen and do not answer
};
sample take(const std::vector<place>& of_job, int ms);

}  // namespace pentop
