// What the one-sided benchmarks share: the memory they move bytes between, and the raw twins that
// need nothing of the target: a plain copy where its memory is mapped here, process_vm_writev and
// _readv where it is not. On a verbs device the twin is the rig's: bare WRITE, READ and FETCH_ADD.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "lib/base/clock.hpp"
#include "penstock/rma.hpp"
#include "perf/penperf/bench.hpp"
#include "perf/penperf/rig.hpp"
#include "perf/penperf/twin.hpp"

namespace penstock::penperf {

/// Local and remote memory of one size of transfer. Made in both processes.
class places {
 public:
  places(const options& o, access what);
  ~places();
  places(const places&) = delete;
  places& operator=(const places&) = delete;

  /// What of the segment is used.
  [[nodiscard]] std::size_t segment_bytes() const noexcept;
  /// Collective, after the endpoint has started: learns where everything is.
  void start(world& w, rig& r);

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  [[nodiscard]] remote_memory& remote() noexcept { return *mem_; }
  /// Remote memory of `step`, in the target's address space. Transfers that are copies go round a
  /// window, so that they do not stay in the nearest cache; the others stay in place, as the
  /// device's twin does.
  [[nodiscard]] std::byte* there(std::size_t step) const noexcept { return there_ + step; }
  [[nodiscard]] std::byte* here() const noexcept { return here_; }
  [[nodiscard]] std::span<std::byte> local() const noexcept { return {local_, size_}; }
  [[nodiscard]] placement round() const noexcept { return {step_, window_}; }
  /// True where the twin is made in this process alone.
  [[nodiscard]] bool alone() const noexcept { return here_ != nullptr || pid_ != 0; }
  /// One bare transfer; only where alone().
  void bare(std::size_t step) noexcept;

 private:
  void find(rig& r, rank_id other, std::byte* his_memory, int his_pid);

  access what_;
  place_of memory_;
  std::uint64_t size_, step_;
  std::size_t window_;
  std::byte* private_ = nullptr;  ///< memory of ours that the other process has not mapped
  std::byte* there_ = nullptr;
  std::byte* here_ = nullptr;  ///< the same, mapped in this process, or null
  std::byte* local_ = nullptr;
  int pid_ = 0;  ///< of the target, if its memory is reached by process_vm_writev and _readv
  std::unique_ptr<remote_memory> mem_;
};

/// What the benchmarks of one-sided operations have in common.
class one_sided_bench : public bench {
 public:
  void add_handlers(endpoint&) override {}
  std::size_t segment_bytes() const override { return places_.segment_bytes(); }
  void start(world& w, rig& r) override { places_.start(w, r); }
  bool bare_verbs() const override { return !places_.alone(); }

 protected:
  one_sided_bench(const options& o, access what) : what_(what), places_(o, what) {}
  access what_;
  places places_;
};

/// The complaint if more threads were asked for.
inline std::string one_thread(const options& o) {
  return o.threads > 1 ? "measured with one thread" : "";
}

/// So many operations make a sample that the two readings of the clock do not count: 1 for what
/// takes longer than two microseconds.
std::uint64_t operations_a_sample(double ns_each) noexcept;

/// One sample for each `batch` calls of op().
template <class Op>
figures timed(std::uint64_t batch, std::span<std::uint64_t> samples, Op&& op) {
  const std::uint64_t start = ticks();
  std::uint64_t before = start;
  for (auto& s : samples) {
    for (std::uint64_t i = 0; i < batch; ++i) op();
    const std::uint64_t now = ticks();
    s = now - before;
    before = now;
  }
  const double seconds = static_cast<double>(before - start) * ns_per_tick() * 1e-9;
  const std::uint64_t count = batch * samples.size();
  return {perf::summarize(samples, ns_per_tick() / static_cast<double>(batch)),
          static_cast<double>(count) / seconds, count};
}

}  // namespace penstock::penperf
