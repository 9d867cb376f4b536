#include "lib/conduit/collective/departure.hpp"

#include <algorithm>
#include <bit>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "lib/conduit/collective/patience.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/one_sided/rma.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr std::uint8_t word_index = 1;
// How long a process is alone at the fence before it tells the others. Where all come at once, no
// process says anything.
constexpr std::uint64_t alone_ns = 10'000'000;
// For how long a barrier that fails goes on telling the others.
constexpr std::uint64_t telling_ns = 100'000'000;
// A leaver that handles messages says so this many times in an exit limit: often in the silence
// that counts as an end, so that the word gets through.
constexpr unsigned tellings_a_limit = 16;
// What a word's last argument says. some_hear: a leaver handles messages, and the first one has the
// distance that the word has come, as a power of two. Else the first one has the rank that leaves
// or is gone, and the second one its barriers.
enum class word : std::uint32_t { leaves, gone, some_hear };

}  // namespace

departure::departure(engine& e, core& c, credit_flow& f, ways& w)
    : engine_(e), core_(c), credits_(f), ways_(w), states_(c.size()) {
  e.add_system_handler(word_index, {&departure::on_word, this, 3, handler_entry::takes::nothing});
}

void departure::on_word(void* self, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  departure& d = *static_cast<departure*>(self);
  d.words_.add_shared(1);
  const auto w = static_cast<word>(args[2]);
  if (w != word::some_hear) return d.note(args[0], args[1], w == word::gone);
  d.note_traffic(d.waited_.look(now_ns()), std::min(args[0], d.distances()));
  d.news_.store(true, std::memory_order_relaxed);  // the next wait passes it on
}

// The number of powers of two that are distances to other ranks.
std::uint32_t departure::distances() const noexcept {
  return static_cast<std::uint32_t>(std::bit_width(core_.size() - 1));
}

// Notes that a leaver handles messages at that moment of waited_, which is to be told to the ranks
// at that many distances.
void departure::note_traffic(std::uint64_t watched_ns, std::uint32_t told) noexcept {
  const auto grow = [](auto& to, auto value) {
    for (auto last = to.load(std::memory_order_relaxed); last < value;)
      if (to.compare_exchange_weak(last, value, std::memory_order_relaxed)) return;
  };
  grow(traffic_ns_, watched_ns);
  grow(distances_, told);
}

// The number of messages that this process has handled, but for those of this class.
std::uint64_t departure::handled() const noexcept {
  std::uint64_t n = 0;
  for (std::uint32_t i = 0; i < core_.domain_count(); ++i)
    for (const peer_order* of : {&core_.domains()[i].rings, &core_.domains()[i].verbs})
      for (std::uint32_t k = 0, all = of->count(); k < all; ++k)
        n += (*of)[k].requests_handled.read() + (*of)[k].replies_handled.read();
  return n - words_.read();
}

void departure::note(std::uint32_t r, std::uint32_t barriers, bool gone) noexcept {
  if (r >= core_.size() || r == core_.rank()) return;
  if (gone || states_[r].load(std::memory_order_relaxed) == stays)
    states_[r].store(gone ? is_away : leaves, std::memory_order_relaxed);
  const std::uint64_t mine = std::uint64_t{barriers} << 32 | r;
  std::uint64_t now = first_.load(std::memory_order_relaxed);
  while (mine < now && !first_.compare_exchange_weak(now, mine, std::memory_order_relaxed)) {
  }
  if (gone) core_.note_some_gone();
  if (std::uint32_t none = ~0u; gone && away_.load(std::memory_order_relaxed) == none) {
    heard_ns_.store(waited_.look(now_ns()), std::memory_order_relaxed);
    away_.compare_exchange_strong(none, r, std::memory_order_relaxed);
  }
  news_.store(true, std::memory_order_relaxed);
  if (gone) credits_.loans_come_back(r);
}

bool departure::has_left(std::uint32_t r) const noexcept {
  return states_[r].load(std::memory_order_relaxed) != stays;
}

bool departure::is_gone(std::uint32_t r) const noexcept {
  return states_[r].load(std::memory_order_relaxed) == is_away;
}

void departure::note_gone(std::uint32_t r) noexcept {
  if (is_gone(r)) return;
  log(log_level::warning, "rank %u has left; what is sent to it does not arrive", r);
  note(r, ~0u, true);  // the rank itself has said how many barriers it had begun
}

void departure::judge_lost() noexcept {
  if (running != nullptr) return;  // it cannot poll; a later look judges
  for (peer& p : core_.all_begun()) {
    const char* how = p.lost.exchange(nullptr, std::memory_order_relaxed);
    if (how == nullptr) continue;
    core_.deferred().fetch_sub(1, std::memory_order_relaxed);
    if (core_.closing()) continue;
    // If the peer has left, it has said so before, and the message may still lie in a queue, or in
    // the hands of another thread.
    for (unsigned quiet = 0; quiet < 2 && !has_left(p.rank);)
      quiet = engine_.poll_domain(*p.home, my_tag()) == 0 ? quiet + 1 : 0;
    // It may not have been able to say so: to a process that was stopped, the launcher does.
    if (!has_left(p.rank) && core_.has_died(p) &&
        (core_.membership().ended() || !has_left(p.rank))) {
      // The polls may have found the error of which an event has told.
      if (const char* later = p.lost.load(std::memory_order_relaxed); later != nullptr) how = later;
      core_.peer_failed(p, how);
    }
    note_gone(p.rank);
    ways_.of(p, [&](auto& path) { path.shut(p); });
  }
}

// Queues a notice about rank r, for all ranks that this process is connected to and for those that
// wait for it in barriers; tell_some() sends it. Any thread may call it; it waits while another
// thread is telling.
void departure::pass_on(std::uint32_t r, std::uint32_t barriers, bool gone) {
  notice n{{r, barriers, static_cast<std::uint32_t>(gone ? word::gone : word::leaves)}, {}};
  const std::uint32_t me = core_.rank(), size = core_.size();
  std::vector<bool> listed(size);
  listed[me] = listed[r] = true;
  const auto list = [&](std::uint32_t to) {
    if (listed[to]) return;
    listed[to] = true;
    n.untold.push_back(to);
  };
  const domain& d = core_.domains()[0];
  for (const peer_order* of : {&d.rings, &d.verbs})
    for (std::uint32_t i = 0, all = of->count(); i < all; ++i)
      if (const peer& p = (*of)[i]; p.made.load(std::memory_order_relaxed) != 0) list(p.rank);
  for (std::uint64_t step = 1; step < size; step *= 2)
    list(static_cast<std::uint32_t>((me + step) % size));
  // N1 notices  acquire telling_  <- N2
  while (telling_.exchange(true, std::memory_order_acquire)) sched_yield();
  notices_.push_back(std::move(n));
  telling_.store(false, std::memory_order_release);  // N2 notices  release telling_  -> N1
}

// Sends three words to rank r; false: it can be told later.
bool departure::tell(std::uint32_t r, const std::uint32_t* words) noexcept {
  const outgoing m{.kind = wire::kind::short_,
                   .handler = word_index,
                   .flags = wire::flag_system,
                   .nargs = 3,
                   .args = words};
  return is_gone(r) || !is_short(engine_.try_request(r, m));
}

// Tells that a leaver handles messages, to the ranks that can be told at once: a later word makes
// up for one that was not sent. Inside telling_.
void departure::tell_of_traffic() noexcept {
  for (std::uint32_t k = distances_.exchange(0, std::memory_order_relaxed); k-- != 0;) {
    const std::uint32_t words[] = {k, 0, static_cast<std::uint32_t>(word::some_hear)};
    (void)tell(static_cast<std::uint32_t>((core_.rank() + (std::uint64_t{1} << k)) % core_.size()),
               words);
  }
}

// Tells the ranks that can be told now. False: all have been told, or another thread is telling.
bool departure::tell_some() noexcept {
  if (telling_.exchange(true, std::memory_order_acquire)) return false;  // N1
  for (notice& n : notices_)
    std::erase_if(n.untold, [&](std::uint32_t r) { return tell(r, n.words); });
  std::erase_if(notices_, [](const notice& n) { return n.untold.empty(); });
  if (distances_.load(std::memory_order_relaxed) != 0) tell_of_traffic();
  const bool more = !notices_.empty();
  telling_.store(false, std::memory_order_release);  // N2
  return more;
}

// Tells all ranks, for telling_ns at most; for a caller whose later calls would not tell the rest.
void departure::tell_all() noexcept {
  watched_time watched;
  const long_wait named(core_.waits(), wait_for::departure);
  for (unsigned empty = 0; tell_some() && watched.look(now_ns()) < telling_ns;)
    if (is_failure(engine_.wait_step(empty))) break;
}

status departure::check_barrier(std::uint32_t number) noexcept {
  const std::uint64_t first = first_.load(std::memory_order_relaxed);
  const auto r = static_cast<std::uint32_t>(first);
  const auto begun = static_cast<std::uint32_t>(first >> 32);
  if (first == nobody || begun >= number) return status::ok;
  if (!broken_.exchange(true, std::memory_order_relaxed)) {
    log(log_level::error, "rank %u has left after %u barriers: barrier %u cannot complete", r,
        begun, number);
    pass_on(r, begun, false);
    tell_all();
  }
  return status::peer_dead;
}

status departure::in_wait(bool heard) noexcept {
  const std::uint32_t away = away_.load(std::memory_order_relaxed);
  if (away != ~0u && !away_passed_on_.exchange(true, std::memory_order_relaxed))
    pass_on(away, ~0u, true);
  (void)tell_some();
  if (away == ~0u) return status::ok;
  const std::uint64_t now = waited_.look(now_ns());
  if (heard) heard_ns_.store(now, std::memory_order_relaxed);
  const std::uint64_t limit = core_.options().exit_limit_ns(core_.size());
  const std::uint64_t last = heard_ns_.load(std::memory_order_relaxed);
  if (heard || now < last || now - last < limit) return status::ok;
  if (!said_.exchange(true, std::memory_order_relaxed))
    log(log_level::error, "rank %u has left, and nobody has been heard for %.1f s: no more waiting",
        away, static_cast<double>(limit) * 1e-9);
  return status::peer_dead;
}

// Waits at the launcher's fence, polling. first: ranks that do not come are told that this process
// leaves; and where the fence fails, since a rank has left, messages that still arrive are waited
// for all the same.
departure::meeting_end departure::meet(std::uint64_t limit_ns, bool first) noexcept {
  job::job& j = core_.membership();
  // With some launchers no fence completes any more once a rank has left. Then only the time is
  // waited.
  const bool fenced = j.outlives_leavers() || away_.load(std::memory_order_relaxed) == ~0u;
  bool failed = fenced && !j.begin_fence(), told = false;
  constexpr unsigned quick_steps = 256, steps_a_look = 16;
  const std::uint64_t begin = waited_.look(now_ns());
  std::uint64_t handled_before = handled(), failed_at = 0, told_at = 0;
  patience waiting;
  const long_wait named(core_.waits(), wait_for::departure);
  for (unsigned step = 1, empty = 0;; ++step) {
    if (failed && (!first || j.ended())) return meeting_end::failed;
    if (is_failure(engine_.wait_step(empty))) return meeting_end::failed;
    if (empty < quick_steps && step % steps_a_look != 0) continue;
    if (fenced && !failed) {
      const auto over = j.fence_is_over();
      if (over && *over) return meeting_end::all;
      failed = !over;
    }
    const std::uint64_t now = waited_.look(now_ns());
    if (failed && failed_at == 0) failed_at = now;
    if (const std::uint64_t n = handled(); n > handled_before) {
      handled_before = n;
      const bool tells = told_at == 0 || now - told_at >= limit_ns / tellings_a_limit;
      if (tells) told_at = now;
      note_traffic(now, tells ? distances() : 0);
    }
    waiting.heard_at(std::max(failed_at, traffic_ns_.load(std::memory_order_relaxed)));
    if (failed && waiting.silent(begin, limit_ns, now)) return meeting_end::failed;
    if (!failed && waiting.over(begin, limit_ns, now)) return meeting_end::alone;
    if (!first || now - begin < alone_ns) continue;
    if (!std::exchange(told, true)) pass_on(core_.rank(), engine_.barriers_begun(), false);
    (void)tell_some();
  }
}

// Waits until all sends have completed, for limit_ns of watched time at most, and polls meanwhile:
// others may wait for an answer, or say that they leave. Sends to a rank that is gone are not
// waited for.
void departure::finish_sends(std::uint64_t limit_ns) noexcept {
  watched_time watched;
  const std::uint64_t begin = watched.look(now_ns());
  const auto in_time = [&] { return watched.look(now_ns()) - begin < limit_ns; };
  const auto finish = [&](auto&& over, auto&& reap) {
    const long_wait named(core_.waits(), wait_for::departure);
    for (unsigned empty = 0; !over() && !core_.membership().ended() && in_time();)
      if (reap() == 0 && is_failure(engine_.wait_step(empty))) sched_yield();
  };
  finish([&] { return running != nullptr || core_.handed().load(std::memory_order_relaxed) == 0; },
         [] { return 0; });
  if (!ways_.some_post()) return;
  finish(
      [&] {
        bool left = false;
        ways_.each([&](const auto& path) { left |= path.answers_left(); });
        return !left;
      },
      [] { return 0; });
  for (std::uint32_t i = 0; i < core_.domain_count(); ++i) {
    domain& d = core_.domains()[i];
    finish(
        [&] {
          for (std::uint32_t k = 0, all = d.verbs.count(); k < all; ++k)
            if (peer& p = d.verbs[k]; !is_gone(p.rank) && !ways_.of(p, [&](const auto& path) {
                  return path.sent_all(p);
                }))
              return false;
          return true;
        },
        [&] {
          unsigned n = 0;
          ways_.each([&](auto& path) { n += path.reap_sends(d); });
          return n;
        });
    finish([&] { return engine_.one_sided().drained(d); },
           [&] { return engine_.one_sided().reap(d); });
  }
}

void departure::leave(std::uint64_t limit_ns) noexcept {
  const std::uint64_t begin = now_ns();
  engine_.expect_ends();
  finish_sends(limit_ns);
  meeting_end end = meet(limit_ns, true);
  if (end == meeting_end::all) {
    // All that was sent before the fence is here. Handlers of other ranks may send still more, but
    // not without end. Many quiet polls are asked for, since a single one may look at one
    // completion queue only, or at some peers.
    const unsigned quiet = 64 + core_.size();
    const std::uint64_t until = now_ns() + limit_ns;
    const long_wait named(core_.waits(), wait_for::departure);
    for (unsigned empty = 0; empty < quiet && now_ns() < until;)
      if (is_failure(engine_.wait_step(empty))) break;
    finish_sends(limit_ns);
    engine_.end_progress();
    end = meet(limit_ns, false);
  }
  if (end == meeting_end::all || core_.membership().ended()) return;
  // The others are told also where the fence has failed since another rank has left before: ranks
  // that stay would otherwise take this process's end for a death.
  if (end == meeting_end::alone)
    log(log_level::warning, "leaving without the others, who have not closed within %.1f s",
        static_cast<double>(now_ns() - begin) * 1e-9);
  core_.membership().tell_left();
  pass_on(core_.rank(), engine_.barriers_begun(), true);
  tell_all();
  finish_sends(telling_ns);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
