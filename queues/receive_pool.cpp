#include "queues/receive_pool.hpp"

#include <cerrno>

namespace penstock::queues::PENSTOCK_ABI {

result<std::unique_ptr<receive_pool>> receive_pool::open(nic::device& dev, ibv_pd* pd,
                                                         memreg::arena& memory, std::uint32_t count,
                                                         std::uint32_t spares,
                                                         std::uint32_t held_by_each,
                                                         std::uint32_t bytes) {
  std::unique_ptr<receive_pool> p(new receive_pool(dev, count, spares, held_by_each, bytes));
  auto piece = memory.take(std::size_t{p->count_} * bytes);
  if (!piece) return piece.error();
  p->memory_ = *piece;
  ibv_srq_init_attr init{};
  init.attr.max_wr = p->count_;
  init.attr.max_sge = 1;
  p->srq_ = dev.verbs->create_srq(pd, &init);
  if (p->srq_ == nullptr)
    return failure{
        "ibv_create_srq of " + std::to_string(p->count_) + " entries on " + dev.name, errno,
        "fewer credits (PENSTOCK_CRED_PER_NODE, PENSTOCK_BANKED_CREDITS); the device allows " +
            std::to_string(dev.limits.max_srq_wr)};
  held_back h;
  for (std::uint32_t i = 0; i < p->count_; ++i) {
    h.buffer[h.count++] = i;
    if (const int e = p->post(h); e != 0) return failure{"ibv_post_srq_recv on " + dev.name, e, ""};
  }
  return p;
}

receive_pool::~receive_pool() {
  if (srq_ != nullptr) dev_.verbs->destroy_srq(srq_);
}

int receive_pool::post(held_back& h) noexcept {
  if (h.count == 0) return 0;
  ibv_sge sge[held_back::most];
  ibv_recv_wr chain[held_back::most];
  for (std::uint32_t i = 0; i < h.count; ++i) {
    sge[i] = {reinterpret_cast<std::uintptr_t>(at(h.buffer[i])), bytes_, memory_.keys.lkey};
    chain[i] = {.wr_id = h.buffer[i],
                .next = i + 1 < h.count ? chain + i + 1 : nullptr,
                .sg_list = sge + i,
                .num_sge = 1};
  }
  h.count = 0;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_srq_recv(srq_, chain, &bad);
}

}  // namespace penstock::queues::PENSTOCK_ABI
