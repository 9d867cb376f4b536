// The C++ interface over the engine: world, endpoint, token. This code only translates calls.
#include <algorithm>
#include <cstdio>

#include "lib/base/no_memory.hpp"
#include "lib/conduit/collective/departure.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/one_sided/rma.hpp"

extern "C" {
// Each thread mode's library defines this variable, so that the archives of two modes do not link.
// Where two shared libraries meet, both see the first one's. It is not const, so that the compiler
// reads it.
extern penstock::thread_mode penstock_thread_mode;
penstock::thread_mode penstock_thread_mode = penstock::build_mode;
}

namespace penstock::PENSTOCK_ABI {

namespace {

[[noreturn, gnu::cold]] void refuse_moved_from(const char* what) {
  fatal(1, "a call on %s that was moved from", what);
}

// What a call goes to: the engine of an endpoint, or what a world has.
template <class T>
const std::unique_ptr<T>& called(const std::unique_ptr<T>& p) noexcept {
  if (p == nullptr) [[unlikely]]
    refuse_moved_from(std::is_same_v<T, conduit::engine> ? "an endpoint" : "a world");
  return p;
}

// The launcher is told that this process leaves when the world and its endpoints have gone.
void leave(job::job* j) {
  if (is_forked()) return;  // it is the parent's: the launcher must not be told of an end
  if (!j->missed()) j->finalize(0);
  delete j;
}

}  // namespace

struct world::impl {
  settings options;
  std::shared_ptr<job::job> job;
  setting_overrides overrides;
};

world::world(std::unique_ptr<impl> i) noexcept : impl_(std::move(i)) {}
world::world(world&&) noexcept = default;
world& world::operator=(world&&) noexcept = default;
world::~world() {
  if (is_forked()) (void)impl_.release();
}

result<world> world::join(const setting_overrides& overrides) {
  return or_no_memory("joining the job", [&]() -> result<world> {
    if (penstock_thread_mode != build_mode)
      return failure{"libraries for different thread modes are in this process", 0,
                     "link one of penstock-seq, penstock-parsync and penstock-par"};
    auto i = std::make_unique<impl>();
    auto s = read_settings(overrides);
    if (!s) return s.error();
    i->options = std::move(*s);
    i->overrides = overrides;
    auto j = job::job::join(i->options);
    if (!j) return j.error();
    i->job = {j->release(), leave};
    return world(std::move(i));
  });
}

rank_id world::rank() const noexcept { return called(impl_)->job->rank(); }
rank_id world::size() const noexcept { return called(impl_)->job->size(); }
void world::exit(int code) noexcept { called(impl_)->job->end(code & 0xff); }
result<std::vector<std::vector<std::byte>>> world::exchange(std::span<const std::byte> mine) {
  if (is_forked()) return failure{forked_text, 0, forked_hint};
  return called(impl_)->job->exchange(mine);
}

endpoint::endpoint(std::unique_ptr<conduit::engine> e) noexcept : engine_(std::move(e)) {
  engine_->set_owner(this);
}
endpoint::endpoint(endpoint&& o) noexcept : engine_(std::move(o.engine_)) {
  if (engine_) engine_->set_owner(this);
}
endpoint& endpoint::operator=(endpoint&& o) noexcept {
  engine_ = std::move(o.engine_);
  if (engine_) engine_->set_owner(this);
  return *this;
}
endpoint::~endpoint() {
  if (is_forked()) (void)engine_.release();  // it is the parent's; its threads are not here
}

result<endpoint> endpoint::open(world& w, const setting_overrides& overrides) {
  return or_no_memory("opening an endpoint", [&]() -> result<endpoint> {
    if (is_forked()) return failure{forked_text, 0, forked_hint};
    (void)w.rank();  // ends the job for a world that was moved from
    auto& i = w.internals();
    setting_overrides all = i.overrides;
    all.insert(all.end(), overrides.begin(), overrides.end());
    auto s = read_settings(all);
    if (!s) return s.error();
    auto e = conduit::engine::open(*i.job, *s);
    if (!e) return e.error();
    (*e)->keep(i.job);
    return endpoint(std::move(*e));
  });
}

result<void> endpoint::start(std::size_t segment_bytes, remote_access access) {
  const bool again = called(engine_)->fixed().has_started();
  auto r = or_no_memory("starting an endpoint", [&] {
    if (access == remote_access::everything) engine_->one_sided().allow_everything();
    auto started = engine_->start(segment_bytes);
    return started ? engine_->start_progress() : started;
  });
  if (!again) engine_->membership().note_start(r);  // of every failure, a lack of memory too
  return r;
}
rank_id endpoint::rank() const noexcept { return called(engine_)->rank(); }
rank_id endpoint::size() const noexcept { return called(engine_)->size(); }
std::span<std::byte> endpoint::segment() const noexcept { return called(engine_)->segment(); }
std::span<std::byte> endpoint::segment_of(rank_id r) const noexcept {
  return called(engine_)->segment_of(r);
}
std::size_t endpoint::max_medium() const noexcept { return conduit::max_medium; }
std::size_t endpoint::max_long() const noexcept { return conduit::max_long; }
status endpoint::expect(rank_id to, std::uint32_t messages, std::size_t bytes) noexcept {
  return called(engine_)->expect(to, messages, bytes);
}
status endpoint::poll() noexcept { return called(engine_)->poll(); }
status endpoint::poll_once(unsigned& empty) noexcept {
  return called(engine_)->limited_step(empty, true);
}
result<int> endpoint::event_fd() {
  return or_no_memory("a descriptor to sleep on", [&] { return called(engine_)->event_fd(); });
}
bool endpoint::has_gone(rank_id r) const noexcept {
  conduit::departure& left = called(engine_)->who_left();
  return left.news() && r < engine_->size() && left.is_gone(r);
}
void endpoint::keep(std::shared_ptr<void> object) { called(engine_)->keep(std::move(object)); }
status endpoint::arm() noexcept { return called(engine_)->arm(); }
status endpoint::barrier() noexcept { return called(engine_)->barrier(); }
status endpoint::quiet() noexcept { return called(engine_)->quiet(); }
endpoint_statistics endpoint::statistics() const noexcept { return called(engine_)->statistics(); }
endpoint_counters endpoint::counters() const { return called(engine_)->counters(); }
std::string endpoint::memory_report(std::size_t for_ranks) const {
  const auto r = called(engine_)->memory_report(for_ranks);
  return r ? *r : r.error().message() + "\n";
}
std::string endpoint::device() const {
  return called(engine_)->device().name + ": " + engine_->device().reason;
}

std::uint8_t endpoint::add_raw(detail::raw_handler f, void* context, bool payload, unsigned words,
                               std::string_view name) {
  using conduit::handler_entry;
  const std::uint8_t index = called(engine_)->next_handler();
  const handler_entry h{f, context, static_cast<std::uint8_t>(words),
                        payload ? handler_entry::takes::payload : handler_entry::takes::nothing};
  if (index == 0 || !engine_->add_handler(index, h))
    fatal(1, "endpoint::add: handler %.*s cannot be added, since %s", static_cast<int>(name.size()),
          name.data(), index == 0 ? "there are 255 already" : "start() has been called");
  engine_->names().set(index, name);
  return index;
}

status endpoint::request_short_raw(rank_id to, std::uint8_t h, const std::uint32_t* args,
                                   unsigned n) noexcept {
  return called(engine_)->request_short(to, h, args, n);
}
status endpoint::request_medium_raw(rank_id to, std::uint8_t h, const std::uint32_t* args,
                                    unsigned n, const void* payload, std::size_t bytes) noexcept {
  return called(engine_)->request_medium(to, h, args, n, payload, bytes);
}
status endpoint::request_long_raw(rank_id to, std::uint8_t h, const std::uint32_t* args, unsigned n,
                                  const void* payload, std::size_t bytes, void* dest,
                                  bool async) noexcept {
  return called(engine_)->request(to, {.kind = conduit::wire::kind::long_,
                                       .handler = h,
                                       .nargs = n,
                                       .args = args,
                                       .payload = payload,
                                       .bytes = bytes,
                                       .dest = dest,
                                       .async = async});
}

time_limit::time_limit(std::chrono::steady_clock::time_point until) noexcept
    : outer_ns_(conduit::wait_limit_ns) {
  const auto ns = std::chrono::nanoseconds(until.time_since_epoch()).count();
  const std::uint64_t mine = ns < 1 ? 1 : static_cast<std::uint64_t>(ns);
  conduit::wait_limit_ns = outer_ns_ == 0 ? mine : std::min(mine, outer_ns_);
}
time_limit::time_limit(std::chrono::nanoseconds from_now) noexcept
    : time_limit(std::chrono::steady_clock::now() + from_now) {}
time_limit::~time_limit() { conduit::wait_limit_ns = outer_ns_; }

rank_id token::source() const noexcept { return s_->source(); }
bool token::is_request() const noexcept { return s_->request; }
endpoint& token::at() const noexcept { return *s_->engine->owner_endpoint(); }

status token::reply_short_raw(std::uint8_t index, const std::uint32_t* args,
                              unsigned nargs) noexcept {
  return conduit::engine::reply_short(*s_, index, args, nargs);
}
status token::reply_medium_raw(std::uint8_t index, const std::uint32_t* args, unsigned nargs,
                               const void* payload, std::size_t bytes) noexcept {
  return conduit::engine::reply_medium(*s_, index, args, nargs, payload, bytes);
}
status token::reply_long_raw(std::uint8_t index, const std::uint32_t* args, unsigned nargs,
                             const void* payload, std::size_t bytes, void* dest) noexcept {
  return s_->engine->reply(*s_, {.kind = conduit::wire::kind::long_,
                                 .handler = index,
                                 .nargs = nargs,
                                 .args = args,
                                 .payload = payload,
                                 .bytes = bytes,
                                 .dest = dest});
}

}  // namespace penstock::PENSTOCK_ABI
