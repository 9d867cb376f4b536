// The slow half of pool.hpp: what happens on a miss and when memory changes. Regions are given up
// in pool_evict.cpp.
#include "firehose/pool.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "firehose/kernel_events.hpp"
#include "lib/base/backoff.hpp"
#include "lib/base/log.hpp"
#include "lib/base/probes.hpp"
#include "memreg/host_memory.hpp"

namespace penstock::firehose {

// What a caller asks for, and the range that would be registered for it. All ends are exclusive.
struct pool::wish {
  std::uint64_t addr, len;  // asked for, cut at the window
  purpose use;
  std::uint64_t exact_start, exact_end;  // its whole pages
  std::uint64_t start, end;              // with the neighbours it replaces
  bool keep = true;                      // may be leased again
  bool writable = true;

  [[nodiscard]] std::uint64_t bytes() const noexcept { return end - start; }
  void narrow() noexcept { start = exact_start, end = exact_end; }
  [[nodiscard]] bool widened() const noexcept { return bytes() != exact_end - exact_start; }
};

namespace {

pool_settings completed(pool_settings s) {
  s.max_region_bytes =
      std::bit_floor(std::max<std::uint64_t>(s.max_region_bytes, memreg::page_bytes()));
  s.max_regions = std::clamp<std::uint32_t>(s.max_regions, 1, 1u << 20);
  if (s.max_bytes == 0) s.max_bytes = s.max_regions * s.max_region_bytes;
  s.max_bytes = std::max(s.max_bytes, s.max_region_bytes);
  return s;
}

}  // namespace

result<std::unique_ptr<pool>> pool::create(memreg::registrar& device, const pool_settings& given) {
  if (changes::gate_word() == nullptr) return failure{"making a registration cache", ENOMEM, ""};
  std::unique_ptr<pool> p(new pool(device, completed(given)));
  const protection want = given.protect;
  if (want != protection::events && want != protection::none)
    p->calls_seen_.store(changes::activate(), std::memory_order_relaxed);
  const bool calls = p->calls_seen_.load(std::memory_order_relaxed);
  if (want == protection::events || want == protection::both ||
      (want == protection::automatic && !calls)) {
    if (auto e = kernel_events::get())
      p->events_ = *e;
    else
      log(log_level::debug, "firehose: %s", e.error().message().c_str());
  }
  if (want != protection::none && !calls && p->events_ == nullptr)
    log(log_level::warning,
        "firehose: changes of the address space cannot be seen here, so registrations are not "
        "kept; "
        "permit userfaultfd, or do not link libc statically");
  changes::add(*p);
  return p;
}

pool::pool(memreg::registrar& device, const pool_settings& settings)
    : device_(device),
      settings_(settings),
      gate_(changes::gate_word()),
      table_(settings.max_regions, settings.max_region_bytes) {}

pool::~pool() {
  if (changes::closed()) return;  // a forked child: the registrations are its parent's
  drop_idle();
  changes::remove(*this);
}

const char* pool::protection_text() const noexcept {
  if (settings_.protect == protection::none) return "memory is not watched";
  if (calls_seen_.load(std::memory_order_relaxed))
    return events_ ? "interposed calls and kernel events" : "interposed calls";
  return events_ ? "kernel events" : "nothing is kept";
}

status pool::acquire_slow(std::uint64_t addr, std::size_t len, purpose use, lease& out,
                          failure* why) {
  if (len == 0) return status::bad_arguments;
  const std::uint64_t page = memreg::page_bytes();
  const std::uint64_t window_end = (table_.window_of(addr) + 1) * table_.window_bytes();
  wish w{};
  w.addr = addr;
  w.len = std::min<std::uint64_t>(len, window_end - addr);
  w.use = use;
  w.exact_start = memreg::round_down(addr, page);
  w.exact_end = memreg::round_up(addr + w.len, page);
  backoff wait(100);
  std::uint32_t i = 0;
  bool may_widen = true;
  for (;;) {
    const changes::gate g = gate_->load(std::memory_order_acquire);  // E2
    if (g == changes::gate::forked) return status::unsupported;
    reap();
    bool filling = false;
    bool room = true;
    if (g == changes::gate::open) {
      const std::lock_guard guard(changes::lock());
      if (find(w, out, filling)) {
        ++stats_.hits;
        return status::ok;
      }
      if (!filling) {
        w.narrow();
        w.keep = !changes::in_progress(w.start, w.end);
        if (w.keep && may_widen) widen(w);
        room = fits(w.bytes());
        if (room) i = table_.allocate();
        if (i != 0) {
          region& r = table_.at(i);
          r.start.store(w.start, std::memory_order_relaxed);
          r.bytes.store(w.bytes(), std::memory_order_relaxed);
          r.space.store(0, std::memory_order_relaxed);
          r.state.store(region_state::filling, std::memory_order_relaxed);
          r.mark = 0;
          table_.link(i);
          stats_.bytes_pinned += w.bytes();
          ++stats_.regions;
          break;
        }
        room = false;
      }
    }
    if (!room && evict(w.bytes()) == 0) {
      if (!may_widen || !w.widened()) return status::no_ticket;
      may_widen = false;
    }
    // Another thread registers these pages, or an event is being worked on: both take microseconds.
    if (room) wait.idle();
  }

  auto r = enter(w, i);

  const std::lock_guard guard(changes::lock());
  region& g = table_.at(i);
  if (!r) {
    if (why != nullptr) *why = r.error();
    ++stats_.refusals;
    table_.unlink(i);
    forget(i);
    return status::device_error;
  }
  g.lkey.store(r->lkey, std::memory_order_relaxed);
  g.rkey.store(r->rkey, std::memory_order_relaxed);
  g.writable.store(w.writable ? 1 : 0, std::memory_order_relaxed);
  g.handle = r->handle;
  ++stats_.misses;
  PENSTOCK_PROBE(firehose_miss, w.start, w.bytes());
  if (w.keep && (g.mark & note_doomed) == 0) {
    // V1 publish  store-release state  -> U2 (region_table.hpp)
    g.state.store(region_state::live, std::memory_order_release);
    replace_neighbours(i);
  } else {
    // Pages around the caller's changed while this was made. (The caller's own did not, or the
    // caller is using memory that it has given up.) The registration is good for this lease only.
    kill(i);
  }
  const bool taken = table_.take(i, w.addr, w.len, out);
  g.taken_then = table_.uses(i).taken;
  return taken ? status::ok : status::no_ticket;
}

// Another library has replaced libc's calls after us: regions that were kept because of those calls
// are given up.
void pool::lose_calls() {
  {
    const std::lock_guard guard(changes::lock());
    if (!calls_seen_.load(std::memory_order_relaxed)) return;
    calls_seen_.store(false, std::memory_order_relaxed);
    on_change(0, UINT64_MAX);
  }
  log(log_level::warning, "firehose: another library has replaced libc's mapping calls; %s",
      events_ ? "relying on the kernel's events alone" : "registrations are no longer kept");
}

// Finds a live region for the wish and leases it; or tells whether a region that covers it is being
// registered.
bool pool::find(const wish& w, lease& out, bool& filling) noexcept {
  for (std::uint32_t i = table_.first(0, table_.window_of(w.addr)); i != 0;) {
    region& r = table_.at(i);
    const std::uint64_t start = r.start.load(std::memory_order_relaxed);
    if (w.addr - start < r.bytes.load(std::memory_order_relaxed)) {
      const region_state s = r.state.load(std::memory_order_relaxed);
      if (s == region_state::live &&
          r.writable.load(std::memory_order_relaxed) >= static_cast<std::uint32_t>(w.use))
        return table_.take(i, w.addr, w.len, out);
      if (s == region_state::filling && (r.mark & note_doomed) == 0) filling = true;
    }
    i = r.next.load(std::memory_order_relaxed);
  }
  return false;
}

// Extends the wish over live regions of its window that overlap or touch it.
void pool::widen(wish& w) noexcept {
  for (bool grown = true; grown;) {
    grown = false;
    for (std::uint32_t i = table_.first(0, table_.window_of(w.addr)); i != 0;) {
      const region& r = table_.at(i);
      const std::uint64_t start = r.start.load(std::memory_order_relaxed);
      const std::uint64_t end = start + r.bytes.load(std::memory_order_relaxed);
      if (r.state.load(std::memory_order_relaxed) == region_state::live &&
          r.writable.load(std::memory_order_relaxed) != 0 &&
          table_.window_of(start) == table_.window_of(w.addr) && start <= w.end && w.start <= end &&
          (start < w.start || end > w.end)) {
        w.start = std::min(w.start, start);
        w.end = std::max(w.end, end);
        grown = true;
      }
      i = r.next.load(std::memory_order_relaxed);
    }
  }
}

// Registers the wish's pages for region i, which is filling; on a refusal it asks for less, step by
// step.
result<memreg::registration> pool::enter(wish& w, std::uint32_t i) {
  if (calls_seen_.load(std::memory_order_relaxed) && !changes::activate()) lose_calls();
  const bool events = events_ != nullptr && w.keep && events_->watch(w.start, w.bytes());
  w.keep = w.keep && (calls_seen_.load(std::memory_order_relaxed) || events ||
                      settings_.protect == protection::none);
  const auto reg = [&](unsigned bits) {
    return device_.reg(reinterpret_cast<void*>(w.start), w.bytes(), bits);
  };
  auto r = reg(settings_.access_bits);
  if (!r && r.error().code == ENOMEM && drop_idle() != 0) r = reg(settings_.access_bits);
  if (!r && w.widened()) {  // a neighbour prevents it: unmapped unnoticed, or read-only by now
    const std::lock_guard guard(changes::lock());
    stats_.bytes_pinned -= w.bytes();
    w.narrow();
    stats_.bytes_pinned += w.bytes();
    table_.at(i).start.store(w.start, std::memory_order_relaxed);
    table_.at(i).bytes.store(w.bytes(), std::memory_order_relaxed);
  }
  if (!r) r = reg(settings_.access_bits);
  if (!r && w.use == purpose::source) {  // read-only memory?
    namespace a = memreg::access;
    w.writable = false;
    if (auto again =
            reg(settings_.access_bits & ~(a::local_write | a::remote_write | a::remote_atomic)))
      return again;
  }
  return r;
}

}  // namespace penstock::firehose
