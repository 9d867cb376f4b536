// Opens, starts and closes an engine: its device, its queues and segment, and the close in which no
// process leaves before all have finished.
#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "lib/base/backoff.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/quiet_thread.hpp"
#include "lib/base/shortage.hpp"
#include "lib/base/thread_index.hpp"
#include "lib/conduit/collective/departure.hpp"
#include "lib/conduit/collective/host_page.hpp"
#include "lib/conduit/collective/meeting.hpp"
#include "lib/conduit/collective/quiescence.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/one_sided/rma.hpp"
#include "lib/conduit/peer/core_inl.hpp"
#include "lib/conduit/progress/event_descriptor.hpp"
#include "lib/conduit/progress/progress.hpp"
#include "lib/conduit/report/idle_settings.hpp"
#include "lib/conduit/report/open_engines.hpp"
#include "lib/conduit/report/reporter.hpp"
#include "lib/conduit/report/text.hpp"
#include "memreg/memreg.hpp"
#include "nic/shm/direct.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
engine::engine(job::job& j, const settings& s) : core_(*this, up, j, s) {
  meeting_ = std::make_unique<meeting>(*this);
  departure_ = std::make_unique<departure>(*this, core_, credits_, ways_);
  quiescence_ = std::make_unique<quiescence>(*this, core_);
  transfers_ = std::make_unique<transfers>(*this, core_, connections_);
}

result<std::unique_ptr<engine>> engine::open(job::job& j, const settings& s) {
  log_threshold(s.log);
  limit_threads(s.max_threads);
  quiet_stack_bytes.store(s.thread_stack, std::memory_order_relaxed);  // relaxed: no thread yet
  std::unique_ptr<engine> e(new engine(j, s));
  if (auto r = e->open_device(); !r) return r.error();
  return e;
}

result<void> engine::open_device() {
  if (auto r = use_device(core_.settings_); !r) return r;
  if (core_.device_.shared_memory && core_.job_.host_size() != core_.size_ &&
      core_.settings_.device == "auto") {
    const std::string why = core_.device_.reason;  // it names each device, and what it lacks
    settings over_tcp = core_.settings_;
    over_tcp.device = "tcp0";
    if (auto r = use_device(over_tcp); !r) return r;
    if (core_.rank_ == 0)
      log(log_level::warning,
          "no RDMA device can be used here (%s): this job's hosts speak by TCP; "
          "PENSTOCK_DEVICE=tcp0 "
          "asks for that without this line",
          why.c_str());
  }
  if (core_.device_.shared_memory && core_.job_.host_size() != core_.size_)
    return failure{
        core_.device_.name + " reaches the processes of one host, and this job has processes on " +
            "others (" + std::to_string(core_.job_.host_size()) + " of " +
            std::to_string(core_.size_) + " are here)",
        0, "use PENSTOCK_DEVICE=tcp0, hosts with RDMA devices (peninfo lists them), or one host"};
  if (core_.settings_.progress_thread && !concurrent(build_mode))
    log(log_level::warning,
        "PENSTOCK_PROGRESS_THREAD is ignored: it takes the PAR library, since elsewhere handlers "
        "run in the program's one thread only");
  if (core_.settings_.progress_thread && concurrent(build_mode)) transfers_->hand_copies_over();
  if (core_.settings_.domain_count > 1 && !concurrent(build_mode))
    log(log_level::warning,
        "PENSTOCK_DOMAIN_COUNT is ignored: it takes the PAR library, since elsewhere one thread "
        "sends at a time");
  core_.neighbours_ = core_.job_.neighbours(core_.settings_.supernode_size);
  open_domains();
  if (auto r = plan_credits({}); !r) return r;
  choose_paths(core_.device_.shared_memory);
  core_.am_limit_ = core_.settings_.am_limit == 0 ? ~0u : core_.settings_.am_limit;
  core_.safe_limit_ = core_.settings_.safe_limit == 0 ? ~0u : core_.settings_.safe_limit;
  return {};
}

result<void> engine::open_queues() {
  if (may_sleep()) {
    channel_ = core_.device_.verbs->create_comp_channel(core_.device_.context);
    if (channel_ == nullptr)
      return failure{"ibv_create_comp_channel on " + core_.device_.name, errno,
                     what_to_raise(errno)};
  }
  if (auto r = connections_.open(); !r) return r;
  if (ways_.some_post()) {
    auto room = core_.queue_room(core_.size_, channel_ != nullptr);
    if (!room) return room.error();
    if (*room != core_.credit_room_)
      if (auto r = plan_credits(*room); !r) return r;
  }
  result<void> opened;
  ways_.each([&](auto& path) { opened = opened ? path.open(channel_) : opened; });
  return opened;
}

bool engine::add_handler(std::uint8_t index, const handler_entry& h) noexcept {
  if (core_.started_ || core_.handlers_.user[index].call != nullptr) return false;
  core_.handlers_.user[index] = h;
  return true;
}

std::uint8_t engine::next_handler() const noexcept {
  unsigned i = 1;
  while (i < user_handlers && core_.handlers_.user[i].call != nullptr) ++i;
  return static_cast<std::uint8_t>(i < user_handlers ? i : 0);
}

void engine::add_system_handler(std::uint8_t index, const handler_entry& h) noexcept {
  if (core_.handlers_.own[index].call != nullptr)
    fatal(1, "two parts of the engine have handler %u", index);
  core_.handlers_.own[index] = h;
}

result<void> engine::start(std::size_t segment_bytes, std::size_t reserve_bytes) {
  if (core_.started_) return failure{"the endpoint has been started already", 0, ""};
  if (auto r = agree_on_paths(); !r) return r;
  if (auto r = open_queues(); !r) return r;
  if (segment_bytes != 0) {
    memreg::segment_options o;
    o.bytes = segment_bytes;
    o.reserve = reserve_bytes;
    o.huge_pages = core_.settings_.huge_pages;
    auto made = memreg::segment::create(o);
    if (!made) return made.error();
    core_.segment_ = std::make_unique<memreg::segment>(std::move(*made));
    // Where a registration pins pages, the part that is only reserved is not registered; where it
    // pins none, a segment takes only what is used of it, and is not counted.
    if (core_.device_.pins)
      if (auto r = core_.account_->take(core_.segment_->bytes()); !r) return r;
    if (auto r = core_.segment_->attach(core_.account_->device(), memreg::access::all,
                                        !core_.device_.pins);
        !r)
      return r;
    if (core_.near_)
      if (auto r = core_.near_->show(*core_.segment_); !r) return r;
  }
  if (ways_.some_post())
    if (auto r = transfers_->open(channel_); !r) return r;
  core_.reads_ = transfers_->reads_here();
  core_.cut_from_ = transfers_->cut_from();
  auto drawn = report::open_trace(core_.settings_, core_.rank_, core_.first_file_);
  if (!drawn) return drawn.error();
  core_.trace_ = std::move(*drawn);
  if (auto r = report::outputs_can_be_written(core_.settings_, core_.rank_, core_.first_file_); !r)
    return r;
  auto metrics = reporter::open_metrics(*this);
  if (!metrics) return metrics.error();
  if (auto r = begin_connect_file(); !r) return r;
  for (unsigned i = 0; i < user_handlers; ++i) {
    handler_entry& h = core_.handlers_.user[i];
    if (h.call == nullptr || core_.trace_ != nullptr || core_.settings_.checks) continue;
    h.allow_plain();
  }
  core_.callers_.begin();
  if (auto r = introduce(); !r) return r;
  core_.offers_ = core_.size_ > 1 && (ways_.some_post() || core_.credit_config_.start_may_grow());
  if (core_.offers_) core_.large_->prepare(ways_.some_post());
  const bool parts = ways_.some_post() && core_.settings_.max_connections != 0 &&
                     core_.settings_.flow_control && !transfers_->everything();
  if (auto r = connections_.start(parts); !r) return r;
  attendance_ = core_.domain_count_ != 1 || (may_sleep() && !events_fd_);
  const bool answers = *metrics != nullptr;  // the first endpoint alone answers a port
  reporter_ = reporter::start(*this, std::move(*metrics));
  pending_.tell(reporter_.get());
  if (!reporter_ && answers)
    return failure{"PENSTOCK_COUNTERS_HTTP: there is no thread to answer", 0,
                   "PENSTOCK_LOG=info says why"};
  listed_ = std::make_unique<open_engine>(*this);
  set_quick(true);
  connect_at_start();
  if (core_.rank_ == 0 && core_.size_ > 1)
    for (const std::string& line : report::idle_settings(
             core_.settings_, ways_.some_have_rings(), ways_.some_post(), transfers_->everything()))
      log(log_level::warning, "%s", line.c_str());
  if (core_.rank_ == 0 && core_.credit_room_ != credit::room{})
    log(log_level::info, "%s",
        shorter_table(core_.settings_, core_.size_, core_.domain_count_, core_.credit_room_)
            .c_str());
  if (core_.settings_.memory_report && core_.rank_ == 0)
    if (const auto report = memory_report(0)) std::fputs(report->c_str(), stderr);
  return {};
}

result<void> engine::start_progress() {
  if (channel_ == nullptr) return {};
  if (events_fd_) {
    auto r = events_fd_->attach(*this, core_, ways_, channel_);
    if (!r) stop_calls();
    return r;
  }
  auto p = progress::start(*this, core_, ways_, channel_, {connections_.parts(), progress_step_});
  if (!p) {
    stop_calls();  // there is nothing to close
    return p.error();
  }
  progress_ = std::move(*p);
  return {};
}

void engine::heed_in_waits(const raised_flag& news, void (*heed)()) noexcept {
  wait_news_ = &news;
  heed_in_wait_ = heed;
}

void engine::expect_ends() noexcept {
  core_.closing_.store(true, std::memory_order_relaxed);
  connections_.hush();
}

void engine::close() noexcept {
  if (!core_.started_) return;
  write_connections();
  if (core_.size_ > 1 && !core_.job_.ended())
    departure_->leave(core_.settings_.exit_limit_ns(core_.size_));
  // The connector ends after leave(): until then other processes may need it to finish.
  connections_.stop();
  progress_.reset();
  if (events_fd_) events_fd_->detach();
  pending_.tell(nullptr);
  reporter_.reset();
  write_credit_statistics();
  stop_calls();
}

// From here on every request goes the long way, which answers shut_down.
void engine::stop_calls() noexcept {
  core_.callers_.end();
  for (peer& p : core_.all_begun()) p.stream.store(nullptr, std::memory_order_relaxed);
  set_quick(false);
}

// Sets the flags that the short ways of requests and polls ask first.
void engine::set_quick(bool started) noexcept {
  core_.started_ = started;
  const bool plain = started && ways_.some_post() && !transfers_->everything();
  quick_polls_ = started && ways_.uses_only(way::rings) && !attendance_ && !core_.settings_.checks;
  ways_.at(way::rings, [&](auto& path) { path.allow_quick(quick_polls_); });
  ways_.at(way::verbs, [&](auto& path) { path.allow_quick(plain); });
  quick_verbs_ = plain && ways_.uses_only(way::verbs) && !attendance_ && !core_.settings_.checks;
}

void engine::leave_to_parent(void* self) noexcept {
  auto& e = *static_cast<engine*>(self);
  e.stop_calls();
  e.transfers_->forget_mapped();
}

status engine::over() noexcept {
  if (is_forked()) refuse_forked();
  return status::shut_down;
}

engine::~engine() {
  close();
  listed_.reset();
  pending_.tell(nullptr);
  reporter_.reset();
  core_.closing_.store(true, std::memory_order_relaxed);
  connections_.stop();
  if (core_.device_.verbs == nullptr) return;
  connections_.close();
  transfers_->close();
  ways_.all([](auto& path) { path.close(); });
  core_.close();
  if (channel_ != nullptr) core_.device_.verbs->destroy_comp_channel(channel_);
}

std::span<std::byte> engine::segment_of(rank_id r) const noexcept {
  return core_.known_.segment_of(r);
}

std::byte* engine::segment_here(rank_id r) noexcept {
  if (r >= core_.known_.ranks() || is_forked()) return nullptr;
  peer& p = core_.begun(core_.peers_[r]);
  if (r == core_.rank_ || !p.maps() || p.segment_bytes.load(std::memory_order_relaxed) == 0)
    return p.segment_here.load(std::memory_order_relaxed);
  const long_wait named(core_.waits_, wait_for::connection, r);
  for (unsigned empty = 0; !connections::is_ready(p, lane_request);)
    if (is_failure(connections_.connect(p, lane_request)) || is_failure(wait_step(empty)))
      return nullptr;
  return p.segment_here.load(std::memory_order_relaxed);
}

void engine::write_credit_statistics() noexcept {
  if (reporter_) reporter_->tell_overflow();
  reporter::write_counters(*this);
  transfers_->report();
  if (core_.trace_ != nullptr) core_.trace_->flush();
  credits_.write_statistics();
}
status engine::barrier() noexcept {
  const trace::lasting drawn(core_.trace_.get(), "barrier");
  core_.callers_.look();
  return core_.started_ ? meeting_->run() : over();
}
status engine::quiet() noexcept { return core_.started_ ? quiescence_->wait() : over(); }
std::uint32_t engine::barriers_begun() const noexcept { return meeting_->begun(); }
void engine::end_progress() noexcept { progress_.reset(); }
bool engine::stop_progress(std::uint64_t limit_ns) noexcept {
  connections_.hush();
  return progress_ == nullptr || progress_->stop(limit_ns);
}

// ---- what the floors below call ----

const ports engine::up{
    .slow_progress = [](engine& e) noexcept { e.slow_progress(); },
    .has_left = [](const engine& e, rank_id r) noexcept { return e.departure_->has_left(r); },
    .is_gone = [](const engine& e, rank_id r) noexcept { return e.departure_->is_gone(r); },
    .lost_contact = &engine::lost_contact,
    .note_gone = [](engine& e, const peer& p) noexcept { e.departure_->note_gone(p.rank); },
    .say =
        [](engine& e, peer& p, const wire::header& h) noexcept {
          return e.ways_.of(p, [&](auto& path) { return path.say(p, h); });
        },
    .describe_lane =
        [](engine& e, peer& p, unsigned lane, ibv_qp_init_attr& init) noexcept {
          if (lane == lane_rma && e.ways_.some_post()) return e.transfers_->describe_queue(p, init);
          e.ways_.of(p, [&](auto& path) { path.describe_lane(p, lane, init); });
        },
    .lane_made =
        [](engine& e, peer& p, unsigned lane) noexcept {
          if (lane == lane_rma) e.transfers_->attach(p);
        },
    .attached = [](engine& e,
                   peer& p) noexcept { e.ways_.of(p, [&](auto& path) { path.attached(p); }); },
    .reached =
        [](engine& e, peer& p) noexcept {
          return e.ways_.of(p, [&](auto& path) { return path.reached(p); });
        },
    .hold_source =
        [](engine& e, const void* at, std::size_t bytes, long_source& out) noexcept {
          return e.transfers_->hold_source(at, bytes, out);
        },
    .release_source = [](engine& e,
                         std::uint16_t held) noexcept { e.transfers_->release_source(held); },
};

}  // namespace penstock::conduit::PENSTOCK_ABI
