#include "lib/conduit/connecting/connector.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <iterator>
#include <string>
#include <utility>

#include "lib/base/assert.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/base/log.hpp"
#include "lib/base/no_memory.hpp"
#include "lib/base/quiet_thread.hpp"
#include "lib/base/short_slices.hpp"
#include "lib/base/shortage.hpp"
#include "lib/conduit/connecting/connections.hpp"
#include "nic/shm/own_threads.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr std::uint64_t first_reminder_ns = 20'000'000, rarest_reminder_ns = 1'000'000'000;

std::uint8_t ready_lanes(const peer& p) noexcept { return p.ready.load(std::memory_order_relaxed); }

/// What may keep a peer from answering.
const char* why_silent(const nic::device& d) noexcept {
  return d.port_is_down() ? "this process's port is down" : "is it stopped?";
}

}  // namespace

result<std::unique_ptr<connector>> connector::start(connections& e, core& of,
                                                    ibv_comp_channel* channel) {
  constexpr const char* what = "the thread that makes connections";
  std::unique_ptr<connector> c(new connector(e, of, channel));
  c->bell_ = kept(opened("eventfd", ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
  if (c->bell_ < 0) return failure{std::string("eventfd of ") + what, errno, what_to_raise(errno)};
  // The channel is only read after poll(2) has said that it holds an event.
  if (!never_waits(channel->fd))
    return failure{std::string("fcntl for ") + what, errno, what_to_raise(errno)};
  nic::shm::count_own_thread(1);
  if (const int refused =
          start_quiet_thread(c->thread_, "penstock-conn", [raw = c.get()] { raw->run(); })) {
    nic::shm::count_own_thread(-1);
    return failure{what, refused, what_to_raise(refused)};
  }
  return c;
}

connector::~connector() {
  if (thread_.joinable()) {
    stopping_.store(true, std::memory_order_relaxed);
    ring();
    thread_.join();
    nic::shm::count_own_thread(-1);
  }
  close_kept(bell_);
}

void connector::ring() noexcept { ring_bell(bell_); }

status connector::want(peer& p, unsigned lane) noexcept {
  const auto bit = static_cast<std::uint8_t>(1u << lane);
  // A2 ready  acquire p.ready  <- R2 (connect.cpp): the caller finds the lane when it tries again
  if ((p.ready.load(std::memory_order_acquire) & bit) != 0) return status::busy;
  if (p.refused.load(std::memory_order_relaxed) &&
      p.refused.exchange(false, std::memory_order_relaxed))
    return status::device_error;
  if ((p.wanted.load(std::memory_order_relaxed) & bit) == 0) wish(p, bit);
  return status::not_ready;
}

void connector::foresee(peer& p) noexcept {
  if ((p.wanted.load(std::memory_order_relaxed) & lane_foreseen) == 0) wish(p, lane_foreseen);
}

// Has the thread look at p, for what the bits in peer::wanted say.
void connector::wish(peer& p, std::uint8_t bits) noexcept {
  // A6 taken  acquire p.wanted  <- R6: nobody reads next_wish any more
  const std::uint8_t before =
      p.wanted.fetch_or(static_cast<std::uint8_t>(bits | in_wishes), std::memory_order_acquire);
  if ((before & in_wishes) != 0) return;
  p.next_wish = wishes_.load(std::memory_order_relaxed);
  // R5 wish  release wishes_  -> A5: next_wish is set
  while (!wishes_.compare_exchange_weak(p.next_wish, &p, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
  ring();
}

void connector::run() noexcept {
  const doing now{"connecting"};
  const connecting in = thread_owner_.begin();
  ask_for_short_slices();  // other processes wait for this thread's answers
  while (!stopping_.load(std::memory_order_relaxed)) {
    {
      // Memory that the process gives to a segment is replaced while this thread sleeps.
      const nic::shm::working_time working = nic::shm::begin_work();
      arm();
      grant_wishes(in);  // which may take long: answers that have come meanwhile are heard first
      more_ = hear_all(in);
      remind_peers(in);
      for (const std::uint64_t due : {watch_rings(in), see_to_partings(in)})
        if (due != 0) remind_ns_ = remind_ns_ == 0 ? due : std::min(remind_ns_, due);
    }
    sleep();
  }
}

// Sleeps until a datagram, a wish or the end comes, or a reminder or a look at rings is due.
void connector::sleep() noexcept {
  pollfd of[] = {{bell_, POLLIN, 0}, {channel_->fd, POLLIN, 0}};
  std::uint64_t ns = 0;
  if (const std::uint64_t now = now_ns(); !more_ && remind_ns_ > now) ns = remind_ns_ - now;
  const timespec limit{static_cast<time_t>(ns / 1'000'000'000),
                       static_cast<long>(ns % 1'000'000'000)};
  const bool for_ever = !more_ && remind_ns_ == 0;
  (void)::ppoll(of, std::size(of), for_ever ? nullptr : &limit, nullptr);
  refuse_closed(of);
  (void)hush_bell(bell_);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (core_.device().verbs->get_cq_event(channel_, &cq, &context) == 0) {
    armed_ = false;
    core_.device().verbs->ack_cq_events(cq, 1);
  }
}

// Asks for an event when the next datagram comes. hear_all(), which runs afterwards, finds those
// that came before.
void connector::arm() noexcept {
  if (armed_) return;
  // Nothing else wakes this thread for a peer that asks.
  if (const int e = ibv_req_notify_cq(all_.datagram_port_->arrivals(), 0); e != 0)
    fatal(1, "the device refuses to tell of datagrams: %s", std::strerror(e));
  armed_ = true;
}

// Takes the datagrams that have come, at most SYS_LIMIT (a setting). True: there may be more.
bool connector::hear_all(connecting in) noexcept {
  const unsigned limit = core_.options().sys_limit == 0 ? ~0u : core_.options().sys_limit;
  std::byte bytes[datagrams::max_bytes];
  std::size_t size = 0;
  for (unsigned n = 0; n < limit; ++n) {
    if (!all_.datagram_port_->receive(bytes, size)) return false;
    all_.hear_datagram(in, *this, bytes, size);
  }
  return true;
}

void connector::grant_wishes(connecting in) noexcept {
  // A5 wishes  acquire wishes_  <- R5
  peer* next = wishes_.exchange(nullptr, std::memory_order_acquire);
  while (next != nullptr) {
    peer& p = *std::exchange(next, next->next_wish);
    // R6 taken  release p.wanted  -> A6
    const std::uint8_t lanes =
        p.wanted.fetch_and(static_cast<std::uint8_t>(~in_wishes), std::memory_order_release);
    PENSTOCK_ASSERT(lanes & in_wishes, !=, 0);  // once in the list
    ask(in, p, lanes & all_lanes, (lanes & lane_foreseen) != 0);
  }
}

// Makes those of the wanted lanes to p that are missing, and says hello; it may be called again for
// lanes that were asked for before. Those that will be wanted are made, too, if they can be.
void connector::ask(connecting in, peer& p, std::uint8_t lanes, bool foreseen) noexcept {
  const bool self = p.rank == core_.rank(), wanted = lanes != 0;
  if (!self) lanes |= basic_lanes;
  const std::uint8_t later = self ? std::uint8_t{0} : all_.later_lanes(p, foreseen);
  if (((lanes | later) & ~ready_lanes(p)) == 0) return;
  const bool parting = p.parting.load(std::memory_order_relaxed) != parting_state::none;
  if (parting && !wanted) return;
  if (parting && !self) {
    await(in, p, lanes);
    all_.see_to_parting(in, p);
    // Where it was not given up, the other side hears of the wish, and remind_peers() makes the
    // lanes when it has ended.
    if (p.parting.load(std::memory_order_relaxed) != parting_state::none)
      return all_.say_hello(in, p, true);
  }
  if (auto made = self ? all_.connect_self(in, p) : all_.make_lanes(in, p, lanes); !made) {
    // Once, until one is made: where one is refused, others are, too.
    log(std::exchange(refused_, true) ? log_level::debug : log_level::error,
        "no queue pair for rank %u: %s", p.rank, made.error().message().c_str());
    p.side[in].awaited &= p.made.load(std::memory_order_relaxed);
    p.refused.store(true, std::memory_order_relaxed);
    p.wanted.fetch_and(static_cast<std::uint8_t>(~lanes), std::memory_order_relaxed);
    return;
  }
  refused_ = false;
  if (self) return;
  p.side[in].needed |= lanes;
  if (auto made = all_.make_lanes(in, p, later); !made)
    log(log_level::debug, "no queue pair for full-size messages to rank %u: %s", p.rank,
        made.error().message().c_str());
  if ((lanes & ~ready_lanes(p)) != 0) await(in, p, lanes);
  all_.say_hello(in, p, true);
}

// Notes that lanes to p are waited for.
void connector::await(connecting in, peer& p, std::uint8_t lanes) noexcept {
  PENSTOCK_ASSERT(lanes != 0 && (lanes & ~all_lanes) == 0, ==, true);
  if (p.side[in].awaited == 0) {
    waiting_.push_back(&p);
    p.side[in].since_ns = now_ns();
  }
  p.side[in].awaited |= lanes;
  p.side[in].reminder_ns = first_reminder_ns;
}

// Makes what is missing, if it has gone, and says hello.
void connector::ask_again(connecting in, peer& p) noexcept {
  const bool parting = p.parting.load(std::memory_order_relaxed) != parting_state::none;
  if (!parting && (p.side[in].awaited & ~p.made.load(std::memory_order_relaxed)) != 0)
    return ask(in, p, p.side[in].awaited);
  all_.say_hello(in, p, true);
}

// Says hello again to peers that have not answered: a hello may be lost, and a process may be
// stopped.
void connector::remind_peers(connecting in) noexcept {
  const std::uint64_t warn_ns = core_.options().connect_timeout_ns;
  const std::uint64_t now = now_ns();
  const auto remind = [&](peer& p) {
    const std::uint64_t waited = now - p.side[in].since_ns;
    if ((p.side[in].awaited & ~ready_lanes(p)) == 0 || core_.is_gone(p.rank)) {
      p.side[in].awaited = 0;
      all_.keep_for_wish(in, p);
      if (p.side[in].warned && !core_.is_gone(p.rank))
        log(log_level::info, "rank %u has answered after %.1f s", p.rank,
            static_cast<double>(waited) * 1e-9);
      return true;
    }
    if (now - p.side[in].hello_at_ns >= p.side[in].reminder_ns) {
      p.side[in].hello_at_ns = now;
      ask_again(in, p);
      p.side[in].reminder_ns = std::min(p.side[in].reminder_ns * 2, rarest_reminder_ns);
    }
    std::uint64_t due = p.side[in].hello_at_ns + p.side[in].reminder_ns;
    if (!p.side[in].warned && waited >= warn_ns) {
      p.side[in].warned = true;
      log(log_level::warning,
          "rank %u has not answered for %.1f s while a connection to it is made; it is waited for "
          "(%s)",
          p.rank, static_cast<double>(waited) * 1e-9, why_silent(core_.device()));
    } else if (!p.side[in].warned) {
      due = std::min(due, p.side[in].since_ns + warn_ns);
    }
    remind_ns_ = remind_ns_ == 0 ? due : std::min(remind_ns_, due);
    return false;
  };
  remind_ns_ = 0;
  std::erase_if(waiting_, [&](peer* p) { return remind(*p); });
}

}  // namespace penstock::conduit::PENSTOCK_ABI
