#include "lib/conduit/progress/progress.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "lib/base/clock.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/base/no_memory.hpp"
#include "lib/base/quiet_thread.hpp"
#include "lib/base/short_slices.hpp"
#include "lib/base/shortage.hpp"
#include "lib/base/thread_index.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/one_sided/rma.hpp"
#include "lib/conduit/peer/core_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

// How long the thread naps while the program's own threads poll.
constexpr std::uint64_t first_nap_ns = 50'000, longest_nap_ns = 1'000'000;
// Longest sleep where connections are limited: nothing else wakes the thread to say that one is
// idle.
constexpr std::uint64_t parting_look_ns = 200'000'000;
// The same where the engine's user waits for what no message tells of, such as the end of a get, or
// a transfer for room.
constexpr std::uint64_t busy_look_ns = 50'000;
// How often the queues are armed again at once, when a message came meanwhile.
constexpr unsigned most_rearms = 8;

// The head start of the thread that starts this one: of its own processor time; and, if it sleeps,
// of real time.
constexpr std::uint64_t head_start_ns = 1'000'000, longest_head_start_ns = 100'000'000;

// Processor time that a thread has used, in ns; the largest number if it has ended.
std::uint64_t time_used(clockid_t of) noexcept {
  timespec t{};
  if (::clock_gettime(of, &t) != 0) return ~std::uint64_t{0};
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

}  // namespace

progress::progress(engine& e, core& c, ways& w, ibv_comp_channel* channel, duties d)
    : core_(c), transfers_(e.one_sided()), duties_(d), queues_(e, c, w, channel, false) {}

result<std::unique_ptr<progress>> progress::start(engine& e, core& c, ways& w,
                                                  ibv_comp_channel* channel, duties d) {
  std::unique_ptr<progress> p(new progress(e, c, w, channel, d));
  p->bell_ = kept(opened("eventfd", ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  if (p->bell_ < 0) return failure{"eventfd of the progress thread", errno, what_to_raise(errno)};
  if (auto r = p->queues_.open(); !r) return r.error();
  for (const bool armed : {false, true}) {
    p->sleep_on_[armed] = {{p->bell_, POLLIN, 0}, {e.membership().ended_fd(), POLLIN, 0}};
    for (const armed_queues::source& from : p->queues_.sources())
      if (armed || !from.of_messages) p->sleep_on_[armed].push_back({from.fd, POLLIN, 0});
  }
  if (::pthread_getcpuclockid(::pthread_self(), &p->starter_) == 0)
    p->started_ns_ = time_used(p->starter_);
  if (const int refused =
          start_quiet_thread(p->thread_, "penstock-prog", [raw = p.get()] { raw->run(); }))
    return failure{"the progress thread", refused, what_to_raise(refused)};
  return p;
}

progress::~progress() {
  if (thread_.joinable()) {
    (void)stop(0);
    thread_.join();
  }
  close_kept(bell_);
}

void progress::wake() noexcept { ring_bell(bell_); }

bool progress::stop(std::uint64_t limit_ns) noexcept {
  // R1 stop  release stopping_  -> A1
  stopping_.store(true, std::memory_order_release);
  wake();
  if (thread_.get_id() == std::this_thread::get_id()) return true;
  const std::uint64_t until = now_ns() + limit_ns;
  // A2 stopped  acquire stopped_  <- R2: what its handlers wrote is visible
  while (!stopped_.load(std::memory_order_acquire)) {
    if (now_ns() >= until) return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

// Delays handlers until the call that started this thread has returned, and its caller has stored
// what the handlers use. That is taken to be so once the caller's thread has used some processor
// time, or polls.
void progress::let_starter_return() noexcept {
  const std::uint32_t polls = attended();
  const std::uint64_t until = now_ns() + longest_head_start_ns;
  for (std::uint64_t rest = head_start_ns / 4;
       !stopping_.load(std::memory_order_relaxed) && attended() == polls && now_ns() < until &&
       time_used(starter_) < started_ns_ + head_start_ns;
       rest *= 2, forget_bell())
    sleep(false, rest);
}

void progress::run() noexcept {
  const doing now{"making progress"};
  ::prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
  ask_for_short_slices();
  claim_last_thread_index();
  for (std::uint32_t i = 0; i < core_.domain_count(); ++i)
    core_.my_poller(my_tag(), core_.domains()[i]).keeps = true;
  let_starter_return();
  const std::uint64_t interval = core_.options().progress_interval_ns;
  std::uint64_t nap = 0;
  std::uint32_t seen = attended();
  // A1 stop  acquire stopping_  <- R1
  while (!stopping_.load(std::memory_order_acquire)) {
    const std::uint64_t began = now_ns();
    core_.slow_progress();
    const std::uint32_t before = seen;
    seen = attended();
    const bool polled = seen != before;
    nap = polled ? std::clamp(nap * 2, first_nap_ns, longest_nap_ns) : 0;
    if (!polled && handle() != 0) queues_.give_back();
    const std::uint64_t used = interval == 0 ? 0 : now_ns() - began;
    if (const std::uint64_t rest = std::max(nap, interval > used ? interval - used : 0); rest != 0)
      sleep(false, rest);
    unsigned found = 0, more = 0;
    do {
      forget_bell();
      queues_.arm();
      found = handle();
      if (found != 0 && attended() == seen) queues_.give_back();
    } while (found != 0 && interval == 0 && ++more < most_rearms);
    if (found == 0 && !stopping_.load(std::memory_order_relaxed) && !queues_.waiting())
      sleep(true, busy_ || transfers_.waits_for_room() ? busy_look_ns
                  : duties_.parts                      ? parting_look_ns
                                                       : 0);
  }
  // R2 stopped  release stopped_  -> A2
  stopped_.store(true, std::memory_order_release);
}

// Handles what has come, and steps; returns the number of messages.
unsigned progress::handle() noexcept {
  unsigned n = 0;
  (void)queues_.handle(n, duties_.step, &busy_);
  return n;
}

void progress::forget_bell() noexcept { (void)hush_bell(bell_); }

// The sum of all domains' counts; it grows while the program's own threads poll.
std::uint32_t progress::attended() const noexcept {
  std::uint32_t n = 0;
  for (std::uint32_t i = 0; i < core_.domain_count(); ++i)
    n += core_.domains()[i].attended.load(std::memory_order_relaxed);
  return n;
}

// Sleeps until an event comes; armed: a message ends the sleep, too. ns: for that long at most; 0:
// without limit.
void progress::sleep(bool armed, std::uint64_t ns) noexcept {
  std::vector<pollfd>& of = sleep_on_[armed];
  if (core_.membership().ended()) of[1].fd = -1;  // it stays readable
  const timespec limit{static_cast<time_t>(ns / 1'000'000'000),
                       static_cast<long>(ns % 1'000'000'000)};
  (void)::ppoll(of.data(), of.size(), ns == 0 ? nullptr : &limit, nullptr);
  refuse_closed(of);
}

void engine::wake_progress() noexcept {
  if (progress_) progress_->wake();
}

}  // namespace penstock::conduit::PENSTOCK_ABI
