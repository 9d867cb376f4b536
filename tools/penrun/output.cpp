// See output.hpp.
#include "tools/penrun/output.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "lib/base/clock.hpp"

namespace penrun {
namespace {

constexpr std::size_t longest_line = 1 << 20;

std::uint64_t limit_ns = 0;
bool lost[2];  // standard output, standard error: cannot be written any more

}  // namespace

void line_stream::forward() {
  static char buffer[1 << 16];
  while (open()) {
    const auto n = ::read(from_, buffer, sizeof buffer);
    if (n > 0) {
      take({buffer, static_cast<std::size_t>(n)});
      if (broken_) close();
      // The rest is read in the next poll, so a process that writes without end keeps no other
      // waiting.
      return;
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

// False when waiting any longer is useless.
bool line_stream::wait_for_room() const {
  for (;;) {
    const bool late = limit_ns != 0 && penstock::now_ns() > limit_ns;
    pollfd p{to_, POLLOUT, 0};
    if (::poll(&p, 1, late ? 0 : 100) != 0) return true;
    if (late) return false;
    sigset_t waiting;
    sigpending(&waiting);
    for (const int ends : {SIGINT, SIGTERM, SIGQUIT, SIGHUP})
      if (sigismember(&waiting, ends) == 1) return false;
  }
}

void line_stream::put(std::string_view text) {
  while (!text.empty() && !broken_) {
    if (lost[to_ == STDOUT_FILENO ? 0 : 1] || !wait_for_room()) return;
    // A pipe that has room takes this many bytes without making us wait.
    const auto n = ::write(to_, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EPIPE) {
      broken_ = true;
    } else if (errno != EAGAIN && errno != EINTR) {
      fail(errno);
    }
  }
}

// The job goes on: its results may be worth more than its output.
void line_stream::fail(int code) {
  const bool out = to_ == STDOUT_FILENO;
  lost[out ? 0 : 1] = true;
  std::fprintf(stderr, "penrun: cannot write standard %s: %s; what follows is lost\n",
               out ? "output" : "error", std::strerror(code));
}

void line_stream::give_up_at(std::uint64_t when_ns) noexcept { limit_ns = when_ns; }

bool line_stream::lost_output() noexcept { return lost[0] || lost[1]; }

void line_stream::close() {
  if (from_ >= 0) ::close(from_);
  from_ = -1;
}

}  // namespace penrun
