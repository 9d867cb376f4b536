#include "tools/pentop/screen.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "tools/pentop/layout.hpp"

namespace pentop {
namespace {

volatile std::sig_atomic_t ends = 0;
void on_end(int) { ends = 1; }
void on_size(int) {}  // poll(2) returns

void say(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

winsize size() {
  winsize s{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &s) != 0 || s.ws_row == 0 || s.ws_col == 0)
    s.ws_row = 24, s.ws_col = 80;
  return s;
}

// What a terminal sends for a key behind an escape.
int special(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, int>, 12> known = {{{"[A", key_up},
                                                                       {"[B", key_down},
                                                                       {"OA", key_up},
                                                                       {"OB", key_down},
                                                                       {"[5~", key_page_up},
                                                                       {"[6~", key_page_down},
                                                                       {"[H", key_home},
                                                                       {"[F", key_end},
                                                                       {"OH", key_home},
                                                                       {"OF", key_end},
                                                                       {"[1~", key_home},
                                                                       {"[4~", key_end}}};
  for (const auto& [sent, key] : known)
    if (text.starts_with(sent)) return key;
  return 0;
}

}  // namespace

bool screen::possible() {
  const char* const kind = std::getenv("TERM");
  return ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0 && kind != nullptr &&
         std::string_view(kind) != "dumb" && *kind != '\0';
}

screen::screen() {
  struct sigaction act {};
  act.sa_handler = on_end;
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::sigaction(s, &act, nullptr);
  act.sa_handler = on_size;
  ::sigaction(SIGWINCH, &act, nullptr);
  ::tcgetattr(STDIN_FILENO, &before_);
  termios now = before_;
  now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  now.c_cc[VMIN] = 0, now.c_cc[VTIME] = 0;
  now.c_cc[VSUSP] = _POSIX_VDISABLE;  // it would leave the shell without echo
  ::tcsetattr(STDIN_FILENO, TCSANOW, &now);
  say("\x1b[?1049h\x1b[?25l");
}

screen::~screen() {
  say("\x1b[?25h\x1b[?1049l");
  ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
}

std::size_t screen::rows() { return size().ws_row; }
std::size_t screen::columns() { return size().ws_col; }

void screen::show(const std::vector<std::string>& lines) {
  std::string all = "\x1b[H";
  // A line is cleared before it is written: behind its last column its last character would go.
  for (std::size_t i = 0; i < lines.size(); ++i)
    all.append(i == 0 ? "\x1b[K" : "\n\x1b[K").append(lines[i]);
  say(all + "\x1b[J");
}

int screen::key(double seconds) {
  if (ends != 0) return -1;
  pollfd in{STDIN_FILENO, POLLIN, 0};
  const int n = ::poll(&in, 1, static_cast<int>(std::max(seconds, 0.0) * 1e3));
  if (ends != 0) return -1;
  if (n <= 0) return 0;
  char c = 0;
  if (::read(STDIN_FILENO, &c, 1) != 1) return -1;
  if (c != '\x1b') return static_cast<unsigned char>(c);
  std::string rest;  // to the letter or ~ that ends it; other keys may follow
  while (rest.size() < 8 && ::read(STDIN_FILENO, &c, 1) == 1) {
    rest += c;
    if (rest.size() > 1 && c >= '@') break;
  }
  return special(rest);
}

}  // namespace pentop
