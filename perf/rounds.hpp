// Which rounds of a measurement count. A machine may move its virtual cores between, and during,
// rounds; a short cache-line probe before and after each round shows it. The code that runs the
// rounds asks here whether another is needed, and which ones to report: one for each placement.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace penstock::perf {

/// A cache line's round trip below this is taken as two virtual cores on one physical one.
inline constexpr double one_core_ns = 180;

/// Where the two processes of a round ran: on one physical core, or on two.
enum class placement : std::uint8_t { near, far };

/// One round: the probes around it and the ratio it found.
struct round_record {
  std::array<double, 2> probe_ns{};  ///< before, after; 0 where no probe is possible
  double ratio = 0;
};

/// True if the probes differ by more than a quarter: the placement changed, or the machine was
/// busy.
[[nodiscard]] bool torn(const round_record& r) noexcept;

/// By the shorter of its probes; near where no probe is possible.
[[nodiscard]] placement placement_of(const round_record& r) noexcept;

/// Collects rounds until `wanted` of them count, at most 3 * wanted. Those count that are whole,
/// and, if only one placement is asked for, were taken at it.
class round_keeper {
 public:
  explicit round_keeper(std::size_t wanted, std::optional<placement> only = {}) noexcept
      : wanted_(wanted), only_(only) {}
  void add(const round_record& r) { rounds_.push_back(r); }
  [[nodiscard]] bool enough() const noexcept;
  [[nodiscard]] std::size_t taken() const noexcept { return rounds_.size(); }
  /// Indices of the rounds with the median ratio, one of those that count at each placement; that
  /// with more of them first (far when equal). When none is whole, one of all. Empty: none was
  /// taken at the placement asked for.
  [[nodiscard]] std::vector<std::size_t> median_rounds() const;

 private:
  [[nodiscard]] bool counts(const round_record& r) const noexcept;
  [[nodiscard]] std::size_t median_of(std::vector<std::size_t> which) const;
  std::size_t wanted_;
  std::optional<placement> only_;
  std::vector<round_record> rounds_;
};

}  // namespace penstock::perf
