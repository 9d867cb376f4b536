// See measurement.hpp.
#include "perf/measurement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "perf/json_line.hpp"

namespace penstock::perf {

namespace {

constexpr std::size_t histogram_rows = 24;

double tenths(double x) noexcept { return std::round(x * 10) / 10; }

std::string per_second(double x) {
  if (x >= 1e9) return fmt::format("{:.2f} G", x / 1e9);
  if (x >= 1e6) return fmt::format("{:.2f} M", x / 1e6);
  return fmt::format("{:.1f} k", x / 1e3);
}

std::string time(double ns) {
  if (ns >= 1e9) return fmt::format("{:.2f} s", ns / 1e9);
  if (ns >= 1e6) return fmt::format("{:.1f} ms", ns / 1e6);
  return fmt::format("{:.1f}", ns);
}

std::string ratio_text(double r) {
  if (r >= 99999) return fmt::format("{:.0e}", r);
  return r >= 100 ? fmt::format("{:.0f}", r) : fmt::format("{:.3f}", r);
}

}  // namespace

double measurement::ratio() const noexcept {
  if (is_latency) return twin_ns > 0 ? ns.p50 / twin_ns : 0;
  return twin_rate > 0 ? rate / twin_rate : 0;
}

std::string to_json(const measurement& m, bool with_histogram) {
  json_line times;
  times.add("min", tenths(m.ns.min)).add("p50", tenths(m.ns.p50)).add("p90", tenths(m.ns.p90));
  times.add("p99", tenths(m.ns.p99)).add("p999", tenths(m.ns.p999)).add("max", tenths(m.ns.max));
  const double probes[] = {tenths(m.probe_ns[0]), tenths(m.probe_ns[1])};
  json_line line;
  line.add("bench", m.bench).add("kind", m.kind).add("device", m.device).add("mode", m.mode);
  line.add("procs", m.procs).add("threads", m.threads).add("size", m.size).add("iters", m.iters);
  line.add("ns", times);
  line.add("rate", std::round(m.rate)).add("bytes_per_s", std::round(m.bytes_per_s()));
  line.add("twin_ns", tenths(m.twin_ns)).add("twin_rate", std::round(m.twin_rate));
  line.add("ratio", std::round(m.ratio() * 1e4) / 1e4).add_list("probe_ns", probes);
  if (m.pairs > 1) line.add("pairs", m.pairs);
  if (m.both) line.add("both", true);
  if (m.window != 0) line.add("window", m.window);
  if (with_histogram) {
    std::vector<double> bounds;
    std::vector<std::uint32_t> counts;
    for (const distribution::part& p : m.ns.spread.histogram(histogram_rows)) {
      if (bounds.empty()) bounds.push_back(tenths(p.from));
      bounds.push_back(tenths(p.to));
      counts.push_back(static_cast<std::uint32_t>(p.count));
    }
    line.add_list("histogram_ns", bounds).add_list("histogram_samples", counts);
  }
  return line.text();
}

std::string table_head(const measurement& m) {
  std::string more;
  const auto say = [&more](const std::string& what) { more += (more.empty() ? "" : ", ") + what; };
  if (m.pairs > 1) say(fmt::format("{} pairs at once, rates of all together", m.pairs));
  if (m.both) say("both ways, rates of both together");
  if (m.window != 0) say(fmt::format("a window of {}", m.window));
  if (!more.empty()) more += "\n";
  return fmt::format("{} {}, {}, {}, {} processes; a cache line there and back takes {:.0f} ns\n",
                     m.bench, m.kind, m.device, m.mode, m.procs, m.probe_ns[0]) +
         more +
         fmt::format("{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>10}{:>10}{:>10}{:>7}\n", "bytes",
                     "min ns", "p50", "p90", "p99", "p99.9", "max", "ops/s", "bytes/s",
                     m.is_latency ? "twin p50" : "twin op/s", "ratio");
}

std::string table_row(const measurement& m) {
  return fmt::format(
      "{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>10}{:>10}{:>10} {:>6}\n", m.size, time(m.ns.min),
      time(m.ns.p50), time(m.ns.p90), time(m.ns.p99), time(m.ns.p999), time(m.ns.max),
      per_second(m.rate), per_second(m.bytes_per_s()),
      m.is_latency ? time(m.twin_ns) : per_second(m.twin_rate), ratio_text(m.ratio()));
}

std::string histogram_of(const measurement& m) {
  constexpr double bar = 40;
  const auto parts = m.ns.spread.histogram(histogram_rows);
  const auto all = static_cast<double>(m.ns.spread.count());
  const auto twins = static_cast<double>(m.twin_spread.count());
  std::uint64_t most = 1, seen = 0;
  for (const auto& p : parts) most = std::max(most, p.count);
  std::string out = fmt::format("{:>10}{:>10}{:>11}{:>9}{:>9}{:>9}\n", "from ns", "to ns",
                                "samples", "%", "% so far", "twin's");
  for (const auto& p : parts) {
    seen += p.count;
    std::uint64_t twin = 0;
    for (const auto& t : m.twin_spread.parts()) twin += t.to <= p.to * 1.0001 ? t.count : 0;
    out += fmt::format(
        "{:>10}{:>10}{:>11}{:>9.3f}{:>9.3f}{:>9} {:#<{}}\n", time(p.from), time(p.to), p.count,
        100 * static_cast<double>(p.count) / all, 100 * static_cast<double>(seen) / all,
        twins > 0 ? fmt::format("{:.3f}", 100 * static_cast<double>(twin) / twins) : "-", "",
        static_cast<int>(
            std::ceil(bar * static_cast<double>(p.count) / static_cast<double>(most))));
  }
  return out;
}

std::string csv_head() {
  return "bench,kind,device,mode,procs,threads,size,iters,min_ns,p50_ns,p90_ns,p99_ns,p999_ns,"
         "max_ns,rate,bytes_per_s,twin_ns,twin_rate,ratio,probe_before_ns,probe_after_ns,pairs,"
         "both,window\n";
}

std::string csv_row(const measurement& m) {
  return fmt::format(
      "{},{},{},{},{},{},{},{},{:.1f},{:.1f},{:.1f},{:.1f},{:.1f},{:.1f},{:.0f},{:.0f},{:.1f},"
      "{:.0f},{:.4f},{:.1f},{:.1f},{},{},{}\n",
      m.bench, m.kind, m.device, m.mode, m.procs, m.threads, m.size, m.iters, m.ns.min, m.ns.p50,
      m.ns.p90, m.ns.p99, m.ns.p999, m.ns.max, m.rate, m.bytes_per_s(), m.twin_ns, m.twin_rate,
      m.ratio(), m.probe_ns[0], m.probe_ns[1], m.pairs, m.both ? 1 : 0, m.window);
}

}  // namespace penstock::perf
