// The ranks of a job that all live in this process: their launcher, and an engine for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "penstock/penstock.hpp"

namespace penstock::whole {

/// The launcher of a job in one process. It outlives its ranks.
class launcher {
 public:
  launcher(std::uint32_t ranks, std::uint64_t seed);
  ~launcher();
  launcher(const launcher&) = delete;
  launcher& operator=(const launcher&) = delete;

  /// Opens the endpoint of a rank, which the thread that calls belongs to. Collective.
  result<endpoint> open(std::uint32_t rank, const setting_overrides& settings);
  /// True when all ranks have called it; false: that has become impossible. It is no call of the
  /// library's.
  [[nodiscard]] bool meet(std::uint32_t rank);
  /// Tells all ranks of a rank's death, if that has not told before that it leaves.
  void tell_of_death(std::uint32_t rank) noexcept;
  /// Ranks that have told that they left in good order.
  [[nodiscard]] std::uint32_t finished() const noexcept;

  struct board;

 private:
  std::unique_ptr<board> board_;
};

}  // namespace penstock::whole
