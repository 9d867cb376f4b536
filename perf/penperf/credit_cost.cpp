// credit_take_return: what credits cost the path of a request, in one thread and one process: the
// credit that a request takes and its reply brings back. The twin takes one from a bare counter and
// adds it again, with the read-modify-write instructions of the mode. The other process polls.
#include <algorithm>
#include <vector>

#include "credit/credit.hpp"
#include "lib/base/build_mode.hpp"
#include "lib/base/log.hpp"
#include "perf/penperf/bench.hpp"
#include "perf/penperf/rig.hpp"
#include "perf/penperf/sampled.hpp"

namespace penstock::penperf {

namespace {

constexpr std::uint64_t batch = 1024;           ///< pairs of operations in a sample
constexpr std::uint64_t most_samples = 10'000;  ///< in a round, if not told

/// Keeps the compiler from carrying words in registers from one operation to the next.
void forget() noexcept { asm volatile("" : : : "memory"); }

credit::config eight_processes() {
  const auto c = credit::plan(8, 0);
  if (!c) fatal(1, "%s", c.error().message().c_str());
  return *c;
}

class credit_take_return final : public bench {
 public:
  explicit credit_take_return(const options& o)
      : samples_(o.iters != 0 ? std::max<std::uint64_t>(1, o.iters / batch) : most_samples) {}

  void add_handlers(endpoint&) override {}

  figures ours(rig&) override {
    return sampled(samples_, batch, [this] {
      for (std::uint64_t i = 0; i < batch; ++i) {
        if (ledger_.try_take(peer, 1) != 1) fatal(1, "credit_take_return: no credit");
        forget();
        must(ledger_.on_credits(peer, 1, 0, false), "credit_take_return: a credit's return");
        forget();
      }
    });
  }

  figures raw(rig&) override {
    return sampled(samples_, batch, [this] {
      for (std::uint64_t i = 0; i < batch; ++i) {
        bare_.fetch_sub(1, std::memory_order_relaxed);
        forget();
        bare_.fetch_add(1, std::memory_order_relaxed);
        forget();
      }
    });
  }

 private:
  static constexpr std::uint32_t peer = 1;

  credit::ledger<build_mode> ledger_{eight_processes()};
  alignas(cache_line) word<build_mode, std::uint64_t> bare_{1000};
  std::vector<std::uint64_t> samples_;
};

}  // namespace

std::string complete_credit_take_return(options& o) {
  if (o.size != 0) return "credit_take_return has no payload";
  if (o.threads > 1) return "credit_take_return is measured with one thread";
  return {};
}

std::unique_ptr<bench> make_credit_take_return(const options& o) {
  return std::make_unique<credit_take_return>(o);
}

}  // namespace penstock::penperf
