// How a connection by queue pairs is taken down, where the setting MAX_CONNECTIONS limits them. The
// connector's thread (this file) decides it and destroys the queue pairs. A poll of the program
// (verbs_path/part.cpp) says whether nothing is under way, and keeps the program off the lanes.
//
//   the lower rank's                                       the higher rank's
//   program        connector                    connector              program
//          <-asked--
//   --closed->           --- hello, ask ------>          --asked->
//                                                        <-closed--
//          <-again--     <-- hello, agreed ----
//   --sealed->  destroys --- hello, next generation ->   destroys
//
// A side is closed when none of its requests is unanswered, none of its transfers is under way, all
// that it has posted has completed, and it posts nothing more but answers. The lower rank closes
// first, and asks then: so the other side, which closes after it, has no answer left to send. The
// lower rank looks again (sealed) after the other has closed, since it may have answered a request
// meanwhile. When both are closed, nothing is under way in either direction, so no message is lost.
//
// Nobody waits for another's program. A side that is busy refuses. If the lower rank wants to send
// before it has destroyed its queue pairs, it opens the connection again by itself. The higher rank
// asks the other's connector, whose answer is that the connection is open again, or that it is gone
// and the next generation may begin.
//
// Hellos may be lost, late or doubled. Queue pairs belong to a generation, which every hello tells;
// one of an older generation says nothing of lanes. Each ask has a number, which is odd while it
// lasts. It ends with the next even one, so an agreement to an ask that has ended is not believed.
//
// What is known of a peer outlives its queue pairs: loans, their buffers, credits owed, counters.
// spin/part.pml is a model of this exchange.
#include <sched.h>

#include <algorithm>
#include <utility>

#include "lib/base/assert.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/probes.hpp"
#include "lib/conduit/connecting/connections.hpp"
#include "lib/conduit/connecting/hello.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

// A connection that was used later than this is not asked to go; and how long one is left alone
// after it was found busy.
constexpr std::uint64_t idle_ns = 20'000'000;
// How long one is kept that this side has wished for, and not used yet: its program may be slow to
// run again, and would wish for it anew each time.
constexpr std::uint64_t wish_ns = 1'000'000'000;
// How long an ask lasts: a program that polls seldom need not be asked on.
constexpr std::uint64_t ask_ns = 1'000'000'000;
constexpr std::uint64_t repeat_ns = 20'000'000;  // hellos of a parting
constexpr std::uint64_t told_ns = 100'000'000;   // how long one that was told has to ask
constexpr std::uint64_t shortest_look_ns = 20'000'000, longest_look_ns = 1'000'000'000;

constexpr bool is_open(std::uint32_t ask) noexcept { return (ask & 1) != 0; }

// Moves p on from `from`; false: a poll was faster.
bool turn(peer& p, parting_state from, parting_state to) noexcept {
  // P1 part  acq_rel p.parting  <-> P2 (verbs_path/part.cpp): what the program has posted to p
  return p.parting.compare_exchange_strong(from, to, std::memory_order_acq_rel,
                                           std::memory_order_relaxed);
}

constexpr bool is_asked(parting_state s) noexcept {
  return s == parting_state::asked || s == parting_state::again;
}

// All that was ever posted to p, and one-sided operations.
std::uint64_t used_so_far(const peer& p) noexcept {
  std::uint64_t n = p.counts.puts.read() + p.counts.gets.read() + p.counts.atomics.read();
  for (unsigned l = 0; l < lane_rma; ++l) n += p.lanes[l].posted();
  return n;
}

}  // namespace

vote connections::vote_on(connecting in, const peer& p) const noexcept {
  if (leads_parting(p) || !is_open(p.side[in].ask)) return vote::none;
  switch (p.parting.load(std::memory_order_acquire)) {  // P1
    case parting_state::closed:
      return vote::agreed;
    case parting_state::none:
      return vote::refused;
    default:
      return vote::none;
  }
}

// The leader tells of its ask when it has closed: so the other side, which closes later, has sent
// the last answer by then.
std::uint32_t connections::ask_to_say(connecting in, const peer& p) const noexcept {
  // A12 closed  acquire p.ready  <- R12 (verbs_path/part.cpp): what this side had to send is sent
  const bool early =
      leads_parting(p) && is_open(p.side[in].ask) && p.ready.load(std::memory_order_acquire) != 0;
  return early ? p.side[in].ask - 1 : p.side[in].ask;
}

// Asks the program whether the connection to p is idle; as the leader, or because the leader asks.
void connections::begin_parting(connecting in, peer& p) noexcept {
  PENSTOCK_ASSERT(p.posts() && p.side[in].connected, ==, true);
  p.side[in].ready_before = p.ready.load(std::memory_order_relaxed);
  p.side[in].part_until_ns = now_ns() + ask_ns;
  p.side[in].part_said_ns = 0;
  // relaxed: polls look while the count is not 0
  core_.deferred().fetch_add(1, std::memory_order_relaxed);
  if (!turn(p, parting_state::none, parting_state::asked)) {  // p has gone
    core_.deferred().fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  if (leads_parting(p)) ++p.side[in].ask;
  PENSTOCK_ASSERT(!leads_parting(p) || is_open(p.side[in].ask), ==, true);
  PENSTOCK_ASSERT(std::count(parting_.begin(), parting_.end(), &p), ==, 0);
  parting_.push_back(&p);
}

// Asks the program whether the connection that it has closed is still idle.
void connections::look_again(connecting, peer& p) noexcept {
  // relaxed: as above
  core_.deferred().fetch_add(1, std::memory_order_relaxed);
  if (!turn(p, parting_state::closed, parting_state::again))
    core_.deferred().fetch_sub(1, std::memory_order_relaxed);
}

// Ends the parting from p; the connection stays. Nothing is done while a poll looks.
void connections::end_parting(connecting in, peer& p) noexcept {
  const parting_state s = p.parting.load(std::memory_order_acquire);  // P1
  if (s == parting_state::none || s == parting_state::looking) return;
  if (s != parting_state::shut && !turn(p, s, parting_state::none)) return;
  if (is_asked(s)) core_.deferred().fetch_sub(1, std::memory_order_relaxed);
  // R2 ready  release p.ready  -> A2 (connections.hpp, connector.cpp, rma_queue.cpp)
  p.ready.store(p.side[in].ready_before, std::memory_order_release);
  p.side[in].used_ns = now_ns();
  p.side[in].spared_until_ns = p.side[in].used_ns + idle_ns;
  std::erase(parting_, &p);
  if (leads_parting(p)) ++p.side[in].ask;
  say_hello(in, p, false);
}

bool connections::leads_parting(const peer& p) const noexcept { return core_.rank() < p.rank; }

void connections::stop_parting(peer& p) noexcept {
  parting_state s = p.parting.load(std::memory_order_relaxed);
  while (true) {
    if (s == parting_state::looking) {
      sched_yield();
      s = p.parting.load(std::memory_order_relaxed);
      continue;
    }
    if (s != parting_state::none && !is_asked(s)) return;  // no lane is ready
    // P1 again, see turn()
    if (p.parting.compare_exchange_weak(s, parting_state::shut, std::memory_order_acq_rel,
                                        std::memory_order_relaxed))  // P1
      break;
  }
  if (is_asked(s)) core_.deferred().fetch_sub(1, std::memory_order_relaxed);
}

// Both sides are closed: the queue pairs of this generation go.
void connections::take_down(connecting in, peer& p) noexcept {
  const std::uint8_t made = p.made.load(std::memory_order_relaxed);
  for (unsigned l = 0; l < lane_rma; ++l)
    if ((made >> l & 1) != 0) p.home->queues->forget(p.lanes[l].qp);
  for (unsigned l = 0; l < lane_rma; ++l)  // nothing is under way, or it would be lost
    if ((made >> l & 1) != 0) PENSTOCK_ASSERT(p.lanes[l].empty(), ==, true);
  unmake_lanes(p);
  p.side[in].bound = 0;
  p.side[in].needed = 0;
  p.side[in].connected = false;
  ++p.side[in].generation;
  [[maybe_unused]] const auto before = connections_.fetch_sub(1, std::memory_order_relaxed);
  PENSTOCK_ASSERT(before, !=, 0u);
  connections_parted_.fetch_add(1, std::memory_order_relaxed);
  PENSTOCK_PROBE(parting, p.rank, p.home->index);
  if (core_.drawn() != nullptr) core_.drawn()->apart("parting", p.rank, 0);
  std::erase(parting_, &p);
  p.parting.store(parting_state::none, std::memory_order_relaxed);
  p.side[in].hello_at_ns = 0;  // what is awaited is made without delay
}

// Goes on with the parting from p, as far as it can go.
void connections::see_to_parting(connecting in, peer& p) noexcept {
  const bool leads = leads_parting(p), wanted = p.side[in].awaited != 0;
  const std::uint64_t now = now_ns();
  if (core_.is_gone(p.rank)) return end_parting(in, p);
  switch (p.parting.load(std::memory_order_acquire)) {  // P1
    case parting_state::asked:
    case parting_state::again:
      if (wanted || (leads && now >= p.side[in].part_until_ns)) end_parting(in, p);
      return;
    case parting_state::closed:
      if (leads && (wanted || now >= p.side[in].part_until_ns)) return end_parting(in, p);
      // The leader's connector answers what it hears. So the other side, which has agreed, goes on
      // saying so until it hears how the ask has ended.
      if (now - p.side[in].part_said_ns >= repeat_ns) {
        p.side[in].part_said_ns = now;
        say_hello(in, p, wanted);
      }
      return;
    case parting_state::sealed:
      if (wanted) return end_parting(in, p);
      take_down(in, p);
      ++p.side[in].ask;
      return say_hello(in, p, false);
    case parting_state::busy:
    case parting_state::shut:
      return end_parting(in, p);
    case parting_state::none:
    case parting_state::looking:
      return;
  }
}

// Takes what a hello says of generations and partings. True: the rest of it is about the lanes as
// they are now.
bool connections::hear_parting(connecting in, peer& p, const hello& h) noexcept {
  const bool leads = leads_parting(p);
  if (h.generation != p.side[in].generation) {
    // The sender is yet to hear that its generation is gone; or it says that this one is.
    if (h.generation + 1 == p.side[in].generation) say_hello(in, p, false);
    const bool gone = !leads && h.generation == p.side[in].generation + 1 &&
                      p.parting.load(std::memory_order_acquire) == parting_state::closed;  // P1
    if (!gone) return false;
    take_down(in, p);
    p.side[in].ask = h.ask;
    return true;
  }
  if (leads) {
    const bool current = h.ask == p.side[in].ask && is_open(p.side[in].ask);
    if (h.answer == vote::agreed && !current) say_hello(in, p, false);
    if (current && h.answer == vote::refused) end_parting(in, p);
    if (h.want != 0) end_parting(in, p);
    if (current && h.answer == vote::agreed) look_again(in, p);
    if (h.please != 0 && may_part(in, p)) begin_parting(in, p);
  } else if (h.ask > p.side[in].ask) {
    end_parting(in, p);  // the ask before has ended
    if (p.parting.load(std::memory_order_relaxed) != parting_state::none) return false;
    p.side[in].ask = h.ask;
    if (is_open(p.side[in].ask) && may_part(in, p)) begin_parting(in, p);
  } else if (h.ask == p.side[in].ask && is_open(p.side[in].ask) &&
             p.parting.load(std::memory_order_relaxed) == parting_state::none) {
    say_hello(in, p, false);  // it was refused
  }
  return p.parting.load(std::memory_order_relaxed) == parting_state::none;
}

void connections::keep_for_wish(connecting in, peer& p) noexcept {
  p.side[in].wish_until_ns = now_ns() + wish_ns;
  p.side[in].wish_used = used_so_far(p);
}

bool connections::may_part(connecting in, const peer& p) const noexcept {
  if (p.side[in].wish_used == used_so_far(p) && now_ns() < p.side[in].wish_until_ns) return false;
  return p.posts() && p.side[in].connected && p.side[in].awaited == 0 &&
         p.parting.load(std::memory_order_relaxed) == parting_state::none &&
         (p.ready.load(std::memory_order_relaxed) & basic_lanes) == basic_lanes && parts_;
}

// Goes on with all partings, and begins some while there are more connections than the limit.
// Returns the time at which it wants to be called again; 0: none.
std::uint64_t connector::see_to_partings(connecting in) noexcept {
  if (!all_.parts_) return 0;
  const std::uint32_t limit = core_.options().max_connections;
  const std::uint64_t now = now_ns();
  for (std::size_t i = all_.parting_.size(); i-- != 0;) all_.see_to_parting(in, *all_.parting_[i]);
  const std::uint32_t count = all_.connections_.load(std::memory_order_relaxed);
  if (count > connections_before_) part_look_ns_ = 0, look_pause_ns_ = shortest_look_ns;
  connections_before_ = count;
  const bool looks = !hushed();
  if (looks && now >= part_look_ns_) {
    const bool begun = begin_partings(in, limit, now);
    look_pause_ns_ = begun ? shortest_look_ns : std::min(look_pause_ns_ * 2, longest_look_ns);
    part_look_ns_ = now + look_pause_ns_;
  }
  const std::uint64_t look = looks && count > limit ? part_look_ns_ : 0;
  if (all_.parting_.empty()) return look;
  return look == 0 ? now + repeat_ns : std::min(look, now + repeat_ns);
}

// Notes which peers have been used, and asks those that have been idle longest. True: there were
// more connections than that, and one was asked.
bool connector::begin_partings(connecting in, std::uint32_t limit, std::uint64_t now) noexcept {
  std::vector<peer*> idle;
  auto going = static_cast<std::uint32_t>(all_.parting_.size());
  for (peer& p : core_.all_begun()) {
    if (!p.side[in].connected || !p.posts()) continue;
    if (const std::uint64_t used = used_so_far(p); used != p.side[in].used)
      p.side[in].used = used, p.side[in].used_ns = now;
    if (!all_.may_part(in, p)) continue;
    if (now < p.side[in].leader_told_until_ns)
      ++going;
    else if (now >= p.side[in].spared_until_ns && now - p.side[in].used_ns >= idle_ns)
      idle.push_back(&p);
  }
  const std::uint32_t count = all_.connections_.load(std::memory_order_relaxed);
  std::size_t more = count > limit + going ? count - limit - going : 0;
  more = std::min(more, idle.size());
  std::partial_sort(
      idle.begin(), idle.begin() + static_cast<std::ptrdiff_t>(more), idle.end(),
      [in](const peer* a, const peer* b) { return a->side[in].used_ns < b->side[in].used_ns; });
  for (std::size_t i = 0; i < more; ++i) {
    peer& p = *idle[i];
    if (all_.leads_parting(p)) {
      all_.begin_parting(in, p);
    } else {
      p.side[in].leader_told_until_ns = now + told_ns;
      all_.say_hello(in, p, false, true);
    }
  }
  return more != 0;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
