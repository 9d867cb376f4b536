// Lines that several failing processes print alike. When a failing process writes a line to
// standard error that another has just written, the line is shown once, and again at the job's end,
// with the ranks of the others. Lines of processes that do not fail are all shown, a moment later.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace penrun {

/// Lines of all ranks. Single thread.
class repeats {
 public:
  using shower = std::function<void(std::uint32_t rank, std::string_view line)>;
  /// show: prints a line of a rank.
  explicit repeats(shower show) : show_(std::move(show)) {}

  /// A line that `rank` has written: shown now, or kept.
  void take(std::uint32_t rank, std::string_view line);
  /// The process has failed: of its kept lines, those that others have written too are counted, the
  /// rest are shown.
  void failed(std::uint32_t rank);
  /// Shows the kept lines of this rank.
  void release(std::uint32_t rank);
  /// Shows the lines that have been kept for long enough.
  void release_old();
  /// The time of the next release_old(); 0: no line is kept.
  [[nodiscard]] std::uint64_t next_ns() const;
  /// The ranks whose lines were not shown: a line of text for each such line.
  [[nodiscard]] std::string summary() const;

 private:
  struct shown {
    std::string words;  ///< without the writer's rank
    std::uint32_t by;
    std::uint64_t at_ns;
  };
  struct kept {
    std::vector<std::string> lines;
    std::uint64_t since_ns = 0;
  };
  [[nodiscard]] bool said_by_another(std::uint32_t rank, const std::string& words) const;
  void show(std::uint32_t rank, std::string_view line);

  shower show_;
  std::deque<shown> shown_;  ///< the latest
  std::map<std::uint32_t, kept> kept_;
  std::set<std::uint32_t> failed_;
  std::vector<std::pair<std::string, std::set<std::uint32_t>>>
      counted_;  ///< in order of appearance
};

}  // namespace penrun
