#include "tools/pentop/view.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace pentop {
namespace {

// Shares of time below this are noise.
constexpr double least_wait = 0.001;
constexpr std::size_t columns = 100;

double a_second(std::uint64_t now, std::uint64_t before, double seconds) {
  return now > before ? static_cast<double>(now - before) / seconds : 0;
}

std::string short_number(double n) {
  if (n >= 1e9) return fmt::format("{:.2f} G", n * 1e-9);
  if (n >= 1e6) return fmt::format("{:.2f} M", n * 1e-6);
  if (n >= 1e4) return fmt::format("{:.1f} k", n * 1e-3);
  return fmt::format("{:.0f}", n);
}

std::string short_time(std::uint64_t ns) {
  const auto t = static_cast<double>(ns);
  if (t >= 1e9) return fmt::format("{:.1f} s", t * 1e-9);
  if (t >= 1e6) return fmt::format("{:.1f} ms", t * 1e-6);
  return fmt::format("{:.1f} us", t * 1e-3);
}

// The rank for which the others wait most, in shares of their time.
std::uint32_t most_waited_for(const std::vector<flow>& waits) {
  std::map<std::uint32_t, double> for_rank;
  for (const flow& f : waits) for_rank[f.to] += f.waited;
  std::uint32_t target = picture::no_target;
  double most = least_wait;
  for (const auto& [rank, waited] : for_rank)
    if (waited > most) target = rank, most = waited;
  return target;
}

flow compare_pair(std::uint32_t from, std::uint32_t to, const pair_figures& now,
                  const pair_figures& before, double seconds) {
  flow f{.from = from, .to = to, .now = now};
  f.messages = a_second(now.messages, before.messages, seconds);
  f.bytes = a_second(now.bytes, before.bytes, seconds);
  f.waited = a_second(now.waited_ns, before.waited_ns, seconds) * 1e-9;
  return f;
}

nlohmann::json as_json(const flow& f) {
  return {{"rank", f.from},
          {"peer", f.to},
          {"path", f.now.path},
          {"messages_per_second", f.messages},
          {"bytes_per_second", f.bytes},
          {"waits_for", f.now.waits_for},
          {"waits_handler", f.now.waits_handler},
          {"waiting_seconds", static_cast<double>(f.now.waiting_ns) * 1e-9},
          {"waited_share", f.waited},
          {"waited_seconds", static_cast<double>(f.now.waited_ns) * 1e-9},
          {"stalls", f.now.stalls},
          {"holds", f.now.holds}};
}

}  // namespace

picture compare(const std::string& job, const sample& before, sample now) {
  picture p;
  p.job = job;
  p.seconds = std::max(1e-9, static_cast<double>(now.at_ns - before.at_ns) * 1e-9);
  static const process nothing;
  for (const auto& [rank, one] : now.processes) {
    const auto at = before.processes.find(rank);
    const process& then = at != before.processes.end() ? at->second : nothing;
    p.polls[rank] = a_second(one.polls, then.polls, p.seconds);
    for (const auto& [peer, figures] : one.with) {
      const auto was = then.with.find(peer);
      const flow f = compare_pair(rank, peer, figures,
                                  was != then.with.end() ? was->second : pair_figures{}, p.seconds);
      if (f.messages > 0 || f.bytes > 0) p.flows.push_back(f);
      if (f.waited >= least_wait || figures.waiting_ns != 0) p.waits.push_back(f);
    }
  }
  std::stable_sort(p.flows.begin(), p.flows.end(),
                   [](const flow& a, const flow& b) { return a.messages > b.messages; });
  std::stable_sort(p.waits.begin(), p.waits.end(),
                   [](const flow& a, const flow& b) { return a.waited > b.waited; });
  p.target = most_waited_for(p.waits);
  p.now = std::move(now);
  return p;
}

nlohmann::json as_json(const picture& p) {
  nlohmann::json j{{"format", 1}, {"job", p.job}, {"interval_seconds", p.seconds}};
  j["silent"] = p.now.silent;
  if (p.target == picture::no_target)
    j["target"] = nullptr;
  else
    j["target"] = p.target;
  j["waits"] = nlohmann::json::array();
  for (const flow& f : p.waits) j["waits"].push_back(as_json(f));
  j["flows"] = nlohmann::json::array();
  for (const flow& f : p.flows) j["flows"].push_back(as_json(f));
  j["processes"] = nlohmann::json::array();
  for (const auto& [rank, one] : p.now.processes) {
    nlohmann::json whole = one.whole;
    whole["polls_per_second"] = p.polls.at(rank);
    j["processes"].push_back(std::move(whole));
  }
  return j;
}

std::string job_line(const picture& p) {
  if (p.now.processes.empty()) return fmt::format("job {}: no process answers", p.job);
  const process& first = p.now.processes.begin()->second;
  return fmt::format("job {}: {}, {} ranks, {} answer here, device {}, {:.1f} s", p.job,
                     first.program, first.ranks, p.now.processes.size(), first.device, p.seconds);
}

std::string rank_heading() {
  return fmt::format("{:>6} {:>8} {:>10} {:>10} {:>10} {:>8} {:>8}  {}", "rank", "pid",
                     "messages/s", "bytes/s", "polls/s", "lent", "bank", "waits for");
}

std::vector<row> rank_rows(const picture& p) {
  std::vector<row> rows;
  for (const auto& [rank, one] : p.now.processes) {
    row r{.rank = rank};
    std::uint64_t lent = 0;
    for (const flow& f : p.flows)
      if (f.from == rank) r.messages += f.messages, r.bytes += f.bytes;
    for (const auto& [peer, f] : one.with) lent += f.loan;
    std::string waits;
    for (const flow& f : p.waits) {
      if (f.from != rank) continue;
      r.waited += f.waited;
      if (waits.empty())
        waits = fmt::format("{} of {}, {:.0f} % of it{}{}", f.now.waits_for, f.to, 100 * f.waited,
                            f.now.waits_handler.empty() ? "" : "; handler ", f.now.waits_handler);
    }
    r.text = fmt::format("{:>6} {:>8} {:>10} {:>10} {:>10} {:>8} {:>8}  {}", rank, one.pid,
                         short_number(r.messages), short_number(r.bytes),
                         short_number(p.polls.at(rank)), lent, one.bank, waits);
    rows.push_back(std::move(r));
  }
  for (const std::uint32_t r : p.now.silent)
    rows.push_back({.rank = r, .text = fmt::format("{:>6} does not answer (is it stopped?)", r)});
  return rows;
}

std::string pair_heading() {
  return fmt::format("{:>6} {:>6} {:>6} {:>10} {:>10} {:>8} {:>10} {:>8} {:>10}  {}", "from", "to",
                     "path", "messages/s", "bytes/s", "stalls", "waited", "% now", "for now",
                     "credits");
}

std::vector<row> pair_rows(const picture& p) {
  std::vector<flow> all = p.waits;
  for (const flow& f : p.flows)
    if (std::none_of(p.waits.begin(), p.waits.end(),
                     [&](const flow& w) { return w.from == f.from && w.to == f.to; }))
      all.push_back(f);
  std::vector<row> rows;
  rows.reserve(all.size());
  for (const flow& f : all)
    rows.push_back({.rank = f.from,
                    .messages = f.messages,
                    .bytes = f.bytes,
                    .waited = f.waited,
                    .text = fmt::format(
                        "{:>6} {:>6} {:>6} {:>10} {:>10} {:>8} {:>10} {:>8.1f} {:>10}  {}", f.from,
                        f.to, f.now.path, short_number(f.messages), short_number(f.bytes),
                        short_number(static_cast<double>(f.now.stalls)),
                        short_time(f.now.waited_ns), 100 * f.waited,
                        f.now.waiting_ns == 0 ? "-" : short_time(f.now.waiting_ns), f.now.holds)});
  return rows;
}

std::string target_line(const picture& p) {
  if (p.target == picture::no_target) return {};
  return fmt::format("The others wait for rank {} most.", p.target);
}

std::string as_text(const picture& p, std::size_t most) {
  std::string out = job_line(p);
  out += '\n';
  if (p.now.processes.empty()) return out;
  out += fmt::format("\n{}\n", rank_heading());
  for (row& r : rank_rows(p)) {
    r.text.resize(std::min(r.text.size(), columns));  // the name of a handler may be long
    out += r.text;
    out += '\n';
  }
  if (const std::string target = target_line(p); !target.empty())
    out += fmt::format("\n{}\n", target);
  out += fmt::format("\n{}\n", pair_heading());
  const std::vector<row> pairs = pair_rows(p);
  for (std::size_t i = 0; i < std::min(most, pairs.size()); ++i)
    out += fmt::format("{}\n", pairs[i].text);
  if (pairs.size() > most)
    out += fmt::format("{} more pairs; --top shows more\n", pairs.size() - most);
  return out;
}

}  // namespace pentop
