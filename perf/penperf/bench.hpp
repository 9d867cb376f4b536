// The interface of a benchmark: each has one file and one row of the table. The driver
// (penperf.cpp) runs the rounds; the rig (rig.hpp) is the two processes between which it runs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "penstock/penstock.hpp"
#include "perf/penperf/options.hpp"
#include "perf/penperf/twin.hpp"

namespace penstock::penperf {

class rig;

/// Made in every process of the job with the same options.
class bench {
 public:
  virtual ~bench() = default;
  /// Registers its handlers; before the endpoint starts.
  virtual void add_handlers(endpoint& ep) = 0;
  /// The segment that it needs.
  [[nodiscard]] virtual std::size_t segment_bytes() const { return 0; }
  /// Collective, once the endpoint has started.
  virtual void start(world&, rig&) {}
  /// After start(): the twin is bare verbs, also on the shared-memory device.
  [[nodiscard]] virtual bool bare_verbs() const { return false; }
  /// One round of the library's side, and one of the raw twin's, warm-up included. At the requester
  /// only; the target serves meanwhile (rig::serve).
  virtual figures ours(rig& r) = 0;
  virtual figures raw(rig& r) = 0;
};

struct bench_row {
  const char* name;
  const char* help;
  bool is_latency;
  bool timed_rounds;  ///< a round lasts options::seconds, and has no fixed number of operations
  /// The name of the kind in the report.
  const char* (*kind)(const options& o);
  /// Fills in options that the command line left open; answers an English complaint if the rest
  /// makes no sense.
  std::string (*complete)(options& o);
  std::unique_ptr<bench> (*make)(const options& o);
};

std::span<const bench_row> benches_table() noexcept;
/// Null when there is none of that name.
const bench_row* find_bench(std::string_view name) noexcept;

// The rows' functions; each is in its benchmark's file.
std::string complete_am_lat(options& o);
std::unique_ptr<bench> make_am_lat(const options& o);
std::string complete_am_rate(options& o);
std::string complete_am_bw(options& o);
std::unique_ptr<bench> make_am_flood(const options& o);
std::string complete_credit_take_return(options& o);
std::unique_ptr<bench> make_credit_take_return(const options& o);
std::string complete_rpc_lat(options& o);
std::unique_ptr<bench> make_rpc_lat(const options& o);
std::string complete_rma_lat(options& o);
std::string complete_rma_bw(options& o);
std::string complete_atomic(options& o);
std::unique_ptr<bench> make_put_lat(const options& o);
std::unique_ptr<bench> make_get_lat(const options& o);
std::unique_ptr<bench> make_atomic_lat(const options& o);
std::unique_ptr<bench> make_put_bw(const options& o);
std::unique_ptr<bench> make_get_bw(const options& o);
std::unique_ptr<bench> make_atomic_rate(const options& o);
std::string complete_gasnet(options& o);
std::string complete_gasnet_lat(options& o);
std::unique_ptr<bench> make_gasnet_lat(const options& o);
std::string complete_gasnet_rate(options& o);
std::unique_ptr<bench> make_gasnet_rate(const options& o);
std::unique_ptr<bench> make_barrier(const options& o);
std::string complete_gasnet_rma(options& o);
std::unique_ptr<bench> make_gasnet_rma(const options& o);
std::string complete_strided(options& o);
std::unique_ptr<bench> make_strided(const options& o);
std::string complete_poll(options& o);
std::unique_ptr<bench> make_poll(const options& o);
std::string complete_reg(options& o);
std::unique_ptr<bench> make_reg(const options& o);

}  // namespace penstock::penperf
