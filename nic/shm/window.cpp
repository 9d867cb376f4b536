#include "nic/shm/window.hpp"

#include <cerrno>
#include <memory>

#include "lib/base/assert.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/fence.hpp"
#include "nic/shm/peer.hpp"
#include "nic/shm/qp.hpp"
#include "nic/shm/region.hpp"

namespace penstock::nic::shm {
namespace {

constexpr std::uint32_t window_rights =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// Invalidates the window's key, so that no new access begins. Under context::windows; true if it
/// was bound.
bool shut(context& c, memory_window& w) noexcept {
  PENSTOCK_ASSERT(c.windows.is_mine(), ==, true);
  if (w.region == nullptr) return false;
  // The keys go as a region's do (region.cpp, before the fence of onesided.cpp): relaxed.
  c.regions.at(w.handle).key.store(0, std::memory_order_relaxed);
  c.memory.entry<mr_entry>(table::mr, w.handle).key.store(0, std::memory_order_relaxed);
  w.region->windows.end();
  w.region = nullptr;
  return true;
}

/// Whether the request to bind is permitted. Under context::windows.
bool bindable(const queue_pair& qp, const window_request& r) noexcept {
  PENSTOCK_ASSERT(qp.owner->windows.is_mine(), ==, true);
  const memory_window& w = *r.window;
  if (of(w.pd).number != qp.pd_number || ((r.key ^ w.rkey) >> 8) != 0 || r.key == 0) return false;
  if (w.type == IBV_MW_TYPE_2 && (w.region != nullptr || r.bytes == 0)) return false;
  if (r.bytes == 0) return true;
  if (r.region == nullptr || of(r.region->pd).number != qp.pd_number) return false;
  const auto first = reinterpret_cast<std::uint64_t>(r.region->addr);
  const bool inside = r.address >= first && r.bytes <= r.region->length &&
                      r.address - first <= r.region->length - r.bytes;
  const bool writes = (r.access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  const auto allows = static_cast<std::uint32_t>(r.region->access);
  return inside && (allows & IBV_ACCESS_MW_BIND) != 0 &&
         (!writes || (allows & IBV_ACCESS_LOCAL_WRITE) != 0);
}

/// The window of that key, if it is of type 2 and bound on this QP. Under context::windows.
memory_window* window_of(const queue_pair& qp, std::uint32_t rkey) noexcept {
  PENSTOCK_ASSERT(qp.owner->windows.is_mine(), ==, true);
  const auto& mine = qp.owner->regions.at(region_table::index_of(rkey));
  memory_window* w = mine.window;
  const bool open = rkey != 0 && mine.key.load(std::memory_order_relaxed) == rkey;
  return open && w != nullptr && w->type == IBV_MW_TYPE_2 &&
                 mine.qpn.load(std::memory_order_relaxed) == qp.qp_num
             ? w
             : nullptr;
}

}  // namespace

void store_window_request(send_work& w, const ibv_send_wr& wr) noexcept {
  const ibv_mw_bind_info& info = wr.bind_mw.bind_info;
  w.remote = info.addr;
  w.operand = info.length;
  w.rkey = wr.bind_mw.rkey;
  w.imm = info.mw_access_flags;
  w.swap = reinterpret_cast<std::uint64_t>(wr.bind_mw.mw);
  w.datagram_to.high = reinterpret_cast<std::uint64_t>(info.mr);
}

window_request window_request_of(const send_work& w) noexcept {
  return {static_cast<memory_window*>(reinterpret_cast<ibv_mw*>(w.swap)),
          static_cast<memory_region*>(reinterpret_cast<ibv_mr*>(w.datagram_to.high)),
          w.remote,
          w.operand,
          w.rkey,
          w.imm};
}

ibv_wc_status bind_window(queue_pair& qp, const send_work& work) noexcept {
  context& c = *qp.owner;
  const window_request r = window_request_of(work);
  memory_window& w = *r.window;
  const hold guard(c.windows);
  if (!bindable(qp, r)) return IBV_WC_MW_BIND_ERR;
  shut(c, w);  // a window of type 1 may have been bound again before this request's turn came
  if (w.type == IBV_MW_TYPE_2) w.rkey = r.key;
  if (r.bytes == 0) return IBV_WC_SUCCESS;
  r.region->windows.begin();
  w.region = r.region;
  auto& mine = c.regions.at(w.handle);
  auto& shown = c.memory.entry<mr_entry>(table::mr, w.handle);
  const auto& base = c.memory.entry<mr_entry>(table::mr, r.region->handle);
  const std::uint32_t pd = of(w.pd).number, rights = r.access & window_rights;
  const std::uint32_t qpn = w.type == IBV_MW_TYPE_2 ? qp.qp_num : 0;
  mine.pd.store(pd, std::memory_order_relaxed);
  mine.access.store(rights, std::memory_order_relaxed);
  mine.address.store(r.address, std::memory_order_relaxed);
  mine.length.store(r.bytes, std::memory_order_relaxed);
  mine.moved.store(r.region->moved.moved, std::memory_order_relaxed);
  mine.qpn.store(qpn, std::memory_order_relaxed);
  shown.pd.store(pd, std::memory_order_relaxed);
  shown.access.store(rights, std::memory_order_relaxed);
  shown.address.store(r.address, std::memory_order_relaxed);
  shown.length.store(r.bytes, std::memory_order_relaxed);
  shown.mappable.store(base.mappable.load(std::memory_order_relaxed), std::memory_order_relaxed);
  shown.qpn.store(qpn, std::memory_order_relaxed);
  shown.epoch.fetch_add(1, std::memory_order_relaxed);
  // release: the fields are written, as a region's (region.cpp)
  mine.key.store(r.key, std::memory_order_release);
  shown.key.store(r.key, std::memory_order_release);
  return IBV_WC_SUCCESS;
}

ibv_wc_status close_window(queue_pair& qp, std::uint32_t rkey) noexcept {
  {
    const hold guard(qp.owner->windows);
    memory_window* w = window_of(qp, rkey);
    if (w == nullptr) return IBV_WC_MW_BIND_ERR;
    shut(*qp.owner, *w);
  }
  // T3, T4 as in wait_untouched(); it is open to one QP, so no list of peers has to be looked at.
  heavy_fence();
  const peer* p = qp.remote.get();
  const auto* e =
      p != nullptr ? p->entry<qp_entry>(table::qp, qp.owner->entry_of(peer_qpn(qp))) : nullptr;
  // acquire: the bytes are written when it is let go
  outlast([&] {
    return qp.owner->service.serves(rkey) ||
           (e != nullptr && e->touching.load(std::memory_order_acquire) == rkey &&
            !p->dead.load(std::memory_order_relaxed));
  });
  return IBV_WC_SUCCESS;
}

bool close_window_for_peer(queue_pair& qp, std::uint32_t rkey) noexcept {
  const hold guard(qp.owner->windows);
  memory_window* w = window_of(qp, rkey);
  return w != nullptr && shut(*qp.owner, *w);
}

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  context& c = of(pd->context);
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) return errno = EINVAL, nullptr;
  auto w = std::make_unique<memory_window>();
  const int index = c.memory.take_entry(table::mr);
  if (index < 0) return nullptr;
  w->context = pd->context;
  w->pd = pd;
  w->handle = static_cast<std::uint32_t>(index);
  w->type = type;
  auto& mine = c.regions.at(w->handle);
  w->rkey = next_key(w->handle, mine.length.load(std::memory_order_relaxed));
  {
    const hold guard(c.windows);
    mine.window = w.get();
  }
  of(pd).users.begin();
  c.live.begin();
  return w.release();
}

int dealloc_mw(ibv_mw* handle) noexcept {
  auto& w = *static_cast<memory_window*>(handle);
  context& c = of(w.context);
  auto& mine = c.regions.at(w.handle);
  bool was_open;
  std::uint32_t key;
  {
    const hold guard(c.windows);
    key = mine.key.load(std::memory_order_relaxed);
    was_open = shut(c, w);
    mine.window = nullptr;
  }
  if (was_open) wait_untouched(c, key);
  // As of a region: the last generation lies in the private length.
  mine.length.store(region_table::generation_of(w.rkey), std::memory_order_relaxed);
  c.memory.free_entry(table::mr, w.handle);
  of(w.pd).users.end();
  c.live.end();
  delete &w;
  return 0;
}

int bind_mw(ibv_qp* handle, ibv_mw* window, ibv_mw_bind* bind) noexcept {
  auto& w = *static_cast<memory_window*>(window);
  queue_pair& qp = of(handle);
  context& c = *qp.owner;
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = bind->wr_id;
  wr.opcode = IBV_WR_BIND_MW;
  wr.send_flags = bind->send_flags;
  wr.bind_mw.mw = window;
  wr.bind_mw.bind_info = bind->bind_info;
  wr.bind_mw.rkey = (w.rkey & ~0xffu) | ((w.rkey + 1) & 0xff);
  if (wr.bind_mw.rkey == 0) wr.bind_mw.rkey = 1;
  const std::uint32_t key = w.rkey;
  bool was_open;
  {
    const hold guard(c.windows);
    was_open = shut(c, w);
  }
  if (was_open) wait_untouched(c, key);
  const int e = qp.context->ops.post_send(handle, &wr, &bad);
  if (e == 0) w.rkey = wr.bind_mw.rkey;
  return e;
}

}  // namespace penstock::nic::shm
