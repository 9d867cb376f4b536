// The options that the user gave penrun. Filled by main.cpp, read by the rest of this folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penrun {

/// A host of the job, and the ranks on it, which follow each other.
struct host {
  std::string name;
  std::uint32_t first = 0, count = 0;
};

struct options {
  std::uint32_t processes = 1;
  std::vector<host> hosts;                ///< empty: all processes here
  std::string rsh;                        ///< starts a program on a host: RSH HOST PROGRAM...
  std::vector<std::string> export_names;  ///< environment that goes to other hosts too
  std::vector<std::string> command;
  bool label = false;            ///< "[rank] " before each line
  std::string bind = "none";     ///< each process of a host is bound to one of these: binding.hpp
  bool quiet = false;            ///< says nothing about deaths
  std::uint64_t timeout_ns = 0;  ///< of the whole job; 0: none
  std::uint64_t grace_ns = 0;    ///< between the end of one process and SIGKILL for the others
};

}  // namespace penrun
