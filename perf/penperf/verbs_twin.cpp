// The twin on a verbs device: perf/twin_verbs.hpp behind the interface of twin.hpp.
#include <vector>

#include "lib/base/log.hpp"
#include "lib/base/settings.hpp"
#include "nic/device.hpp"
#include "perf/penperf/or_die.hpp"
#include "perf/penperf/twin.hpp"
#include "perf/twin_verbs.hpp"

namespace penstock::penperf {

namespace {

class verbs_twin final : public twin {
 public:
  verbs_twin(nic::device d, perf::blob_swap swap, bool requester, std::size_t window)
      : device_(std::move(d)), twin_(open(device_, std::move(swap), requester, window)) {}

  // Payload of a Long is compared with a SEND of as many bytes too: an answered WRITE needs a
  // message behind it anyhow.
  figures trips(leg there, leg back, std::uint64_t warm_up,
                std::span<std::uint64_t> samples) override {
    or_die(twin_.ping_pong(static_cast<std::uint32_t>(there.bytes),
                           static_cast<std::uint32_t>(back.bytes), warm_up, samples));
    double total = 0;
    for (const std::uint64_t s : samples) total += static_cast<double>(s);
    const perf::summary ns = perf::summarize(samples, 1);
    return {ns, total > 0 ? static_cast<double>(samples.size()) * 1e9 / total : 0, samples.size()};
  }

  // Both ways, or with a window, WRITEs stand for messages too.
  figures flood(leg one_way, manner how, std::uint64_t batch,
                std::span<std::uint64_t> samples) override {
    const std::uint64_t count = batch * samples.size();
    const auto bytes = static_cast<std::uint32_t>(one_way.bytes);
    const perf::twin_rate r =
        or_die(one_way.placed || how.both != 0 || how.window != 0
                   ? twin_.rate(perf::one_sided::write, bytes, count, how.window, how.both != 0)
                   : twin_.send_rate(bytes, count));
    return of(r);
  }

  figures accesses(access what, std::uint64_t bytes, std::span<std::uint64_t> samples) override {
    or_die(twin_.latency(operation_of(what), static_cast<std::uint32_t>(bytes), 100, samples));
    double total = 0;
    for (const std::uint64_t s : samples) total += static_cast<double>(s);
    const perf::summary ns = perf::summarize(samples, 1);
    return {ns, total > 0 ? static_cast<double>(samples.size()) * 1e9 / total : 0, samples.size()};
  }

  figures stream(access what, manner how, std::uint64_t bytes, std::uint64_t count) override {
    return of(or_die(twin_.rate(operation_of(what), static_cast<std::uint32_t>(bytes), count,
                                how.window, how.both != 0)));
  }

 private:
  static figures of(const perf::twin_rate& r) {
    const double each = r.count == 0 ? 0 : static_cast<double>(r.ns) / static_cast<double>(r.count);
    return {{each, each, each, each, each, each}, r.per_second(), r.count};
  }
  static perf::one_sided operation_of(access a) noexcept {
    return a == access::put   ? perf::one_sided::write
           : a == access::get ? perf::one_sided::read
                              : perf::one_sided::fetch_add;
  }
  static perf::verbs_twin open(nic::device& d, perf::blob_swap swap, bool requester,
                               std::size_t window) {
    perf::twin_options o;
    o.max_bytes = static_cast<std::uint32_t>(window);
    return or_die(perf::verbs_twin::connect(d, std::move(swap), requester, o));
  }

  nic::device device_;
  perf::verbs_twin twin_;
};

}  // namespace

std::unique_ptr<twin> make_verbs_twin(const std::string& device,
                                      std::function<bool(const void*, void*)> swap, bool requester,
                                      std::size_t window) {
  const setting_override named[] = {{"PENSTOCK_DEVICE", device}};
  const settings s = or_die(read_settings(named));
  return std::make_unique<verbs_twin>(or_die(nic::open_device(s)), std::move(swap), requester,
                                      window);
}

}  // namespace penstock::penperf
