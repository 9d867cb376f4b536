// Segment everything: the channel for control messages of remote firehoses. See rma_everything.hpp.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "firehose/firehose.hpp"
#include "lib/base/log.hpp"
#include "lib/conduit/one_sided/rma_everything.hpp"
#include "lib/conduit/one_sided/rma_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr std::uint32_t most_receives = 16, least_receives = 6;
constexpr std::uint32_t most_peers_a_queue = 64;

}  // namespace

everywhere::~everywhere() {
  remote_.reset();
  for (std::uint32_t i = 0; i < cq_count_.load(std::memory_order_relaxed); ++i)
    core_.device().verbs->destroy_cq(cqs_[i]);
}

result<void> everywhere::open(firehose::pool& pool, const firehose::remote_settings& s) {
  const auto most = static_cast<std::uint32_t>(core_.device().limits.max_cqe);
  receives_ = std::min(most, most_receives);
  if (receives_ < least_receives)
    return failure{"a completion queue of " + core_.device().name + " has " + std::to_string(most) +
                       " entries, too few for segment everything",
                   0, "use a segment"};
  most_ = receives_ - 2;
  peers_a_queue_ = std::min(most / receives_, most_peers_a_queue);
  cqs_ = std::make_unique<ibv_cq*[]>((core_.size() + peers_a_queue_ - 1) / peers_a_queue_);
  lines_ = zero_array<line>(core_.size());
  remote_ = std::make_unique<firehose::remote_firehoses>(*this, pool, s);
  return {};
}

void everywhere::describe_queue(const peer& p, ibv_qp_init_attr& init) noexcept {
  line& l = lines_[p.rank];
  if (l.queue == 0) {
    const std::uint32_t n = cq_count_.load(std::memory_order_relaxed);
    l.queue = places_ != 0 ? n : n + 1;
    if (places_ == 0) {
      places_ = peers_a_queue_;
      cqs_[n] = core_.device().verbs->create_cq(
          core_.device().context, static_cast<int>(places_ * receives_), nullptr, nullptr, 0);
      if (cqs_[n] == nullptr)
        fatal(1, "segment everything: ibv_create_cq on %s: %s; raise ulimit -l, or use a segment",
              core_.device().name.c_str(), std::strerror(errno));
      // Q1 queue  release cq_count_  -> Q2
      cq_count_.store(n + 1, std::memory_order_release);
    }
    --places_;
  }
  init.recv_cq = cqs_[l.queue - 1];
  init.cap.max_recv_wr = receives_;
}

void everywhere::attach(peer& p) {
  if (p.rank == core_.rank()) return;
  auto m = memory_.take(std::size_t{receives_} * sizeof(frame));
  if (!m) fatal(1, "segment everything: %s", m.error().message().c_str());
  line& l = lines_[p.rank];
  l.memory = *m;
  for (std::uint32_t i = 0; i < receives_; ++i) post(p, i);
  l.credits.store(most_, std::memory_order_relaxed);  // published with p.ready
}

void everywhere::post(peer& p, std::uint32_t buffer) noexcept {
  const memreg::piece& m = lines_[p.rank].memory;
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(m.base + buffer * sizeof(frame)), sizeof(frame),
              m.keys.lkey};
  ibv_recv_wr wr{};
  wr.wr_id = std::uint64_t{p.rank} << 8 | buffer;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  if (const int e = ibv_post_recv(p.lanes[lane_rma].qp, &wr, &bad); e != 0)
    core_.post_refused(p, e);
}

status everywhere::push(peer& p, const frame& f) noexcept {
  return transfers_.send_frame(p, std::as_bytes(std::span(&f, 1)), in_flight_);
}

status everywhere::send(unsigned rank, std::span<const std::byte> body) noexcept {
  if (rank >= core_.size() || body.size() > body_bytes) return status::bad_arguments;
  peer& p = core_.begun(core_.peers()[rank]);
  // A2 ready  acquire p.ready  <- R2 (connect.cpp): the line is there
  if ((p.ready.load(std::memory_order_acquire) >> lane_rma & 1) == 0)
    return connections_.connect(p, lane_rma);
  line& l = lines_[rank];
  // There is one sender at a time, and receivers only add. relaxed: the frames carry the order.
  if (l.credits.load(std::memory_order_relaxed) == 0) return status::no_credit;
  frame f;
  f.kind = frame_kind::message;
  std::memcpy(f.body.data(), body.data(), body.size());
  f.returned = l.owed.exchange(0, std::memory_order_relaxed);
  l.credits.fetch_sub(1, std::memory_order_relaxed);
  const status s = push(p, f);
  if (s != status::ok) {
    l.credits.fetch_add(1, std::memory_order_relaxed);
    l.owed.fetch_add(f.returned, std::memory_order_relaxed);
  }
  return s;
}

void everywhere::receive() noexcept {
  const std::uint32_t tag = thread_tag();
  if (!receiving_.try_enter(tag)) return;
  // Q2 queue  acquire cq_count_  <- Q1
  const std::uint32_t count = cq_count_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i) receive_from(cqs_[i]);
  receiving_.leave(tag);
}

void everywhere::receive_from(ibv_cq* cq) noexcept {
  ibv_wc wc[4];
  const int n = ibv_poll_cq(cq, 4, wc);
  if (n < 0) [[unlikely]]
    fatal(1, "ibv_poll_cq of remote firehose failed on %s", core_.device().name.c_str());
  for (int i = 0; i < n; ++i) {
    const auto rank = static_cast<std::uint32_t>(wc[i].wr_id >> 8);
    const auto buffer = static_cast<std::uint32_t>(wc[i].wr_id & 0xff);
    peer& p = core_.peers()[rank];
    if (wc[i].status != IBV_WC_SUCCESS) [[unlikely]] {
      if (!core_.closing()) core_.peer_failed(p, core_.device().verbs->wc_status_str(wc[i].status));
      continue;
    }
    if (wc[i].byte_len != sizeof(frame)) [[unlikely]]
      core_.peer_failed(p, core::malformed);
    frame f;
    std::memcpy(&f, lines_[rank].memory.base + buffer * sizeof f, sizeof f);
    post(p, buffer);
    handle(p, f);
  }
}

void everywhere::handle(peer& p, const frame& f) noexcept {
  line& l = lines_[p.rank];
  const std::uint32_t had = l.credits.fetch_add(f.returned, std::memory_order_relaxed);
  if (f.returned > most_ || had + f.returned > most_) [[unlikely]]
    core_.peer_failed(p, core::malformed);
  if (f.kind != frame_kind::message) return;
  if (l.owed.fetch_add(1, std::memory_order_relaxed) + 1 >= most_ / 2)
    owing_.store(true, std::memory_order_relaxed);
  if (!remote_->on_message(p.rank, f.body)) [[unlikely]]
    core_.peer_failed(p, core::malformed);
}

// Sends frames that only return receives, to peers to which N/2 or more are owed.
void everywhere::return_owed() noexcept {
  owing_.store(false, std::memory_order_relaxed);
  for (peer& p : core_.all_begun()) {
    if (p.home->index != 0) continue;
    line& l = lines_[p.rank];
    if (l.owed.load(std::memory_order_relaxed) < most_ / 2) continue;
    frame f;
    f.returned = l.owed.exchange(0, std::memory_order_relaxed);
    if (f.returned == 0) continue;
    if (push(p, f) != status::ok) {
      l.owed.fetch_add(f.returned, std::memory_order_relaxed);
      owing_.store(true, std::memory_order_relaxed);
    }
  }
}

void everywhere::progress() noexcept {
  receive();
  if (owing_.load(std::memory_order_relaxed)) return_owed();
  remote_->progress();
}

}  // namespace penstock::conduit::PENSTOCK_ABI
