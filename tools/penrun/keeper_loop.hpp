// The keeper's state, for keeper.cpp (this host) and keeper_remote.cpp (other hosts) only.
#pragma once

#include <cerrno>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/clock.hpp"
#include "tools/penrun/keeper.hpp"
#include "tools/penrun/output.hpp"
#include "tools/penrun/remote.hpp"
#include "tools/penrun/repeats.hpp"
#include "tools/penrun/service.hpp"
#include "tools/penrun/spawn.hpp"

namespace penrun {

// As a shell's, for a program that cannot be run.
inline int code_of(int error) {
  return error == ENOENT ? 127 : error == EACCES || error == ENOEXEC ? 126 : 1;
}

class keeper {
 public:
  keeper(const options& o, int lifeline)
      : options_(o),
        lifeline_(lifeline),
        service_(members_, o.processes, [this](auto rank) { note_left(rank); }) {}
  int run();

 private:
  bool set_up();
  bool start_all();
  void turn(int wait_ms);
  void on_signal();
  void reap();
  void reaped(std::uint32_t rank, int status);
  // keeper_verdict.cpp
  struct ending {
    std::uint32_t rank;
    int status;
  };
  void judge();
  [[nodiscard]] bool complaint() const;
  void call_witnesses();
  void settle();
  void on_exit(std::uint32_t rank, int status);
  void end_job(penstock::job::death d, int code);
  // The first code that is not zero counts. why: a line for the end, unless it has been said.
  void note_code(int code, std::string why) {
    if (code == 0 || code_ != 0 || decided_) return;
    code_ = code & 255;
    unsaid_ = std::move(why);
  }
  void signal_all(int sig);
  void add(std::uint32_t rank, const spawned& p, member m);
  void look_at_clocks();
  // keeper_remote.cpp
  bool start_remotes();
  void hear(remote_host& r);
  void heard(remote_host& r, relay_kind kind, std::uint32_t rank, std::span<const std::byte> body);
  void shell_ended(remote_host& r);
  void lose(remote_host& r, const char* why, int code);
  void leave_remotes();
  void ask_remotes(std::uint64_t now);
  void note_left(std::uint32_t rank);
  [[nodiscard]] bool wants_input() const;
  void pass_input();
  void hurry();
  [[nodiscard]] int wait_ms() const;
  void tell_where();
  void give_up();

  const options& options_;
  int lifeline_;
  int signals_ = -1;
  shared_ends shared_;
  penstock::job::board* board_ = nullptr;
  std::vector<pid_t> pids_;  ///< by rank; 0 once reaped
  std::vector<member> members_;
  std::vector<line_stream> streams_;  ///< two a rank
  repeats repeats_{[this](auto rank, auto line) { streams_[2 * rank + 1].show(line); }};
  service service_;
  std::uint32_t alive_ = 0;               ///< those whose end has not been judged
  std::vector<ending> ended_;             ///< reaped, and not judged yet
  std::vector<std::uint32_t> witnesses_;  ///< ranks whose end the verdict waits for
  std::uint64_t verdict_ns_ = 0;          ///< when it is given even so; 0: none is due
  bool over_ = false;                     ///< end_job() has run
  bool asked_to_end_ = false;             ///< a signal that ends was passed on
  int code_ = 0;
  std::string unsaid_;          ///< where that code comes from; empty: it has been said
  bool decided_ = false;        ///< a process has ended the job with the code that it wanted
  int sent_ = 0;                ///< that signal
  std::uint64_t limit_ns_ = 0;  ///< when the job's time is over; 0: never
  std::uint64_t kill_ns_ = 0;   ///< when the survivors' grace is over; 0: not running
  std::uint64_t quit_ns_ = 0;   ///< when those who still run are told by SIGQUIT; 0: not, or done
  std::uint64_t hurry_ns_ = 0;  ///< when all were first killed; 0: not yet
  bool killing_said_ = false;

  std::vector<remote_host> remotes_;  ///< in the order of their ranks; empty: all processes here
  std::uint64_t ask_ns_ = 0;          ///< when their agents are asked again whether they are there
  std::vector<bool> away_;            ///< by rank: runs on another host
  bool input_open_ = false;           ///< rank 0 is on another host and our standard input is open
  std::uint64_t input_on_its_way_ = 0;
};

}  // namespace penrun
