// creditsim: how credits move, and what that costs, for any pattern and up to 100,000 nodes.
// Runs the pattern twice, with credits and without limits, and compares.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lib/base/command_line.hpp"
#include "lib/base/svg.hpp"
#include "perf/creditsim/network.hpp"

using namespace penstock;
using namespace penstock::creditsim;

namespace {

/// The note's arithmetic: 256 bytes of receive space and an event of 128.
constexpr std::uint64_t note_bytes = 256 + 128;

struct options {
  workload work;
  network_settings net;
  bool json = false, static_credits = false;
  std::string svg, fade = "shift", revoked = "borrower";
};

/// A bar on stderr, if somebody looks.
class progress_bar {
 public:
  explicit progress_bar(const char* what) : what_(what), shown_(isatty(STDERR_FILENO) == 1) {}
  progress_bar(const progress_bar&) = delete;
  progress_bar& operator=(const progress_bar&) = delete;
  ~progress_bar() {
    if (shown_) fmt::print(stderr, "\r{:60}\r", "");
  }
  void show(double share) {
    if (!shown_) return;
    const auto full = static_cast<std::size_t>(share * 30);
    fmt::print(stderr, "\r{:<18} [{:<30}] {:3.0f} %", what_, std::string(full, '#'), share * 100);
    std::fflush(stderr);
  }

 private:
  const char* what_;
  bool shown_;
};

void declare(command_line& line, options& o) {
  line.word("--pattern", o.work.pattern, pattern_names(), "Who sends to whom");
  line.number("--nodes", o.work.nodes, "Processes in the job", 2, 1'000'000);
  line.number("--seed", o.work.seed, "Of random and hotspot");
  line.flag("--json", o.json, "One JSON object instead of text");
  line.text("--svg", o.svg, "Write PREFIX-heat.svg and PREFIX-convergence.svg", {.type = "PREFIX"});
  line.number("--messages", o.work.messages, "Per node and step of the pattern; 0: its default");
  line.number("--iterations", o.work.iterations, "Steps or moves of the pattern; 0: its default");
  line.number("--latency", o.net.latency, "Steps that a message takes; a node sends one a step", 1,
              10000);
  line.number("--service", o.net.service, "Requests that a node handles in a step", 1, 1000);
  line.number("--cores", o.net.cores, "Nodes that run at a time, in turn; 0: all");
  line.number("--slice", o.net.slice, "With --cores: the longest turn, in steps", 1, 1'000'000'000);
  line.flag("--batches", o.net.batches, "Leases, and returns without replies, as the engine's");
  line.number("--medium-cost", o.net.medium_cost, "Credits of a Medium; 17: a whole buffer", 2,
              credit::max_cost);
  line.number("--stretch", o.net.stretch,
              "Steps that some nodes do before others; 0: the latency. Changes the speed alone");
  credit::overrides& c = o.net.credits;
  line.number("--cred-per-node", c.credits_per_peer, "Lent to each at start; 0: from the table");
  line.number("--banked", c.bank, "In the bank at start; 0: from the table");
  line.number("--max-cred-per-node", c.max_per_peer, "");
  line.number("--lender-limit", c.lender_limit, "");
  line.number("--revoke-limit", c.revoke_limit, "");
  line.number("--epoch", c.epoch_requests, "Requests in an epoch");
  line.number("--num-scavenge", c.num_scavenge, "");
  line.flag("--static", o.static_credits, "Credits stay where they were at start");
  line.word("--decay", o.fade, {"shift", "last-curr"}, "");
  line.word("--revoked-at", o.revoked, {"borrower", "lender"}, "Who counts credits given back");
}

/// One run of the pattern from its beginning.
result<outcome> simulate(const options& o, bool limited, credit::config* used,
                         std::uint32_t* watched) {
  const std::unique_ptr<pattern> p = make_pattern(o.work);
  network_settings s = o.net;
  s.credits.flow_control = limited;
  s.seed = o.work.seed;
  result<std::unique_ptr<network>> n = network::make(s, *p, o.work.nodes);
  if (!n) return n.error();
  if (used != nullptr) *used = (*n)->plan();
  if (watched != nullptr) *watched = p->watched();
  progress_bar bar(limited ? "with credits" : "without limits");
  return (*n)->run([&bar](double share) { bar.show(share); });
}

nlohmann::json report(const options& o, const credit::config& c, const outcome& limited,
                      const outcome& free) {
  const double sent = static_cast<double>(limited.sent);
  nlohmann::json j;
  j["pattern"] = o.work.pattern;
  j["nodes"] = o.work.nodes;
  j["seed"] = o.work.seed;
  j["finished"] = limited.finished && free.finished;
  j["throughput_ratio"] = static_cast<double>(free.steps) / static_cast<double>(limited.steps);
  j["stall_fraction"] = sent > 0 ? static_cast<double>(limited.stalled) / sent : 0;
  j["stall_fraction_second_half"] =
      sent > 0 ? 2 * static_cast<double>(limited.stalled_late) / sent : 0;
  j["bytes_per_node"] = std::uint64_t{c.total_credits()} * note_bytes;
  j["state_bytes_per_node"] = std::uint64_t{c.ranks} * 40;
  j["credits_moved_last_epoch"] = limited.moved_last_epoch;
  j["credits_moved_most_epoch"] = limited.moved_most_epoch;
  j["credits_moved"] = limited.moved;
  j["credits_moved_second_half"] = limited.moved_late;
  j["epochs_to_settle"] = limited.epochs_to_settle;
  j["epochs"] = limited.epochs;
  j["fairness"] = limited.fairness;
  j["bank"] = limited.moments.back().watched_bank;
  j["messages"] = limited.sent;
  j["steps"] = limited.steps;
  j["steps_unlimited"] = free.steps;
  j["credits_per_peer"] = c.credits_per_peer;
  j["bank_at_start"] = c.bank;
  return j;
}

void print(const nlohmann::json& j) {
  for (const auto& [name, value] : j.items()) fmt::print("{:<28} {}\n", name, value.dump());
}

bool write_pictures(const options& o, const outcome& r, std::uint32_t lender) {
  svg::heat_map map;
  map.title =
      fmt::format("{}, {} nodes: credits lent by node {}", o.work.pattern, o.work.nodes, lender);
  map.across = "time, from left to right";
  map.down = "peer";
  map.cells.resize(r.peers.size());
  for (std::size_t i = 0; i < r.peers.size(); ++i) {
    map.rows.push_back(std::to_string(r.peers[i]));
    for (const moment& m : r.moments) map.cells[i].push_back(m.held[i]);
  }
  svg::line_chart chart;
  chart.title = fmt::format("{}, {} nodes: how credits settle", o.work.pattern, o.work.nodes);
  chart.across = "time, from left to right";
  chart.lines = {{"credits moved", {}}, {"messages stalled", {}}, {"bank", {}}};
  for (const moment& m : r.moments) {
    chart.lines[0].second.push_back(static_cast<double>(m.moved));
    chart.lines[1].second.push_back(static_cast<double>(m.stalled));
    chart.lines[2].second.push_back(m.watched_bank);
  }
  std::ofstream heat(o.svg + "-heat.svg"), curve(o.svg + "-convergence.svg");
  heat << map.draw();
  curve << chart.draw();
  return heat.good() && curve.good();
}

}  // namespace

int main(int argc, char** argv) {
  options o;
  command_line line(
      "creditsim",
      "Simulates the credit system: stalls, throughput, moves, memory and fairness.\n"
      "Moves are counted per lender: credits_moved_last_epoch is the most by any lender in\n"
      "its last whole epoch, epochs_to_settle the latest epoch in which credits moved,\n"
      "counted from the pattern's last change.");
  declare(line, o);
  line.parse(argc, argv);
  o.net.credits.dynamic = !o.static_credits;
  o.net.credits.fade = o.fade == "shift" ? credit::decay::shift : credit::decay::last_curr;
  o.net.credits.revoked =
      o.revoked == "borrower" ? credit::revoked_at::borrower : credit::revoked_at::lender;

  credit::config c;
  std::uint32_t watched = 0;
  const result<outcome> limited = simulate(o, true, &c, &watched);
  if (!limited) {
    fmt::print(stderr, "creditsim: {}\n", limited.error().message());
    return 2;
  }
  const result<outcome> free = simulate(o, false, nullptr, nullptr);
  if (!free) {
    fmt::print(stderr, "creditsim: {}\n", free.error().message());
    return 2;
  }
  const nlohmann::json j = report(o, c, *limited, *free);
  if (o.json)
    fmt::print("{}\n", j.dump());
  else
    print(j);
  if (!o.svg.empty() && !write_pictures(o, *limited, watched)) {
    fmt::print(stderr, "creditsim: cannot write {}-heat.svg or {}-convergence.svg\n", o.svg, o.svg);
    return 2;
  }
  if (!limited->finished || !free->finished) {
    fmt::print(stderr, "creditsim: stuck after {} of the messages\n", limited->sent);
    return 1;
  }
  return 0;
}
