// The loops of registration.hpp. Buffers lie a region's window apart, so that none merge.
#include "perf/reg/registration.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/clock.hpp"

namespace penstock::perf {
namespace {

constexpr std::size_t window = std::size_t{128} << 10;

// Address space with a touched buffer at the start of each window.
class buffers {
 public:
  buffers(std::size_t count, std::size_t bytes) : bytes_(count * window) {
    base_ = mmap(nullptr, bytes_ + window, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base_ == MAP_FAILED) return;
    first_ = reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(base_) + window - 1) &
                                          ~(window - 1));
    for (std::size_t i = 0; i < count; ++i) std::memset(at(i), 1, bytes);
  }
  ~buffers() {
    if (base_ != MAP_FAILED) munmap(base_, bytes_ + window);
  }
  buffers(const buffers&) = delete;
  buffers& operator=(const buffers&) = delete;
  [[nodiscard]] std::byte* at(std::size_t i) const noexcept { return first_ + i * window; }
  explicit operator bool() const noexcept { return base_ != MAP_FAILED; }

 private:
  std::size_t bytes_;
  void* base_ = MAP_FAILED;
  std::byte* first_ = nullptr;
};

// A sequence that visits 0 … n-1 in an order no prefetcher follows; n > 0.
std::vector<std::uint32_t> scattered(std::uint32_t n, std::uint32_t length, std::uint32_t seed) {
  std::vector<std::uint32_t> order(length);
  std::uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
  for (auto& o : order) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    o = static_cast<std::uint32_t>(x % n);
  }
  return order;
}

struct bench {
  memreg::registrar& device;
  const registration_options& o;
  std::unique_ptr<firehose::pool> cache;
  failure problem;

  bool lease_one(std::byte* p) {
    firehose::lease l;
    const status s = cache->acquire(p, o.bytes, firehose::purpose::source, l, &problem);
    if (s != status::ok && problem.what.empty()) problem.what = describe(s);
    return s == status::ok;
  }

  // One sample an operation over `count` buffers, round and round from `first`. False: failed.
  bool timed(const buffers& b, std::uint32_t first, std::uint32_t count, std::uint32_t samples,
             summary& into) {
    std::vector<std::uint64_t> took(samples);
    for (std::uint32_t n = 0; n < samples; ++n) {
      const std::uint64_t from = ticks();
      if (!lease_one(b.at((first + n) % count))) return false;
      took[n] = ticks() - from;
    }
    into = summarize(took, ns_per_tick());
    return true;
  }

  bool hits(const buffers& b, summary& into) {
    std::vector<std::uint64_t> took(std::size_t{o.samples} * o.threads);
    std::atomic<std::uint32_t> ready{0};
    std::atomic<bool> good{true};
    const auto run = [&](std::uint32_t t) {
      const auto order = scattered(o.regions, 1 << 14, t + 1);
      ready.fetch_add(1, std::memory_order_relaxed);
      while (ready.load(std::memory_order_relaxed) < o.threads) std::this_thread::yield();
      std::uint64_t* mine = took.data() + std::size_t{t} * o.samples;
      std::size_t at = 0;
      std::uint32_t lost = 0;
      for (std::uint32_t n = 0; n < o.samples; ++n) {
        const std::uint64_t from = ticks();
        for (std::uint32_t k = 0; k < hits_per_sample; ++k) {
          firehose::lease l;
          lost += !cache->try_hit(b.at(order[at++ % order.size()]), o.bytes,
                                  firehose::purpose::source, l);
        }
        mine[n] = ticks() - from;
      }
      if (lost != 0) good.store(false, std::memory_order_relaxed);
    };
    std::vector<std::thread> others;
    for (std::uint32_t t = 1; t < o.threads; ++t) others.emplace_back(run, t);
    run(0);
    for (auto& t : others) t.join();
    into = summarize(took, ns_per_tick() / hits_per_sample);
    if (!good.load(std::memory_order_relaxed)) problem.what = "a registered buffer was not found";
    return good.load(std::memory_order_relaxed);
  }

  bool plain(const buffers& b, summary& into) {
    const std::uint32_t samples = std::min(o.samples, o.regions);
    std::vector<std::uint64_t> took(samples);
    for (std::uint32_t n = 0; n < samples; ++n) {
      const std::uint64_t from = ticks();
      auto r = device.reg(b.at(n % o.regions), o.bytes, memreg::access::local_write);
      if (!r) {
        problem = r.error();
        return false;
      }
      device.dereg(*r);
      took[n] = ticks() - from;
    }
    into = summarize(took, ns_per_tick());
    return true;
  }
};

}  // namespace

result<registration_figures> measure_registration(memreg::registrar& device,
                                                  const registration_options& options) {
  if (options.regions == 0 || options.bytes == 0 || options.bytes > window / 2 ||
      options.threads == 0 || options.samples == 0)
    return failure{"measuring registrations", EINVAL,
                   "buffers of 1 byte to 64 KiB, counts above 0"};
  const std::uint32_t count = 2 * options.regions;
  const buffers b(count, options.bytes);
  if (!b) return failure{"measuring registrations: address space", errno, "see ulimit -v"};
  firehose::pool_settings s;
  s.max_regions = options.regions;
  s.max_region_bytes = window;
  s.protect = options.protect;
  auto made = firehose::pool::create(device, s);
  if (!made) return made.error();
  bench run{device, options, std::move(*made), {}};
  registration_figures f;
  f.protection = run.cache->protection_text();
  const bool good =
      run.plain(b, f.plain) &&
      run.timed(b, 0, options.regions, options.regions, f.miss) &&  // once each: all misses
      run.hits(b, f.hit) &&
      run.timed(b, options.regions, count, std::max(options.samples, count), f.evict);
  if (!good) return run.problem;
  const firehose::pool_statistics st = run.cache->statistics();
  f.hits = st.hits, f.misses = st.misses, f.evictions = st.evictions;
  return f;
}

}  // namespace penstock::perf
