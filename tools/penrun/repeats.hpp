// Lines that several failing processes print alike. When a failing process writes a line to
// standard error that another has just written, the line is shown once, and at the job's end with
// the ranks of the others. Lines of processes that do not fail are all shown, a moment later.
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
  /// show: puts out a line of a rank.
  explicit repeats(shower show) : show_(std::move(show)) {}

  /// A line that `rank` has written: shown now, or kept.
  void take(std::uint32_t rank, std::string_view line);
  /// The process has failed: of what is kept, what others have written is counted, the rest shown.
  void failed(std::uint32_t rank);
  /// Shows what is kept of this rank.
  void release(std::uint32_t rank);
  /// Shows what has been kept for long enough.
  void release_old();
  /// When that will be; 0: nothing is kept.
  [[nodiscard]] std::uint64_t next_ns() const;
  /// Whose lines were not shown, a line of text for each.
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
