// What the user asked penrun for. Filled by main.cpp, read by the rest of this folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penrun {

struct options {
  std::uint32_t processes = 1;
  std::vector<std::string> command;
  bool label = false;            ///< "[rank] " before each line
  bool bind = false;             ///< rank i on the i-th allowed core
  bool quiet = false;            ///< says nothing about deaths
  std::uint64_t timeout_ns = 0;  ///< of the whole job; 0: none
  std::uint64_t grace_ns = 0;    ///< between the end of one process and SIGKILL for the others
};

}  // namespace penrun
