// am_rate and am_bw: requests in one direction as fast as they go. Requests count when their
// handler has run: a last request asks the target for its count, and time runs until the count is
// complete. Handlers of Mediums read their payload; those of Longs do not, since placing it is all
// that a Long does. With a window the requester waits for the count after each window of requests.
// With both ways the target sends the same number at the same time, and time runs until both counts
// are complete and the target has said so; until then the requester polls, and answers.
#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "lib/base/thread_index.hpp"
#include "perf/penperf/bench.hpp"
#include "perf/penperf/flood_rounds.hpp"
#include "perf/penperf/loading.hpp"
#include "perf/penperf/rig.hpp"
#include "perf/twin_ring.hpp"

namespace penstock::penperf {

namespace {

constexpr bool many_threads = std::string_view(PENPERF_MODE) == "par";

/// Requests whose handlers have run, by the thread that ran them: no two write one line.
class arrival_counter {
 public:
  void count(std::uint64_t read) noexcept {
    slot& s = slots_[many_threads ? thread_tag() : 0];
    s.handled.store(s.handled.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    s.read += read;
  }
  [[nodiscard]] std::uint64_t total() const noexcept {
    std::uint64_t n = 0;
    for (const slot& s : slots_) n += s.handled.load(std::memory_order_relaxed);
    return n;
  }

 private:
  struct alignas(cache_line) slot {
    std::atomic<std::uint64_t> handled{0};
    std::uint64_t read = 0;
  };
  std::vector<slot> slots_ = std::vector<slot>(many_threads ? max_threads + 1 : 1);
};

class am_flood final : public bench {
 public:
  explicit am_flood(const options& o)
      : options_(o),
        kind_(o.kind),
        size_(o.size),
        threads_(o.threads),
        window_(o.window),
        both_(o.both),
        rounds_(o),
        payload_(size_) {}

  void add_handlers(endpoint& ep) override {
    on_short_ = ep.add<&am_flood::arrived>(this);
    on_loaded_ = ep.add<&am_flood::loaded>(this);
    on_ask_ = ep.add<&am_flood::asked>(this);
    on_told_ = ep.add<&am_flood::told>(this);
    on_done_ = ep.add<&am_flood::done>(this);
  }

  void start(world&, rig& r) override {
    other_ = r.other();
    r.at_target([this, &r](std::uint64_t batches) {
      send_all(r.ep(), batches);
      must(r.ep().request_short(other_, on_done_), "the end of the target's flood");
    });
  }

  std::size_t segment_bytes() const override {
    return kind_ == am_kind::long_ ? placement_window(size_) : 0;
  }

  figures ours(rig& r) override {
    if (threads_ > 1) r.pollers(true);
    const figures f =
        rounds_.round(r, ours_, [&](std::uint64_t batches) { return flood(r, batches); });
    if (threads_ > 1) r.pollers(false);
    return f;
  }

  figures raw(rig& r) override {
    const leg one_way{size_, kind_ == am_kind::long_};
    const manner how{both_, static_cast<std::uint32_t>(window_)};
    return rounds_.round(r, raw_, [&](std::uint64_t batches) {
      samples_.resize(batches);
      return r.raw_flood(one_way, how, batch_, samples_);
    });
  }

 private:
  // Runs at the target; with both ways, at both.
  void arrived(token&, std::uint64_t) { arrivals_.count(0); }
  void loaded(token&, std::span<std::byte> payload, std::uint64_t) {
    arrivals_.count(kind_ == am_kind::medium ? perf::read_all(payload.data(), payload.size()) : 0);
  }
  void asked(token& t) { must(t.reply_short(on_told_, arrivals_.total()), "the target's count"); }
  void told(token&, std::uint64_t handled) {
    handled_.store(handled, std::memory_order_relaxed);
    answers_.fetch_add(1, std::memory_order_relaxed);
  }

  /// The target's half of a flood both ways.
  void send_all(endpoint& ep, std::uint64_t batches) {
    samples_.resize(batches);
    send(ep, samples_);
    if (window_ == 0) sent_ += batch_ * batches;
    confirm(ep);
  }

  // At the requester, from the target.
  void done(token&) { done_.fetch_add(1, std::memory_order_relaxed); }

  figures flood(rig& r, std::uint64_t batches) {
    endpoint& ep = r.ep();
    const std::uint64_t each = std::max<std::uint64_t>(1, batches / threads_);
    samples_.resize(each * threads_);
    std::latch ready(static_cast<std::ptrdiff_t>(threads_));
    std::vector<std::jthread> others;
    for (unsigned i = 1; i < threads_; ++i)
      others.emplace_back([&, i] {
        ready.arrive_and_wait();
        send(ep, std::span(samples_).subspan(i * each, each));
      });
    if (threads_ > 1) ready.arrive_and_wait();
    const std::uint64_t start = ticks();
    const std::uint64_t ended = done_.load(std::memory_order_relaxed);
    if (both_) r.call_target(batches);
    send(ep, std::span(samples_).first(each));
    others.clear();
    std::uint64_t count = batch_ * each * threads_;
    if (window_ == 0) sent_ += count;
    confirm(ep);
    if (both_) {
      must(ep.wait_until([&] { return done_.load(std::memory_order_relaxed) != ended; }),
           "the target's flood");
      count *= 2;
    }
    const double seconds = static_cast<double>(ticks() - start) * ns_per_tick() * 1e-9;
    return {perf::summarize(samples_, ns_per_tick() / static_cast<double>(batch_)),
            static_cast<double>(count) / seconds, count};
  }

  void send(endpoint& ep, std::span<std::uint64_t> samples) {
    loading load(options_, payload_);
    switch (kind_) {
      case am_kind::short_:
        return batches(ep, samples,
                       [&](std::uint64_t i) { return ep.request_short(other_, on_short_, i); });
      case am_kind::medium:
        return batches(ep, samples,
                       [&](std::uint64_t i) { return load.medium(ep, other_, on_loaded_, i); });
      case am_kind::long_:
        break;
    }
    std::byte* const there = ep.segment_of(other_).data();
    placement at(size_, placement_window(size_));
    batches(ep, samples, [&](std::uint64_t i) {
      return load.long_to(ep, other_, on_loaded_, there + at.next(), i);
    });
  }

  template <class Send>
  void batches(endpoint& ep, std::span<std::uint64_t> samples, Send&& send_one) {
    std::uint64_t before = ticks();
    for (auto& s : samples) {
      for (std::uint64_t i = 0; i < batch_; ++i) must(send_one(i), "a flood's request");
      if (window_ != 0) {
        sent_ += batch_;
        confirm(ep);
      }
      const std::uint64_t now = ticks();
      s = now - before;
      before = now;
    }
  }

  /// Asks until the target has run the handlers of all: answers may overtake requests.
  void confirm(endpoint& ep) {
    while (handled_.load(std::memory_order_relaxed) != sent_) {
      const std::uint64_t before = answers_.load(std::memory_order_relaxed);
      must(ep.request_short(other_, on_ask_), "asking for the target's count");
      must(ep.wait_until([&] { return answers_.load(std::memory_order_relaxed) != before; }),
           "the target's count");
      if (handled_.load(std::memory_order_relaxed) > sent_)
        fatal(1, "the target has run %llu handlers for %llu requests",
              static_cast<unsigned long long>(handled_.load(std::memory_order_relaxed)),
              static_cast<unsigned long long>(sent_));
    }
  }

  options options_;
  am_kind kind_;
  std::uint64_t size_;
  unsigned threads_;
  std::uint64_t window_;
  bool both_;
  flood_rounds rounds_;
  std::uint64_t batch_ = rounds_.batch();
  rank_id other_ = target_rank;
  flood_rounds::length ours_, raw_;
  payload_buffer payload_;
  std::vector<std::uint64_t> samples_;
  short_handler<std::uint64_t> on_short_, on_told_;
  payload_handler<std::uint64_t> on_loaded_;
  short_handler<> on_ask_, on_done_;
  arrival_counter arrivals_;
  std::uint64_t sent_ = 0;
  std::atomic<std::uint64_t> handled_{0}, answers_{0}, done_{0};
};

}  // namespace

std::string complete_am_rate(options& o) {
  if (o.kind == am_kind::short_) {
    if (o.size > sizeof(std::uint64_t)) return "a Short of am_rate carries 8 bytes";
    o.size = sizeof(std::uint64_t);
  } else if (o.size == 0) {
    o.size = 8;
  }
  return {};
}

std::string complete_am_bw(options& o) {
  if (!o.kind_given) o.kind = am_kind::medium;
  if (o.kind == am_kind::short_) return "am_bw is for Mediums and Longs; see am_rate";
  if (o.size == 0) o.size = o.kind == am_kind::medium ? 4032 : 65536;
  return {};
}

std::unique_ptr<bench> make_am_flood(const options& o) { return std::make_unique<am_flood>(o); }

}  // namespace penstock::penperf
