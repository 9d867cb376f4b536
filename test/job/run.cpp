// See run.hpp.
#include "test/job/run.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace testing {

using clock = std::chrono::steady_clock;

running::running(const std::vector<std::string>& command, const std::string& input) {
  int in[2], out[2], err[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
    abort();
  std::vector<char*> argv;
  for (const auto& a : command) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    dup2(err[1], 2);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  close(err[1]);
  if (write(in[1], input.data(), input.size()) < 0) abort();
  close(in[1]);
  fds_[0] = out[0];
  fds_[1] = err[0];
}

running::~running() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (const int fd : fds_)
    if (fd >= 0) close(fd);
}

bool running::read_some(int wait_ms) {
  pollfd p[] = {{fds_[0], POLLIN, 0}, {fds_[1], POLLIN, 0}};
  if (poll(p, 2, wait_ms) <= 0) return false;
  for (int i = 0; i < 2; ++i) {
    if (p[i].revents == 0) continue;
    char buffer[65536];
    const auto n = read(fds_[i], buffer, sizeof buffer);
    if (n > 0) {
      (i == 0 ? out_ : err_).append(buffer, static_cast<std::size_t>(n));
    } else {
      close(fds_[i]);
      fds_[i] = -1;
    }
  }
  return true;
}

bool running::wait_for(const std::string& text, int times) {
  const auto end = clock::now() + limit;
  for (;;) {
    int found = 0;
    for (auto at = out_.find(text); at != out_.npos; at = out_.find(text, at + 1)) ++found;
    if (found >= times) return true;
    if (clock::now() > end || (fds_[0] < 0 && fds_[1] < 0)) return false;
    read_some(100);
  }
}

outcome running::wait() {
  const auto end = clock::now() + limit;
  while ((fds_[0] >= 0 || fds_[1] >= 0) && clock::now() < end) read_some(100);
  int status = 0;
  pid_t got = 0;
  while ((got = waitpid(pid_, &status, WNOHANG)) == 0 && clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  outcome o{-1, out_, err_};
  if (got != pid_) return o;  // the destructor kills it
  pid_ = -1;
  o.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return o;
}

outcome run(const std::vector<std::string>& command, const std::string& input) {
  return running(command, input).wait();
}

std::vector<std::string> penrun(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), PENRUN);
  return arguments;
}

bool alive(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  if (!std::getline(stat, text)) return false;
  const auto after = text.rfind(')');
  return after != text.npos && text[after + 2] != 'Z' && text[after + 2] != 'X';
}

bool all_end(const std::vector<pid_t>& pids) {
  const auto end = clock::now() + limit;
  while (std::any_of(pids.begin(), pids.end(), alive)) {
    if (clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::vector<pid_t> numbers_after(const std::string& text, const std::string& word) {
  std::vector<pid_t> out;
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1))
    out.push_back(std::atoi(text.c_str() + at + word.size()));
  return out;
}

}  // namespace testing
