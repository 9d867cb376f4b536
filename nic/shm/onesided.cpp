// WRITE, READ and atomics. The requester itself does the work in the target's memory, after it has
// checked the target's table of regions as the target's adapter would.
//
// A region may be deregistered at any time. The requester says which key it touches (T1), then
// looks whether the key is valid (T2). The owner invalidates the key (T3), then waits for every
// peer that touches it (T4). One of the two sees the other, by the asymmetric fence. A queue pair
// that goes away waits for its peer likewise (T6 and T7, link.cpp).

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "lib/base/assert.hpp"
#include "lib/base/cross_process.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/fence.hpp"
#include "nic/shm/page_guard.hpp"
#include "nic/shm/peer.hpp"
#include "nic/shm/put_bytes.hpp"
#include "nic/shm/qp.hpp"
#include "nic/shm/region.hpp"
#include "nic/shm/remote_memory.hpp"

namespace penstock::nic::shm {
namespace {

bool is_atomic(const send_work& w) noexcept {
  return w.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || w.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

std::uint32_t needs(const send_work& w) noexcept {
  if (is_atomic(w)) return IBV_ACCESS_REMOTE_ATOMIC;
  return w.opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
}

/// A place in the peer's memory, as a request names it.
struct remote_place {
  std::uint64_t address;
  std::uint32_t bytes, rkey;
};

/// Whether the target's table of regions lets this QP use that place so.
ibv_wc_status check_region(const queue_pair& qp, const remote_place& w,
                           std::uint32_t need) noexcept {
  const qp_entry& target = *qp.to.remote;
  const auto* r = qp.remote->entry<mr_entry>(table::mr, region_table::index_of(w.rkey));
  // M2 valid?  load-acquire key, before (and, by T2, after) the fields  <- M1 (region.cpp)
  if (r == nullptr || w.rkey == 0 || r->key.load(std::memory_order_acquire) != w.rkey)
    return IBV_WC_REM_ACCESS_ERR;
  const std::uint64_t first = r->address.load(std::memory_order_relaxed);
  const std::uint64_t length = r->length.load(std::memory_order_relaxed);
  const std::uint32_t pd =
      (qp.qp_type == IBV_QPT_XRC_SEND ? qp.to.srq->pd : target.pd).load(std::memory_order_relaxed);
  const bool ok = r->pd.load(std::memory_order_relaxed) == pd &&
                  (r->access.load(std::memory_order_relaxed) & need) != 0 && w.address >= first &&
                  w.bytes <= length && w.address - first <= length - w.bytes;
  const std::uint32_t only = r->qpn.load(std::memory_order_relaxed);
  if (only != 0 && only != peer_qpn(qp)) [[unlikely]]
    return IBV_WC_REM_ACCESS_ERR;
  return ok ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR;
}

/// The status that the target would answer; IBV_WC_SUCCESS if it would do the request.
ibv_wc_status check(const queue_pair& qp, const send_work& w) noexcept {
  const qp_entry& target = *qp.to.remote;
  const std::uint32_t need = needs(w);
  if ((target.access.load(std::memory_order_relaxed) & need) == 0) return IBV_WC_REM_INV_REQ_ERR;
  if ((is_atomic(w) || w.opcode == IBV_WR_RDMA_READ) &&
      target.reads_allowed.load(std::memory_order_relaxed) == 0)
    return IBV_WC_REM_INV_REQ_ERR;
  if (is_atomic(w) && w.remote % 8 != 0) return IBV_WC_REM_INV_REQ_ERR;
  if (w.bytes == 0) return IBV_WC_SUCCESS;  // no key is looked at
  return check_region(qp, {w.remote, w.bytes, w.rkey}, need);
}

/// Where the region's bytes are mapped here, or null. near_key is 0 then if the peer has been asked
/// for its file.
std::byte* here(queue_pair& qp, const remote_place& w) noexcept {
  PENSTOCK_ASSERT(qp.sending.is_mine(), ==, true);
  const auto* shown = qp.remote->entry<mr_entry>(table::mr, region_table::index_of(w.rkey));
  const std::uint32_t epoch = shown->epoch.load(std::memory_order_relaxed);
  if (qp.near_key != w.rkey || qp.near_epoch != epoch) {
    errno = 0;
    qp.near = map_region(qp, w.rkey);
    qp.near_key = qp.near != nullptr || errno != EINPROGRESS ? w.rkey : 0;
    qp.near_epoch = epoch;
  }
  const peer::mapping* m = qp.near.get();
  if (m == nullptr || w.address < m->address || w.bytes > m->bytes ||
      w.address - m->address > m->bytes - w.bytes)
    return nullptr;
  return m->local + (w.address - m->address);
}
std::byte* here(queue_pair& qp, const send_work& w) noexcept {
  return here(qp, {w.remote, w.bytes, w.rkey});
}

/// How a request reaches its memory. It goes on in the way in which it has begun.
enum class reach : std::uint8_t { mapped, not_mapped, asked };
reach reach_of(queue_pair& qp, const send_work& w, std::byte** target) noexcept {
  if (w.position != 0 || w.offset != 0 || w.number != 0) return reach::not_mapped;
  *target = here(qp, w);
  if (*target != nullptr) return reach::mapped;
  return qp.near_key == 0 ? reach::asked : reach::not_mapped;
}

/// Uses the processor's atomics, so that the target's own program may take part. For memory that is
/// not mapped, the target's service thread uses the same instructions. It answers a second question
/// about the same atomic from memory, so one that is asked again is done once.
int change_word(queue_pair& qp, send_work& w, std::uint64_t* old) noexcept {
  PENSTOCK_ASSERT(w.bytes, ==, 8u);
  const bool add = w.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  std::byte* target = nullptr;
  const reach way = reach_of(qp, w, &target);
  if (way == reach::asked) return EINPROGRESS;
  if (way == reach::mapped) {
    // acq_rel: programs may order their own bytes by an atomic, as by a lock's
    std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(target));
    *old = add ? word.fetch_add(w.operand, std::memory_order_acq_rel) : w.operand;
    if (!add)
      word.compare_exchange_strong(*old, w.swap, std::memory_order_acq_rel,
                                   std::memory_order_acquire);
    return 0;
  }
  request q = qp.remote->make(add ? request_kind::fetch_add : request_kind::compare_swap,
                              peer_qpn(qp), qp.qp_num);
  q.rkey = w.rkey;
  q.address = w.remote;
  q.length = 8;
  q.operand = w.operand;
  q.swap = w.swap;
  if (w.number == 0) w.number = qp.owner->atomics_asked.fetch_add(1, std::memory_order_relaxed) + 1;
  q.atomic = w.number;
  reply a;
  if (const int e = qp.remote->ask_later(q, nullptr, 0, a, nullptr, 0, nullptr, &w.position))
    return e;
  *old = a.value;
  return a.error;
}

/// IBV_WC_RETRY_EXC_ERR means that the peer cannot be reached (now).
ibv_wc_status status_of(int e) noexcept {
  if (e == 0) return IBV_WC_SUCCESS;
  if (e == EACCES) return IBV_WC_REM_ACCESS_ERR;
  if (e == EFAULT) return IBV_WC_LOC_PROT_ERR;  // own memory; the target's would be EIO
  return meaning_of(e) == meaning::refused ? IBV_WC_REM_OP_ERR : IBV_WC_RETRY_EXC_ERR;
}

/// *asked: the peer has been asked to do it, and has not answered yet.
ibv_wc_status perform(queue_pair& qp, send_work& w, bool* asked) noexcept {
  int e = 0;
  if (is_atomic(w)) {
    std::uint64_t old = 0;
    e = change_word(qp, w, &old);
    *asked = e == EINPROGRESS;
    if (e != 0) return status_of(e);
    return scatter(qp, qp.pd_number, w.list, w.count, 0, reinterpret_cast<const std::byte*>(&old),
                   sizeof old);
  }
  if (w.bytes != 0) e = qp.owner->move(qp, w);
  *asked = e == EINPROGRESS;
  return status_of(e);
}

/// The target's QP breaks, too, and its program gets an event.
void report_misuse(const queue_pair& qp) noexcept {
  qp.remote->tell(qp.remote->make(request_kind::access_error, peer_qpn(qp), qp.qp_num));
}

}  // namespace

bool asks_peer(queue_pair& qp, const send_work& w) noexcept {
  return here(qp, w) == nullptr && !by_kernel(qp);
}

int move_bytes(queue_pair& qp, send_work& w) noexcept {
  std::byte* target = nullptr;
  const reach way = reach_of(qp, w, &target);
  if (way != reach::mapped) return way == reach::asked ? EINPROGRESS : copy_unmapped(qp, w);
  std::uint64_t offset = 0;
  for (std::uint32_t i = 0; i < w.count; offset += w.list[i++].length) {
    const ibv_sge& s = w.list[i];
    auto* own = reinterpret_cast<std::byte*>(s.addr);
    if (s.length == 0) continue;
    if (w.opcode == IBV_WR_RDMA_READ ? !guarded_copy(own, target + offset, s.length)
                                     : !put_bytes(target + offset, own, s.length))
      return EFAULT;
    if (w.opcode != IBV_WR_RDMA_READ) tsan_tell_peer(own);
  }
  PENSTOCK_ASSERT(offset, ==, w.bytes);
  return 0;
}

outcome write_at_once(queue_pair& qp, const ibv_send_wr& wr) noexcept {
  const link& l = qp.to;
  const bool tells = wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if ((wr.opcode != IBV_WR_RDMA_WRITE && !tells) || wr.num_sge < 0 || wr.num_sge > 1 ||
      qp.qp_type != IBV_QPT_RC || l.ready == 0 || state_of(qp) != IBV_QPS_RTS ||
      (tells && !may_tell(qp)))
    return outcome::failed;
  const ibv_sge s = wr.num_sge == 0 ? ibv_sge{} : wr.sg_list[0];
  const bool in_line = (wr.send_flags & IBV_SEND_INLINE) != 0;
  if ((s.length == 0 && !tells) ||
      s.length > (in_line ? qp.works.inline_room() : max_message_bytes) ||
      (!in_line && s.length != 0 &&
       !qp.owner->regions.allows(s.lkey, qp.pd_number, s.addr, s.length, region_table::local_use)))
    return outcome::failed;
  // L2 alive?  load-acquire life  <- L1 (qp.cpp, faults.cpp)
  if (l.remote->life.load(std::memory_order_acquire) != l.ready ||
      (l.remote->access.load(std::memory_order_relaxed) & IBV_ACCESS_REMOTE_WRITE) == 0)
    return outcome::failed;
  if (s.length == 0) return tell_written(qp, wr, 0);
  const remote_place to{wr.wr.rdma.remote_addr, s.length, wr.wr.rdma.rkey};
  // T1 touch  store touching, light fence  -> T4, -> T7 (link.cpp)
  qp.shown->touching.store(to.rkey, std::memory_order_relaxed);
  light_fence();
  // T2 valid?  load life, key  <-> T3, <-> T6 (link.cpp)
  std::byte* target = l.remote->life.load(std::memory_order_relaxed) == l.ready &&
                              check_region(qp, to, IBV_ACCESS_REMOTE_WRITE) == IBV_WC_SUCCESS
                          ? here(qp, to)
                          : nullptr;
  const bool put =
      target != nullptr && put_bytes(target, reinterpret_cast<const std::byte*>(s.addr), s.length);
  // T5 let go  store-release touching  -> T4, -> T7 (link.cpp): the bytes are written
  qp.shown->touching.store(0, std::memory_order_release);
  if (!put) return outcome::failed;
  tsan_tell_peer(reinterpret_cast<const void*>(s.addr));
  // Where no receive is found, the long way writes the same bytes once more.
  return tells ? tell_written(qp, wr, s.length) : outcome::done;
}

outcome access_remote(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept {
  if (is_atomic(w) && w.bytes != 8) {
    *why = IBV_WC_LOC_LEN_ERR;
    return outcome::failed;
  }
  if (w.at == stage::fresh) {
    // T1 touch  store touching, light fence  -> T4, -> T7 (link.cpp)
    qp.shown->touching.store(w.rkey, std::memory_order_relaxed);
    light_fence();
    // T2 valid?  load life, key  <-> T3, <-> T6 (link.cpp)
    const bool there = qp.to.remote->life.load(std::memory_order_relaxed) == qp.to.ready;
    *why = there ? check(qp, w) : IBV_WC_RETRY_EXC_ERR;
    bool asked = false;
    if (*why == IBV_WC_SUCCESS) *why = perform(qp, w, &asked);
    // T5 let go  store-release touching  -> T4, -> T7 (link.cpp): the bytes are written and read
    qp.shown->touching.store(0, std::memory_order_release);
    if (asked) return outcome::wait;
    if (*why == IBV_WC_RETRY_EXC_ERR) return unreachable(qp, w, why);
    if (*why != IBV_WC_SUCCESS) {
      if (unanswered(qp) && *why != IBV_WC_LOC_PROT_ERR) return outcome::done;
      if (*why == IBV_WC_REM_ACCESS_ERR || *why == IBV_WC_REM_INV_REQ_ERR) report_misuse(qp);
      return outcome::failed;
    }
  }
  if (w.opcode != IBV_WR_RDMA_WRITE_WITH_IMM) return outcome::done;
  PENSTOCK_ASSERT(w.at, <=, stage::pushed);
  if (w.at == stage::fresh) w.at = stage::written;
  return send_message(qp, w, why);
}

bool was_answered(queue_pair& qp, send_work& w) noexcept {
  if (w.at != stage::fresh || w.position == 0) return false;  // the device was not asked
  bool asked = false;
  if (perform(qp, w, &asked) != IBV_WC_SUCCESS) return false;
  if (w.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) w.at = stage::written;  // its immediate is not told
  return w.opcode != IBV_WR_RDMA_WRITE_WITH_IMM;
}

void wait_untouched(context& c, std::uint32_t rkey) noexcept {
  if (c.carrier) return c.carrier->wait_untouched(rkey);
  heavy_fence();  // T3 gone  store key, before this fence  <-> T2; see above
  std::vector<std::pair<std::shared_ptr<peer>, const qp_entry*>> users;
  {
    // The service thread copies under this lock, so it has finished.
    const std::lock_guard guard(c.objects);
    for (const queue_pair* q : c.qps) {
      // N2 whose  acquire peer_id  <- N1 (modify.cpp): dest is that peer's
      const std::uint64_t id = q->peer_id.load(std::memory_order_acquire);
      if (id == 0) continue;
      for (const auto& p : c.peers)
        if (p->id == id)
          if (const auto* e = p->entry<qp_entry>(
                  table::qp, c.entry_of(q->dest.load(std::memory_order_relaxed)));
              // acquire: of a copy that is over the bytes are written, as at T4
              e != nullptr && e->touching.load(std::memory_order_acquire) == rkey)
            users.emplace_back(p, e);
    }
  }
  outlast([&] {
    return std::any_of(users.begin(), users.end(), [rkey](const auto& u) {
      // T4 touched?  load-acquire touching  <- T1, T5
      return u.second->touching.load(std::memory_order_acquire) == rkey &&
             !u.first->dead.load(std::memory_order_relaxed);
    });
  });
}

}  // namespace penstock::nic::shm
