// The cold bodies of core: how a thread takes turns with others, what ends the job, and the setting
// TRACE.
#include "lib/conduit/peer/core.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <thread>
#include <utility>

#include "lib/base/assert.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/conduit/peer/core_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

core::core(engine& self, const ports& up, job::job& j, const settings& s)
    : self_(self), up_(up), job_(j), settings_(s), rank_(j.rank()), size_(j.size()) {
  // Where a host's processes outnumber its cores, a process that waits yields its core at once.
  if (j.host_size() > std::thread::hardware_concurrency()) spins_before_yield_ = 1;
}

status core::refused(rank_id to, const outgoing& m, status s) const noexcept {
  if (!settings_.checks || !is_failure(s)) return s;
  char more[160] = "";
  if (s == status::out_of_segment && to < size_) {
    const auto there = known_.segment_of(to);
    std::snprintf(more, sizeof more, ": at %p, and its %zu bytes begin at %p", m.dest, there.size(),
                  static_cast<const void*>(there.data()));
  } else if (s == status::too_long) {
    std::snprintf(more, sizeof more, ": the most is %zu",
                  m.kind == wire::kind::medium ? std::size_t{max_medium} : max_long);
  } else if (s == status::bad_arguments) {
    std::snprintf(more, sizeof more, ": it has %s",
                  m.nargs > max_args ? "more than 16 words of arguments" : "a null payload");
  } else if (const handler_entry& h = handlers_.of(m.handler, false);
             s == status::bad_handler && h.call != nullptr) {
    std::snprintf(more, sizeof more, ": it takes %u words and %s payload", h.words,
                  h.payload == handler_entry::takes::nothing ? "no" : "a");
  }
  log(log_level::warning,
      "a %s to rank %u, for handler %s, with %u words of arguments and %zu bytes, is not sent: "
      "%s%s",
      name_of(m.kind), to,
      (m.named_handler() != 0 ? names_.numbered(m.handler) : std::to_string(m.handler)).c_str(),
      m.nargs, m.bytes, describe(s), more);
  return s;
}

core::~core() {
  for (peer* p = last_begun_.load(std::memory_order_relaxed); p != nullptr;)
    std::exchange(p, p->next_begun)->~peer();
}

void core::close() noexcept {
  domains_.reset();
  large_.reset();
  near_.reset();
  segment_.reset();
  if (pd_ != nullptr) device_.verbs->dealloc_pd(pd_);
}

void core::learn_segment(std::uint32_t r, std::uint64_t bytes, std::uint32_t rkey) noexcept {
  const std::lock_guard alone(beginning_);
  known_.rank_grew(r, bytes, rkey);
  for (std::uint32_t i = 0; i < domain_count_; ++i) {
    peer& p = domains_[i].peers[r];
    if (!has_begun(p)) continue;  // it begins with what the table says
    p.segment_bytes.store(bytes, std::memory_order_relaxed);
    p.segment_rkey.store(rkey, std::memory_order_relaxed);
  }
}

way core::way_to(rank_id r) const noexcept {
  const bool near = shares_memory_ && std::binary_search(neighbours_.begin(), neighbours_.end(), r);
  const way w = near ? way::rings : way::verbs;
  return r == rank_ ? way_to_itself(w) : w;
}

// Fills p in with what is known of its rank.
void core::begin(peer& p) noexcept {
  const std::lock_guard alone(beginning_);
  if (p.begun.load(std::memory_order_relaxed)) return;
  PENSTOCK_ASSERT(known_.ranks(), ==, size_);
  const auto place = static_cast<std::size_t>(&p - peers_.get());
  const rank_facts f = known_.of(static_cast<std::uint32_t>(place % size_));
  p.rank = static_cast<std::uint32_t>(place % size_);
  p.home = &domains_[place / size_];
  PENSTOCK_ASSERT(p.rank, <, size_);
  PENSTOCK_ASSERT(p.home->index, <, domain_count_);
  p.path = way_to(p.rank);
  p.wakes = f.wakes;
  p.reads = f.reads;
  p.address = f.address;
  p.near_address = f.near_address;
  p.datagram_qp = f.datagram_qp;
  p.segment_base = f.segment_base;
  p.segment_bytes.store(f.segment_bytes, std::memory_order_relaxed);
  p.segment_mapped = f.segment_mapped;
  p.segment_rkey.store(f.segment_rkey, std::memory_order_relaxed);
  p.map_rkey = f.map_rkey;
  p.credits.return_batch.store(return_batch(p), std::memory_order_relaxed);
  // relaxed: each is written inside beginning_
  p.next_begun = last_begun_.load(std::memory_order_relaxed);
  // R9 begun  release p.begun  -> A9 (core.hpp)
  p.begun.store(true, std::memory_order_release);
  // R10 last  release last_begun_  -> A10 (core.hpp)
  last_begun_.store(&p, std::memory_order_release);
}

// The credits owed to p at which a message is sent for them alone.
std::uint16_t core::return_batch(const peer& p) const noexcept {
  const std::uint32_t batch = credit::return_batch(p.home->ledger->loan(p.rank));
  const std::int32_t slack = settings_.am_credits_slack;
  return static_cast<std::uint16_t>(
      slack < 0 ? batch : std::min(batch, static_cast<std::uint32_t>(slack) + 1));
}

std::vector<std::uint32_t> core::ranks_begun() const {
  std::vector<std::uint32_t> ranks;
  for (const peer& p : all_begun()) ranks.push_back(p.rank);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

bool never_waits(int fd) noexcept {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

void poller::warm(peer* p) noexcept {
  for (std::uint32_t i = 0; i < hot_count; ++i)
    if (hot[i] == p) return;
  PENSTOCK_ASSERT(hot_count, <=, hot_peers);
  if (hot_count < hot_peers) victim = hot_count++;
  hot[victim] = p;
  sent_lately |= 1u << victim;
  victim = (victim + 1) % hot_peers;
}

// Drops the peers that have sent nothing since the last call; polls look at these in turn again.
void poller::cool() noexcept {
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < hot_count; ++i)
    if ((sent_lately >> i & 1) != 0) hot[kept++] = hot[i];
  PENSTOCK_ASSERT(kept, <=, hot_count);
  hot_count = kept;
  sent_lately = 0;
  until_cooling = polls_a_cooling;
}

// Called after messages were sent or handled, where processes outnumber cores: other processes may
// wait for this one's core, so a thread that sends or handles without a pause yields it after
// messages_a_turn messages.
void core::share_core(std::uint32_t messages) noexcept {
  poller& mine = my_poller(my_tag(), domains_[0]);
  if ((mine.busy += messages) < poller::messages_a_turn) return;
  mine.busy = 0;
  sched_yield();
}

// attention() on a kernel device, which raises no counters.
bool core::attention_to_kernel() noexcept {
  if (job_.ended()) [[unlikely]]
    return true;
  if (intents_.is_up() || deferred_.load(std::memory_order_relaxed) != 0 ||
      handed_.load(std::memory_order_relaxed) != 0) [[unlikely]]
    return true;
  const std::uint32_t looks = looks_.load(std::memory_order_relaxed) + 1;
  looks_.store(looks, std::memory_order_relaxed);  // threads that count at once may lose a count
  return looks % looks_between_events == 0;
}

// For waits for completions, in which no handler may run: they heed the job's end alone.
void core::slow_progress_in_wait() noexcept {
  if (job_.ended() && !closing_.load(std::memory_order_relaxed)) slow_progress();
}

// If a peer has died, the launcher says so within half a second.
bool core::ends_soon() const noexcept {
  for (int i = 0; i < 50 && !job_.ended(); ++i) ::poll(nullptr, 0, 10);
  return job_.ended();
}

bool core::has_died(const peer& p) const noexcept {
  return !job_.has_left(p.rank) && (ends_soon() || !job_.has_left(p.rank));
}

void core::peer_failed(const peer& p, const char* how) noexcept {
  look_for_closed();  // by this process
  if (ends_soon())
    set_fatal_witness(nullptr);  // another rank's death is not the fault of this rank's last call
  if (const auto d = job_.ended_by())
    fatal(1, "lost rank %u (%s): %s", p.rank, how, d->text().c_str());
  fatal(1, "lost rank %u: %s", p.rank, how);
}

void core::post_refused(const peer& p, int code) noexcept {
  if (ends_soon()) peer_failed(p, std::strerror(code));
  look_for_closed();
  fatal(1, "%s refuses a work request for rank %u: %s", device_.name.c_str(), p.rank,
        std::strerror(code));
}

// ---- the setting TRACE ----

namespace {

thread_local std::uint64_t sending_since = 0;

// A handler as a trace calls it. flags are its message's: those of a client say whose table the
// number is of, and the names are those of the first.
std::string drawn_name(const handler_names& names, unsigned index, std::uint8_t flags) {
  if ((flags & wire::flag_system) != 0) return "the library's handler " + std::to_string(index);
  const std::string name = flags >> wire::client_flags_shift == 0 ? names.of(index) : "";
  return name.empty() ? "handler " + std::to_string(index) : name;
}

}  // namespace

void core::trace_sending() noexcept { sending_since = now_ns(); }

// The caller is inside the owner that orders the messages to p: request_out or reply_out.
void core::trace_sent(const peer& p, const outgoing& m, std::uint32_t chunk, bool reply) noexcept {
  trace_->sent({.from = rank_,
                .to = p.rank,
                .domain = p.home->index,
                .chunk = chunk,
                .reply = reply,
                .kind = name_of(m.kind),
                .handler = drawn_name(names_, m.handler, m.flags),
                .bytes = m.bytes},
               sending_since);
}

void core::call_traced(const handler_entry& e, token_state& t, codec::parts at, std::size_t bytes,
                       std::uint32_t chunk) noexcept {
  const trace::message m{.from = t.from != nullptr ? t.from->rank : rank_,
                         .to = rank_,
                         .domain = t.from != nullptr ? t.from->home->index : 0,
                         .chunk = chunk,
                         .reply = !t.request,
                         .kind = name_of(t.header.kind()),
                         .handler = drawn_name(names_, t.header.handler, t.header.flags),
                         .bytes = bytes};
  const std::uint64_t flow = trace_->arrived(m), begun = now_ns();
  call_handler(e, t, at.fixed, at.payload, bytes);
  trace_->handled(m, flow, begun);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
