#include "lib/conduit/report/text.hpp"

#include <cstdio>
#include <cstring>
#include <utility>

#include "lib/base/counters_socket.hpp"
#include "lib/base/output_path.hpp"
#include "lib/base/rank_list.hpp"

namespace penstock::conduit::PENSTOCK_ABI::report {
namespace {

// Quotes a text for JSON or for a label's value.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= ' ') out += c;
  }
  return out += '"';
}

void member(std::string& out, const char* name, std::uint64_t value) {
  out.append(",\"").append(name).append("\":").append(std::to_string(value));
}

// A counter as Prometheus's conventions have it: what only grows ends in _total, and times are
// seconds. What may shrink is a gauge; its help begins with "now".
class metric {
 public:
  metric(std::string& out, std::string name, const std::string& help)
      : out_(out), name_(std::move(name)) {
    const bool gauge = help.starts_with("now: ");
    seconds_ = name_.ends_with("_ns");
    if (seconds_) name_.replace(name_.size() - 2, 2, "seconds");
    if (!gauge) name_ += "_total";
    std::string said = help;
    constexpr std::string_view in_ns = "nanoseconds";
    if (const auto at = said.find(in_ns); seconds_ && at != said.npos)
      said.replace(at, in_ns.size(), "seconds");
    out_.append("# HELP ").append(name_).append(" ").append(said).append("\n# TYPE ");
    out_.append(name_).append(gauge ? " gauge\n" : " counter\n");
  }
  void add(const std::string& labels, std::uint64_t value) {
    constexpr std::uint64_t second_ns = 1'000'000'000;
    out_.append(name_).append("{").append(labels).append("} ");
    if (!seconds_) {
      out_.append(std::to_string(value)) += '\n';
      return;
    }
    char text[48];
    std::snprintf(text, sizeof text, "%llu.%09llu\n",
                  static_cast<unsigned long long>(value / second_ns),
                  static_cast<unsigned long long>(value % second_ns));
    out_ += text;
  }

 private:
  std::string& out_;
  std::string name_;
  bool seconds_;
};

}  // namespace

std::string json(const identity& who, const endpoint_counters& c) {
  std::string out = "{\"format\":1";
  member(out, "rank", who.rank);
  member(out, "ranks", who.ranks);
  member(out, "pid", static_cast<std::uint64_t>(who.pid));
  out.append(",\"job\":").append(quoted(who.job)).append(",\"program\":");
  out.append(quoted(who.program)).append(",\"host\":").append(quoted(who.host));
  out.append(",\"device\":").append(quoted(who.device));
  for (const auto& row : endpoint_counter_rows) member(out, row.name, c.*row.field);
  out += ",\"peers\":[";
  for (const peer_counters& p : c.peers) {
    if (&p != c.peers.data()) out += ',';
    out.append("{\"peer\":").append(std::to_string(p.rank));
    out.append(",\"path\":").append(quoted(p.path));
    out.append(",\"waits_for\":").append(quoted(p.waits_for));
    out.append(",\"waits_handler\":").append(quoted(p.waits_handler));
    for (const auto& d : direction_rows) {
      out.append(",\"").append(d.name).append("\":{");
      const std::size_t first = out.size();
      for (const auto& row : message_counter_rows) member(out, row.name, p.*d.field.*row.field);
      out.erase(first, 1);  // its comma
      out += '}';
    }
    for (const auto& row : peer_counter_rows) member(out, row.name, p.*row.field);
    out += '}';
  }
  return out += "]}\n";
}

std::string prometheus(const identity& who, const endpoint_counters& c) {
  std::string out;
  // Prometheus itself has a label "job".
  const std::string process =
      "penstock_job=" + quoted(who.job) + ",rank=\"" + std::to_string(who.rank) + '"';
  for (const auto& row : endpoint_counter_rows)
    metric(out, std::string("penstock_") + row.name, row.help).add(process, c.*row.field);
  const auto labels = [&](const peer_counters& p) {
    return process + ",peer=\"" + std::to_string(p.rank) + "\",path=" + quoted(p.path);
  };
  for (const auto& row : message_counter_rows) {
    metric m(out, std::string("penstock_messages_") + row.name, row.help);
    for (const peer_counters& p : c.peers)
      for (const auto& d : direction_rows)
        m.add(labels(p) + ",direction=" + quoted(d.name), p.*d.field.*row.field);
  }
  for (const auto& row : peer_counter_rows) {
    metric m(out, std::string("penstock_peer_") + row.name, row.help);
    for (const peer_counters& p : c.peers) m.add(labels(p), p.*row.field);
  }
  return out;
}

std::string file_of(std::string path, const char* by_default, const char* ending,
                    std::uint32_t rank, unsigned nth) {
  if (path == "1") path = by_default;
  const bool ends = path.ends_with(ending);
  if (ends) path.resize(path.size() - std::strlen(ending));
  const std::string number = std::to_string(rank);
  if (path.find('%') == std::string::npos) path += ".%";
  for (std::size_t at = 0; (at = path.find('%', at)) != std::string::npos; at += number.size())
    path.replace(at, 1, number);
  if (nth != 0) path.append(".").append(std::to_string(nth + 1));
  return ends ? path + ending : path;
}

result<std::unique_ptr<trace>> open_trace(const settings& s, std::uint32_t rank, unsigned nth) {
  if (s.trace == "0" || !lists_rank(s.trace_nodes, rank)) return std::unique_ptr<trace>();
  // A trace is of no use on a terminal, so it goes to the default's file.
  const bool terminal = s.trace == "-" || s.trace == "stderr" || s.trace == "stdout";
  return trace::open(file_of(terminal ? "1" : s.trace, "penstock_trace", ".json", rank, nth), rank,
                     s.trace_events, s.trace_mask);
}

std::string counters_file(const settings& s, std::uint32_t rank, unsigned nth) {
  return file_of(s.counters, "penstock_counters", prometheus_ending, rank, nth);
}

result<void> outputs_can_be_written(const settings& s, std::uint32_t rank, unsigned nth) {
  const bool shown = s.counters == "-" || s.counters == "stderr" || s.counters == "stdout";
  if (s.counters != "0" && !shown)
    if (auto r = can_write("PENSTOCK_COUNTERS", counters_file(s, rank, nth)); !r) return r;
  if (s.credit_stats == "0") return {};
  const std::string base = s.credit_stats == "1" ? "penstock_credits" : s.credit_stats;
  return can_write("PENSTOCK_CREDIT_STATS", base + "." + std::to_string(rank));
}

std::string public_name(const std::string& job_name) {
  std::uint64_t h = 14695981039346656037ull;
  for (const char c : job_name) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  char text[9];
  std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(h >> 32 ^ h));
  return text;
}

std::string socket_name(unsigned uid, const std::string& job, std::uint32_t rank, unsigned nth) {
  return counters_socket + std::to_string(uid) + "/" + job + "/" + std::to_string(rank) + "/" +
         std::to_string(nth);
}

}  // namespace penstock::conduit::PENSTOCK_ABI::report
