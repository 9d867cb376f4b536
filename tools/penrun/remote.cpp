// See remote.hpp.
#include "tools/penrun/remote.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "lib/base/descriptors.hpp"
#include "lib/base/shortage.hpp"

namespace penrun {
namespace {

using penstock::failure;

bool is_here(const std::string& name) {
  char own[HOST_NAME_MAX + 1] = {};
  ::gethostname(own, sizeof own - 1);
  const std::string_view full = own;
  return name == "localhost" || name == full || name == full.substr(0, full.find('.'));
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    if (end != 0) out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// As one word of a shell, which a remote shell gives all its words to.
std::string quoted(const std::string& word) {
  constexpr std::string_view plain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./,:@%";
  if (word.find_first_not_of(plain) == word.npos) return word;
  std::string out = "'";
  for (const char c : word) c == '\'' ? out += "'\\''" : out += c;
  return out + "'";
}

// These variables go along: the library's settings, those that were exported, and those that
// programs need to be found and checked.
bool goes_along(const options& o, std::string_view name) {
  if (name == "PENSTOCK_LAUNCH") return false;
  for (const std::string_view prefix : {"PENSTOCK_", "GASNET_"})
    if (name.starts_with(prefix)) return true;
  if (name == "LD_LIBRARY_PATH" || name.ends_with("SAN_OPTIONS")) return true;
  return std::find(o.export_names.begin(), o.export_names.end(), name) != o.export_names.end();
}

// In the child: never returns.
[[noreturn]] void become(const std::vector<std::string>& command, pid_t parent, int in, int out,
                         int report) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (const pid_t now = ::getppid(); now > 0 && parent > 0 && now != parent) ::_exit(1);
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const auto& a : command) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const int code = errno;
  [[maybe_unused]] const auto n = ::write(report, &code, sizeof code);
  ::_exit(127);
}

template <class T>
bool read_number(const std::string& text, T& into) {
  const char* const end = text.data() + text.size();
  return std::from_chars(text.data(), end, into).ptr == end && !text.empty();
}

}  // namespace

std::vector<std::byte> remote_start::pack() const {
  std::vector<std::string> t{name,
                             std::to_string(o.processes),
                             std::to_string(where.first),
                             std::to_string(where.count),
                             o.bind,
                             folder,
                             std::to_string(mask),
                             std::to_string(environment.size())};
  t.insert(t.end(), environment.begin(), environment.end());
  t.insert(t.end(), o.command.begin(), o.command.end());
  return pack_texts(t);
}

bool remote_start::unpack(std::span<const std::byte> body) {
  const auto t = unpack_texts(body);
  std::size_t n = 0;
  if (t.size() < 9 || !read_number(t[1], o.processes) || !read_number(t[2], where.first) ||
      !read_number(t[3], where.count) || !read_number(t[6], mask) || !read_number(t[7], n) ||
      n > t.size() - 9 || where.first >= o.processes || where.count > o.processes - where.first)
    return false;
  name = t[0];
  o.bind = t[4];
  folder = t[5];
  const auto begin = t.begin() + 8;
  const auto middle = begin + static_cast<std::ptrdiff_t>(n);
  environment.assign(begin, middle);
  o.command.assign(middle, t.end());
  return name.size() == 32;
}

penstock::result<remote_host> start_remote(const options& o, const host& h,
                                           const std::string& name) {
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return failure{"penrun's own path", error.value(), ""};
  std::vector<std::string> command;
  const bool here = is_here(h.name);
  if (!here) {
    command = words(o.rsh);
    command.push_back(h.name);
  }
  command.push_back(here ? self : quoted(self));
  command.emplace_back("--agent");

  int down[2] = {-1, -1}, up[2] = {-1, -1}, report[2] = {-1, -1};
  using penstock::opened;
  if (!opened("pipe2", ::pipe2(down, O_CLOEXEC), down) ||
      !opened("pipe2", ::pipe2(up, O_CLOEXEC), up) ||
      !opened("pipe2", ::pipe2(report, O_CLOEXEC), report))
    return failure{"pipes to host " + h.name, errno, penstock::what_to_raise(errno)};
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (penstock::asked("clone", pid) < 0)
    return failure{"fork", errno, penstock::what_to_raise(errno)};
  if (pid == 0) become(command, parent, down[0], up[1], report[1]);
  for (const int fd : {down[0], up[1], report[1]}) ::close(fd);
  int code = 0;
  ssize_t n = 0;
  while ((n = ::read(report[0], &code, sizeof code)) < 0 && errno == EINTR) {
  }
  ::close(report[0]);
  remote_host r{h, pid, std::make_unique<relay>(up[0], down[1], false)};
  if (n > 0) return failure{"cannot run " + command[0], code, "see --rsh and PENSTOCK_RSH"};

  remote_start s;
  s.o = o;
  s.name = name;
  s.where = h;
  s.folder = std::filesystem::current_path(error).string();
  s.mask = ::umask(0);
  ::umask(s.mask);
  for (char** e = environ; *e != nullptr; ++e)
    if (goes_along(o, std::string_view(*e).substr(0, std::strcspn(*e, "="))))
      s.environment.emplace_back(*e);
  r.link->send(relay_kind::start, 0, s.pack());
  return r;
}

}  // namespace penrun
