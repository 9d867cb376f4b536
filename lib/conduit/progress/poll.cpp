// Polls and the steps of waits: which queues a poll looks at, in which order, and what a waiting
// thread does between two polls.
#include <sched.h>

#include <ctime>

#include "lib/base/clock.hpp"
#include "lib/conduit/collective/departure.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/one_sided/rma.hpp"
#include "lib/conduit/progress/event_descriptor.hpp"
#include "lib/conduit/progress/naps.hpp"
#include "lib/conduit/ways/ways.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

// Polls by one path, and looks at transfers when the path says so. busy: as in its poll().
template <class Path>
unsigned engine::poll_path(Path& path, domain& d, std::uint32_t tag, bool busy) noexcept {
  bool due = false;
  unsigned n = path.poll(d, tag, busy, due);
  if (due) [[unlikely]] {
    if (core_.attention()) [[unlikely]]
      slow_progress();
    (void)path.reap_sends(d);
    n += transfers_->reap(d);
    if (n == 0) path.return_idle_credits(d, tag);
  }
  return n;
}

unsigned engine::poll_domain(domain& d, std::uint32_t tag) noexcept {
  const bool posts = ways_.some_post();
  const bool everything = posts && transfers_->everything();
  if (everything) transfers_->progress();
  const bool settles = everything && transfers_->must_settle();
  // Where messages are posted poll_path() asks core_.attention(), which is often enough.
  if ((!posts || settles) && core_.attention()) [[unlikely]]
    slow_progress();
  unsigned n = 0;
  if (settles) {
    // Until no peer has a key to changed memory, no request is taken, since its handler might
    // reply.
    ways_.each([&](auto& path) { n += path.poll_replies(d, tag); });
    return n + transfers_->reap();
  }
  ways_.each([&](auto& path) { n += poll_path(path, d, tag, n != 0); });
  return n;
}

// One poll where all peers are by queue pairs.
status engine::poll_posted(unsigned* n, std::uint32_t tag) noexcept {
  const unsigned got = ways_.at(
      way::verbs, [&](auto& path) { return poll_path(path, core_.my_domain(tag), tag, false); });
  if (n != nullptr) *n += got;
  return status::ok;
}

status engine::poll(unsigned* n) noexcept {
  if (running != nullptr) [[unlikely]]
    return status::in_handler;
  const std::uint32_t tag = my_tag();
  poll_counts_[tag - 1].polls.add(1);
  constexpr std::uint64_t polls_a_look = 1024;  // at the thread that calls, which costs a branch
  if (!concurrent(build_mode) && poll_counts_[tag - 1].polls.read() % polls_a_look == 0)
      [[unlikely]]
    core_.calling().look();
  // Most polls find nothing: the code for these stands here, and makes no call.
  if (quick_polls_) [[likely]]
    return ways_.poll_at_once(
        n, core_.my_domain(tag), tag, [&]() noexcept { return !core_.attention_to_device(); },
        [&]() noexcept { return poll_all(n, tag); });
  if (quick_verbs_) [[likely]]
    return poll_posted(n, tag);
  if (!core_.has_started()) [[unlikely]]
    return over();
  return poll_all(n, tag);
}

status engine::poll_widely(unsigned* n) noexcept {
  const status s = poll(n);
  if (s != status::ok || *n != 0) return s;
  const std::uint32_t tag = my_tag();
  ways_.each([&](auto& path) { *n += path.poll_others(core_.my_domain(tag), tag); });
  return status::ok;
}

status engine::poll_all(unsigned* n, std::uint32_t tag) noexcept {
  core_.calling().look();
  unsigned got = poll_domain(core_.my_domain(tag), tag);
  if (concurrent(build_mode) && attendance_) [[unlikely]] {
    note_attendance(tag);
    if (core_.domain_count() != 1) got += poll_elsewhere(tag, false);
  }
  if (n != nullptr) *n += got;
  return status::ok;
}

// Notes that a thread of this domain polls, for threads of other domains and the progress thread.
void engine::note_attendance(std::uint32_t tag) noexcept {
  constexpr std::uint32_t polls_a_note = 16;
  domain& own = core_.my_domain(tag);
  poller& mine = core_.my_poller(tag, own);
  if (++mine.polls % polls_a_note == 0 && !mine.keeps)
    own.attended.store(own.attended.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// Polls domains whose own threads do not: once in poll_mask + 1 calls, in every call for a while
// after a message was found there, and if `now` is set. A domain whose threads poll is left to
// them, so that no cache line is shared without need. Returns the number of messages.
unsigned engine::poll_elsewhere(std::uint32_t tag, bool now) noexcept {
  constexpr std::uint32_t helping_polls = 64;  // that go on after the last message
  domain& own = core_.my_domain(tag);
  poller& mine = core_.my_poller(tag, own);
  const bool due = (mine.polls & core_.options().poll_mask) == 0;
  if (!due && !now && mine.helps == 0) return 0;
  unsigned n = 0;
  for (std::uint32_t i = 0; i < core_.domain_count(); ++i) {
    domain& d = core_.domains()[i];
    if (&d == &own) continue;
    poller& there = core_.my_poller(tag, d);
    const std::uint32_t seen = d.attended.load(std::memory_order_relaxed);
    // Its count is taken over only where some time lies between two calls: otherwise the domain's
    // own threads would have had no time to count a poll.
    if (seen == there.attended) n += poll_domain(d, tag);
    if (due || now) there.attended = seen;
  }
  mine.helps = n != 0 ? helping_polls : mine.helps == 0 ? 0 : mine.helps - 1;
  return n;
}

namespace {

naps process_naps;

void give_core_away() noexcept {
  const std::uint64_t begin = now_ns();
  sched_yield();
  process_naps.yielded(now_ns() - begin);
}

}  // namespace

status engine::wait_step(unsigned& empty) noexcept {
  if (wait_news_->is_up()) [[unlikely]]
    heed_in_wait_();
  unsigned n = 0;
  const bool last =
      empty >= core_.spins_before_yield();  // the last poll before the core is yielded
  if (const status s = last ? poll_widely(&n) : poll(&n); s != status::ok) return s;
  if (departure_->news() && !core_.closing()) [[unlikely]]
    if (const status s = departure_->in_wait(n != 0); s != status::ok) return s;
  if (n != 0) {
    empty = 0;
    if (core_.spins_before_yield() == 1) [[unlikely]]
      core_.share_core(n);
    return status::ok;
  }
  ++empty;
  if (innermost_wait != nullptr) innermost_wait->step(empty > core_.spins_before_yield());
  if (empty <= core_.spins_before_yield()) return status::ok;
  const callers::waiting inside(core_.calling());
  if (concurrent(build_mode) && core_.domain_count() != 1 && poll_elsewhere(my_tag(), true) != 0)
    return status::ok;
  constexpr unsigned steps_a_probe = 1024;
  if (empty % steps_a_probe == 0) ways_.each([](auto& path) { path.probe_peers(); });
  const std::uint64_t spins =
      core_.options().wait == wait_mode::block ? 0 : core_.options().spin_count;
  if (core_.options().wait == wait_mode::spin ||
      (empty <= core_.spins_before_yield() + spins && !process_naps.is_due())) {
    give_core_away();
    return status::ok;
  }
  // The nap is short, and the next poll finds what has come meanwhile: nobody has to send a
  // wake-up, and none can be lost.
  const timespec nap{0, 50'000};
  const std::uint64_t begin = now_ns();
  nanosleep(&nap, nullptr);
  process_naps.napped(now_ns() - begin);
  return status::ok;
}

status engine::limited_step(unsigned& empty, bool told) noexcept {
  if (empty != 0 && wait_limit_ns != 0 && now_ns() >= wait_limit_ns) [[unlikely]] {
    if (!told && events_fd_) events_fd_->look_soon();
    return status::timed_out;
  }
  const status s = wait_step(empty);
  // Where messages keep coming, the clock is read all the same.
  if (empty == 0 && wait_limit_ns != 0) [[unlikely]]
    empty = 1;
  return s;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
