// The end of a GASNet process: gasnet_exit, return from main, and the order from another process
// that the job ends (leave_order.cpp). All processes meet at the launcher's fence, so that none is
// gone while another one still uses the queues to it, and each tells the launcher its exit code.
// Processes that wait at the fence go on polling until the last one is there. So messages that
// others sent before they learned of the end are handled, and no process waits for credits that do
// not come back.
//
// A process that is told of the end does not leave at once. The end is mostly collective (a
// barrier, then gasnet_exit on all), and a process that is a moment behind must still do what it
// wanted to do in between, such as print. It has exit_grace_ns to call gasnet_exit itself.
//
// Handlers and signal handlers only note that the job ends; the next poll at top level acts on it.
// A timer ends the process where that fails (a peer is wedged, a lock is held, no thread polls);
// the launcher then ends the rest. The timer ticks, and counts the time in which this process ran
// (patience.hpp): on a busy host, messages that it has not handled yet are no sign of an end. An
// exit with code 0 that ends in this way has failed, and its code is 1. Only there a client's
// handler of SIGQUIT runs inside another signal's handler, and a gasnet_exit that it calls only
// tells the launcher the code.
//
// One thread takes the process down. In the other threads polls do nothing, and waits never return.
// Nothing is destroyed before the process is gone.
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "lib/conduit/collective/patience.hpp"
#include "lib/gasnet/leave_order.hpp"
#include "lib/gasnet/process.hpp"
#include "lib/gasnet/statistics.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

// A signal asked this process to end the job: 0, or the code with wished_bit.
constexpr std::uint64_t wished_bit = std::uint64_t{1} << 32;
std::atomic<std::uint64_t> wish{0};
// The time since this process saw the order.
constinit conduit::watched_time since_order;
constexpr std::uint64_t exit_grace_ns = 500'000'000;
// The limit of this process's exit. The others may take the grace before they come, and that is no
// failure of theirs, however short the limit that was set.
std::uint64_t exit_limit_ns() noexcept {
  return std::max(self.options.exit_limit_ns(self.membership->size()), 2 * exit_grace_ns);
}
// One thread takes the process down.
std::atomic<bool> leaving{false};
thread_local constinit bool i_leave = false;
// This thread is in time_is_up().
thread_local constinit bool last_resort = false;
// The code to leave with, for the timer.
std::atomic<int> last_code{0};
// How far the thread that leaves has come; its own. A handler that it runs meanwhile, or an exit
// handler of the client's, may call gasnet_exit, too.
enum class stage : std::uint8_t { agreeing, at_fence, done };
constinit stage now_at = stage::agreeing;
// The time of the exit; what has been heard at the fence, and when the timer was started, in it.
constexpr std::uint64_t tick_ns = 20'000'000;
constinit conduit::watched_time exit_time{tick_ns};
constinit conduit::patience waiting;
std::atomic<std::uint64_t> limit_began{0};
pid_t joined_as = 0;  // children made by fork are not of the job

// Waits until all processes are at the fence, and polls meanwhile, since others may still send to
// this process, or wait for its credits and answers. In a handler it cannot poll.
void meet_at_fence(bool polling) noexcept {
  self.engine->expect_ends();  // a process that ends from here on is no error
  if (now_at == stage::agreeing && !self.membership->begin_fence()) return;
  now_at = stage::at_fence;
  constexpr unsigned steps_a_look = 16;
  for (unsigned step = 1, empty = 0;; ++step) {
    if (polling && is_failure(self.engine->wait_step(empty))) polling = false;
    if (polling && empty == 0) waiting.heard_at(exit_time.look(now_ns()));
    if (polling && step % steps_a_look != 0) continue;
    // It fails if a process has ended already: then there is none to wait for.
    if (const auto over = self.membership->fence_is_over(); !over || *over) return;
    if (!polling) ::usleep(100);
  }
}

// Sees that all processes learn that the job ends, and meets them at the fence.
void agree_to_leave(int code) noexcept {
  const bool in_handler = std::exchange(conduit::running, nullptr) != nullptr;
  if (in_handler)
    tell_from_handler(code);
  else
    ask_for_order(code);
  // A handler that does not return is left to the end of the process.
  constexpr std::uint64_t handlers_ns = 1'000'000'000;
  (void)self.engine->stop_progress(handlers_ns);
  meet_at_fence(!in_handler);
}

// Raises SIGQUIT, if the client has a handler for it, which may call gasnet_exit itself.
void tell_client();

void time_is_up(int) {
  if (!waiting.over(limit_began.load(std::memory_order_relaxed), exit_limit_ns(),
                    exit_time.look(now_ns())))
    return;  // the timer asks again
  // As in abort(3): nothing else can be relied on any more.
  const int code = last_code.load(std::memory_order_relaxed);
  last_resort = true;
  if (!leaving.exchange(true, std::memory_order_relaxed)) tell_client();
  static constexpr char text[] = "penstock: the job did not end in time; ending it by force\n";
  [[maybe_unused]] const auto n = ::write(STDERR_FILENO, text, sizeof text - 1);
  self.membership->abort(code, nullptr);
}

timeval interval(std::uint64_t ns) noexcept {
  return {.tv_sec = static_cast<time_t>(ns / 1'000'000'000u),
          .tv_usec = static_cast<suseconds_t>(ns % 1'000'000'000u / 1000u)};
}

void start_timer() noexcept {
  struct sigaction act {};
  act.sa_handler = &time_is_up;
  act.sa_flags = SA_RESTART;
  sigemptyset(&act.sa_mask);
  if (::sigaction(SIGALRM, &act, nullptr) != 0)
    return;  // refused: the signal would end the process
  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  ::pthread_sigmask(SIG_UNBLOCK, &alarm_only, nullptr);
  limit_began.store(exit_time.look(now_ns()), std::memory_order_relaxed);
  const timeval tick = interval(tick_ns);
  const itimerval t{.it_interval = tick, .it_value = tick};
  ::setitimer(ITIMER_REAL, &t, nullptr);
}

// The rest, when all have agreed. The engine is never closed, so its files are written here.
void finish(int code) noexcept {
  if (self.attached) self.engine->write_credit_statistics();
  if (statistics::mine() != nullptr) statistics::mine()->write();
  if (!self.membership->missed()) self.membership->finalize(code);
}

// A call after the end, by an exit handler that was registered before gasnet_init: what it waits
// for will never come.
[[noreturn]] void called_after_the_end() noexcept {
  const int code = last_code.load(std::memory_order_relaxed);
  log(log_level::error,
      "an exit handler or destructor calls GASNet after this process has left the job; exit "
      "handlers that do so are to be registered after gasnet_init");
  ::_exit(code != 0 ? code : 1);
}

// Does all but the last step, and returns the job's exit code.
int take_down(int code) noexcept {
  last_code.store(code, std::memory_order_relaxed);
  if (self.engine) {
    self.engine->let_any_thread_call();
    self.engine->write_connections();
  }
  start_timer();
  std::fflush(nullptr);
  if (self.attached && self.engine->size() > 1) {
    agree_to_leave(code);
    if (ordered()) code = ordered_code();
    last_code.store(code, std::memory_order_relaxed);
  }
  finish(code);
  now_at = stage::done;
  return code;
}

[[noreturn]] void park() noexcept {
  while (true) ::pause();
}

// True for the one thread that takes the process down.
bool begin_to_leave() noexcept {
  if (leaving.exchange(true, std::memory_order_relaxed)) return false;
  i_leave = true;
  exit_news.raise();
  return true;
}

[[noreturn]] void leave(int code) noexcept {
  // If the job is over already, there is no process left to agree with, and this may be a signal
  // handler.
  if (last_resort || self.membership->ended()) self.membership->abort(code, nullptr);
  if (!begin_to_leave()) {
    if (!i_leave) park();
    if (now_at == stage::done) ::_exit(code);  // from an exit handler
    // From a handler that runs while this thread leaves: it goes on from here.
    code = last_code.load(std::memory_order_relaxed);
    if (now_at == stage::agreeing)
      agree_to_leave(code);
    else
      meet_at_fence(false);
    if (ordered()) code = ordered_code();
    finish(code);
    ::_exit(code);
  }
  code = take_down(code);
  std::fflush(nullptr);
  ::_exit(code);
}

// exit(3) and return from main.
void at_exit(int status, void*) {
  if (::getpid() != joined_as) return;
  if (job::job::joined() != self.membership) return;  // the world that joined first has left
  if (last_resort) self.membership->abort(status & 0xff, nullptr);
  if (!begin_to_leave()) park();
  (void)take_down(status & 0xff);
  const itimerval none{};
  ::setitimer(ITIMER_REAL, &none, nullptr);
}

// Notes a signal that asks for the end. The next poll acts on it, or the timer if no poll comes.
void on_signal(int sig) {
  if (is_forked()) {  // it ends alone, when this returns
    ::signal(sig, SIG_DFL);
    ::raise(sig);
    return;
  }
  const int saved = errno;
  std::uint64_t none = 0;
  if (wish.compare_exchange_strong(none, wished_bit | static_cast<std::uint32_t>(128 + sig),
                                   std::memory_order_relaxed, std::memory_order_relaxed)) {
    exit_news.raise();
    last_code.store(128 + sig, std::memory_order_relaxed);
    start_timer();
  }
  errno = saved;
}

void tell_client() {
  struct sigaction act {};
  if (::sigaction(SIGQUIT, nullptr, &act) == 0 && act.sa_handler != SIG_DFL &&
      act.sa_handler != SIG_IGN && act.sa_handler != &on_signal)
    ::raise(SIGQUIT);
}

// Called in each step of a wait of the engine's, such as a request's for credits.
void heed_in_wait() noexcept {
  if (!i_leave) (void)heed_exit_news(false);
}

}  // namespace

void prepare_exit() {
  joined_as = ::getpid();
  ::on_exit(&at_exit, nullptr);
  // A handler that the client has set stays, and so does a signal that is ignored.
  for (const int sig : {SIGQUIT, SIGTERM, SIGINT, SIGHUP}) {
    struct sigaction before {};
    if (::sigaction(sig, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) continue;
    struct sigaction act {};
    act.sa_handler = &on_signal;
    act.sa_flags = SA_RESTART;
    sigemptyset(&act.sa_mask);
    ::sigaction(sig, &act, nullptr);
  }
}

void register_exit(conduit::engine& e) {
  register_order(e);
  e.heed_in_waits(exit_news, &heed_in_wait);
}

raised_flag exit_news{true};

void heed_from_now_on() noexcept {
  // A thread with news stores the news first, and then raises the flag: this thread sees the news
  // below, or the flag is raised after this.
  (void)exit_news.take_down();
  if (wish.load(std::memory_order_relaxed) != 0 || ordered() ||
      leaving.load(std::memory_order_relaxed))
    exit_news.raise();
}

bool heed_exit_news(bool may_return) noexcept {
  if (is_forked()) return false;  // the engine says so
  if (leaving.load(std::memory_order_relaxed)) {
    const bool after = i_leave && now_at == stage::done;
    // Polls after the end do nothing, but a loop of them would never end.
    constexpr unsigned most_polls = 200;
    static unsigned polls = 0;  // of the thread that leaves
    if (after && (!may_return || ++polls > most_polls)) called_after_the_end();
    if (may_return) return true;
    park();
  }
  if (const std::uint64_t wished = wish.load(std::memory_order_relaxed); wished != 0) {
    tell_client();
    leave(static_cast<int>(static_cast<std::uint32_t>(wished)));
  }
  if (!ordered()) pass_request_on();
  if (!ordered()) return false;
  const std::uint64_t since = since_order.look(now_ns());
  spread_order();
  if (since < exit_grace_ns) return false;
  tell_client();
  leave(ordered_code());
}

void leave_after_another() noexcept { leave(0); }

}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock::gasnet;

extern "C" void GASNETC_(exit)(int exitcode) {
  if (!self.membership || penstock::is_forked()) ::_exit(exitcode & 0xff);
  leave(exitcode & 0xff);
}
