// See descriptors.hpp.
#include "lib/base/descriptors.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace penstock {
namespace {

struct refusal {
  const char* call = nullptr;
  int code = 0;
};
thread_local refusal last_refusal;

}  // namespace

int above_stdio(int fd) noexcept {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int code = errno;
  ::close(fd);
  errno = code;
  return moved;
}

int asked(const char* call, int result) noexcept {
  if (result < 0) last_refusal = {call, errno};
  return result;
}

void* asked(const char* call, void* result) noexcept {
  if (result == MAP_FAILED) last_refusal = {call, errno};
  return result;
}

int opened(const char* call, int fd) noexcept { return asked(call, above_stdio(fd)); }

bool opened(const char* call, int result, int (&pair)[2]) noexcept {
  if (asked(call, result) == 0) {
    for (int& fd : pair) fd = above_stdio(fd);
    if (pair[0] >= 0 && pair[1] >= 0) return true;
    (void)asked("fcntl", -1);
    for (const int fd : pair)
      if (fd >= 0) ::close(fd);
  }
  pair[0] = pair[1] = -1;
  return false;
}

const char* refused_call(int code) noexcept {
  return last_refusal.code == code ? last_refusal.call : nullptr;
}

stdio_file open_file(const char* path, const char* mode) noexcept {
  const int flags = mode[0] == 'w' ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY;
  const int fd = above_stdio(::open(path, flags | O_CLOEXEC, 0666));
  stdio_file f(fd < 0 ? nullptr : ::fdopen(fd, mode), std::fclose);
  if (f == nullptr && fd >= 0) ::close(fd);
  return f;
}

std::string text_of(const std::string& path) {
  std::string text;
  const stdio_file f = open_file(path.c_str(), "r");
  char part[4096];
  for (std::size_t n; f != nullptr && (n = std::fread(part, 1, sizeof part, f.get())) != 0;)
    text.append(part, n);
  return text;
}

bool replace_file(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new" + std::to_string(::gettid());
  stdio_file f = open_file(fresh.c_str(), "w");
  if (f == nullptr) return false;
  const bool wrote = std::fwrite(text.data(), 1, text.size(), f.get()) == text.size();
  const bool closed = std::fclose(f.release()) == 0;
  return wrote && closed && std::rename(fresh.c_str(), path.c_str()) == 0;
}

DIR* open_folder(const char* path) noexcept {
  const int fd = above_stdio(::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  DIR* const d = fd < 0 ? nullptr : ::fdopendir(fd);
  if (d == nullptr && fd >= 0) ::close(fd);
  return d;
}

void open_missing_stdio() noexcept {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    // A closed number is the lowest that is free, since those below it are open.
    if (::fcntl(fd, F_GETFD) < 0) (void)::open("/dev/null", O_RDWR);
}

}  // namespace penstock
