#include "queues/queues.hpp"

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/shortage.hpp"

namespace penstock::queues::PENSTOCK_ABI {
namespace {

memreg::arena_options arena_for(const dimensions& d) {
  memreg::arena_options o;
  o.name = "penstock-queues";
  o.block_bytes = d.for_peers(d.peers_at_start()).receive_bytes() +
                  std::size_t{d.request_chunks + d.reply_chunks} * d.chunk_bytes + 4096;
  return o;
}

memreg::arena_options arena_for_growth() {
  memreg::arena_options o;
  o.name = "penstock-more";
  o.block_bytes = 4096;  // a block is what is asked for
  return o;
}

}  // namespace

message_queues::message_queues(nic::device& dev, memreg::registrar& r, const dimensions& d)
    : size(d),
      dev_(dev),
      memory_(&r, arena_for(d)),
      more_(&r, arena_for_growth()),
      table_(d.peers * 3 + 3),
      admitted_(d.near),
      room_(d.peers_at_start()) {}

result<std::unique_ptr<message_queues>> message_queues::open(nic::device& dev, ibv_pd* pd,
                                                             memreg::registrar& registrar,
                                                             const dimensions& d,
                                                             ibv_comp_channel* channel) {
  std::unique_ptr<message_queues> q(new message_queues(dev, registrar, d));
  if (auto r = q->set_up(pd, channel); !r) return r.error();
  return q;
}

result<void> message_queues::set_up(ibv_pd* pd, ibv_comp_channel* channel) {
  const dimensions now = size.for_peers(room_);
  if (auto r = now.fit(dev_.limits, dev_.name, dev_.cqe_set); !r) return r;
  const auto cq = [this](std::uint32_t n, ibv_cq*& out, ibv_comp_channel* tells) -> result<void> {
    out = dev_.verbs->create_cq(dev_.context, static_cast<int>(n), nullptr, tells, 0);
    if (out == nullptr)
      return failure{"ibv_create_cq of " + std::to_string(n) + " entries on " + dev_.name, errno,
                     what_to_raise(errno, "PENSTOCK_CRED_PER_NODE")};
    return {};
  };
  if (room_ < size.peers) {
    // Whether a device can make a queue longer is known only once it has done so.
    if (auto r = cq(completion_room<build_mode>::least, send_cq, nullptr); !r) return r;
    longer_cqs_ = lengthen(send_cq, now.send_entries(dev_.limits, !signals_all())).has_value();
    longer_srqs_ = (dev_.limits.device_cap_flags & IBV_DEVICE_SRQ_RESIZE) != 0;
    if (!longer_cqs_) dev_.verbs->destroy_cq(std::exchange(send_cq, nullptr));
  }
  if (!longer_cqs_ || !longer_srqs_)
    if (auto r = size.fit(dev_.limits, dev_.name, dev_.cqe_set); !r) return r;
  const dimensions& cqs = longer_cqs_ ? now : size;
  const dimensions& srqs = longer_srqs_ ? now : size;
  if (send_cq == nullptr)
    if (auto r = cq(cqs.send_entries(dev_.limits, !signals_all()), send_cq, nullptr); !r) return r;
  sends_ = cqs.send_completions(dev_.limits);
  send_room.open(sends_);
  if (auto r = cq(cqs.reply_receives(), reply_cq, channel); !r) return r;
  if (auto r = cq(cqs.request_receives(), am_cq, channel); !r) return r;

  auto s = receive_pool::open(dev_, pd, memory_, srqs.small_receives(), now.small_receives(),
                              size.spares, size.small_held, size.small_bytes);
  if (!s) return s.error();
  small = std::move(*s);
  if (const std::size_t bytes = std::size_t{size.senders()} * size.block; bytes != 0) {
    auto all = memory_.take(bytes);
    if (!all) return all.error();
    blocks_ = *all;
  }
  if (size.space == 0) {
    auto b = receive_pool::open(dev_, pd, memory_, srqs.bulk_receives(), now.bulk_receives(),
                                size.spares, 1, size.full_bytes);
    if (!b) return b.error();
    bulk = std::move(*b);
  }
  auto rq =
      chunk_pool::open(memory_, size.request_chunks, size.chunk_bytes, size.peers - size.near);
  if (!rq) return rq.error();
  request_chunks = std::move(*rq);
  auto rp = chunk_pool::open(memory_, size.reply_chunks, size.chunk_bytes);
  if (!rp) return rp.error();
  reply_chunks = std::move(*rp);

  ibv_srq_init_attr init{};
  init.attr.max_wr = srqs.reply_receives();
  init.attr.max_sge = 1;
  reply_srq = dev_.verbs->create_srq(pd, &init);
  if (reply_srq == nullptr) return failure{"ibv_create_srq for replies on " + dev_.name, errno, ""};
  return post_replies_up_to(now.reply_receives());
}

result<void> message_queues::admit_peer() {
  const std::lock_guard alone(growing_);
  const std::uint32_t wanted = std::min(admitted_ + 1, size.peers);
  // Twice the room each time, so that the queues are seldom made longer.
  if (wanted > room_) {
    if (auto r = size.for_peers(wanted).fit(dev_.limits, dev_.name, dev_.cqe_set); !r) return r;
    const std::uint32_t twice = std::min(room_ * 2, size.peers);
    if (auto r = make_room_for(std::min(twice, size.most_peers(dev_.limits))); !r) return r;
  }
  PENSTOCK_ASSERT(wanted, <=, room_);
  admitted_ = wanted;
  return {};
}

result<void> message_queues::make_room_for(std::uint32_t peers) {
  const dimensions then = size.for_peers(peers);
  if (longer_cqs_) {
    const std::uint32_t sends = then.send_completions(dev_.limits);
    if (auto r = lengthen(send_cq, sends); !r) return r;
    PENSTOCK_ASSERT(sends, >=, sends_);
    send_room.grow(sends - std::exchange(sends_, sends));
    if (auto r = lengthen(reply_cq, then.reply_receives()); !r) return r;
    if (auto r = lengthen(am_cq, then.request_receives()); !r) return r;
  }
  if (longer_srqs_) {
    if (auto r = lengthen(reply_srq, then.reply_receives()); !r) return r;
    if (auto r = lengthen(small->srq(), then.small_receives()); !r) return r;
    if (bulk != nullptr)
      if (auto r = lengthen(bulk->srq(), then.bulk_receives()); !r) return r;
  }
  if (auto r = post_replies_up_to(then.reply_receives()); !r) return r;
  if (auto r = small->grow_to(then.small_receives(), more_); !r) return r;
  if (bulk != nullptr)
    if (auto r = bulk->grow_to(then.bulk_receives(), more_); !r) return r;
  PENSTOCK_ASSERT(peers, >, room_);  // queues never become shorter
  PENSTOCK_ASSERT(replies_posted_, >=, then.reply_receives());
  room_ = peers;
  return {};
}

result<void> message_queues::lengthen(ibv_cq* cq, std::uint32_t entries) {
  if (const int e = dev_.verbs->resize_cq(cq, static_cast<int>(entries)); e != 0)
    return failure{"ibv_resize_cq to " + std::to_string(entries) + " entries on " + dev_.name, e,
                   what_to_raise(e, "PENSTOCK_CRED_PER_NODE")};
  return {};
}

result<void> message_queues::lengthen(ibv_srq* srq, std::uint32_t entries) {
  ibv_srq_attr a{};
  a.max_wr = entries;
  if (const int e = dev_.verbs->modify_srq(srq, &a, IBV_SRQ_MAX_WR); e != 0)
    return failure{"ibv_modify_srq to " + std::to_string(entries) + " entries on " + dev_.name, e,
                   what_to_raise(e, "PENSTOCK_CRED_PER_NODE")};
  return {};
}

result<void> message_queues::post_replies_up_to(std::uint32_t n) {
  std::vector<ibv_recv_wr> chain(n - std::min(n, replies_posted_));
  if (chain.empty()) return {};
  for (std::size_t i = 0; i + 1 < chain.size(); ++i) chain[i].next = &chain[i + 1];
  ibv_recv_wr* bad = nullptr;
  const int e = ibv_post_srq_recv(reply_srq, chain.data(), &bad);
  replies_posted_ += static_cast<std::uint32_t>(e == 0 ? chain.size() : bad - chain.data());
  if (e != 0) return failure{"ibv_post_srq_recv for replies on " + dev_.name, e, ""};
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
  PENSTOCK_ASSERT(n, <=, std::size(chain));
  for (std::uint32_t i = 0; i < n; ++i)
    chain[i] = {
        .wr_id = 0, .next = i + 1 < n ? chain + i + 1 : nullptr, .sg_list = nullptr, .num_sge = 0};
  ibv_recv_wr* bad = nullptr;
  return ibv_post_srq_recv(reply_srq, chain, &bad);
}

void message_queues::describe(side s, ibv_qp_init_attr& init) const noexcept {
  init.send_cq = send_cq;
  init.recv_cq = s == reply_side ? reply_cq : am_cq;
  init.srq = s == reply_side                     ? reply_srq
             : s == bulk_side && bulk != nullptr ? bulk->srq()
                                                 : small->srq();
  init.cap.max_send_wr = size.depth;
  init.cap.max_send_sge = 1;
  init.cap.max_inline_data = size.max_inline;
}

}  // namespace penstock::queues::PENSTOCK_ABI
