// penperf-seq, penperf-parsync and penperf-par: joins or starts a job of two processes, runs the
// rounds of one benchmark and prints the median one.
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "perf/measurement.hpp"
#include "perf/pairs.hpp"
#include "perf/penperf/bench.hpp"
#include "perf/penperf/chart.hpp"
#include "perf/penperf/launch.hpp"
#include "perf/penperf/meet.hpp"
#include "perf/penperf/or_die.hpp"
#include "perf/penperf/rig.hpp"
#include "perf/rounds.hpp"

namespace penstock::penperf {

namespace {

/// A job of one process becomes a job of two of the same command line, or of several pairs.
[[noreturn]] void launch(unsigned processes, int argc, char** argv) {
  const std::string here = own_folder();
  const std::string self = here + "/penperf-" PENPERF_MODE;
  std::vector<std::string> args = {"penrun", "-n", std::to_string(processes), "--", self};
  args.insert(args.end(), argv + 1, argv + argc);
  if (setenv("PENPERF_LAUNCHED", "1", 0) != 0 || own_folder().empty()) std::exit(1);
  // In a build tree all programs lie together; installed, penrun is on the PATH and this is not.
  const std::string why =
      become({here + "/penrun", here + "/" PENPERF_BIN "/penrun", "penrun"}, args);
  std::fprintf(stderr, "penperf: cannot start the processes: %s\n", why.c_str());
  std::exit(1);
}

perf::measurement heading(const options& o, const bench_row& row, const world& w, const rig& r) {
  perf::measurement m;
  m.bench = o.bench;
  m.kind = std::string(row.kind(o)) + suffix_of(o.payload);
  m.device = r.device_name();
  m.mode = PENPERF_MODE;
  m.procs = w.size();
  m.threads = o.threads;
  m.pairs = o.pairs;
  m.both = o.both;
  m.window = o.window;
  m.size = o.size;
  m.is_latency = row.is_latency;
  return m;
}

/// One round: the twin right before or right after ours, in turn, and the probes around both.
perf::measurement one_round(rig& r, bench& b, perf::measurement m, bool raw_first) {
  figures raw;
  r.meet();
  m.probe_ns[0] = r.probe();
  if (raw_first) raw = b.raw(r);
  const figures ours = b.ours(r);
  if (!raw_first) raw = b.raw(r);
  m.probe_ns[1] = r.probe();
  m.ns = ours.ns;
  m.rate = ours.rate;
  m.iters = ours.count;
  m.twin_ns = raw.ns.p50;
  m.twin_rate = raw.rate;
  m.twin_spread = raw.ns.spread;
  return m;
}

std::vector<perf::measurement> measure(rig& r, bench& b, const perf::measurement& head) {
  const options& o = r.opts();
  perf::round_keeper keeper(o.rounds, o.only);
  std::vector<perf::measurement> rounds;
  // Several pairs stay in step, so none of their rounds is repeated.
  while (o.pairs > 1 ? rounds.size() < o.rounds : !keeper.enough()) {
    rounds.push_back(one_round(r, b, head, rounds.size() % 2 == 0));
    keeper.add({rounds.back().probe_ns, rounds.back().ratio()});
  }
  if (keeper.taken() > o.rounds)
    std::fprintf(stderr, "penperf: %zu rounds for %u: the placement probes disagreed\n",
                 keeper.taken(), o.rounds);
  return rounds;
}

/// The median round of each placement that rounds were taken at.
std::vector<perf::measurement> medians_of(const options& o,
                                          const std::vector<perf::measurement>& rounds) {
  perf::round_keeper keeper(rounds.size(), o.only);
  for (const perf::measurement& m : rounds) keeper.add({m.probe_ns, m.ratio()});
  std::vector<perf::measurement> medians;
  for (const std::size_t i : keeper.median_rounds()) medians.push_back(rounds[i]);
  if (o.pairs > 1) medians.resize(1);  // each pair has a placement of its own
  if (medians.empty())
    fatal(3, "--placement: the two processes ran %s all the time; try again, or choose by --cpus",
          *o.only == perf::placement::near ? "on two cores" : "on one core");
  return medians;
}

void print(const options& o, const perf::measurement& m, bool first) {
  if (o.json)
    std::printf("%s\n", perf::to_json(m, o.histogram).c_str());
  else if (o.csv)
    std::printf("%s%s", first ? perf::csv_head().c_str() : "", perf::csv_row(m).c_str());
  else
    std::printf("%s%s", first ? perf::table_head(m).c_str() : "", perf::table_row(m).c_str());
  if (o.histogram && !o.json) std::printf("%s", perf::histogram_of(m).c_str());
  std::fflush(stdout);
}

void draw_all(const options& o, std::span<const perf::measurement> all) {
  const std::pair<const std::string&,
                  bool (*)(std::span<const perf::measurement>, const std::string&)>
      pictures[] = {{o.svg, &draw}, {o.svg_rate, &draw_rate}, {o.svg_cdf, &draw_spread}};
  for (const auto& [path, make] : pictures)
    if (!path.empty() && !make(all, path)) fatal(1, "cannot draw %s", path.c_str());
}

/// The median rounds of one size. Collective; the requester's answer counts.
std::vector<perf::measurement> at_size(world& w, options o) {
  setting_overrides overrides;
  if (!o.device.empty()) overrides.emplace_back("PENSTOCK_DEVICE", o.device);
  if (o.counters) overrides.emplace_back("PENSTOCK_COUNTERS", "-");
  endpoint ep = or_die(endpoint::open(w, overrides));
  if (o.kind == am_kind::medium && o.size > ep.max_medium()) {
    std::fprintf(stderr, "penperf: the largest Medium is %zu bytes\n", ep.max_medium());
    std::exit(2);
  }
  rig r(w, ep, o);
  const bench_row& row = *find_bench(o.bench);
  set_pace(o, row.timed_rounds && r.device_name() != "shm0");
  const std::unique_ptr<bench> b = row.make(o);
  b->add_handlers(ep);
  const auto started =
      ep.start(b->segment_bytes(), o.memory == place_of::private_ ? remote_access::everything
                                                                  : remote_access::segments);
  if (!started) fatal(1, "%s", started.error().message().c_str());
  b->start(w, r);
  r.start(o.size, b->bare_verbs());
  const pair_place place(w.rank(), o.pairs);
  std::vector<perf::measurement> rounds;
  if (place.measures() && place.requests()) {
    rounds = measure(r, *b, heading(o, row, w, r));
    r.quit();
  } else if (place.measures()) {
    r.serve();
  }
  // Who had no part sleeps there meanwhile, and needs no core.
  std::vector<std::byte> mine;
  if (o.pairs > 1) mine = perf::packed(rounds);
  const auto all = or_die(w.exchange(mine));
  must(ep.barrier(), "the last barrier");
  if (w.rank() != requester_rank) return {};
  if (o.pairs > 1) rounds = perf::combined(rounds, std::span(all).first(o.pairs));
  return medians_of(o, rounds);
}

int run(int argc, char** argv) {
  options o = parse(argc, argv);
  if (o.server || !o.peer.empty()) meet({o.peer, static_cast<std::uint16_t>(o.port), agreement(o)});
  world w = or_die(world::join());
  if (w.size() == 1) {
    if (std::getenv("PENPERF_LAUNCHED") != nullptr) fatal(1, "penrun made no job of two");
    launch(2 * o.pairs, argc, argv);
  }
  if (o.pairs > 1 && w.size() != 2 * o.pairs)
    fatal(2, "-p %u needs a job of %u processes, and this one has %u", o.pairs, 2 * o.pairs,
          w.size());
  if (o.bench == "barrier" && w.size() != 2)  // the others would be waited for
    fatal(2,
          "barrier measures two processes, and this job has %u: the program barriers measures more",
          w.size());
  if (!o.cpus.empty() && w.rank() < 2 * o.pairs) {
    if (!pin_to_cpu(o.cpus[w.rank()])) fatal(2, "--cpus: there is no CPU %u", o.cpus[w.rank()]);
  } else if (o.pairs > 1) {  // the two of a pair on neighbours
    const pair_place place(w.rank(), o.pairs);
    pin_to_core(2 * place.number() + (place.requests() ? 0 : 1));
  } else {
    pin_to_core(w.rank());
  }
  std::vector<perf::measurement> all;
  bool first = true;
  for (const std::uint64_t size : sizes_of(o)) {
    o.size = size;
    const std::vector<perf::measurement> medians = at_size(w, o);
    for (const perf::measurement& m : medians) print(o, m, std::exchange(first, false));
    if (!medians.empty()) all.push_back(medians.front());  // a curve has one point for a size
  }
  if (w.rank() == requester_rank) draw_all(o, all);
  return 0;
}

}  // namespace

}  // namespace penstock::penperf

int main(int argc, char** argv) { return penstock::penperf::run(argc, argv); }
