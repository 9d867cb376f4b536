// Fills the table of verbs calls with the shared-memory device's functions, and a context's inline
// calls.
#include <infiniband/verbs.h>

#include <cerrno>

#include "lib/base/settings.hpp"
#include "nic/choice.hpp"
#include "nic/device.hpp"
#include "nic/shm/boundary.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/cq.hpp"
#include "nic/shm/names.hpp"
#include "nic/shm/qp.hpp"
#include "nic/shm/srq.hpp"
#include "nic/shm/window.hpp"

namespace penstock::nic {
namespace shm {

namespace {
ibv_mw* no_window(ibv_pd*, ibv_mw_type) noexcept { return errno = EOPNOTSUPP, nullptr; }
}  // namespace

void fill_operations(ibv_context_ops& ops, const context& c) noexcept {
  const bool played = shm::played(c), watched = c.watched != nullptr;
  enter(ops.poll_cq, watched ? observed_poll_cq : played ? played_poll_cq : poll_cq);
  enter(ops.req_notify_cq, played ? played_req_notify_cq : req_notify_cq);
  enter(ops.post_srq_recv, played ? played_post_srq_recv : post_srq_recv);
  enter(ops.post_send, c.carrier ? carried_post_send
                       : watched ? observed_post_send
                       : played  ? played_post_send
                                 : post_send);
  enter(ops.post_recv, played ? played_post_recv : post_recv);
  enter(ops.alloc_mw, c.carrier ? no_window : c_call<alloc_mw>);
  enter(ops.bind_mw, bind_mw);
  enter(ops.dealloc_mw, dealloc_mw);
}

void ack_async_event(ibv_async_event* event) noexcept {
  const auto count = [](pthread_mutex_t& mutex, pthread_cond_t& cond, std::uint32_t& completed) {
    pthread_mutex_lock(&mutex);
    ++completed;
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&mutex);
  };
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR: {
      ibv_cq& cq = *event->element.cq;
      return count(cq.mutex, cq.cond, cq.async_events_completed);
    }
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: {
      ibv_srq& srq = *event->element.srq;
      return count(srq.mutex, srq.cond, srq.events_completed);
    }
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_QP_LAST_WQE_REACHED: {
      ibv_qp& qp = *event->element.qp;
      return count(qp.mutex, qp.cond, qp.events_completed);
    }
    default:
      return;
  }
}

}  // namespace shm

result<ibv_context*> open_shm(ibv_device* dev, const settings& s, std::string& says) {
  const auto p = shm::parse_pretence(s.shm_personality, s.shm_fault);
  if (!p) return p.error();
  if (!p->plays.text.empty()) says += ", personality " + p->plays.text;
  if (!p->faults.text.empty()) says += ", faults " + p->faults.text;
  return shm::open_device_as(dev, *p);
}

const calls& shm_calls() noexcept {
  static constexpr calls table = [] {
    using shm::c_call, shm::enter;
    // Null stay partitions, which memory has not, and thread domains: its locks favour the one
    // thread that uses a queue, which pays no locked instruction.
    calls t{};
    t.library = "shm";
    enter(t.get_device_list, shm::get_device_list);
    enter(t.free_device_list, shm::free_device_list);
    enter(t.get_device_name, shm::get_device_name);
    enter(t.open_device, c_call<shm::open_device>);
    enter(t.close_device, shm::close_device);
    enter(t.query_device, shm::query_device);
    enter(t.query_port, shm::query_port);
    enter(t.query_gid, shm::query_gid);
    enter(t.alloc_pd, c_call<shm::alloc_pd>);
    enter(t.dealloc_pd, shm::dealloc_pd);
    enter(t.reg_mr, c_call<shm::reg_mr>);
    enter(t.dereg_mr, shm::dereg_mr);
    enter(t.create_comp_channel, c_call<shm::create_comp_channel>);
    enter(t.destroy_comp_channel, shm::destroy_comp_channel);
    enter(t.create_cq, c_call<shm::create_cq>);
    enter(t.resize_cq, c_call<shm::resize_cq>);
    enter(t.destroy_cq, shm::destroy_cq);
    enter(t.get_cq_event, shm::get_cq_event);
    enter(t.ack_cq_events, shm::ack_cq_events);
    enter(t.create_srq, c_call<shm::create_srq>);
    enter(t.modify_srq, c_call<shm::modify_srq>);
    enter(t.query_srq, shm::query_srq);
    enter(t.destroy_srq, shm::destroy_srq);
    enter(t.create_qp, c_call<shm::create_qp>);
    enter(t.modify_qp, c_call<shm::modify_qp>);
    enter(t.query_qp, shm::query_qp);
    enter(t.destroy_qp, shm::destroy_qp);
    enter(t.create_ah, c_call<shm::create_ah>);
    enter(t.destroy_ah, shm::destroy_ah);
    enter(t.get_async_event, shm::get_async_event);
    enter(t.ack_async_event, shm::ack_async_event);
    enter(t.wc_status_str, shm::wc_status_str);
    enter(t.event_type_str, shm::event_type_str);
    return t;
  }();
  return table;
}

}  // namespace penstock::nic
