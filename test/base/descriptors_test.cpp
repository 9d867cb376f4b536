// Descriptors stay above standard error, and a refused call is named; a lack of memory becomes a
// failure, or a line.
#include "lib/base/descriptors.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/log.hpp"
#include "lib/base/no_memory.hpp"
#include "lib/base/shortage.hpp"

using namespace penstock;

namespace {

// Runs f in a child whose standard descriptors are closed; its exit code.
template <class F>
int without_stdio(F f) {
  const pid_t child = fork();
  if (child == 0) {
    for (int fd = 0; fd <= 2; ++fd) close(fd);
    _exit(f());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST_CASE(
    "what is opened while standard descriptors are closed lies above them, and they stay closed") {
  CHECK(without_stdio([] {
          int pair[2];
          const int one = above_stdio(open("/dev/null", O_RDONLY | O_CLOEXEC));
          if (one <= 2 || (fcntl(one, F_GETFD) & FD_CLOEXEC) == 0) return 1;
          if (!opened("pipe2", pipe2(pair, O_CLOEXEC), pair) || pair[0] <= 2 || pair[1] <= 2)
            return 2;
          const stdio_file f = open_file("/dev/null", "r");
          if (!f || fileno(f.get()) <= 2) return 3;
          for (int fd = 0; fd <= 2; ++fd)
            if (fcntl(fd, F_GETFD) >= 0) return 4;
          return 0;
        }) == 0);
}

TEST_CASE("a program that hands on its standard descriptors opens those that are closed") {
  CHECK(without_stdio([] {
          open_missing_stdio();
          for (int fd = 0; fd <= 2; ++fd)
            if (fcntl(fd, F_GETFD) < 0) return 1;
          return write(1, "x", 1) == 1 ? 0 : 2;
        }) == 0);
}

TEST_CASE(
    "a descriptor that the program has closed is found, also where one of its kind has its "
    "number") {
  const auto eventfd_there = [](int at) { return dup2(eventfd(0, EFD_CLOEXEC), at); };
  const auto timer_there = [](int at) {
    return dup2(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), at);
  };
  const auto epoll_there = [](int at) { return dup2(epoll_create1(EPOLL_CLOEXEC), at); };
  const auto ends_with = [](auto open_there, bool replaced) {
    const pid_t child = fork();
    if (child == 0) {
      close(STDERR_FILENO);
      constexpr int number = 99;
      const int fd = kept(open_there(number));
      if (fd != number) _exit(3);
      look_for_closed();
      if (replaced) open_there(number);
      look_for_closed();
      close_kept(fd);
      if (fcntl(fd, F_GETFD) >= 0) _exit(4);
      look_for_closed();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  };
  CHECK(ends_with(eventfd_there, false) == 0);
  CHECK(ends_with(timer_there, false) == 0);
  CHECK(ends_with(epoll_there, false) == 0);
  CHECK(ends_with(eventfd_there, true) == 1);
  CHECK(ends_with(timer_there, true) == 1);
  CHECK(ends_with(epoll_there, true) == 1);
}

TEST_CASE("of threads that find closed descriptors at once none says anything but that") {
  for (int round = 0; round < 100; ++round) {
    int lines[2];
    REQUIRE(pipe(lines) == 0);
    const pid_t child = fork();
    if (child == 0) {
      dup2(lines[1], STDERR_FILENO);
      std::atomic<bool> begun{false};
      const auto finds = [&] {
        while (!begun)
          ;
        refuse_closed("sendmsg", EBADF);
        fatal(2, "no connection");  // what its caller makes of the call's refusal
      };
      std::vector<std::thread> threads;
      for (int i = 0; i < 3; ++i) threads.emplace_back(finds);
      begun = true;
      finds();
    }
    close(lines[1]);
    std::string said;
    char some[512];
    for (ssize_t n; (n = read(lines[0], some, sizeof some)) > 0;)
      said.append(some, static_cast<std::size_t>(n));
    close(lines[0]);
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WEXITSTATUS(status) == 1);
    CHECK(said.find("has closed a descriptor of the library's") != std::string::npos);
    CHECK(said.find("no connection") == std::string::npos);
  }
}

TEST_CASE("a refused call is named with a word about sandboxes, and not for other errors") {
  errno = EPERM;
  CHECK(opened("memfd_create", -1) == -1);
  CHECK(std::string(refused_call(EPERM)) == "memfd_create");
  CHECK(refused_call(ENOSYS) == nullptr);
  CHECK(what_to_raise(EPERM).find("memfd_create") != std::string::npos);
  CHECK(what_to_raise(EPERM).find("sandbox") != std::string::npos);
  CHECK(what_to_raise(ENOSYS).find("memfd_create") == std::string::npos);
}

TEST_CASE("a lack of memory becomes the failure of what was being done") {
  const result<int> r =
      or_no_memory("opening", []() -> result<int> { throw no_memory_for(4096, "tables"); });
  REQUIRE(!r);
  CHECK(r.error().code == ENOMEM);
  CHECK(r.error().message().find("opening: no memory for 4096 bytes of tables") !=
        std::string::npos);
}

TEST_CASE("a lack of memory that nobody handles ends with a line and a code, not by a signal") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    end_by_a_line_without_memory();
    const doing now("connecting");
    const auto fail = [] { throw std::bad_alloc(); };
    [&]() noexcept { fail(); }();
    _exit(0);
  }
  close(ends[1]);
  char text[512] = {};
  std::size_t n = 0;
  for (ssize_t got; (got = read(ends[0], text + n, sizeof text - 1 - n)) > 0;)
    n += static_cast<std::size_t>(got);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  CHECK(std::string(text).find("no memory for an allocation while connecting") !=
        std::string::npos);
  CHECK(std::string(text).find("terminate") == std::string::npos);
}
