// The results that rank 0 gathers at the end: every process's checksum and counts, and a slice of
// the cube.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "penstock/penstock.hpp"
#include "perf/ghost/decomposition.hpp"
#include "perf/ghost/field.hpp"

namespace penstock::ghost {

/// One process's share.
struct share {
  std::uint64_t checksum = 0;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  std::uint64_t stalls = 0;  ///< requests that had to wait for credits
};

/// One per process; the gathered side is filled at rank 0 only.
class report {
 public:
  /// Registers its handlers: before the endpoint starts.
  report(endpoint& ep, std::uint32_t edge);

  /// Sends this process's share to rank 0, and, when wanted, its part of the slice in the middle of
  /// z, variable 0. Collective; rank 0 returns when it has everything.
  status gather(const share& mine, const field& f, std::uint32_t step, bool want_slice);

  [[nodiscard]] const std::vector<share>& shares() const noexcept { return shares_; }
  [[nodiscard]] share total() const noexcept;
  /// edge * edge temperatures, row by row.
  [[nodiscard]] const std::vector<double>& slice() const noexcept { return slice_; }

 private:
  void on_share(token& t, share s);
  void on_row(token& t, std::span<std::byte> cells, std::uint32_t x, std::uint32_t y);

  endpoint& ep_;
  std::uint32_t edge_;
  short_handler<share> share_;
  payload_handler<std::uint32_t, std::uint32_t> row_;
  std::vector<share> shares_;
  std::vector<double> slice_;
  std::atomic<std::uint64_t> shares_here_{0}, cells_here_{0};
};

}  // namespace penstock::ghost
