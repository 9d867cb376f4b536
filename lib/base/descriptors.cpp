// See descriptors.hpp.
#include "lib/base/descriptors.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <string_view>
#include <utility>

#include "lib/base/log.hpp"

namespace penstock {
namespace {

struct refusal {
  const char* call = nullptr;
  int code = 0;
};
thread_local refusal last_refusal;

/// A number, plus 1 and 0 for none, below what tells its file from others: the inode, which is
/// the same for all eventfds, timers and epolls. These are told apart by the mark.
std::atomic<std::uint64_t> kept_words[128];
constexpr std::uint64_t number_bits = 24;

/// The mark of an open file, which no new one has: a signal is named for O_ASYNC. It is the one
/// that would be sent without. A client that uses event_fd() so may name another.
void mark(int fd) noexcept { (void)::fcntl(fd, F_SETSIG, SIGIO); }
/// True also where a sandbox does not tell.
bool has_mark(int fd) noexcept { return ::fcntl(fd, F_GETSIG) != 0; }

int number_of(std::uint64_t word) noexcept {
  return static_cast<int>(word & ((std::uint64_t{1} << number_bits) - 1)) - 1;
}

/// 0 if it is not open, or has lost its mark.
std::uint64_t word_of(int fd) noexcept {
  struct stat s {};
  if (::fstat(fd, &s) != 0 || !has_mark(fd)) return 0;
  return static_cast<std::uint64_t>(s.st_ino) << number_bits | (static_cast<unsigned>(fd) + 1u);
}

std::atomic<bool> told_closed{false};

}  // namespace

int above_stdio(int fd) noexcept {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int code = errno;
  ::close(fd);
  errno = code;
  return moved;
}

void refuse_closed(const char* call, int code) noexcept {
  // Its number may have gone to another file since.
  const bool closed = code == EBADF || code == ENOTSOCK ||
                      (code == EINVAL && std::string_view(call) == "epoll_wait");
  thread_local bool tells = false;  // the way to the end needs descriptors, too
  if (!closed || tells) return;
  // relaxed: one thread says it
  if (!told_closed.exchange(true, std::memory_order_relaxed)) {
    tells = true;
    fatal(1,
          "%s: the program has closed a descriptor of the library's; it may close all above 2 only "
          "before it joins its job",
          call);
  }
  // Another thread says it just now and ends the process. What this one would say is no cause.
  for (int i = 0; i < 100; ++i) ::poll(nullptr, 0, 50);
}

void refuse_closed(std::span<const pollfd> polled) noexcept {
  for (const pollfd& p : polled)
    if ((p.revents & POLLNVAL) != 0) refuse_closed("poll", EBADF);
}

int kept(int fd) noexcept {
  if (fd < 0) return fd;
  for (const auto& slot : kept_words)
    // K3 look  acquire slot  <- K1: its owner forgets a number before the kernel can give it anew
    if (number_of(slot.load(std::memory_order_acquire)) == fd) refuse_closed("fcntl", EBADF);
  mark(fd);
  const std::uint64_t word = word_of(fd);
  for (auto& slot : kept_words) {
    std::uint64_t none = 0;
    // relaxed: a look that comes before it misses the descriptor, which is open now
    if (slot.compare_exchange_strong(none, word, std::memory_order_relaxed)) break;
  }
  return fd;
}

void close_kept(const int& fd) noexcept {
  if (fd < 0) return;
  for (auto& slot : kept_words) {
    // relaxed: the owner's own note
    std::uint64_t word = slot.load(std::memory_order_relaxed);
    // K1 forget  cas release slot  -> K2, K3: before the descriptor is closed
    if (number_of(word) == fd &&
        slot.compare_exchange_strong(word, 0, std::memory_order_release, std::memory_order_relaxed))
      break;
  }
  ::close(fd);
}

void look_for_closed() noexcept {
  for (auto& slot : kept_words) {
    // K2 look  acquire slot  <- K1: an owner that has closed it has forgotten it
    const auto noted = [&slot] { return slot.load(std::memory_order_acquire); };
    const std::uint64_t word = noted();
    // Its owner may close it meanwhile, and another one may come to have its number: three looks.
    bool closed = word != 0;
    for (int i = 0; closed && i < 3; ++i)
      closed = word_of(number_of(word)) != word && noted() == word;
    if (closed) refuse_closed("fstat", EBADF);
  }
}

int asked(const char* call, int result) noexcept {
  if (result < 0) {
    last_refusal = {call, errno};
    refuse_closed(call, errno);
  }
  return result;
}

void ring_bell(int fd) noexcept {
  const std::uint64_t one = 1;
  // A bell whose count is full has been rung.
  if (::write(fd, &one, sizeof one) < 0) refuse_closed("write", errno);
}

bool hush_bell(int fd) noexcept {
  std::uint64_t rung = 0;
  const auto n = ::read(fd, &rung, sizeof rung);
  if (n < 0) refuse_closed("read", errno);
  return n > 0;
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
