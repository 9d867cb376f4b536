// See output.hpp.
#include "tools/penrun/output.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace penrun {
namespace {

constexpr std::size_t longest_line = 1 << 20;

}  // namespace

void line_stream::forward() {
  static char buffer[1 << 16];
  while (open()) {
    const auto n = ::read(from_, buffer, sizeof buffer);
    if (n > 0) {
      take({buffer, static_cast<std::size_t>(n)});
      if (broken_) close();
      // A process that writes without end must not keep the others waiting.
      if (static_cast<std::size_t>(n) < sizeof buffer) return;
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    finish();
  }
}

void line_stream::finish() {
  char buffer[4096];
  for (ssize_t n; open() && (n = ::read(from_, buffer, sizeof buffer)) > 0;)
    take({buffer, static_cast<std::size_t>(n)});
  if (!held_.empty()) put_lines(held_ + (end_lines_ ? "\n" : ""));
  held_.clear();
  close();
}

void line_stream::take(std::string_view text) {
  const auto last = text.rfind('\n');
  if (last != text.npos) {
    held_ += text.substr(0, last + 1);
    text.remove_prefix(last + 1);
    put_lines(held_);
    held_.clear();
  }
  held_ += text;
  if (held_.size() > longest_line) {
    put(prefix_ + held_);
    held_.clear();
  }
}

void line_stream::put_lines(std::string_view lines) {
  if (prefix_.empty() && !taker_) return put(lines);
  std::string out;
  while (!lines.empty()) {
    const auto line = lines.substr(0, std::min(lines.find('\n'), lines.size() - 1) + 1);
    lines.remove_prefix(line.size());
    if (taker_)
      taker_(line);
    else
      out.append(prefix_).append(line);
  }
  put(out);
}

void line_stream::put(std::string_view text) {
  while (!text.empty() && !broken_) {
    const auto n = ::write(to_, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd p{to_, POLLOUT, 0};
      ::poll(&p, 1, 1000);
    } else if (errno != EINTR) {
      broken_ = true;
    }
  }
}

void line_stream::close() {
  if (from_ >= 0) ::close(from_);
  from_ = -1;
}

}  // namespace penrun
