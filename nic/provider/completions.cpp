// Extended completion queues (ibv_create_cq_ex): one completion at a time, read field by field.
#include <cerrno>
#include <ctime>

#include "nic/provider/kernel.hpp"
#include "nic/provider/operations.hpp"
#include "nic/shm/boundary.hpp"
#include "nic/shm/cq.hpp"

namespace penstock::nic::provider {
namespace {

shm::completion_queue& of(ibv_cq_ex* cq) noexcept { return shm::of(reinterpret_cast<ibv_cq*>(cq)); }

/// Goes to the next completion: 0, or ENOENT if there is none.
int next(ibv_cq_ex* handle) noexcept {
  shm::completion_queue& cq = of(handle);
  const int got = cq.context->ops.poll_cq(&cq, 1, &cq.current);
  if (got <= 0) return got == 0 ? ENOENT : EIO;
  handle->wr_id = cq.current.wr_id;
  handle->status = cq.current.status;
  return 0;
}

int start(ibv_cq_ex* handle, ibv_poll_cq_attr* attr) noexcept {
  if (attr->comp_mask != 0) return EINVAL;
  shm::completion_queue& cq = of(handle);
  if (!cq.one_poller) cq.session.lock();
  const int e = next(handle);
  if (e != 0 && !cq.one_poller) cq.session.unlock();
  return e;
}

void end(ibv_cq_ex* handle) noexcept {
  shm::completion_queue& cq = of(handle);
  if (!cq.one_poller) cq.session.unlock();
}

void fill(ibv_cq_ex& cq) noexcept {
  shm::enter(cq.start_poll, start);
  shm::enter(cq.next_poll, next);
  shm::enter(cq.end_poll, end);
  shm::enter(cq.read_opcode, [](ibv_cq_ex* c) noexcept { return of(c).current.opcode; });
  shm::enter(cq.read_vendor_err, [](ibv_cq_ex* c) noexcept { return of(c).current.vendor_err; });
  shm::enter(cq.read_byte_len, [](ibv_cq_ex* c) noexcept { return of(c).current.byte_len; });
  shm::enter(cq.read_imm_data, [](ibv_cq_ex* c) noexcept { return of(c).current.imm_data; });
  shm::enter(cq.read_qp_num, [](ibv_cq_ex* c) noexcept { return of(c).current.qp_num; });
  shm::enter(cq.read_src_qp, [](ibv_cq_ex* c) noexcept { return of(c).current.src_qp; });
  shm::enter(cq.read_wc_flags, [](ibv_cq_ex* c) noexcept { return of(c).current.wc_flags; });
  shm::enter(cq.read_slid, [](ibv_cq_ex*) noexcept { return std::uint32_t{0}; });
  shm::enter(cq.read_sl, [](ibv_cq_ex*) noexcept { return std::uint8_t{0}; });
  shm::enter(cq.read_dlid_path_bits, [](ibv_cq_ex*) noexcept { return std::uint8_t{0}; });
}

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* c, ibv_cq_init_attr_ex* init) {
  constexpr std::uint64_t known = IBV_WC_STANDARD_FLAGS;
  constexpr std::uint32_t flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
  const bool has_flags = (init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
  if ((init->wc_flags & ~known) != 0 || (init->comp_mask & ~IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ||
      (has_flags && (init->flags & ~flags) != 0))
    return errno = EOPNOTSUPP, nullptr;
  shm::channel_events* events = init->channel != nullptr ? events_of(init->channel->fd) : nullptr;
  if (init->channel != nullptr && events == nullptr) return errno = EINVAL, nullptr;
  ibv_cq* cq = shm::make_cq(c, static_cast<int>(init->cqe), init->cq_context, init->channel, events,
                            static_cast<int>(init->comp_vector));
  if (cq == nullptr) return nullptr;
  shm::of(cq).one_poller = has_flags && (init->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
  auto* extended = reinterpret_cast<ibv_cq_ex*>(cq);
  fill(*extended);
  return extended;
}

}  // namespace penstock::nic::provider
