// Progress: the only place that waits, and the order in which queues are looked at: what concerns
// the whole job first, then SYS and SAFE, then AM.
#include <sched.h>

#include <ctime>

#include "lib/base/clock.hpp"
#include "lib/conduit/collective/departure.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/one_sided/rma.hpp"
#include "lib/conduit/ring_path/ring_path_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

unsigned engine::poll_domain(domain& d, std::uint32_t tag) noexcept {
  unsigned n = 0;
  if (by_rings_) {
    // Where there are queue pairs, too, their look at what may wait is often enough.
    if (!by_verbs_ && attention()) [[unlikely]]
      slow_progress();
    n = rings_.poll(d, tag);
  }
  return by_verbs_ ? n + poll_queues(d, tag) : n;
}

// Queue pairs, and puts and gets with them.
unsigned engine::poll_queues(domain& d, std::uint32_t tag) noexcept {
  const bool everything = transfers_->everything();
  if (everything) transfers_->progress();
  if (!everything || !transfers_->must_settle()) {
    unsigned n = 0;
    (void)poll_verbs(&n, d, tag);
    return n;
  }
  // Requests wait, since their handlers reply, until no peer has a key to changed memory.
  if (attention()) [[unlikely]]
    slow_progress();
  return verbs_.poll_replies(d, tag) + transfers_->reap();
}

status engine::poll_verbs(unsigned* got, domain& d, std::uint32_t tag) noexcept {
  bool due = false;
  unsigned n = verbs_.poll(d, tag, due);
  if (due) [[unlikely]] {
    if (attention()) [[unlikely]]
      slow_progress();
    (void)verbs_.reap_sends(d);
    n += transfers_->reap(d);
    if (n == 0) verbs_.return_idle_credits(d, tag);
  }
  if (got != nullptr) *got += n;
  return status::ok;
}

status engine::poll(unsigned* n) noexcept {
  if (running != nullptr) [[unlikely]]
    return status::in_handler;
  const std::uint32_t tag = my_tag();
  poll_counts_[tag - 1].polls.add(1);
  // Most polls find nothing: what they need stands here, and calls nobody.
  if (quick_polls_) [[likely]] {
    domain& d = my_domain(tag);
    const std::uint32_t all = d.rings.count();
    if (all <= poller::few_peers) [[likely]] {
      for (std::uint32_t i = 0; i < all; ++i)
        if (peer& p = d.rings[i]; ring_path::replies_news(p))
          return rings_.poll_replies_news(n, p, i);
        else if (ring_path::requests_news(p))
          return rings_.poll_requests_news(n, p, i);
      if (!attention_to_device()) [[likely]]
        return status::ok;
    } else if (!attention_to_device()) [[likely]] {
      const unsigned got = rings_.poll_in_turn(d, tag, all);
      if (n != nullptr) *n += got;
      return status::ok;
    }
  }
  if (quick_verbs_) [[likely]]
    return poll_verbs(n, my_domain(tag), tag);
  if (!started_) [[unlikely]]
    return over();
  return poll_all(n, tag);
}

status engine::poll_widely(unsigned* n) noexcept {
  const status s = poll(n);
  if (s != status::ok || !by_rings_ || *n != 0) return s;
  const std::uint32_t tag = my_tag();
  domain& d = my_domain(tag);
  const std::uint32_t all = d.rings.count();
  if (all > poller::few_peers) *n += rings_.poll_from(d, tag, 0, all);
  return status::ok;
}

status engine::poll_all(unsigned* n, std::uint32_t tag) noexcept {
  unsigned got = poll_domain(my_domain(tag), tag);
  if (concurrent(build_mode) && attendance_) [[unlikely]] {
    note_attendance(tag);
    if (domain_count_ != 1) got += poll_elsewhere(tag, false);
  }
  if (n != nullptr) *n += got;
  return status::ok;
}

// For threads of other domains, and for the progress thread: somebody polls here.
void engine::note_attendance(std::uint32_t tag) noexcept {
  constexpr std::uint32_t polls_a_note = 16;
  domain& own = my_domain(tag);
  poller& mine = my_poller(tag, own);
  if (++mine.polls % polls_a_note == 0 && !mine.keeps)
    own.attended.store(own.attended.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// Domains whose own threads do not poll: looked at once in poll_mask + 1 polls, each time for a
// while after that has found something, and now. A domain whose threads poll is left to them, so
// that no line is shared without need.
unsigned engine::poll_elsewhere(std::uint32_t tag, bool now) noexcept {
  constexpr std::uint32_t helping_polls = 64;  // without a message
  domain& own = my_domain(tag);
  poller& mine = my_poller(tag, own);
  const bool due = (mine.polls & settings_.poll_mask) == 0;
  if (!due && !now && mine.helps == 0) return 0;
  unsigned n = 0;
  for (std::uint32_t i = 0; i < domain_count_; ++i) {
    domain& d = domains_[i];
    if (&d == &own) continue;
    poller& there = my_poller(tag, d);
    const std::uint32_t seen = d.attended.load(std::memory_order_relaxed);
    // Between two looks that follow at once a thread of its own has had no time to be seen.
    if (seen == there.attended) n += poll_domain(d, tag);
    if (due || now) there.attended = seen;
  }
  mine.helps = n != 0 ? helping_polls : mine.helps == 0 ? 0 : mine.helps - 1;
  return n;
}

namespace {

// Naps that still stand in for yields: of the process, since the host is what is crowded. relaxed:
// one more or less does not matter.
std::atomic<std::uint32_t> naps_left{0};

bool yields_are_short() noexcept {
  const std::uint32_t left = naps_left.load(std::memory_order_relaxed);
  if (left != 0) naps_left.store(left - 1, std::memory_order_relaxed);
  return left == 0;
}

// Gives the core away. Who computes keeps it for all its turn, some milliseconds, at every yield;
// but whoever wakes from a nap has it at once, so the next waits nap.
void give_core_away() noexcept {
  constexpr std::uint64_t long_ns = 1'000'000;
  constexpr std::uint32_t naps = 128;
  const std::uint64_t begin = now_ns();
  sched_yield();
  if (now_ns() - begin > long_ns) naps_left.store(naps, std::memory_order_relaxed);
}

}  // namespace

status engine::wait_step(unsigned& empty) noexcept {
  // relaxed: a hint; who sees it late sees it in the next step
  if (wait_news_->load(std::memory_order_relaxed) != 0) [[unlikely]]
    heed_in_wait_();
  unsigned n = 0;
  const bool last = empty >= spins_before_yield_;  // before the core is given away
  if (const status s = last ? poll_widely(&n) : poll(&n); s != status::ok) return s;
  if (departure_->news() && !closing_.load(std::memory_order_relaxed)) [[unlikely]]
    if (const status s = departure_->in_wait(n != 0); s != status::ok) return s;
  if (n != 0) {
    empty = 0;
    if (spins_before_yield_ == 1) [[unlikely]]
      share_core(n);
    return status::ok;
  }
  ++empty;
  if (innermost_wait != nullptr) innermost_wait->step(empty > spins_before_yield_);
  if (empty <= spins_before_yield_) return status::ok;
  if (concurrent(build_mode) && domain_count_ != 1 && poll_elsewhere(my_tag(), true) != 0)
    return status::ok;
  constexpr unsigned steps_a_probe = 1024;
  if (by_verbs_ && empty % steps_a_probe == 0) verbs_.probe_peers();
  if (settings_.wait == wait_mode::spin ||
      (empty <= spins_before_yield_ + settings_.spin_count && yields_are_short())) {
    give_core_away();
    return status::ok;
  }
  // Asleep for a moment only: whatever comes meanwhile is found by the next poll, so that no
  // wake-up has to be sent, and none can be lost.
  const timespec nap{0, 50'000};
  nanosleep(&nap, nullptr);
  return status::ok;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
