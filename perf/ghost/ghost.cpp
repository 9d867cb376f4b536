// ghost: a 3-D heat equation whose ghost zones travel as active messages. Any number of processes;
// the result is equal bit for bit to that of one process.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "lib/base/clock.hpp"
#include "lib/base/command_line.hpp"
#include "penstock/penstock.hpp"
#include "perf/ghost/exchange.hpp"
#include "perf/ghost/picture.hpp"
#include "perf/ghost/report.hpp"
#include "perf/ghost/solve.hpp"
#include "perf/json_line.hpp"

namespace penstock::ghost {

namespace {

struct options {
  std::uint32_t cells = 48;
  std::uint32_t steps = 100;
  std::string picture, device;
  bool verify = false, json = false;
};

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "ghost: %s\n", why.c_str());
  std::exit(1);
}
template <class T>
T need(result<T> r) {
  if (!r) give_up(r.error().message());
  if constexpr (!std::is_void_v<T>) return std::move(*r);
}
void must(status s, const char* what) {
  if (is_failure(s)) give_up(std::string(what) + ": " + describe(s));
}

options parse(int argc, char** argv) {
  options o;
  command_line line("ghost",
                    "Solves a heat equation in a cube, five variables a cell, cut among the "
                    "processes of the job. "
                    "Start it with penrun -n N.");
  line.number("--cells", o.cells, "Cells along each edge of the whole cube", width, 4096);
  line.number("--steps", o.steps, "Steps in time", 1, 1'000'000'000);
  line.option("--picture", "Writes a slice of the cube as FILE.png or FILE.ppm",
              [&o](const std::string& name) {
                o.picture = name;
                return is_picture_name(name) ? std::string()
                                             : name + " ends neither in .png nor in .ppm";
              });
  line.text("--device", o.device, "The device, as in the setting PENSTOCK_DEVICE");
  line.flag("--verify", o.verify,
            "Rank 0 also computes the whole cube alone, and compares every bit");
  line.flag("--json", o.json, "Prints one JSON object on a line instead of text");
  line.parse(argc, argv);
  return o;
}

/// The exchange, whose failures end the program.
struct faces {
  endpoint& ep;
  exchange& x;
  void send(std::uint32_t step) { must(x.send(step), "sending faces"); }
  void poll() { must(ep.poll(), "poll"); }
  void finish(std::uint32_t step) { must(x.finish(step), "waiting for faces"); }
};

/// All steps; the time of the slowest process in seconds.
double run(endpoint& ep, exchange& x, field& f, std::uint32_t steps) {
  faces each{ep, x};
  must(ep.barrier(), "barrier");
  const std::uint64_t start = now_ns();
  solve(each, f, steps);
  must(ep.barrier(), "barrier");
  return static_cast<double>(now_ns() - start) * 1e-9;
}

/// Computes everything again in this process alone, without messages. True if each process's box
/// has the same checksum; names the first process whose box differs.
bool same_alone(const report& r, const decomposition& cut, const options& o) {
  const field whole = alone(o.cells, o.steps);
  for (std::uint32_t rank = 0; rank < r.shares().size(); ++rank)
    if (whole.checksum(o.steps, cut.box_of(rank)) != r.shares()[rank].checksum) {
      std::fprintf(stderr, "ghost: rank %u has other cells than one process alone\n", rank);
      return false;
    }
  return true;
}

void print(const endpoint& ep, const decomposition& cut, const options& o, const share& all,
           double seconds, int verified) {
  const auto& p = cut.parts();
  const std::string device = ep.device().substr(0, ep.device().find_first_of(" :,("));
  const std::string sum = fmt::format("{:016x}", all.checksum);
  const double messages = static_cast<double>(all.messages), bytes = static_cast<double>(all.bytes);
  if (o.json) {
    perf::json_line line;
    line.add("program", "ghost").add("device", device).add("mode", GHOST_MODE);
    line.add("procs", ep.size()).add_list("parts", p);
    line.add("cells", o.cells).add("variables", variables).add("steps", o.steps);
    line.add("seconds", seconds).add("steps_per_s", o.steps / seconds);
    line.add("messages", all.messages).add("messages_per_s", messages / seconds);
    line.add("bytes_per_s", bytes / seconds).add("credit_stalls", all.stalls).add("checksum", sum);
    verified < 0 ? line.add("verified", nullptr) : line.add("verified", verified == 1);
    std::printf("%s\n", line.text().c_str());
  } else {
    fmt::print(
        "ghost: {0} x {0} x {0} cells, {1} variables, {2} steps; {3} processes as {4} x {5} "
        "x {6}; {7}, {8}\n",
        o.cells, variables, o.steps, ep.size(), p[0], p[1], p[2], device, GHOST_MODE);
    fmt::print(
        "  {:.1f} steps/s, {:.0f} messages/s, {:.1f} MB/s; {} of {} messages waited for "
        "credits\n",
        o.steps / seconds, messages / seconds, bytes / seconds / 1e6, all.stalls, all.messages);
    fmt::print("  checksum {}{}\n", sum,
               verified < 0    ? ""
               : verified == 1 ? ", every bit as in one process alone"
                               : ", NOT as in one process alone");
  }
  std::fflush(stdout);
}

int main(int argc, char** argv) {
  const options o = parse(argc, argv);
  world w = need(world::join());
  setting_overrides overrides;
  if (!o.device.empty()) overrides.emplace_back("PENSTOCK_DEVICE", o.device);
  const decomposition cut(w.size(), o.cells);
  if (!cut.possible()) {
    if (w.rank() == 0)
      std::fprintf(stderr, "ghost: %u cells an edge are too few for %u processes: each needs %u\n",
                   o.cells, w.size(), width);
    return 2;
  }
  endpoint ep = need(endpoint::open(w, overrides));
  field f(cut.box_of(w.rank()), o.cells);
  exchange x(ep, cut, f);
  report r(ep, o.cells);
  need(ep.start());
  const double seconds = run(ep, x, f, o.steps);
  const endpoint_statistics counted = ep.statistics();
  const share mine{f.checksum(o.steps, f.own()), counted.requests_sent, x.bytes_sent(),
                   counted.credit_stalls};
  must(r.gather(mine, f, o.steps, !o.picture.empty()), "gathering the results");
  int verified = -1;
  if (w.rank() == 0) {
    if (o.verify) verified = same_alone(r, cut, o) ? 1 : 0;
    print(ep, cut, o, r.total(), seconds, verified);
    if (!o.picture.empty()) need(write_picture(o.picture, r.slice(), o.cells));
  }
  must(ep.barrier(), "barrier");
  return verified == 0 ? 1 : 0;
}

}  // namespace

}  // namespace penstock::ghost

int main(int argc, char** argv) { return penstock::ghost::main(argc, argv); }
