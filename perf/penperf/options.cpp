// See options.hpp.
#include "perf/penperf/options.hpp"

#include <string_view>

#include "lib/base/command_line.hpp"
#include "perf/penperf/bench.hpp"

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

options parse(int argc, char** argv) {
  options o;
  command_line line(
      "penperf",
      "Measures one operation between two pinned processes, and beside it its raw twin.");
  std::string benches = "What to measure:\n";
  for (const bench_row& b : benches_table())
    benches += "  " + std::string(b.name) + ": " + b.help + "\n";
  line.footer(benches);
  std::string mode;
  line.word("--mode", mode, {"seq", "par"}, "Thread mode of the library");
  line.option("BENCH", "What to measure; see below",
              [&o](const std::string& name) {
                o.bench = name;
                return find_bench(name) != nullptr ? std::string()
                                                   : "no benchmark is called " + name;
              },
              {.required = true, .type = ""});
  line.choice("--kind", o.kind,
              {{"short", am_kind::short_}, {"medium", am_kind::medium}, {"long", am_kind::long_}},
              "Active message");
  line.choice(
      "--reply", o.reply,
      {{"auto", reply_kind::automatic}, {"same", reply_kind::same}, {"short", reply_kind::short_}},
      "am_lat: reply to Mediums and Longs in kind (same) or by a Short; auto: in kind up "
      "to 512 bytes");
  line.choice("--memory", o.memory,
              {{"segment", place_of::segment},
               {"outside", place_of::outside},
               {"private", place_of::private_}},
              "put, get: memory of both sides in segments; the local one outside; or neither in "
              "any (private)");
  line.choice(
      "--lookup", o.lookup,
      {{"hit", lookup_kind::hit}, {"miss", lookup_kind::miss}, {"evict", lookup_kind::evict}},
      "reg: hit, miss, or a miss that evicts");
  line.bytes("-s,--size", o.size, "Payload bytes of one operation");
  line.number("-n,--iters", o.iters, "Operations in a round", 1);
  line.number("--rounds", o.rounds, "Rounds; the median one is reported (5; off shm0 41, if timed)",
              1, 101);
  line.number("--threads", o.threads, "Threads in each process (par; am_rate, am_bw, reg)", 1, 64);
  line.text("--device", o.device, "Device, as in PENSTOCK_DEVICE");
  line.flag("--json", o.json, "One JSON object on a line");
  line.parse(argc, argv);
  constexpr std::string_view own_mode = PENPERF_MODE;
  if (!mode.empty() && mode != own_mode)
    line.refuse("--mode", "start penperf itself to choose the mode");
  if (o.threads > 1 && own_mode != "par" && o.bench != "reg")
    line.refuse("--threads", "more than one thread needs --mode par");
  o.kind_given = line.given("--kind");
  const std::string complaint = find_bench(o.bench)->complete(o);
  if (!complaint.empty()) line.refuse(o.bench, complaint);
  return o;
}

void set_pace(options& o, bool many_short) noexcept {
  if (o.rounds == 0) o.rounds = many_short ? 41 : 5;
  o.seconds = many_short ? 0.05 : 0.25;
  o.chunk = many_short ? 128 : 1024;
}

}  // namespace penstock::penperf
