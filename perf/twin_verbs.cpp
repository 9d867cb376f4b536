// The measurements of the bare-verbs twin. Nothing stands in a measured loop but the exchange, one
// reading of the tick counter for each sample, and the count of what is in flight.
#include "perf/twin_verbs.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/clock.hpp"
#include "perf/twin_lane.hpp"

namespace penstock::perf {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t receive_space = std::size_t{8} << 20;  ///< most memory for posted receives

constexpr std::size_t whole_pages(std::size_t bytes) noexcept {
  return (bytes + page - 1) & ~(page - 1);
}

std::uint64_t to_ns(std::uint64_t t) noexcept {
  return static_cast<std::uint64_t>(static_cast<double>(t) * ns_per_tick());
}

/// Waits until n receives have come and been given back; false: failed.
bool await(lane& l, std::uint32_t n) noexcept {
  ibv_wc wc[4];
  while (n > 0) {
    const int got = l.receive(std::span(wc).first(std::min(n, 4u)));
    if (got < 0) return false;
    if (got == 0 && !l.idle()) return false;
    n -= static_cast<std::uint32_t>(got);
    if (got > 0 && !l.repost(static_cast<std::uint32_t>(got))) return false;
  }
  return true;
}

/// Waits until at most n sends are in flight; false: failed.
bool drain(lane& l, std::uint32_t n) noexcept {
  while (l.in_flight() > n) {
    const std::uint32_t before = l.in_flight();
    if (!l.reap()) return false;
    if (l.in_flight() == before && !l.idle()) return false;
  }
  return true;
}

/// One message that says "I am done", and the wait until it has left.
bool say_done(lane& l) noexcept {
  ibv_send_wr wr;
  ibv_sge sge;
  l.prepare(wr, sge, 0);
  return l.post(wr, true) && drain(l, 0);
}

}  // namespace

struct verbs_twin::impl {
  nic::device& device;
  blob_swap swap;
  bool leader;
  twin_options options;
  ibv_pd* pd = nullptr;
  twin_memory memory;

  impl(nic::device& d, blob_swap s, bool l, const twin_options& o)
      : device(d), swap(std::move(s)), leader(l), options(o) {}
  ~impl() {
    if (memory.mr != nullptr) device.verbs->dereg_mr(memory.mr);
    if (pd != nullptr) device.verbs->dealloc_pd(pd);
    if (memory.base != nullptr) munmap(memory.base, memory.bytes);
  }

  result<void> prepare() {
    const std::size_t longest = whole_pages(options.max_bytes);
    memory.target = longest;
    memory.slots = 2 * longest;
    memory.bytes = memory.slots + std::max(receive_space, 16 * longest);
    void* const p = mmap(nullptr, memory.bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (p == MAP_FAILED) return failure{"memory of the bare-verbs twin", errno, ""};
    memory.base = static_cast<std::byte*>(p);
    pd = device.verbs->alloc_pd(device.context);
    if (pd == nullptr) return failure{"the bare-verbs twin: alloc_pd", errno, ""};
    memory.mr = device.verbs->reg_mr(pd, p, memory.bytes,
                                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                         IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    if (memory.mr == nullptr) return failure{"the bare-verbs twin: reg_mr", errno, "see ulimit -l"};
    return {};
  }

  /// The shape for messages of `bytes`: as many receives as the options, the device and the memory
  /// allow, at least sixteen.
  [[nodiscard]] lane_shape shape(std::uint32_t bytes) const noexcept {
    const auto limit = [](int n) { return static_cast<std::uint32_t>(std::max(n, 0)); };
    lane_shape s;
    s.stride = std::max(64u, (bytes + 63) & ~63u);
    const std::size_t room = (memory.bytes - memory.slots) / s.stride;
    s.depth =
        std::min({options.depth, limit(device.limits.max_qp_wr), limit(device.limits.max_cqe)});
    s.receives = static_cast<std::uint32_t>(std::min<std::size_t>(
        {options.depth, limit(device.limits.max_srq_wr), limit(device.limits.max_cqe), room}));
    s.receives = std::max(16u, s.receives & ~3u);
    return s;
  }

  [[nodiscard]] result<void> check(std::uint32_t bytes) const {
    if (bytes <= options.max_bytes && bytes <= device.max_message()) return {};
    return failure{
        "the bare-verbs twin: " + std::to_string(bytes) + " bytes are more than it was made for",
        EMSGSIZE, ""};
  }

  /// Ends a measurement on both sides before the lane goes.
  result<void> finish(const lane& l, bool good) {
    char out[64] = {}, in[64] = {};
    out[0] = good ? 1 : 0;
    const bool heard = swap(out, in);
    if (!good) return l.broken();
    if (!heard || in[0] == 0) return failure{"the bare-verbs twin: the peer failed", 0, ""};
    return {};
  }
};

verbs_twin::verbs_twin(std::unique_ptr<impl> p) noexcept : p_(std::move(p)) {}
verbs_twin::verbs_twin(verbs_twin&&) noexcept = default;
verbs_twin& verbs_twin::operator=(verbs_twin&&) noexcept = default;
verbs_twin::~verbs_twin() = default;

result<verbs_twin> verbs_twin::connect(nic::device& d, blob_swap swap, bool leader,
                                       const twin_options& options) {
  auto p = std::make_unique<impl>(d, std::move(swap), leader, options);
  if (auto made = p->prepare(); !made) return made.error();
  (void)ns_per_tick();  // calibrated before anything is measured
  return verbs_twin(std::move(p));
}

result<void> verbs_twin::ping_pong(std::uint32_t bytes, std::uint32_t reply_bytes,
                                   std::uint64_t warmup, std::span<std::uint64_t> round_trips) {
  if (auto fits = p_->check(std::max(bytes, reply_bytes)); !fits) return fits;
  lane l(p_->device, p_->pd, p_->memory, p_->options.timeout_ns);
  if (auto opened = l.open(p_->shape(std::max(bytes, reply_bytes)), p_->swap); !opened)
    return opened;
  ibv_send_wr wr;
  ibv_sge sge;
  l.prepare(wr, sge, p_->leader ? bytes : reply_bytes);
  const std::uint64_t total = warmup + round_trips.size();
  const std::uint32_t period = std::max(1u, l.depth() / 4);
  const auto send = [&](std::uint64_t i) {
    return l.post(wr, (i + 1) % period == 0) &&
           (l.in_flight() < l.depth() || drain(l, l.depth() - period));
  };
  bool good = true;
  if (p_->leader) {
    std::uint64_t before = ticks();
    for (std::uint64_t i = 0; good && i < total; ++i) {
      good = send(i) && await(l, 1);
      const std::uint64_t after = ticks();
      if (i >= warmup) round_trips[i - warmup] = after - before;
      before = after;
    }
    for (std::uint64_t& t : round_trips) t = to_ns(t);
  } else {
    for (std::uint64_t i = 0; good && i < total; ++i) good = await(l, 1) && send(i);
    good = good && say_done(l);
  }
  // The last replies are complete only when the leader has taken what follows them.
  if (p_->leader) good = good && await(l, 1);
  return p_->finish(l, good);
}

result<twin_rate> verbs_twin::send_rate(std::uint32_t bytes, std::uint64_t messages) {
  if (auto fits = p_->check(bytes); !fits) return fits.error();
  lane l(p_->device, p_->pd, p_->memory, p_->options.timeout_ns);
  if (auto opened = l.open(p_->shape(bytes), p_->swap); !opened) return opened.error();
  ibv_send_wr wr;
  ibv_sge sge;
  l.prepare(wr, sge, p_->leader ? bytes : 0);
  const std::uint32_t period = std::max(1u, l.depth() / 4);
  ibv_wc wc[16];
  bool good = true;
  twin_rate r;
  if (p_->leader) {
    // Credits are counts modulo 2^32 of messages the receiver has taken and reposted.
    std::uint32_t taken = 0, unsignalled = 0;
    std::uint64_t sent = 0;
    const auto last = static_cast<std::uint32_t>(messages);
    const std::uint64_t start = ticks();
    while (good && (sent < messages || taken != last)) {
      if (sent < messages && static_cast<std::uint32_t>(sent) - taken < l.receives() &&
          l.in_flight() < l.depth()) {
        const bool signalled = ++unsignalled == period;
        if (signalled) unsignalled = 0;
        good = l.post(wr, signalled);
        ++sent;
        continue;
      }
      const int n = l.receive(wc);
      if (n < 0) good = false;
      for (int i = 0; i < n; ++i) taken = be32toh(wc[i].imm_data);
      good = good && (n == 0 || l.repost(static_cast<std::uint32_t>(n))) && l.reap() &&
             (n > 0 || l.idle());
    }
    r = {to_ns(ticks() - start), messages, bytes};
    good = good && say_done(l);
  } else {
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    const std::uint32_t batch = std::max(1u, l.receives() / 4);
    std::uint64_t taken = 0, told = 0, credits = 0;
    while (good && told < messages) {
      const int n = l.receive(wc);
      if (n <= 0) {
        good = n == 0 && l.idle();
        continue;
      }
      taken += static_cast<std::uint64_t>(n);
      good = l.repost(static_cast<std::uint32_t>(n));
      // What repost() still holds back is less than a batch and not yet the sender's to use.
      const std::uint64_t given = taken == messages ? taken : taken / batch * batch;
      if (good && given > told) {
        told = given;
        wr.imm_data = htobe32(static_cast<std::uint32_t>(given));
        good = l.post(wr, ++credits % period == 0) &&
               (l.in_flight() < l.depth() || drain(l, l.depth() - period));
      }
    }
    good = good && await(l, 1);
  }
  if (auto ended = p_->finish(l, good); !ended) return ended.error();
  return r;
}

namespace {

void aim(const lane& l, ibv_send_wr& wr, one_sided op) noexcept {
  switch (op) {
    case one_sided::write:
      wr.opcode = IBV_WR_RDMA_WRITE;
      break;
    case one_sided::read:
      wr.opcode = IBV_WR_RDMA_READ;
      break;
    case one_sided::fetch_add:
      wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
      break;
  }
  if (op != one_sided::write) wr.send_flags &= ~static_cast<unsigned>(IBV_SEND_INLINE);
  if (op == one_sided::fetch_add) {
    wr.wr.atomic = {l.remote_target(), 1, 0, l.remote_key()};
  } else {
    wr.wr.rdma = {l.remote_target(), l.remote_key()};
  }
}

}  // namespace

result<void> verbs_twin::latency(one_sided op, std::uint32_t bytes, std::uint64_t warmup,
                                 std::span<std::uint64_t> samples) {
  if (op == one_sided::fetch_add) bytes = 8;
  if (auto fits = p_->check(bytes); !fits) return fits;
  lane l(p_->device, p_->pd, p_->memory, p_->options.timeout_ns);
  if (auto opened = l.open(p_->shape(64), p_->swap); !opened) return opened;
  bool good = true;
  if (p_->leader) {
    ibv_send_wr wr;
    ibv_sge sge;
    l.prepare(wr, sge, bytes);
    aim(l, wr, op);
    std::uint64_t before = ticks();
    for (std::uint64_t i = 0; good && i < warmup + samples.size(); ++i) {
      good = l.post(wr, true) && drain(l, 0);
      const std::uint64_t after = ticks();
      if (i >= warmup) samples[i - warmup] = after - before;
      before = after;
    }
    for (std::uint64_t& t : samples) t = to_ns(t);
    good = good && say_done(l);
  } else {
    good = await(l, 1);
  }
  return p_->finish(l, good);
}

result<twin_rate> verbs_twin::rate(one_sided op, std::uint32_t bytes, std::uint64_t count,
                                   std::uint32_t window, bool both) {
  if (op == one_sided::fetch_add) bytes = 8;
  if (auto fits = p_->check(bytes); !fits) return fits.error();
  lane l(p_->device, p_->pd, p_->memory, p_->options.timeout_ns);
  if (auto opened = l.open(p_->shape(64), p_->swap); !opened) return opened.error();
  bool good = true;
  twin_rate r;
  if (p_->leader || both) {
    ibv_send_wr wr;
    ibv_sge sge;
    l.prepare(wr, sge, bytes);
    aim(l, wr, op);
    const std::uint32_t most = window == 0 ? l.depth() : std::min(window, l.depth());
    const std::uint32_t period = std::max(1u, most / 4);
    std::uint32_t unsignalled = 0;
    const std::uint64_t start = ticks();
    for (std::uint64_t i = 0; good && i < count; ++i) {
      const bool signalled = ++unsignalled == period || i + 1 == count;
      if (signalled) unsignalled = 0;
      good = l.post(wr, signalled) && (l.in_flight() < most || drain(l, most - period));
    }
    good = good && drain(l, 0);
    if (both) {
      good = good && say_done(l) && await(l, 1);
      count *= 2;
    }
    r = {to_ns(ticks() - start), count, bytes};
    if (!both) good = good && say_done(l);
  } else {
    good = await(l, 1);
  }
  if (auto ended = p_->finish(l, good); !ended) return ended.error();
  return r;
}

}  // namespace penstock::perf
