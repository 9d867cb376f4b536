// Slow-path progress: deaths, broken queue pairs, what the launcher says, and messages that were
// put off. A poll calls it when attention() is true. This code decides that a process ends.
#include <poll.h>

#include "lib/base/descriptors.hpp"
#include "lib/base/probes.hpp"
#include "lib/conduit/collective/departure.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/peer/core_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
void engine::slow_progress() noexcept {
  if (core_.membership().ended() && !core_.closing()) {
    look_for_closed();  // what the others took for this rank's end
    const auto d = core_.membership().ended_by();
    if (d && d->ordered) core_.membership().end(d->code_or_signal);
    set_fatal_witness(nullptr);  // this rank's last call has no part in it
    fatal(1, "the job is over: %s", d ? d->text().c_str() : "the launcher says so");
  }
  if (core_.intents().is_up()) credits_.follow_intents();
  if (core_.deferred().load(std::memory_order_relaxed) != 0) {
    credits_.send_deferred();
    ways_.each([](auto& path) { path.send_put_off(); });
    departure_->judge_lost();
  }
  if (concurrent(build_mode) && core_.handed().load(std::memory_order_relaxed) != 0) [[unlikely]]
    pending_.step_all();
  if (core_.near() && core_.attention_to_near())
    hear_event(core_.near()->device, core_.near()->events, core_.near()->events_seen);
  if (core_.events_ == nullptr) {
    if (core_.looks_.load(std::memory_order_relaxed) % core::looks_between_events != 0) return;
    pollfd f{core_.device().context->async_fd, POLLIN, 0};
    if (::poll(&f, 1, 0) != 1) return;
  }
  hear_event(core_.device(), core_.events_, core_.events_seen_);
}

// Takes an event of the device, if there is one. raised: the number of events that it has raised,
// or null where the device does not count them. taken: the number of those that were taken.
void engine::hear_event(nic::device& dev, const std::atomic<std::uint32_t>* raised,
                        std::atomic<std::uint32_t>& taken) noexcept {
  if (raised != nullptr) {
    const std::uint32_t seen = taken.load(std::memory_order_relaxed);
    // acquire: the event that was counted is in the device's queue
    if (raised->load(std::memory_order_acquire) == seen) return;
    std::uint32_t expected = seen;  // one thread takes this event
    if (!taken.compare_exchange_strong(expected, seen + 1, std::memory_order_relaxed,
                                       std::memory_order_relaxed))
      return;
  }
  ibv_async_event e;
  if (dev.verbs->get_async_event(dev.context, &e) != 0) return;
  const ibv_event_type type = e.event_type;
  peer* p = nullptr;
  peer* ended = nullptr;
  switch (type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_PATH_MIG_ERR:
      p = static_cast<peer*>(e.element.qp->qp_context);
      break;
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      if (auto* const of = static_cast<peer*>(e.element.qp->qp_context);
          of->posts() && connections::is_ready(*of, lane_reply) &&
          of->lanes[lane_reply].qp == e.element.qp)
        ended = of;
      break;
    default:
      break;
  }
  dev.verbs->ack_async_event(&e);
  if (core_.closing()) return;
  if (p != nullptr && connections::lanes_closed(*p))
    return;  // the other side has destroyed its queue pair
  if (p != nullptr) return lost_contact(*this, *p, dev.verbs->event_type_str(type));
  if (ended != nullptr) {
    // The lane of a peer that has not left has failed: the error may not have been reaped yet.
    ended->cut.store(true, std::memory_order_relaxed);
    if (departure_->is_gone(ended->rank))
      return ways_.of(*ended, [&](auto& path) { path.note_end(*ended); });
    return lost_contact(*this, *ended, dev.verbs->event_type_str(type));
  }
  if (type == IBV_EVENT_CQ_ERR || type == IBV_EVENT_SRQ_ERR || type == IBV_EVENT_DEVICE_FATAL)
    fatal(1, "device %s reports: %s", dev.name.c_str(), dev.verbs->event_type_str(type));
  log(log_level::info, "device %s reports: %s", dev.name.c_str(), dev.verbs->event_type_str(type));
}

void engine::lost_contact(engine& e, peer& p, const char* how) noexcept {
  PENSTOCK_PROBE(queue_pair_error, p.rank, how);
  if (p.ended.load(std::memory_order_relaxed)) return;
  // relaxed: the text is a constant. A thread that sees it late judges in its next poll.
  if (const char* none = nullptr;
      p.lost.compare_exchange_strong(none, how, std::memory_order_relaxed))
    e.core_.deferred().fetch_add(1, std::memory_order_relaxed);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
