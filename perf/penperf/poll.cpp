// poll: a gasnet_AMPoll that finds nothing, by a process that all others of the job are connected
// to: as many as there are, `penrun -n 65 penperf poll` for 64 peers. The twin is a bare loop over
// the lines where a message of each peer would be seen, two for each: a request or a reply.
#include <algorithm>
#include <atomic>
#include <vector>

#include "lib/base/mode.hpp"
#include "perf/penperf/bench.hpp"
#include "perf/penperf/gasnet_side.hpp"
#include "perf/penperf/rig.hpp"
#include "perf/penperf/sampled.hpp"

namespace penstock::penperf {

namespace {

constexpr std::uint64_t batch = 64;  // polls in a sample

struct alignas(cache_line) line {
  std::atomic<std::uint64_t> state{0};
};

class poll_bench final : public bench {
 public:
  explicit poll_bench(const options& o)
      : samples_(std::max<std::uint64_t>((o.iters != 0 ? o.iters : 1'000'000) / batch, 1)) {}

  void add_handlers(endpoint&) override {}
  void start(world& w, rig& r) override {
    lines_ = std::vector<line>(std::size_t{2} * (w.size() - 1));
    gasnet_side::start(r.opts().device);
    gasnet_side::greet_all();
  }

  figures ours(rig&) override { return measure(&gasnet_side::polls); }
  figures raw(rig&) override {
    return measure([this](std::uint64_t polls) {
      for (std::uint64_t i = 0; i < polls; ++i)
        for (line& l : lines_)
          if (l.state.load(std::memory_order_relaxed) != 0) ++found_;
    });
  }

 private:
  template <class Polls>
  figures measure(Polls&& some) {
    return sampled(samples_, batch, [&] { some(batch); });
  }

  std::vector<line> lines_;
  std::uint64_t found_ = 0;
  std::vector<std::uint64_t> samples_;
};

}  // namespace

std::string complete_poll(options& o) {
  if (o.size != 0) return "poll has no payload";
  if (o.kind_given) return "poll sends nothing";
  if (o.threads > 1) return "poll is measured with one thread";
  return {};
}

std::unique_ptr<bench> make_poll(const options& o) { return std::make_unique<poll_bench>(o); }

}  // namespace penstock::penperf
