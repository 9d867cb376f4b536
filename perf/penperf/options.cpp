// See options.hpp.
#include "perf/penperf/options.hpp"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <map>
#include <string_view>

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

options parse(int argc, char** argv) {
  options o;
  CLI::App app{"Measures one operation between two pinned processes, and beside it its raw twin.",
               "penperf"};
  std::string benches = "What to measure:\n";
  for (const bench_row& b : benches_table())
    benches += "  " + std::string(b.name) + ": " + b.help + "\n";
  app.footer(benches);
  std::string mode;
  app.add_option("--mode", mode, "Thread mode of the library: seq or par")
      ->check(CLI::IsMember({"seq", "par"}));
  app.add_option("BENCH", o.bench, "What to measure; see below")
      ->required()
      ->check([](const std::string& name) {
        return find_bench(name) != nullptr ? std::string() : "no benchmark is called " + name;
      });
  const std::map<std::string, am_kind> kinds = {
      {"short", am_kind::short_}, {"medium", am_kind::medium}, {"long", am_kind::long_}};
  auto* kind = app.add_option("--kind", o.kind, "Active message: short, medium or long")
                   ->transform(CLI::CheckedTransformer(kinds));
  const std::map<std::string, reply_kind> replies = {
      {"auto", reply_kind::automatic}, {"same", reply_kind::same}, {"short", reply_kind::short_}};
  app.add_option(
         "--reply", o.reply,
         "am_lat: reply to Mediums and Longs in kind (same) or by a Short; auto: in kind up "
         "to 512 bytes")
      ->transform(CLI::CheckedTransformer(replies));
  app.add_option("-s,--size", o.size, "Payload bytes of one operation")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("-n,--iters", o.iters, "Operations in a round")->check(CLI::PositiveNumber);
  app.add_option("--rounds", o.rounds, "Rounds; the median one is reported")
      ->check(CLI::Range(1, 101))
      ->capture_default_str();
  app.add_option("--threads", o.threads, "Threads in each process (par; am_rate, am_bw)")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--device", o.device, "Device, as in PENSTOCK_DEVICE");
  app.add_flag("--json", o.json, "One JSON object on a line");
  constexpr std::string_view own_mode = PENPERF_MODE;
  try {
    app.parse(argc, argv);
    if (!mode.empty() && mode != own_mode)
      throw CLI::ValidationError("--mode", "start penperf itself to choose the mode");
    if (o.threads > 1 && own_mode != "par")
      throw CLI::ValidationError("--threads", "more than one thread needs --mode par");
    o.kind_given = kind->count() != 0;
    const std::string complaint = find_bench(o.bench)->complete(o);
    if (!complaint.empty()) throw CLI::ValidationError(o.bench, complaint);
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e) == 0 ? 0 : 2);
  }
  return o;
}

}  // namespace penstock::penperf
