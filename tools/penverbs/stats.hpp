// `penverbs --stats`: the counters of the tree while the command runs, and a table at its end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nic/shm/traffic.hpp"

namespace penverbs {

class stats {
 public:
  /// Makes the file that the command's processes write to, in the tree, and the files of the ports'
  /// counters. False with errno.
  bool begin(const std::string& tree);
  [[nodiscard]] const std::string& file() const { return file_; }
  /// Writes the counters that have changed.
  void refresh();
  /// Prints a line for each queue pair to stderr.
  void print() const;

 private:
  std::string tree_, file_;
  std::vector<std::uint64_t> shown_;  // each counter of each device as it was written last
  penstock::nic::shm::traffic_file* traffic_ = nullptr;
};

}  // namespace penverbs
