#include "perf/measurement.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

using namespace penstock::perf;

namespace {
measurement example() {
  measurement m;
  m.bench = "am_lat";
  m.kind = "short";
  m.device = "shm0";
  m.mode = "seq";
  m.procs = 2;
  m.size = 8;
  m.iters = 1000;
  m.ns = {250, 300.04, 310, 400, 500, 9000};
  m.rate = 3e6;
  m.twin_ns = 200;
  m.twin_rate = 4e6;
  m.probe_ns = {280, 290};
  return m;
}
}  // namespace

TEST_CASE("A latency's ratio is median over median, a rate's rate over rate") {
  measurement m = example();
  CHECK(m.ratio() == doctest::Approx(300.04 / 200));
  m.is_latency = false;
  CHECK(m.ratio() == doctest::Approx(0.75));
}

TEST_CASE("Without a twin the ratio is zero") {
  measurement m = example();
  m.twin_ns = m.twin_rate = 0;
  CHECK(m.ratio() == 0);
  m.is_latency = false;
  CHECK(m.ratio() == 0);
}

TEST_CASE("A line of JSON has exactly the agreed fields, in order, on one line") {
  const std::string text = to_json(example());
  CHECK(text.find('\n') == std::string::npos);
  const auto j = nlohmann::ordered_json::parse(text);
  std::string keys;
  for (const auto& [key, value] : j.items()) keys += key + ' ';
  CHECK(keys ==
        "bench kind device mode procs threads size iters ns rate bytes_per_s twin_ns twin_rate "
        "ratio probe_ns ");
  keys.clear();
  for (const auto& [key, value] : j["ns"].items()) keys += key + ' ';
  CHECK(keys == "min p50 p90 p99 p999 max ");
  CHECK(j["ns"]["p50"] == 300.0);
  CHECK(j["bytes_per_s"] == 24e6);
  CHECK(j["ratio"] == 1.5002);
  CHECK(j["probe_ns"].size() == 2);
  CHECK(j["probe_ns"][1] == 290);
}

TEST_CASE("The table names bench and device once, and a row has at most 100 columns") {
  measurement m = example();
  const std::string head = table_head(m);
  CHECK(head.find("am_lat short, shm0, seq") == 0);
  CHECK(table_row(m).find("1.500") != std::string::npos);
  m.size = 1 << 26;
  m.ns = {99999.9, 999999.9, 999999.9, 3e9, 3e9, 9e10};
  m.rate = 12345, m.twin_ns = 0.001;
  for (const std::string& text :
       {head.substr(0, head.find('\n') + 1), head.substr(head.find('\n') + 1), table_row(m)}) {
    CHECK(text.find('\n') == text.size() - 1);
    CHECK(text.size() <= 101);
  }
}

TEST_CASE("A histogram is said in bounds and counts, and has at most 100 columns") {
  measurement m = example();
  std::vector<std::uint64_t> samples(1000, 300);
  samples.back() = 5'000'000'000;
  m.ns = summarize(samples, 1);
  const auto j = nlohmann::json::parse(to_json(m, true));
  const auto &bounds = j["histogram_ns"], &counts = j["histogram_samples"];
  REQUIRE(bounds.size() == counts.size() + 1);
  CHECK(counts.size() > 2);
  CHECK(counts.size() <= 24);
  CHECK(counts.front() == 999);
  CHECK(counts.back() == 1);
  CHECK(bounds.front() <= 300);
  CHECK(bounds.back() > 5e9);
  const std::string table = histogram_of(m);
  CHECK(std::count(table.begin(), table.end(), '\n') ==
        static_cast<std::ptrdiff_t>(counts.size() + 1));
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
  CHECK(table.find("100.000") != std::string::npos);
  CHECK_FALSE(nlohmann::json::parse(to_json(m)).contains("histogram_ns"));
}

TEST_CASE(
    "What is out of the ordinary is said, in JSON behind the rest, and in a line of its own") {
  measurement m = example();
  m.pairs = 4, m.both = true, m.window = 64;
  const auto j = nlohmann::json::parse(to_json(m));
  CHECK(j["pairs"] == 4);
  CHECK(j["both"] == true);
  CHECK(j["window"] == 64);
  CHECK(table_head(m).find("\n4 pairs at once, rates of all together, both ways") !=
        std::string::npos);
  CHECK(csv_row(m).ends_with(",4,1,64\n"));
  CHECK(csv_row(example()).ends_with(",1,0,0\n"));
}

TEST_CASE("A row of comma-separated values has a value for each name") {
  const auto commas = [](const std::string& s) { return std::count(s.begin(), s.end(), ','); };
  CHECK(commas(csv_row(example())) == commas(csv_head()));
  CHECK(csv_row(example()).find("am_lat,short,shm0,seq,2,1,8,1000,250.0,300.0,") == 0);
}
