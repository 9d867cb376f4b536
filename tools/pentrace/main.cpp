// pentrace: puts the trace files of a job's ranks (setting TRACE) together into one, for Perfetto
// or chrome://tracing, and prints sums over all of them. Hosts have clocks of their own: the tracks
// of another host than the first file's are shifted by the difference of their wall clocks.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/command_line.hpp"

namespace {

using nlohmann::json;

// A file that cannot be used, and why: main() says so.
struct refusal {
  std::string file;
  const char* why;
};
constexpr const char* no_trace = "is no trace of PENSTOCK_TRACE";
[[noreturn]] void refuse(const std::string& file, const char* why) { throw refusal{file, why}; }

// The entries of a file about its rank's clock.
struct clock_of_file {
  std::string host;
  double offset_us = 0;  // wall clock less the clock of its events
};

json read(const std::string& file, clock_of_file& clock) {
  std::ifstream in(file);
  if (!in) refuse(file, "cannot be read");
  json events = json::parse(in, nullptr, false);
  if (!events.is_array()) refuse(file, no_trace);
  for (const json& e : events) {
    if (!e.is_object() || e.value("name", "") != "penstock_clock") continue;
    const json& a = e.value("args", json::object());
    clock.host = a.value("host", "");
    clock.offset_us = (a.value("real_ns", 0.0) - a.value("now_ns", 0.0)) / 1000;
    return events;
  }
  refuse(file, no_trace);
}

// Messages whose both ends are in the files.
struct sums {
  std::uint64_t sent = 0, handled = 0, matched = 0, backwards = 0;
  std::vector<double> us;
};

void count(const json& all, sums& s) {
  std::map<std::string, double> sent;
  for (const json& e : all)
    if (e.value("ph", "") == "s") sent.emplace(e.value("id", ""), e.value("ts", 0.0)), ++s.sent;
  for (const json& e : all) {
    if (e.value("ph", "") != "f") continue;
    ++s.handled;
    const auto at = sent.find(e.value("id", ""));
    if (at == sent.end()) continue;
    ++s.matched;
    s.us.push_back(e.value("ts", 0.0) - at->second);
    if (s.us.back() < 0) ++s.backwards;
  }
}

// Reads the files, whose events it returns in one list, in the first file's time.
json together(const std::vector<std::string>& files) {
  json all = json::array();
  clock_of_file first;
  double earliest = std::numeric_limits<double>::max();
  std::string now;
  try {
    for (const std::string& file : files) {
      now = file;
      clock_of_file clock;
      json events = read(file, clock);
      if (&file == files.data()) first = clock;
      const double shift = clock.host == first.host ? 0 : clock.offset_us - first.offset_us;
      for (json& e : events) {
        if (!e.is_object() || !e.value("ph", json()).is_string()) refuse(file, no_trace);
        if (e.contains("ts")) {
          e["ts"] = e.value("ts", 0.0) + shift;
          earliest = std::min(earliest, e.value("ts", 0.0));
        }
        all.push_back(std::move(e));
      }
    }
  } catch (const json::exception&) {  // a member of another type than traces have
    refuse(now, no_trace);
  }
  for (json& e : all)  // a viewer's time begins at 0
    if (e.contains("ts")) e["ts"] = e.value("ts", 0.0) - earliest;
  return all;
}

int run(int argc, char** argv) {
  std::vector<std::string> files;
  std::string out = "penstock_trace.json";
  penstock::command_line line(
      "pentrace",
      "Puts the traces of a job's ranks together into one file.\n"
      "ui.perfetto.dev and chrome://tracing open it. The ranks write traces when the setting\n"
      "PENSTOCK_TRACE is on. It also says how long messages took.");
  line.text("-o,--output", out, "The file to write", {.type = "FILE", .initial = out});
  line.list("files", files, "The files that the ranks have written",
            {.required = true, .type = "FILE"});
  line.parse(argc, argv);

  const json all = together(files);
  std::ofstream to(out);
  to << "[\n";
  for (const json& e : all)
    to << e.dump(-1, ' ', false, json::error_handler_t::replace)
       << (&e == &all.back() ? "\n" : ",\n");
  to << "]\n";
  if (!to.flush()) refuse(out, "cannot be written");

  sums s;
  count(all, s);
  fmt::print(
      "{}: {} ranks, {} events; {} messages sent, {} handled, {} of them found at their sender's\n",
      out, files.size(), all.size(), s.sent, s.handled, s.matched);
  if (!s.us.empty()) {
    std::sort(s.us.begin(), s.us.end());
    fmt::print("from sending to handler: {:.1f} us least, {:.1f} us median, {:.1f} us most\n",
               s.us.front(), s.us[s.us.size() / 2], s.us.back());
  }
  if (s.backwards != 0)
    fmt::print("{} were handled before they were sent: the hosts' clocks differ\n", s.backwards);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const refusal& r) {
    fmt::print(stderr, "pentrace: {}: {}\n", r.file, r.why);
    return 1;
  }
}
