// Progress: the only place that waits, and the order in which queues are looked at: what concerns
// the whole job first, then SYS and SAFE, then AM.
#include <sched.h>

#include <ctime>

#include "lib/conduit/engine_inl.hpp"

namespace penstock::conduit {

unsigned engine::poll_peer_direct(peer& p, std::uint32_t tag) noexcept {
  unsigned n = 0;
  if (p.reply_rx->ready_hint()) n += poll_replies_direct(p, tag);
  if (p.request_rx->ready_hint() || p.owed.load(std::memory_order_relaxed) != 0)
    n += poll_requests_direct(p, tag);
  return n;
}

unsigned engine::poll_direct(std::uint32_t tag) noexcept {
  if (attention()) [[unlikely]]
    look_around();
  // A1 peers  acquire connected_  <- R1 (connect.cpp): their rings are there
  const std::uint32_t all = connected_.load(std::memory_order_acquire);
  unsigned n = 0;
  if (all <= poller::hot_peers) {
    for (std::uint32_t i = 0; i < all; ++i) n += poll_peer_direct(*order_[i], tag);
    return n;
  }
  poller& mine = my_poller(tag);
  for (peer* p : mine.hot)
    if (p != nullptr) n += poll_peer_direct(*p, tag);
  for (std::uint32_t i = 0; i < poller::cold_a_poll; ++i) {
    mine.cursor = mine.cursor + 1 < all ? mine.cursor + 1 : 0;
    peer* p = order_[mine.cursor];
    if (const unsigned got = poll_peer_direct(*p, tag); got != 0) {
      n += got;
      mine.warm(p);
    }
  }
  return n;
}

status engine::poll(unsigned& n) noexcept {
  n = 0;
  if (running != nullptr) [[unlikely]]
    return status::in_handler;
  if (!started_) [[unlikely]]
    return status::shut_down;
  if (direct_) {
    n = poll_direct(my_tag());
  } else if (transfers_.everything()) [[unlikely]] {
    transfers_.progress();
    if (!transfers_.must_settle()) {
      n = poll_verbs(my_tag());
    } else {
      // Requests wait, since their handlers reply, until no peer has a key to changed memory.
      if (attention()) [[unlikely]]
        look_around();
      n = poll_replies_verbs() + transfers_.reap();
    }
  } else {
    n = poll_verbs(my_tag());
  }
  return status::ok;
}

status engine::wait_step(unsigned& empty) noexcept {
  unsigned n = 0;
  if (const status s = poll(n); s != status::ok) return s;
  if (n != 0) {
    empty = 0;
    // Where processes outnumber cores, those that send to this one may wait for its core: who has
    // always something to handle lets them fill their queues, so that nobody is left behind.
    if (spins_before_yield_ == 1) [[unlikely]]
      if (poller& mine = my_poller(my_tag()); (mine.busy += n) >= poller::messages_a_turn) {
        mine.busy = 0;
        sched_yield();
      }
    return status::ok;
  }
  ++empty;
  if (empty <= spins_before_yield_) return status::ok;
  if (settings_.wait == wait_mode::spin || empty <= spins_before_yield_ + settings_.spin_count) {
    sched_yield();
    return status::ok;
  }
  // Asleep for a moment only: whatever comes meanwhile is found by the next poll, so that no
  // wake-up has to be sent, and none can be lost.
  const timespec nap{0, 50'000};
  nanosleep(&nap, nullptr);
  return status::ok;
}

}  // namespace penstock::conduit
