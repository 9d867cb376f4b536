#include "queues/receive_pool.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "lib/base/assert.hpp"

namespace penstock::queues::PENSTOCK_ABI {

result<std::unique_ptr<receive_pool>> receive_pool::open(nic::device& dev, ibv_pd* pd,
                                                         memreg::arena& memory, std::uint32_t room,
                                                         std::uint32_t count, std::uint32_t spares,
                                                         std::uint32_t held_by_each,
                                                         std::uint32_t bytes) {
  std::unique_ptr<receive_pool> p(new receive_pool(dev, spares, held_by_each, bytes));
  ibv_srq_init_attr init{};
  init.attr.max_wr = room;
  init.attr.max_sge = 1;
  p->srq_ = dev.verbs->create_srq(pd, &init);
  if (p->srq_ == nullptr)
    return failure{
        "ibv_create_srq of " + std::to_string(room) + " entries on " + dev.name, errno,
        "fewer credits (PENSTOCK_CRED_PER_NODE, PENSTOCK_BANKED_CREDITS); the device allows " +
            std::to_string(dev.limits.max_srq_wr)};
  if (auto r = p->grow_to(count, memory); !r) return r.error();
  return p;
}

result<void> receive_pool::grow_to(std::uint32_t count, memreg::arena& memory) {
  if (count <= count_) return {};
  PENSTOCK_ASSERT(used_, <, parts_.size());
  const std::uint32_t n = count - count_;
  auto piece = memory.take(std::size_t{n} * bytes_);
  if (!piece) return piece.error();
  part& p = parts_[used_];
  p = {count_, count, *piece};
  const std::uint32_t from = count_;
  int e = 0;
  while (e == 0 && count_ < count) e = post_more(count - count_, p.memory.keys.lkey);
  if (count_ != from) ++used_;
  if (e == 0) return {};
  // Not written otherwise: others may read it since its buffers are posted.
  p.end = count_;
  return failure{"ibv_post_srq_recv on " + dev_.name, e, ""};
}

// Many in one call, since each takes the device's lock from the threads that poll.
int receive_pool::post_more(std::uint32_t most, std::uint32_t lkey) noexcept {
  std::array<ibv_sge, 128> sge;
  std::array<ibv_recv_wr, sge.size()> chain;
  const std::uint32_t n = std::min<std::uint32_t>(most, sge.size());
  for (std::uint32_t i = 0; i < n; ++i) {
    sge[i] = {reinterpret_cast<std::uintptr_t>(at(count_ + i)), bytes_, lkey};
    chain[i] = {.wr_id = count_ + i,
                .next = i + 1 < n ? &chain[i + 1] : nullptr,
                .sg_list = &sge[i],
                .num_sge = 1};
  }
  ibv_recv_wr* bad = nullptr;
  const int e = ibv_post_srq_recv(srq_, chain.data(), &bad);
  PENSTOCK_ASSERT(n, !=, 0u);
  count_ += e == 0 ? n : static_cast<std::uint32_t>(bad - chain.data());
  return e;
}

receive_pool::~receive_pool() {
  if (srq_ != nullptr) dev_.verbs->destroy_srq(srq_);
}

int receive_pool::post(held_back& h) noexcept {
  if (h.count == 0) return 0;
  ibv_sge sge[held_back::most];
  ibv_recv_wr chain[held_back::most];
  PENSTOCK_ASSERT(h.count, <=, std::size(chain));
  for (std::uint32_t i = 0; i < h.count; ++i) {
    PENSTOCK_ASSERT(h.buffer[i], <, count_);
    sge[i] = {reinterpret_cast<std::uintptr_t>(at(h.buffer[i])), bytes_,
              part_of(h.buffer[i]).memory.keys.lkey};
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
