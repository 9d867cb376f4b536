#include "queues/receive_pool.hpp"

#include <cerrno>

namespace penstock::queues {

result<std::unique_ptr<receive_pool>> receive_pool::open(nic::device& dev, ibv_pd* pd,
                                                         memreg::arena& memory,
                                                         std::uint32_t credits,
                                                         std::uint32_t spares,
                                                         std::uint32_t bytes) {
  std::unique_ptr<receive_pool> p(new receive_pool(dev, credits, spares, bytes));
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
  for (std::uint32_t i = 0; i < p->count_; ++i)
    if (const int e = p->post(i); e != 0) return failure{"ibv_post_srq_recv on " + dev.name, e, ""};
  return p;
}

receive_pool::~receive_pool() {
  if (srq_ != nullptr) dev_.verbs->destroy_srq(srq_);
}

int receive_pool::post(std::uint32_t buffer) noexcept {
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(at(buffer)), bytes_, memory_.keys.lkey};
  ibv_recv_wr wr{.wr_id = buffer, .next = nullptr, .sg_list = &sge, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  return ibv_post_srq_recv(srq_, &wr, &bad);
}

}  // namespace penstock::queues
