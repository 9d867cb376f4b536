#include "lib/conduit/progress/armed_queues.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/base/log.hpp"
#include "lib/base/shortage.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/one_sided/rma.hpp"
#include "lib/conduit/peer/core_inl.hpp"
#include "nic/shm/direct.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

// Polls without a message after which the thread takes it that no more is under way.
constexpr unsigned quiet_polls = 16;
// Most polls at a stretch, before the thread looks whether the program polls itself.
constexpr unsigned stretch = 4096;
// The index in queues_ of the rings' completion queue, if there are rings.
constexpr unsigned bell = 0;

}  // namespace

armed_queues::armed_queues(engine& e, core& c, ways& w, ibv_comp_channel* channel, bool transfers)
    : engine_(e), core_(c), ways_(w), channel_(channel) {
  // That of the rings is the first: at index `bell`.
  w.each([&](auto& path) { path.each_event_queue([&](ibv_cq* cq) { queues_.push_back({cq}); }); });
  for (std::uint32_t i = 0; i < c.domain_count() && transfers && w.some_post(); ++i)
    queues_.push_back({c.domains()[i].transfers});
}

result<void> armed_queues::open() {
  if (ways_.some_have_rings() &&
      (messages_ = nic::shm::direct_bell(core_.ring_device().context)) < 0)
    return failure{"a socket that rings wake", errno, what_to_raise(errno)};
  // The channel is only read after poll(2) has said that it holds an event.
  if (!never_waits(channel_->fd))
    return failure{"fcntl on the completion channel", errno, what_to_raise(errno)};
  return {};
}

armed_queues::~armed_queues() {
  if (messages_ >= 0) ::close(messages_);
}

std::vector<armed_queues::source> armed_queues::sources() const {
  std::vector<source> all = {{core_.device().context->async_fd, false}, {channel_->fd, true}};
  if (messages_ >= 0) all.push_back({messages_, true});
  if (const near_device* const near = core_.near()) {
    all.push_back({near->device.context->async_fd, false});
    all.push_back({near->channel->fd, true});
  }
  return all;
}

status armed_queues::handle(unsigned& all, bool (*step)() noexcept, bool* stepped) noexcept {
  for (unsigned polls = 0, empty = 0; empty < quiet_polls && polls < stretch; ++polls) {
    unsigned n = 0;
    const bool last = empty == quiet_polls - 1;
    if (const status s = last ? engine_.poll_widely(&n) : engine_.poll(&n); is_failure(s)) return s;
    if (core_.domain_count() != 1) n += engine_.poll_elsewhere(my_tag(), true);
    if (last && n == 0 && ways_.some_post()) n += engine_.one_sided().reap();
    if (step != nullptr) *stepped = step();
    empty = n == 0 && !engine_.one_sided().go_on_beside() ? empty + 1 : 0;
    all += n;
  }
  return status::ok;
}

// Calls f for each connected peer of all domains.
template <class F>
void armed_queues::for_each_peer(F&& f) const noexcept {
  for (std::uint32_t i = 0; i < core_.domain_count(); ++i) {
    const domain& d = core_.domains()[i];
    for (const peer_order* of : {&d.rings, &d.verbs})
      for (std::uint32_t k = 0, all = of->count(); k < all; ++k) f((*of)[k]);
  }
}

bool armed_queues::waiting() noexcept {
  bool more = core_.attention() || engine_.one_sided().rails_busy();
  ways_.each([&](auto& path) {
    for (std::uint32_t i = 0; i < core_.domain_count(); ++i)
      more |= path.holds_back(core_.domains()[i], my_tag());
  });
  for_each_peer(
      [&](peer& p) { more |= ways_.of(p, [&](const auto& path) { return path.has_news(p); }); });
  return more;
}

void armed_queues::give_back() noexcept {
  const std::uint32_t tag = my_tag();
  for_each_peer([&](peer& p) {
    if (p.credits.due() == 0) return;
    const auto in = p.request_in.try_enter(tag);
    if (!in) return;
    ways_.of(p, [&](auto& path) { path.give_credits_back(*in, p, tag); });
    p.request_in.leave(tag);
  });
}

void armed_queues::arm(bool rung) noexcept {
  core_.slow_progress();
  forget_events();
  for (armable& q : queues_)
    if (!q.armed || (rung && nic::shm::was_rung(q.cq))) {
      if (const int e = ibv_req_notify_cq(q.cq, 0); e != 0)
        fatal(1, "the device refuses to tell of completions: %s", std::strerror(e));
      q.armed = true;
    }
}

// Takes all events. They only say which queues are no longer armed: after any of them the thread
// polls all queues.
void armed_queues::forget_events() noexcept {
  for (std::byte b; messages_ >= 0 && ::recv(messages_, &b, sizeof b, MSG_DONTWAIT) >= 0;)
    queues_[bell].armed = false;
  forget_events_of(*core_.device().verbs, channel_);
  if (core_.near()) forget_events_of(*core_.near()->device.verbs, core_.near()->channel);
}

void armed_queues::forget_events_of(const nic::calls& verbs, ibv_comp_channel* channel) noexcept {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (verbs.get_cq_event(channel, &cq, &context) == 0) {
    for (armable& q : queues_)
      if (q.cq == cq) q.armed = false;
    verbs.ack_cq_events(cq, 1);
  }
}

}  // namespace penstock::conduit::PENSTOCK_ABI
