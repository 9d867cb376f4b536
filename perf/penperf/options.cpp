// See options.hpp.
#include "perf/penperf/options.hpp"

#include <charconv>
#include <sstream>
#include <string_view>
#include <system_error>

#include "lib/base/command_line.hpp"
#include "perf/penperf/bench.hpp"
#include "perf/penperf/settle.hpp"

namespace penstock::penperf {

const char* name_of(am_kind k) noexcept {
  switch (k) {
    case am_kind::short_:
      return "short";
    case am_kind::medium:
      return "medium";
    case am_kind::long_:
      break;
  }
  return "long";
}

const char* suffix_of(payload_kind p) noexcept {
  return p == payload_kind::ready ? "" : p == payload_kind::made ? "-made" : "-reserved";
}

const char* name_of(place_of p) noexcept {
  switch (p) {
    case place_of::segment:
      return "segment";
    case place_of::outside:
      return "outside";
    case place_of::private_:
      break;
  }
  return "private";
}

const char* name_of(lookup_kind k) noexcept {
  switch (k) {
    case lookup_kind::hit:
      return "hit";
    case lookup_kind::miss:
      return "miss";
    case lookup_kind::evict:
      return "evict";
    case lookup_kind::plain:
      break;
  }
  return "plain";
}

namespace {

bool is_message(const std::string& bench) { return bench.starts_with("am_"); }
bool is_by_gasnet(const std::string& bench) {
  return bench.starts_with("gasnet_") || bench.starts_with("gex_") || bench == "strided";
}

// An option that says nothing to that benchmark would be believed to have said something.
std::string not_for(const std::string& bench, const command_line& line) {
  const bool one_sided = bench.starts_with("put_") || bench.starts_with("get_");
  const bool atomic = bench.starts_with("atomic_");
  const bench_row& row = *find_bench(bench);
  const auto complain = [&](const char* option, const char* of) {
    return std::string(option) + " is for " + of;
  };
  const bool by_gasnet =
      is_by_gasnet(bench) && (bench.ends_with("_lat") || bench.ends_with("_rate"));
  constexpr const char *messages =
                           "am_lat, am_rate, am_bw, gasnet_lat, gasnet_rate, gex_lat, gex_rate",
                       *transfers = "put_lat, get_lat, put_bw, get_bw, atomic_lat and atomic_rate";
  for (const char* of_messages : {"--kind", "--payload"})
    if (line.given(of_messages) && !is_message(bench) && !by_gasnet)
      return complain(of_messages, messages);
  if (line.given("--reply") && bench != "am_lat") return complain("--reply", "am_lat");
  if (line.given("--memory") && !one_sided && !atomic) return complain("--memory", transfers);
  if (line.given("--lookup") && bench != "reg") return complain("--lookup", "reg");
  for (const char* of_rates : {"-b", "--window"})
    if (line.given(of_rates) && row.is_latency)
      return complain(of_rates, "am_rate, am_bw, put_bw, get_bw and atomic_rate");
  if (line.given("-p") && !is_message(bench) && !one_sided && !atomic)
    return complain("-p", "benchmarks whose names begin with am_, put_, get_ or atomic_");
  if (line.given("--placement") && line.given("-p"))
    return "--placement is for one pair: each pair of -p has its own";
  if (line.given("--warm-up") && bench == "reg")
    return complain("--warm-up", "benchmarks that warm up, which reg does not");
  if (line.given("-D") && !row.timed_rounds)
    return complain("-D", "benchmarks whose rounds are timed; -n is for this one, too");
  return {};
}

/// Numbers between commas, as many as there are processes.
bool read_cpus(const std::string& text, std::size_t wanted, std::vector<unsigned>& out) {
  if (text.empty()) return true;
  std::istringstream in(text);
  for (std::string one; std::getline(in, one, ',');) {
    unsigned cpu = 0;
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), cpu);
    if (error != std::errc() || end != one.data() + one.size()) return false;
    out.push_back(cpu);
  }
  return out.size() == wanted && text.back() != ',';
}

// What is out of the ordinary has one thread, and two hosts have a pair.
std::string not_together(const options& o) {
  const bool alone = !o.server && o.peer.empty();
  if (o.server && !o.peer.empty())
    return "--server waits for a client, and HOST makes this process the client";
  if (!alone && o.pairs > 1)
    return "-p needs penrun on two hosts: penrun --host A,B -n 8 penperf ... -p 4";
  if (o.threads > 1 && (o.both || o.window != 0 || o.pairs > 1))
    return "--threads does not go with -b, --window or -p, which are measured with one thread";
  return {};
}

}  // namespace

std::vector<std::uint64_t> sizes_of(const options& o) {
  if (!o.all_sizes) return {o.size};
  const bool medium = o.bench == "rpc_lat" || (is_message(o.bench) && o.kind == am_kind::medium);
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t n = 1; n <= (medium ? 65536u : 8u << 20); n *= 2) sizes.push_back(n);
  return sizes;
}

options parse(int argc, char** argv) {
  options o;
  command_line line(
      "penperf",
      "Measures one operation between two pinned processes, and beside it its raw twin.\n"
      "The twin is the same exchange without Penstock, in the same run.");
  std::string benches = "What to measure:\n";
  for (const bench_row& b : benches_table())
    benches += "  " + std::string(b.name) + ": " + b.help + "\n";
  line.footer(benches);
  std::string mode;
  line.word("--mode", mode, {"seq", "parsync", "par"}, "Thread mode of the library [seq]");
  line.option("BENCH", "What to measure, see below",
              [&o](const std::string& name) {
                o.bench = name;
                return find_bench(name) != nullptr ? std::string()
                                                   : "no benchmark is called " + name;
              },
              {.required = true, .type = ""});
  line.text("HOST", o.peer,
            "The host where penperf --server waits; without HOST both processes start here",
            {.type = ""});
  line.choice("--kind", o.kind,
              {{"short", am_kind::short_}, {"medium", am_kind::medium}, {"long", am_kind::long_}},
              "Kind of active message");
  line.choice(
      "--reply", o.reply,
      {{"auto", reply_kind::automatic}, {"same", reply_kind::same}, {"short", reply_kind::short_}},
      "am_lat: Mediums and Longs are answered by one of the same kind and size (same) or by a "
      "Short (short); auto answers in kind up to 512 bytes");
  line.choice("--payload", o.payload,
              {{"ready", payload_kind::ready},
               {"made", payload_kind::made},
               {"reserved", payload_kind::reserved}},
              "am_lat, am_rate, am_bw: the payload lies ready, or is made (by a copy) in a buffer "
              "that is then sent, or is made where it is sent from (reserved: by reserve and "
              "commit)");
  line.choice("--memory", o.memory,
              {{"segment", place_of::segment},
               {"outside", place_of::outside},
               {"private", place_of::private_}},
              "put, get: memory of both sides lies in segments, or the local side's outside, or "
              "that of neither side in any (private)");
  line.choice(
      "--lookup", o.lookup,
      {{"hit", lookup_kind::hit}, {"miss", lookup_kind::miss}, {"evict", lookup_kind::evict}},
      "reg: the look-up finds a registration (hit), makes one (miss), or makes one for which "
      "another must go (evict)");
  line.bytes("-s,--size", o.size, "Payload bytes of one operation");
  line.number("-n,--iters", o.iters, "Operations in a round", 1);
  line.number("--rounds", o.rounds,
              "Rounds, of which the median one is reported [5; 41 timed ones off shm0]", 1, 101);
  line.choice(
      "--placement", o.only,
      {{"any", std::nullopt}, {"near", perf::placement::near}, {"far", perf::placement::far}},
      "Which rounds count: those of two processes on one core (near), on two (far), or all; "
      "of each placement the median is printed");
  line.number("--threads", o.threads,
              "Threads in each process: am_rate and am_bw with --mode par, reg", 1, 64);
  line.number("-p,--pairs", o.pairs, "Pairs of processes that measure at the same time", 1, 1024);
  line.flag("-b,--both", o.both, "Rates: both processes send at the same time");
  line.number(
      "--window", o.window,
      "Rates: messages and transfers sent before an answer is waited for; atomics in flight", 1,
      65536);
  line.number(
      "--warm-up", warm_up_operations,
      "Operations before each measurement; without it they go on until the rate has settled", 1);
  line.flag("-a,--all", o.all_sizes,
            "Instead of -s: every power of 2 up to the largest payload of the kind");
  line.number("-D,--duration", o.seconds, "Seconds that a round lasts, instead of -n", 0.001,
              3600.0);
  line.text("-d,--device", o.device, "The device, as in the setting PENSTOCK_DEVICE");
  std::string cpus;
  line.text("--cpus", cpus,
            "Processors of the requester and of the target; with -p of all requesters, then of "
            "all targets",
            {.type = "A,B"});
  line.flag("--server", o.server,
            "Waits for a penperf on another host that is told the same, and this host's name");
  line.number("--port", o.port, "TCP port at which the server waits; 0 takes a free one", 0, 65535);
  line.flag("--json", o.json, "Prints one JSON object on a line instead of a table");
  line.flag("--csv", o.csv, "Prints comma-separated values with a heading instead of a table");
  line.flag("--histogram", o.histogram,
            "Also prints how many samples took how long, beside the twin's");
  line.text("--svg", o.svg, "With -a: also draws latency or bandwidth by size", {.type = "FILE"});
  line.text("--svg-rate", o.svg_rate, "With -a: also draws operations a second by size",
            {.type = "FILE"});
  line.text("--svg-cdf", o.svg_cdf,
            "Also draws the cumulative distribution: the share of samples up to each time",
            {.type = "FILE"});
  line.flag("--counters", o.counters, "Both processes also print their counters, to stderr");
  line.parse(argc, argv);
  if (!read_cpus(cpus, 2 * std::size_t{o.pairs}, o.cpus))
    line.refuse("--cpus", cpus + ": " + std::to_string(2 * o.pairs) +
                              " numbers are wanted, as in 0,1; the requesters' come first");
  if (line.given("--port") && !o.server && o.peer.empty())
    line.refuse("--port", "it goes with --server or with HOST");
  if (o.json && o.csv) line.refuse("--csv", "it does not go with --json");
  if (o.all_sizes && o.size != 0)
    line.refuse("-s", "it does not go with -a, which measures all sizes");
  for (const char* by_size : {"--svg", "--svg-rate"})
    if (line.given(by_size) && !o.all_sizes)
      line.refuse(by_size, "it draws all sizes, and needs -a");
  if (o.histogram && o.csv)
    line.refuse("--histogram",
                "it goes with --json, and not with --csv, which has one row for a size");
  if (line.given("-D") && o.iters != 0)
    line.refuse("-D", "it does not go with -n, which says how many operations a round has");
  std::string misplaced = not_for(o.bench, line);
  if (misplaced.empty()) misplaced = not_together(o);
  if (!misplaced.empty()) line.refuse(o.bench, misplaced);
  constexpr std::string_view own_mode = PENPERF_MODE;
  if (!mode.empty() && mode != own_mode)
    line.refuse("--mode", "start penperf itself, which chooses the program of that mode");
  if (o.threads > 1 && own_mode != "par" && o.bench != "reg")
    line.refuse("--threads", "more than one thread needs --mode par");
  o.kind_given = line.given("--kind");
  const bool any_size = o.all_sizes;
  if (any_size) o.size = o.kind == am_kind::short_ && is_message(o.bench) ? 0 : 1;
  const std::string complaint = find_bench(o.bench)->complete(o);
  if (any_size && is_by_gasnet(o.bench))
    line.refuse("-a",
                o.bench + " has one size a run, since gasnet.h is attached once in a process");
  if (any_size && (!complaint.empty() || o.size != 1))
    line.refuse("-a", o.bench + " of that kind has one size only");
  if (!complaint.empty()) line.refuse(o.bench, complaint);
  return o;
}

std::string agreement(const options& o) {
  std::ostringstream text;
  text << o.bench << ' ' << name_of(o.kind) << suffix_of(o.payload) << " of ";
  if (o.all_sizes)
    text << "all sizes";
  else
    text << o.size << " bytes";
  text << ", reply " << static_cast<int>(o.reply) << ", memory " << name_of(o.memory) << ", lookup "
       << name_of(o.lookup) << ", " << o.threads << " threads, -n " << o.iters << ", -D "
       << o.seconds << ", --rounds " << o.rounds << ", --window " << o.window << ", --warm-up "
       << warm_up_operations << (o.both ? ", both ways" : "") << ", " PENPERF_MODE;
  return text.str();
}

void set_pace(options& o, bool many_short) noexcept {
  if (o.rounds == 0) o.rounds = many_short ? 41 : 5;
  if (o.seconds == 0) o.seconds = many_short ? 0.05 : 0.25;
  o.chunk = many_short ? 128 : 1024;
}

}  // namespace penstock::penperf
