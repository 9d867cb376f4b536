// Runs a command, bounded in time, and keeps its output. For tests of programs.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace testing {

struct outcome {
  int code = -1;  ///< exit code, 128 + signal, or -1 if it had to be killed for lasting too long
  std::string out, err;
};

/// A command that runs while the test does something to it.
class running {
 public:
  explicit running(const std::vector<std::string>& command, const std::string& input = "");
  ~running();  // kills it
  running(const running&) = delete;
  running& operator=(const running&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Waits until its standard output holds `text` n times; false if that does not come in time.
  bool wait_for(const std::string& text, int times = 1);
  /// Waits for its end.
  outcome wait();
  /// What it has written to its standard output so far.
  [[nodiscard]] const std::string& out() const { return out_; }

 private:
  bool read_some(int wait_ms);

  pid_t pid_ = -1;
  int fds_[2] = {-1, -1};
  std::string out_, err_;
};

/// Limit of all waits here: generous, since only a hang reaches it.
inline constexpr std::chrono::seconds limit{100};

outcome run(const std::vector<std::string>& command, const std::string& input = "");

/// penrun with these arguments.
std::vector<std::string> penrun(std::vector<std::string> arguments);

/// True if the process exists and is not a zombie.
bool alive(pid_t pid);
/// Waits until none of them is alive; false if one still is when the time is over.
bool all_end(const std::vector<pid_t>& pids);
/// The numbers after each occurrence of `word` in `text`.
std::vector<pid_t> numbers_after(const std::string& text, const std::string& word);

}  // namespace testing
