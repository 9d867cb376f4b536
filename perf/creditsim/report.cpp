#include "perf/creditsim/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <span>

#include "perf/svg.hpp"

namespace penstock::creditsim {
namespace {

/// The note's arithmetic: 256 bytes of receive space and an event of 128.
constexpr std::uint64_t note_bytes = 256 + 128;

/// How many messages each rule has brought through, on one axis of time.
bool draw_rivals(const options& o, const outcome& ours, const std::vector<rival>& rivals) {
  svg::line_chart chart;
  std::uint64_t longest = ours.steps;
  for (const rival& r : rivals) longest = std::max(longest, r.what.steps);
  chart.title = fmt::format("{}, {} nodes: messages by rule", o.work.pattern, o.work.nodes);
  chart.across = "time in steps";
  chart.up = "messages";
  chart.last = static_cast<double>(longest);
  constexpr std::uint64_t parts = 100;
  std::vector<double> line;
  for (std::uint64_t k = 1; k <= parts; ++k) {
    std::uint64_t sent = 0;
    for (const moment& m : ours.moments)
      if (m.step <= longest * k / parts) sent = m.sent;
    line.push_back(static_cast<double>(longest * k / parts >= ours.steps ? ours.sent : sent));
  }
  chart.lines.emplace_back("credits", line);
  for (const rival& r : rivals) {
    line.clear();
    for (std::uint64_t k = 1; k <= parts; ++k) {
      const std::uint64_t part = longest * k / std::max<std::uint64_t>(r.what.steps, 1);
      line.push_back(static_cast<double>(
          part == 0 ? 0 : r.what.handled_by[std::min<std::uint64_t>(part, parts) - 1]));
    }
    chart.lines.emplace_back(r.name, line);
  }
  std::ofstream file(o.svg + "-rivals.svg");
  file << chart.draw();
  return file.good();
}

}  // namespace

double regret(const outcome& ours, const rival_outcome& best) {
  return 1 - static_cast<double>(best.steps) / static_cast<double>(ours.steps);
}

nlohmann::json report(const options& o, const credit::config& c, const outcome& limited,
                      const outcome& free, const std::vector<rival>& rivals) {
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
  j["steps_clairvoyant"] = rivals.front().what.steps;
  j["regret"] = regret(limited, rivals.front().what);
  j["steps_online"] = rivals[1].what.steps;
  j["regret_online"] = regret(limited, rivals[1].what);
  for (const rival& r : std::span(rivals).subspan(2)) {
    // Fixed credits have a memory of their own, by their number.
    const bool fixed = r.name == "fixed";
    j["rivals"][r.name] = {
        {"finished", r.what.finished},
        {"steps", r.what.steps},
        {"regret",
         1 - static_cast<double>(rivals.front().what.steps) / static_cast<double>(r.what.steps)},
        {"repeated", r.what.repeated},
        {"pauses", r.what.pauses},
        {"bytes_per_node",
         (fixed ? std::uint64_t{o.rival.fixed_each} * (c.ranks - 1) : c.total_credits()) *
             note_bytes}};
  }
  return j;
}

bool write_pictures(const options& o, const outcome& r, const std::vector<rival>& rivals,
                    std::uint32_t lender) {
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
  chart.across = "time in steps";
  chart.last = static_cast<double>(r.steps);
  chart.lines = {{"credits moved", {}}, {"messages stalled", {}}, {"bank", {}}};
  for (const moment& m : r.moments) {
    chart.lines[0].second.push_back(static_cast<double>(m.moved));
    chart.lines[1].second.push_back(static_cast<double>(m.stalled));
    chart.lines[2].second.push_back(m.watched_bank);
  }
  std::ofstream heat(o.svg + "-heat.svg"), curve(o.svg + "-convergence.svg");
  heat << map.draw();
  curve << chart.draw();
  return heat.good() && curve.good() && (!o.rivals || draw_rivals(o, r, rivals));
}

}  // namespace penstock::creditsim
