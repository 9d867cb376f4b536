// reg: the cost of having memory registered (perf/reg): a firehose hit, a miss while there is room,
// a miss that evicts. The twin is a plain registration that is ended at once. Only the requester
// measures.
#include <sched.h>

#include <algorithm>
#include <cstring>

#include "lib/base/log.hpp"
#include "lib/base/settings.hpp"
#include "memreg/memreg.hpp"
#include "nic/device.hpp"
#include "nic/registrar.hpp"
#include "perf/penperf/bench.hpp"
#include "perf/penperf/or_die.hpp"
#include "perf/penperf/rig.hpp"
#include "perf/reg/registration.hpp"

namespace penstock::penperf {

namespace {

class registration final : public bench {
 public:
  explicit registration(const options& o) : lookup_(o.lookup) {
    wanted_.bytes = o.size;
    wanted_.threads = o.threads;
    if (o.iters != 0)
      wanted_.samples = static_cast<std::uint32_t>(std::min<std::uint64_t>(o.iters, 1'000'000));
  }
  ~registration() override {
    if (pd_ != nullptr) device_.verbs->dealloc_pd(pd_);
  }

  void add_handlers(endpoint&) override {}

  // One measurement gives both sides' figures; each is used once.
  figures ours(rig& r) override { return side(r, ours_used_, lookup_); }
  figures raw(rig& r) override { return side(r, raw_used_, lookup_kind::plain); }

 private:
  figures side(rig& r, bool& used, lookup_kind k) {
    if (used) {
      found_ = measure(r);
      ours_used_ = raw_used_ = false;
    }
    used = true;
    const auto of = [](const perf::summary& s, std::uint64_t n) {
      return figures{s, s.p50 > 0 ? 1e9 / s.p50 : 0, n};
    };
    switch (k) {
      case lookup_kind::hit:
        return of(found_.hit,
                  std::uint64_t{wanted_.samples} * perf::hits_per_sample * wanted_.threads);
      case lookup_kind::miss:
        return of(found_.miss, wanted_.regions);
      case lookup_kind::evict:
        return of(found_.evict, wanted_.samples);
      case lookup_kind::plain:
        break;
    }
    return of(found_.plain, wanted_.samples);
  }

  // Threads that look up at once have a core each, where there are enough cores.
  static void unpin() noexcept {
    cpu_set_t all;
    std::memset(&all, 0xff, sizeof all);
    (void)sched_setaffinity(0, sizeof all, &all);
  }

  perf::registration_figures measure(rig& r) {
    if (pd_ == nullptr) {
      const setting_override named[] = {{"PENSTOCK_DEVICE", r.device_name()}};
      device_ = or_die(nic::open_device(or_die(read_settings(named))));
      pd_ = device_.verbs->alloc_pd(device_.context);
      if (pd_ == nullptr) fatal(1, "reg: ibv_alloc_pd fails on %s", device_.name.c_str());
    }
    if (wanted_.threads > 1) unpin();
    nic::registrar_as<memreg::registrar, memreg::registration> registrar(device_, pd_);
    return or_die(perf::measure_registration(registrar, wanted_), "reg: ");
  }

  lookup_kind lookup_;
  perf::registration_options wanted_;
  nic::device device_;
  ibv_pd* pd_ = nullptr;
  perf::registration_figures found_;
  bool ours_used_ = true, raw_used_ = true;
};

}  // namespace

std::string complete_reg(options& o) {
  if (o.size == 0) o.size = 4096;
  if (o.size > 65536) return "buffers of up to 64 KiB";
  return {};
}

std::unique_ptr<bench> make_reg(const options& o) { return std::make_unique<registration>(o); }

}  // namespace penstock::penperf
