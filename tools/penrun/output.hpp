// Output of the job's processes, forwarded by whole lines so that ranks do not mix.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace penrun {

/// One pipe of one process. A line is held until its end, or until it is longer than 1 MiB.
class line_stream {
 public:
  using taker = std::function<void(std::string_view line)>;
  line_stream() = default;
  /// from: nonblocking pipe, owned, or -1; to: STDOUT_FILENO or STDERR_FILENO; prefix: before each
  /// line; end_lines: gives an unfinished last line its newline; taker: is given each line in place
  /// of showing it.
  line_stream(int from, int to, std::string prefix, bool end_lines, taker t = {})
      : from_(from),
        to_(to),
        prefix_(std::move(prefix)),
        end_lines_(end_lines),
        taker_(std::move(t)) {}

  [[nodiscard]] int fd() const noexcept { return from_; }
  [[nodiscard]] bool open() const noexcept { return from_ >= 0; }
  /// Forwards the output that is there now. Closes the pipe at the end of input, or when the reader
  /// of our output has gone (the process then gets SIGPIPE, as in a shell's pipeline).
  void forward();
  /// Forwards until no more comes, and closes.
  void finish();
  /// The same for output that comes by another way than a pipe (from is -1 then).
  void take(std::string_view text);
  /// After this time (of now_ns(); 0: never), and when a signal that ends the job is waiting,
  /// output that is not read is dropped: a reader that has stopped must not stop penrun.
  static void give_up_at(std::uint64_t when_ns) noexcept;
  /// True if output could not be written for another reason than that its reader has gone. This was
  /// reported when it happened.
  [[nodiscard]] static bool lost_output() noexcept;

  /// Forwards a line that the taker was given.
  void show(std::string_view line) { put(prefix_ + std::string(line)); }

 private:
  void put_lines(std::string_view lines);
  void put(std::string_view text);
  bool wait_for_room() const;
  void fail(int code);
  void close();

  int from_ = -1;
  int to_ = -1;
  std::string prefix_;
  bool end_lines_ = false;
  taker taker_;
  bool broken_ = false;  ///< the reader of our output has gone
  std::string held_;     ///< a line that has begun and not ended
};

}  // namespace penrun
