#include "queues/queues.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

namespace penstock::queues::PENSTOCK_ABI {
namespace {

memreg::arena_options arena_for(const dimensions& d) {
  memreg::arena_options o;
  o.name = "penstock-queues";
  o.block_bytes =
      d.receive_bytes() + std::size_t{d.request_chunks + d.reply_chunks} * d.chunk_bytes + 4096;
  return o;
}

}  // namespace

message_queues::message_queues(nic::device& dev, memreg::registrar& r, const dimensions& d)
    : size(d), dev_(dev), memory_(&r, arena_for(d)), table_(d.peers * 3 + 3) {}

result<std::unique_ptr<message_queues>> message_queues::open(nic::device& dev, ibv_pd* pd,
                                                             memreg::registrar& registrar,
                                                             const dimensions& d,
                                                             ibv_comp_channel* channel) {
  std::unique_ptr<message_queues> q(new message_queues(dev, registrar, d));
  if (auto r = q->set_up(pd, channel); !r) return r.error();
  return q;
}

result<void> message_queues::set_up(ibv_pd* pd, ibv_comp_channel* channel) {
  if (auto r = size.fit(dev_.limits, dev_.name); !r) return r;
  const std::uint32_t sends = size.send_completions(dev_.limits);
  send_room.open(sends);
  const auto cq = [this](std::uint32_t n, ibv_cq*& out, ibv_comp_channel* tells) -> result<void> {
    out = dev_.verbs->create_cq(dev_.context, static_cast<int>(n), nullptr, tells, 0);
    if (out == nullptr)
      return failure{"ibv_create_cq of " + std::to_string(n) + " entries on " + dev_.name, errno,
                     "raise ulimit -l, or lower PENSTOCK_CRED_PER_NODE"};
    return {};
  };
  if (auto r = cq(sends, send_cq, nullptr); !r) return r;
  if (auto r = cq(size.reply_receives(), reply_cq, channel); !r) return r;
  if (auto r = cq(size.request_receives(), am_cq, channel); !r) return r;

  auto s = receive_pool::open(dev_, pd, memory_, size.small_receives(), size.spares,
                              size.small_held, size.small_bytes);
  if (!s) return s.error();
  small = std::move(*s);
  auto b =
      receive_pool::open(dev_, pd, memory_, size.bulk_receives(), size.spares, 1, size.full_bytes);
  if (!b) return b.error();
  bulk = std::move(*b);
  auto rq = chunk_pool::open(memory_, size.request_chunks, size.chunk_bytes);
  if (!rq) return rq.error();
  request_chunks = std::move(*rq);
  auto rp = chunk_pool::open(memory_, size.reply_chunks, size.chunk_bytes);
  if (!rp) return rp.error();
  reply_chunks = std::move(*rp);

  ibv_srq_init_attr init{};
  init.attr.max_wr = size.reply_receives();
  init.attr.max_sge = 1;
  reply_srq = dev_.verbs->create_srq(pd, &init);
  if (reply_srq == nullptr) return failure{"ibv_create_srq for replies on " + dev_.name, errno, ""};
  for (std::uint32_t left = size.reply_receives(); left != 0;) {
    const std::uint32_t n = std::min(left, dimensions::receives_a_post);
    if (const int e = post_reply_receives(n); e != 0)
      return failure{"ibv_post_srq_recv for replies on " + dev_.name, e, ""};
    left -= n;
  }
  return {};
}

message_queues::~message_queues() {
  if (reply_srq != nullptr) dev_.verbs->destroy_srq(reply_srq);
  small.reset();
  bulk.reset();
  for (ibv_cq* q : {send_cq, reply_cq, am_cq})
    if (q != nullptr) dev_.verbs->destroy_cq(q);
}

int message_queues::post_reply_receives(std::uint32_t n) noexcept {
  ibv_recv_wr chain[dimensions::receives_a_post];
  for (std::uint32_t i = 0; i < n; ++i)
    chain[i] = {
        .wr_id = 0, .next = i + 1 < n ? chain + i + 1 : nullptr, .sg_list = nullptr, .num_sge = 0};
  ibv_recv_wr* bad = nullptr;
  return ibv_post_srq_recv(reply_srq, chain, &bad);
}

void message_queues::describe(side s, ibv_qp_init_attr& init) const noexcept {
  init.send_cq = send_cq;
  init.recv_cq = s == reply_side ? reply_cq : am_cq;
  init.srq = s == reply_side ? reply_srq : s == bulk_side ? bulk->srq() : small->srq();
  init.cap.max_send_wr = size.depth;
  init.cap.max_send_sge = 1;
  init.cap.max_inline_data = size.max_inline;
}

}  // namespace penstock::queues::PENSTOCK_ABI
