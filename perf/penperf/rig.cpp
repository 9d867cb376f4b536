// See rig.hpp.
#include "perf/penperf/rig.hpp"

#include <thread>

#include "lib/base/log.hpp"
#include "lib/base/settings.hpp"

namespace penstock::penperf {

rig::rig(world& w, endpoint& ep, const options& o)
    : world_(w),
      ep_(ep),
      options_(o),
      place_(w.rank(), o.pairs),
      command_(ep.add<&rig::on_command>(this)),
      blob_(ep.add<&rig::on_blob>(this)) {}

std::string rig::device_name() const {
  const std::string text = ep_.device();
  return text.substr(0, text.find_first_of(" :,("));
}

bool rig::is_direct() const {
  const auto s = read_settings();
  return device_name() == "shm0" && s && s->direct;
}

void rig::start(std::size_t size, bool bare_verbs) {
  const std::size_t window = placement_window(size);
  const std::size_t each =
      (sizeof(perf::probe_line) + ring_twin_bytes(window) + 4095) / 4096 * 4096;
  memory_ = pair_memory::share(world_, each * options_.pairs, 2 * options_.pairs);
  if (!place_.measures()) return;
  std::byte* const ours = memory_ ? memory_.data() + each * place_.number() : nullptr;
  if (memory_) line_ = reinterpret_cast<perf::probe_line*>(ours);
  if (device_name() == "shm0" && !bare_verbs) {
    if (memory_) twin_ = make_ring_twin(ours + sizeof *line_, requests(), window);
    return;
  }
  const auto swap = [this](const void* mine, void* theirs) { return swap_blobs(mine, theirs); };
  twin_ = device_name() == "tcp0" ? make_stream_twin(device_name(), swap, requests(), window)
                                  : make_verbs_twin(device_name(), swap, requests(), window);
}

void rig::on_command(token&, command c) {
  const std::lock_guard guard(lock_);
  commands_.push_back(c);
  told_.store(true, std::memory_order_relaxed);
}

void rig::tell(const command& c) {
  must(ep_.request_short(other(), command_, c), "a command to the target");
}

double rig::probe() {
  if (line_ == nullptr) return 0;
  tell({.what = order::probe});
  return perf::probe_cache_line(*line_, true);
}

figures rig::raw_trips(leg there, leg back, std::uint64_t warm_up,
                       std::span<std::uint64_t> samples) {
  if (!twin_) return {};
  tell({order::trips,
        (there.placed ? 1u : 0u) | (back.placed ? 2u : 0u),
        {},
        there.bytes,
        back.bytes,
        warm_up,
        samples.size()});
  return twin_->trips(there, back, warm_up, samples);
}

figures rig::raw_flood(leg one_way, manner how, std::uint64_t batch,
                       std::span<std::uint64_t> samples) {
  if (!twin_) return {};
  tell({order::flood, one_way.placed ? 1u : 0u, how, one_way.bytes, 0, batch, samples.size()});
  return twin_->flood(one_way, how, batch, samples);
}

figures rig::raw_accesses(access what, std::uint64_t bytes, std::span<std::uint64_t> samples) {
  if (!twin_) return {};
  tell({order::accesses, static_cast<std::uint32_t>(what), {}, bytes, 0, 0, samples.size()});
  return twin_->accesses(what, bytes, samples);
}

figures rig::raw_stream(access what, manner how, std::uint64_t bytes, std::uint64_t count) {
  if (!twin_) return {};
  tell({order::stream, static_cast<std::uint32_t>(what), how, bytes, 0, 0, count});
  return twin_->stream(what, how, bytes, count);
}

void rig::meet() {
  if (options_.pairs == 1) return;
  tell({.what = order::meet});
  must(ep_.barrier(), "the requesters' barrier");
}

void rig::pollers(bool on) { tell({.what = order::pollers, .count = on}); }
void rig::call_target(std::uint64_t number) { tell({.what = order::call, .count = number}); }
void rig::quit() { tell({.what = order::quit}); }

rig::command rig::await_command() {
  std::uint64_t handled = 0;
  while (true) {
    // A burst without any test but the one that ends it; then the core is offered to others if
    // nothing has come, since processes may outnumber cores.
    for (int i = 0; i < 4096; ++i) {
      if (told_.load(std::memory_order_relaxed)) {
        const std::lock_guard guard(lock_);
        const command c = commands_.front();
        commands_.pop_front();
        told_.store(!commands_.empty(), std::memory_order_relaxed);
        return c;
      }
      must(ep_.poll(), "the target's poll");
    }
    const std::uint64_t now = ep_.statistics().requests_handled;
    if (now == handled) std::this_thread::yield();
    handled = now;
  }
}

bool rig::obey(const command& c) {
  const leg there{c.there, (c.placed & 1u) != 0}, back{c.back, (c.placed & 2u) != 0};
  switch (c.what) {
    case order::probe:
      perf::probe_cache_line(*line_, false);
      return true;
    case order::trips:
      scratch_.resize(c.count);
      twin_->trips(there, back, c.warm_up, scratch_);
      return true;
    case order::flood:
      scratch_.resize(c.count);
      twin_->flood(there, c.how, c.warm_up, scratch_);
      return true;
    case order::accesses:
      scratch_.resize(c.count);
      twin_->accesses(static_cast<access>(c.placed), c.there, scratch_);
      return true;
    case order::stream:
      twin_->stream(static_cast<access>(c.placed), c.how, c.there, c.count);
      return true;
    case order::pollers:
      pollers_on_.store(c.count != 0, std::memory_order_relaxed);
      return true;
    case order::call:
      called_(c.count);
      return true;
    case order::meet:
      must(ep_.barrier(), "the requesters' barrier");
      return true;
    case order::quit:
      break;
  }
  return false;
}

void rig::serve() {
  std::vector<std::jthread> pollers;
  for (unsigned i = 1; i < options_.threads; ++i)
    pollers.emplace_back([this] {
      while (!pollers_quit_.load(std::memory_order_relaxed)) {
        if (pollers_on_.load(std::memory_order_relaxed))
          must(ep_.wait_until([this] { return !pollers_on_.load(std::memory_order_relaxed); }),
               "a poller's polls");
        else
          std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    });
  while (obey(await_command())) {
  }
  pollers_quit_.store(true, std::memory_order_relaxed);
}

void rig::on_blob(token&, blob b) {
  const std::lock_guard guard(lock_);
  blobs_.push_back(b);
}

bool rig::swap_blobs(const void* mine, void* theirs) {
  blob b;
  std::memcpy(b.data(), mine, b.size());
  if (is_failure(ep_.request_short(other(), blob_, b))) return false;
  const status s = ep_.wait_until([&] {
    const std::lock_guard guard(lock_);
    if (blobs_.empty()) return false;
    std::memcpy(theirs, blobs_.front().data(), b.size());
    blobs_.pop_front();
    return true;
  });
  return !is_failure(s);
}

}  // namespace penstock::penperf
