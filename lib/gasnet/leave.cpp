// The end of a GASNet process: gasnet_exit, return from main, and the word from another process
// that the job ends. After seed 002: rank 0 is asked to end the job, the first who asks gives the
// exit code, and rank 0 orders all others to leave: O(N) messages. Then all meet at the launcher's
// fence, so that nobody is gone while another still polls the queues to it, and each tells the
// launcher its code.
//
// Who leaves from a handler can poll no more, and so make no connection: it tells those that it is
// connected to, its neighbours in barriers, and asks a few of them to tell all others.
//
// Who is told does not leave at once: the end is mostly collective (a barrier, then gasnet_exit on
// all), and a process that is a moment behind must still do what it wanted to do in between, such
// as print. It has exit_grace_ns to call gasnet_exit itself.
//
// Handlers and signal handlers only note that the job ends; the next poll at top level acts on it.
// A timer ends the process where that fails (a peer is wedged, a lock is held, nobody polls): then
// the launcher ends the rest. Only there a client's handler of SIGQUIT runs inside another
// signal's, and a gasnet_exit that it calls is no more than a word to the launcher.
//
// One thread takes the process down. The others find polls that do nothing, and waits without end.
// Nothing is destroyed before the process is gone.
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

// The order to leave: 0, or its code with ordered_bit. Written once, by whoever learns of it first
// (a handler, or gasnet_exit on rank 0). relaxed: the word is all there is to read.
constexpr std::uint64_t ordered_bit = std::uint64_t{1} << 32;
std::atomic<std::uint64_t> order{0};
// A signal asked this process to end the job; as order.
std::atomic<std::uint64_t> wish{0};
// Whether this process is to tell the others, as rank 0 and helpers are, and whether it has begun
// to.
std::atomic<bool> spreads{false}, spread{false};
// A rank that left from a handler, and makes no connection any more; ~0: none is known. relaxed: a
// hint.
std::atomic<std::uint32_t> out_of_reach{~0u};
// When this process saw the order, in the kernel's nanoseconds; 0: not yet.
std::atomic<std::uint64_t> seen_at{0};
constexpr std::uint64_t exit_grace_ns = 500'000'000;
// One thread takes the process down.
std::atomic<bool> leaving{false};
thread_local constinit bool i_leave = false;
// This thread is in time_is_up().
thread_local constinit bool last_resort = false;
// The code to leave with, for the timer.
std::atomic<int> last_code{0};
pid_t joined_as = 0;  // children made by fork are not of the job

enum class word : std::uint32_t { please, now, pass_on };
constexpr unsigned most_helpers = 4;

bool note_order(int code) noexcept {
  std::uint64_t none = 0;
  const bool first =
      order.compare_exchange_strong(none, ordered_bit | static_cast<std::uint32_t>(code),
                                    std::memory_order_relaxed, std::memory_order_relaxed);
  exit_news.store(1, std::memory_order_relaxed);
  return first;
}
bool ordered() noexcept { return order.load(std::memory_order_relaxed) != 0; }
int ordered_code() noexcept {
  return static_cast<int>(static_cast<std::uint32_t>(order.load(std::memory_order_relaxed)));
}

// On rank 0 a plea, elsewhere an order: what either asks for is the same.
void handle_exit(void*, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  if (static_cast<word>(args[0]) == word::pass_on) spreads.store(true, std::memory_order_relaxed);
  if (args[2] != ~0u) out_of_reach.store(args[2], std::memory_order_relaxed);
  (void)note_order(static_cast<int>(args[1]));
}

// Tells one rank, if it is connected and has room. may_wait: for credits, if that is what it takes.
status tell(std::uint32_t rank, word w, int code, bool may_wait = false) noexcept {
  const std::uint32_t args[] = {static_cast<std::uint32_t>(w), static_cast<std::uint32_t>(code),
                                out_of_reach.load(std::memory_order_relaxed)};
  conduit::outgoing m;
  m.handler = on_exit_word;
  m.flags = conduit::wire::flag_system;
  m.nargs = 3;
  m.args = args;
  const status s = self.engine->try_request(rank, m);
  return s == status::no_credit && may_wait ? self.engine->request(rank, m) : s;
}

// Once, not from a handler: the order goes to all others. First to those who are within reach, so
// that nobody waits for one who has left already and makes no connection any more; for such there
// is half of the time that an exit may take.
void spread_order() noexcept {
  if (spread.exchange(true, std::memory_order_relaxed)) return;
  std::vector<std::uint32_t> untold;
  for (std::uint32_t r = 0; r < self.engine->size(); ++r)
    if (r != self.engine->rank() && is_short(tell(r, word::now, ordered_code())))
      untold.push_back(r);
  const std::uint64_t limit = now_ns() + self.options.exit_limit_ns(self.engine->size()) / 2;
  for (unsigned empty = 0; !untold.empty() && now_ns() < limit;) {
    if (is_failure(self.engine->wait_step(empty))) return;
    std::erase_if(untold, [](std::uint32_t r) {
      return r == out_of_reach.load(std::memory_order_relaxed) ||
             !is_short(tell(r, word::now, ordered_code(), true));
    });
  }
}

// From a handler, which never returns: messages may go out, but nothing may be polled, as the queue
// that the handler's message came from is in the middle of being read.
void tell_from_handler(int code) noexcept {
  const std::uint32_t me = self.engine->rank(), size = self.engine->size();
  out_of_reach.store(me, std::memory_order_relaxed);
  unsigned told = 0;
  const auto tell_one = [&](std::uint32_t r) {
    if (r == me) return;
    if (tell(r, told < most_helpers ? word::pass_on : word::now, code) == status::ok) ++told;
  };
  for (std::uint64_t distance = 1; distance < size; distance *= 2) {
    tell_one(static_cast<std::uint32_t>((me + distance) % size));
    tell_one(static_cast<std::uint32_t>((me + size - distance) % size));
  }
  if (me != 0) tell_one(0);
  for (std::uint32_t r = 0; r < size && (me == 0 || told == 0); ++r) tell_one(r);
}

// Everybody learns that the job ends, and everybody is at the fence.
void agree_to_leave(int code) noexcept {
  if (std::exchange(conduit::running, nullptr) != nullptr) {
    (void)note_order(code);
    tell_from_handler(ordered_code());
  } else if (self.engine->rank() == 0) {
    (void)note_order(code);
    spread_order();
  } else {
    status told = status::busy;
    for (unsigned empty = 0; !ordered();) {
      if (is_short(told)) told = tell(0, word::please, code, true);
      if (is_failure(told) || is_failure(self.engine->wait_step(empty))) break;
    }
    if (spreads.load(std::memory_order_relaxed)) spread_order();
  }
  // Who ends from here on is no loss, and what comes is for nobody. A handler that does not return
  // is left to the end of the process.
  constexpr std::uint64_t handlers_ns = 1'000'000'000;
  (void)self.engine->stop_progress(handlers_ns);
  (void)self.membership
      ->fence();  // fails if a process has ended already: then there is none to wait for
}

// The client's own handler of SIGQUIT has its chance, and may call gasnet_exit itself.
void tell_client();

void time_is_up(int) {
  // As in abort(3): nothing else can be relied on any more.
  const int code = last_code.load(std::memory_order_relaxed);
  last_resort = true;
  if (!leaving.exchange(true, std::memory_order_relaxed)) tell_client();
  static constexpr char text[] = "penstock: the job did not end in time; ending it by force\n";
  [[maybe_unused]] const auto n = ::write(STDERR_FILENO, text, sizeof text - 1);
  self.membership->abort(code, nullptr);
}

void start_timer() noexcept {
  struct sigaction act {};
  act.sa_handler = &time_is_up;
  sigemptyset(&act.sa_mask);
  ::sigaction(SIGALRM, &act, nullptr);
  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  ::pthread_sigmask(SIG_UNBLOCK, &alarm_only, nullptr);
  const std::uint64_t limit = self.options.exit_limit_ns(self.membership->size());
  itimerval t{};
  t.it_value.tv_sec = static_cast<time_t>(limit / 1'000'000'000u);
  t.it_value.tv_usec = static_cast<suseconds_t>(limit % 1'000'000'000u / 1000u);
  ::setitimer(ITIMER_REAL, &t, nullptr);
}

// All but the last step. The code that the job ends with.
int take_down(int code) noexcept {
  last_code.store(code, std::memory_order_relaxed);
  start_timer();
  std::fflush(nullptr);
  if (self.attached && self.engine->size() > 1) {
    agree_to_leave(code);
    if (ordered()) code = ordered_code();
    last_code.store(code, std::memory_order_relaxed);
  }
  self.membership->finalize(code);
  return code;
}

[[noreturn]] void park() noexcept {
  while (true) ::pause();
}

// True for the one thread that is to do it.
bool begin_to_leave() noexcept {
  if (leaving.exchange(true, std::memory_order_relaxed)) return false;
  i_leave = true;
  exit_news.store(1, std::memory_order_relaxed);
  return true;
}

[[noreturn]] void leave(int code) noexcept {
  if (last_resort) self.membership->abort(code, nullptr);
  if (!begin_to_leave()) {
    if (i_leave) ::_exit(code);  // from an exit handler: all that had to be done has been done
    park();
  }
  code = take_down(code);
  std::fflush(nullptr);
  ::_exit(code);
}

// exit(3) and return from main.
void at_exit(int status, void*) {
  if (::getpid() != joined_as) return;
  if (job::job::joined() != self.membership) return;  // who joined before us has left already
  if (last_resort) self.membership->abort(status & 0xff, nullptr);
  if (!begin_to_leave()) park();
  (void)take_down(status & 0xff);
  const itimerval none{};
  ::setitimer(ITIMER_REAL, &none, nullptr);
}

// A signal that asks for the end: noted, and acted on by the next poll, or by the timer if none
// comes.
void on_signal(int sig) {
  const int saved = errno;
  std::uint64_t none = 0;
  if (wish.compare_exchange_strong(none, ordered_bit | static_cast<std::uint32_t>(128 + sig),
                                   std::memory_order_relaxed, std::memory_order_relaxed)) {
    exit_news.store(1, std::memory_order_relaxed);
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

}  // namespace

void prepare_exit() {
  joined_as = ::getpid();
  ::on_exit(&at_exit, nullptr);
  // What the client, or who started it, has set otherwise stays.
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
  e.add_system_handler(on_exit_word, {.call = &handle_exit,
                                      .context = nullptr,
                                      .words = 3,
                                      .payload = conduit::handler_entry::takes::nothing});
}

std::atomic<std::uint32_t> exit_news{1};

void heed_from_now_on() noexcept {
  exit_news.store(0, std::memory_order_relaxed);
  // Whoever has news says what it is first, and then that there is some. The fence: either we see
  // here what it is, or what it says comes after our zero.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (wish.load(std::memory_order_relaxed) != 0 || ordered() ||
      leaving.load(std::memory_order_relaxed))
    exit_news.store(1, std::memory_order_relaxed);
}

bool heed_exit_news(bool may_return) noexcept {
  if (leaving.load(std::memory_order_relaxed)) {
    if (may_return) return true;
    if (i_leave) ::_exit(last_code.load(std::memory_order_relaxed));
    park();
  }
  if (const std::uint64_t wished = wish.load(std::memory_order_relaxed); wished != 0) {
    tell_client();
    leave(static_cast<int>(static_cast<std::uint32_t>(wished)));
  }
  if (!ordered()) return false;
  std::uint64_t since = 0;
  const std::uint64_t now = now_ns();
  // relaxed: a moment, and nothing else
  if (seen_at.compare_exchange_strong(since, now, std::memory_order_relaxed)) since = now;
  if (self.engine->rank() == 0 || spreads.load(std::memory_order_relaxed)) spread_order();
  if (now - since < exit_grace_ns) return false;
  tell_client();
  leave(ordered_code());
}

void leave_after_another() noexcept { leave(0); }

}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock::gasnet;

extern "C" void GASNETC_(exit)(int exitcode) {
  if (!self.membership) ::_exit(exitcode & 0xff);
  leave(exitcode & 0xff);
}
