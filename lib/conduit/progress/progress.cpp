#include "lib/conduit/progress/progress.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "lib/base/backoff.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/base/no_memory.hpp"
#include "lib/base/quiet_thread.hpp"
#include "lib/base/short_slices.hpp"
#include "lib/base/shortage.hpp"
#include "lib/base/thread_index.hpp"
#include "lib/conduit/channel/core_inl.hpp"
#include "lib/conduit/engine.hpp"
#include "nic/shm/direct.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

// How long the thread naps while the program's own threads poll.
constexpr std::uint64_t first_nap_ns = 50'000, longest_nap_ns = 1'000'000;
// Polls without a message after which the thread takes it that no more is under way.
constexpr unsigned quiet_polls = 16;
// Most polls at a stretch, before the thread looks whether the program polls itself.
constexpr unsigned stretch = 4096;
// Longest sleep where connections are limited: nothing else wakes the thread to say that one is
// idle.
constexpr std::uint64_t parting_look_ns = 200'000'000;
// The same where the engine's user waits for what no message tells of, such as the end of a get.
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

// The index in queues_ of the rings' completion queue, if there are rings.
constexpr unsigned bell = 0;

}  // namespace

progress::progress(engine& e, ibv_comp_channel* channel) : engine_(e), channel_(channel) {
  if (e.by_rings_) queues_.push_back({e.rings_.bell_queue()});  // at index `bell`
  for (std::uint32_t i = 0; i < e.domain_count_ && e.by_verbs_; ++i) {
    queues_.push_back({e.domains_[i].queues->am_cq});
    queues_.push_back({e.domains_[i].queues->reply_cq});
  }
}

result<std::unique_ptr<progress>> progress::start(engine& e, ibv_comp_channel* channel) {
  std::unique_ptr<progress> p(new progress(e, channel));
  p->bell_ = opened("eventfd", ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (p->bell_ < 0) return failure{"eventfd of the progress thread", errno, what_to_raise(errno)};
  if (e.by_rings_ && (p->messages_ = nic::shm::direct_bell(e.ring_device().context)) < 0)
    return failure{"a socket for the progress thread", errno, what_to_raise(errno)};
  // The channel is only read after poll(2) has said that it holds an event.
  if (!never_waits(channel->fd))
    return failure{"fcntl for the progress thread", errno, what_to_raise(errno)};
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
  for (const int fd : {bell_, messages_})
    if (fd >= 0) ::close(fd);
}

void progress::wake() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(bell_, &one, sizeof one);
}

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
       rest *= 2)
    sleep(false, rest);
}

void progress::run() noexcept {
  const doing now{"making progress"};
  ::prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
  ask_for_short_slices();
  claim_last_thread_index();
  for (std::uint32_t i = 0; i < engine_.domain_count_; ++i)
    engine_.my_poller(my_tag(), engine_.domains_[i]).keeps = true;
  let_starter_return();
  const std::uint64_t interval = engine_.settings_.progress_interval_ns;
  std::uint64_t nap = 0;
  std::uint32_t seen = attended();
  // A1 stop  acquire stopping_  <- R1
  while (!stopping_.load(std::memory_order_acquire)) {
    const std::uint64_t began = now_ns();
    engine_.slow_progress();
    const std::uint32_t before = seen;
    seen = attended();
    const bool polled = seen != before;
    nap = polled ? std::clamp(nap * 2, first_nap_ns, longest_nap_ns) : 0;
    if (!polled && handle() != 0) give_back();
    const std::uint64_t used = interval == 0 ? 0 : now_ns() - began;
    if (const std::uint64_t rest = std::max(nap, interval > used ? interval - used : 0); rest != 0)
      sleep(false, rest);
    unsigned found = 0, more = 0;
    do {
      arm();
      found = handle();
      if (found != 0 && attended() == seen) give_back();
    } while (found != 0 && interval == 0 && ++more < most_rearms);
    if (found == 0 && !waiting())
      sleep(true, busy_ ? busy_look_ns : engine_.parts_ ? parting_look_ns : 0);
  }
  // R2 stopped  release stopped_  -> A2
  stopped_.store(true, std::memory_order_release);
}

// Polls until quiet_polls polls in a row have found nothing, or `stretch` polls are done; returns
// the number of messages handled. The limit is for streams: the program's threads may poll by now.
unsigned progress::handle() noexcept {
  unsigned all = 0;
  for (unsigned polls = 0, empty = 0; empty < quiet_polls && polls < stretch; ++polls) {
    unsigned n = 0;
    if (is_failure(engine_.poll(&n))) break;
    if (engine_.domain_count_ != 1) n += engine_.poll_elsewhere(my_tag(), true);
    if (engine_.progress_step_ != nullptr) busy_ = engine_.progress_step_();
    empty = n == 0 ? empty + 1 : 0;
    all += n;
  }
  return all;
}

// Calls f for each connected peer of all domains.
template <class F>
void progress::for_each_peer(F&& f) const noexcept {
  for (std::uint32_t i = 0; i < engine_.domain_count_; ++i) {
    const domain& d = engine_.domains_[i];
    for (const peer_order* of : {&d.rings, &d.verbs})
      for (std::uint32_t k = 0, all = of->count(); k < all; ++k) f((*of)[k]);
  }
}

// The sum of all domains' counts; it grows while the program's own threads poll.
std::uint32_t progress::attended() const noexcept {
  std::uint32_t n = 0;
  for (std::uint32_t i = 0; i < engine_.domain_count_; ++i)
    n += engine_.domains_[i].attended.load(std::memory_order_relaxed);
  return n;
}

// True if there is work that no completion event would tell of.
bool progress::waiting() noexcept {
  if (stopping_.load(std::memory_order_relaxed) || engine_.attention()) return true;
  bool more = false;
  for (std::uint32_t i = 0; i < engine_.domain_count_ && engine_.by_verbs_; ++i)
    more |= !engine_.verbs_.room_for_replies(engine_.domains_[i], my_tag()) ||
            engine_.verbs_.keeps_requests(engine_.domains_[i]);
  for_each_peer([&](peer& p) {
    more |= engine::by_path(engine_, p, [&](const auto& path) { return path.has_news(p); });
  });
  return more;
}

// Gives all owed credits back: no other thread polls, so no other one would do so.
void progress::give_back() noexcept {
  const std::uint32_t tag = my_tag();
  for_each_peer([&](peer& p) {
    if (p.credits.due() == 0 || !p.request_in.try_enter(tag)) return;
    engine::by_path(engine_, p, [&](auto& path) { path.give_credits_back(p, tag); });
    p.request_in.leave(tag);
  });
}

// Asks for an event of each message that comes from here on; the caller must poll afterwards for
// messages that came before. A queue whose event has not come is still armed. On shm0 arming costs
// a fence on all processors.
void progress::arm() noexcept {
  forget_events();
  for (armable& q : queues_)
    if (!q.armed) {
      (void)ibv_req_notify_cq(q.cq, 0);
      q.armed = true;
    }
}

// Takes all events. They only say which queues are no longer armed: after any of them the thread
// polls all queues.
void progress::forget_events() noexcept {
  std::uint64_t rung;
  [[maybe_unused]] const auto n = ::read(bell_, &rung, sizeof rung);
  for (std::byte b; messages_ >= 0 && ::recv(messages_, &b, sizeof b, MSG_DONTWAIT) >= 0;)
    queues_[bell].armed = false;
  forget_events_of(*engine_.device_.verbs, channel_);
  if (engine_.near_) forget_events_of(*engine_.near_->device.verbs, engine_.near_->channel);
}

void progress::forget_events_of(const nic::calls& verbs, ibv_comp_channel* channel) noexcept {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (verbs.get_cq_event(channel, &cq, &context) == 0) {
    for (armable& q : queues_)
      if (q.cq == cq) q.armed = false;
    verbs.ack_cq_events(cq, 1);
  }
}

// Sleeps until an event comes; armed: a message ends the sleep, too. ns: for that long at most; 0:
// without limit.
void progress::sleep(bool armed, std::uint64_t ns) noexcept {
  const int ended = engine_.job_.ended() ? -1 : engine_.job_.ended_fd();
  const near_device* const near = engine_.near_.get();
  pollfd of[] = {{bell_, POLLIN, 0},
                 {near != nullptr ? near->device.context->async_fd : -1, POLLIN, 0},
                 {armed && near != nullptr ? near->channel->fd : -1, POLLIN, 0},
                 {engine_.device_.context->async_fd, POLLIN, 0},
                 {ended, POLLIN, 0},
                 {armed ? channel_->fd : -1, POLLIN, 0},
                 {armed ? messages_ : -1, POLLIN, 0}};
  const timespec limit{static_cast<time_t>(ns / 1'000'000'000),
                       static_cast<long>(ns % 1'000'000'000)};
  (void)::ppoll(of, std::size(of), ns == 0 ? nullptr : &limit, nullptr);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
