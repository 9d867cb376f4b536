#include "perf/start/crowd.hpp"

#include <cstring>
#include <utility>

#include "lib/base/log.hpp"

namespace penstock::start {

using conduit::datagrams;
using conduit::hello;
using conduit::introduction;

namespace {

constexpr std::uint32_t first_port = 1u << 23;  // of rank 0; no device here has such numbers
constexpr std::size_t grh = 40;

int (*post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr**) = nullptr;
int (*poll_cq)(ibv_cq*, int, ibv_wc*) = nullptr;
datagram_counts counts;
std::atomic<crowd*> playing{nullptr};

bool is_played(std::uint32_t qpn) noexcept {
  const crowd* const c = playing.load();
  return c != nullptr && c->is_port(qpn);
}

int counted_post(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  if (qp->qp_type == IBV_QPT_UD && !is_played(qp->qp_num)) {
    ++counts.sent;
    counts.sent_bytes += wr->sg_list->length;
    if (crowd* const c = playing.load()) c->direct(*wr);
  }
  return post_send(qp, wr, bad);
}

int counted_poll(ibv_cq* cq, int most, ibv_wc* wc) {
  const int n = poll_cq(cq, most, wc);
  for (int i = 0; i < n; ++i)
    if ((wc[i].opcode & IBV_WC_RECV) != 0 && (wc[i].wc_flags & IBV_WC_GRH) != 0 &&
        !is_played(wc[i].qp_num)) {
      ++counts.received;
      counts.received_bytes += wc[i].byte_len - grh;
    }
  return n;
}

}  // namespace

datagram_counts& count_datagrams(ibv_context* context) noexcept {
  post_send = std::exchange(context->ops.post_send, counted_post);
  poll_cq = std::exchange(context->ops.poll_cq, counted_poll);
  counts.sent = counts.sent_bytes = counts.received = counts.received_bytes = 0;
  return counts;
}

crowd::crowd(const conduit::engine& e, bool they_ask)
    : size_(e.size()), domains_(e.fixed().domain_count()), they_ask_(they_ask), bound_(e.size()) {
  const nic::device& d = e.device();
  device_.verbs = d.verbs;
  device_.context = d.context;
  device_.name = d.name;
  device_.self = d.self;
  device_.paths = d.paths;
  auto port = datagrams::open(device_, e.fixed().pd(), 16);
  if (!port) fatal(1, "%s", port.error().message().c_str());
  port_ = std::move(*port);
  playing = this;
  thread_ = std::thread([this] { run(); });
}

crowd::~crowd() {
  {
    const std::lock_guard guard(lock_);
    stop_ = true;
  }
  said_.notify_one();
  thread_.join();
  playing = nullptr;
  port_.reset();
  device_.context = nullptr;
}

introduction crowd::introduce(std::uint32_t r, const introduction& own) noexcept {
  rank_port_ = own.datagram_qp;
  introduction his = own;
  his.datagram_qp = first_port + r;
  return his;
}

void crowd::direct(ibv_send_wr& wr) noexcept {
  const std::uint32_t to = wr.wr.ud.remote_qpn - first_port;
  const auto* const bytes = reinterpret_cast<const std::byte*>(wr.sg_list->addr);
  hello h;
  std::memcpy(&h, bytes, sizeof h);
  const auto heard = conduit::hello_in(bytes, wr.sg_list->length, {h.job, to, size_, domains_});
  if (!heard) fatal(1, "the rank's hello to rank %u is none", to);
  {
    const std::lock_guard guard(lock_);
    to_hear_.emplace_back(to, *heard);
  }
  said_.notify_one();
  wr.wr.ud.remote_qpn = port_->number();
  wr.wr.ud.remote_qkey = 0;  // not the port's: it has gone its way, and nobody takes it there
}

void crowd::run() noexcept {
  for (std::unique_lock guard(lock_);;) {
    said_.wait(guard, [this] { return stop_ || !to_hear_.empty(); });
    if (stop_) return;
    const auto [as, h] = to_hear_.front();
    to_hear_.pop_front();
    guard.unlock();
    hear(as, h);
    guard.lock();
  }
}

// As connections::heard_hello() does, where all lanes that the other side has can be made and
// bound.
void crowd::hear(std::uint32_t as, const hello& h) noexcept {
  const bool fresh = (h.made & ~bound_[as]) != 0;
  hello answer = h;
  answer.from = as;
  answer.want = 0;
  const auto say = [&] { port_->send(0, device_.self, rank_port_, &answer, sizeof answer); };
  if (they_ask_ && bound_[as] == 0) {
    answer.bound = 0, answer.want = 1;
    say();
    answer.want = 0;
  }
  answer.bound = bound_[as] |= h.made;
  if (fresh || h.want != 0) say();
}

}  // namespace penstock::start
