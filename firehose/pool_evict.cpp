// How regions are given up: because their memory changed, or to make room. See pool.hpp.
//
// They are chosen and closed under the lock, and deregistered without it (that is a system call and
// may free memory). In between, a region is closing and in no chain, so no thread can find it; its
// bytes count as pinned until it is deregistered.
#include <algorithm>

#include "firehose/kernel_events.hpp"
#include "firehose/pool.hpp"
#include "lib/base/assert.hpp"
#include "lib/base/probes.hpp"

namespace penstock::firehose {
namespace {
constexpr std::uint32_t batch = 16;  // most regions closed behind one heavy barrier
}

void pool::on_change(std::uint64_t start, std::uint64_t end) noexcept {
  if (stats_.regions == 0 || settings_.protect == protection::none) return;
  table_.overlapping(0, start, end, [&](std::uint32_t i) {
    region& r = table_.at(i);
    const region_state s = r.state.load(std::memory_order_relaxed);
    if (s == region_state::filling) r.mark |= note_doomed;
    if (s == region_state::filling || (r.mark & note_changed) != 0) return;
    // A region that was replaced by a larger one may still be leased to a peer, which must learn of
    // it.
    r.mark |= note_changed;
    // S1 changed  store-release changed_  -> S2 (pool.hpp): who sees the count finds the note
    changed_.fetch_add(1, std::memory_order_release);
    if (s != region_state::live) return;
    ++stats_.invalidations;
    PENSTOCK_PROBE(firehose_invalidation, r.start.load(std::memory_order_relaxed),
                   r.bytes.load(std::memory_order_relaxed));
    kill(i);
  });
}

bool pool::changed(const lease& l) const noexcept {
  const std::lock_guard guard(changes::lock());
  return (table_.at(l.number()).mark & note_changed) != 0;
}

bool pool::keeps(std::uint64_t start, std::uint64_t end) noexcept {
  bool any = false;
  table_.overlapping(0, start, end, [&](std::uint32_t i) {
    const region_state s = table_.at(i).state.load(std::memory_order_relaxed);
    any = any || s == region_state::live || s == region_state::filling;
  });
  return any;
}

// Replaces the live regions that region i, live, contains.
void pool::replace_neighbours(std::uint32_t i) noexcept {
  const region& mine = table_.at(i);
  const std::uint64_t start = mine.start.load(std::memory_order_relaxed);
  const std::uint64_t end = start + mine.bytes.load(std::memory_order_relaxed);
  table_.overlapping(0, start, end, [&](std::uint32_t j) {
    const region& r = table_.at(j);
    const std::uint64_t from = r.start.load(std::memory_order_relaxed);
    if (j == i || r.state.load(std::memory_order_relaxed) != region_state::live || from < start ||
        from + r.bytes.load(std::memory_order_relaxed) > end ||
        r.writable.load(std::memory_order_relaxed) > mine.writable.load(std::memory_order_relaxed))
      return;
    ++stats_.merges;
    kill(j);
  });
}

// Ends new leases of region i, which is live, or filling and leased by its maker only.
void pool::kill(std::uint32_t i) noexcept {
  region& r = table_.at(i);
  // Relaxed: a thread that may no longer use the region learns of the change from the thread that
  // makes it.
  r.state.store(region_state::dead, std::memory_order_relaxed);
  r.mark |= note_dead;
  dead_.fetch_add(1, std::memory_order_relaxed);
  // The coming change then needs no event.
  const std::uint64_t start = r.start.load(std::memory_order_relaxed);
  const std::uint64_t bytes = r.bytes.load(std::memory_order_relaxed);
  if (events_ != nullptr && !changes::kept(start, start + bytes)) events_->unwatch(start, bytes);
}

// Region i, out of its chain and deregistered, becomes absent.
void pool::forget(std::uint32_t i) noexcept {
  region& r = table_.at(i);
  stats_.bytes_pinned -= r.bytes.load(std::memory_order_relaxed);
  --stats_.regions;
  if ((r.mark & note_dead) != 0) dead_.fetch_sub(1, std::memory_order_relaxed);
  table_.free(i);
}

bool pool::fits(std::uint64_t bytes) const noexcept {
  return stats_.bytes_pinned + bytes <= settings_.max_bytes;
}

// Deregisters what close() has kept. Called without the lock.
std::uint32_t pool::retire(const std::uint32_t* which, std::uint32_t count) {
  for (std::uint32_t n = 0; n < count; ++n) {
    const region& r = table_.at(which[n]);
    device_.dereg({r.lkey.load(std::memory_order_relaxed), r.rkey.load(std::memory_order_relaxed),
                   r.handle, r.bytes.load(std::memory_order_relaxed)});
  }
  const std::lock_guard guard(changes::lock());
  for (std::uint32_t n = 0; n < count; ++n) forget(which[n]);
  return count;
}

// Dead regions that look unused, into which[0 … most); returns how many.
std::uint32_t pool::pick_dead(std::uint32_t* which, std::uint32_t most) noexcept {
  std::uint32_t n = 0;
  if (dead_.load(std::memory_order_relaxed) == 0) return 0;
  for (std::uint32_t i = 1; i < table_.size() && n < most; ++i)
    if (table_.at(i).state.load(std::memory_order_relaxed) == region_state::dead &&
        table_.uses(i).out == 0)
      which[n++] = i;
  return n;
}

// Makes room for `bytes` more and for one region; answers how many regions it gave up (0: all are
// leased). It gives up some more than needed, so that a working set above the limit pays for a
// barrier only once in a while.
std::uint32_t pool::evict(std::uint64_t bytes) {
  std::uint32_t which[batch];
  std::uint32_t count = 0;
  {
    const std::lock_guard guard(changes::lock());
    count = pick_dead(which, batch);
    const std::uint32_t dead = count;
    std::uint64_t freed = 0;
    for (std::uint32_t n = 0; n < count; ++n)
      freed += table_.at(which[n]).bytes.load(std::memory_order_relaxed);
    const std::uint32_t spare = std::clamp<std::uint32_t>(table_.size() / 64, 1, batch);
    while (count < batch) {
      const bool enough = stats_.bytes_pinned + bytes <= settings_.max_bytes + freed;
      if (enough && count >= spare) break;
      const std::uint32_t i = table_.next_victim();
      if (i == 0 || std::find(which, which + count, i) != which + count) break;
      freed += table_.at(i).bytes.load(std::memory_order_relaxed);
      which[count++] = i;
    }
    count = close(which, count);
    const std::uint32_t evicted = count > dead ? count - dead : 0;
    stats_.evictions += evicted;
    if (evicted != 0) PENSTOCK_PROBE(firehose_eviction, evicted, bytes);
  }
  return retire(which, count);
}

std::uint32_t pool::drop_idle() {
  std::uint32_t all = 0;
  for (;;) {
    std::uint32_t which[batch];
    std::uint32_t count = 0;
    {
      const std::lock_guard guard(changes::lock());
      for (std::uint32_t i = 1; i < table_.size() && count < batch; ++i) {
        const region_state s = table_.at(i).state.load(std::memory_order_relaxed);
        if ((s == region_state::live || s == region_state::dead) && table_.uses(i).out == 0)
          which[count++] = i;
      }
      count = close(which, count);
    }
    if (count == 0) return all;
    all += retire(which, count);
  }
}

void pool::reap_slow() {
  for (;;) {
    std::uint32_t which[batch];
    std::uint32_t count = 0;
    {
      const std::lock_guard guard(changes::lock());
      count = close(which, pick_dead(which, batch));
    }
    if (retire(which, count) < batch) return;
  }
}

// table_.close(), and the end of watching for the regions that are given up.
std::uint32_t pool::close(std::uint32_t* which, std::uint32_t count) noexcept {
  count = table_.close(which, count);
  for (std::uint32_t n = 0; events_ != nullptr && n < count; ++n) {
    const region& r = table_.at(which[n]);
    const std::uint64_t start = r.start.load(std::memory_order_relaxed);
    const std::uint64_t bytes = r.bytes.load(std::memory_order_relaxed);
    if ((r.mark & note_dead) == 0 && !changes::kept(start, start + bytes))
      events_->unwatch(start, bytes);
  }
  return count;
}

pool_statistics pool::statistics() const {
  const std::lock_guard guard(changes::lock());
  pool_statistics s = stats_;
  s.hits += table_.hits();
  return s;
}

}  // namespace penstock::firehose
