#include "perf/measurement.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

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

TEST_CASE("A row of the table is one line and names bench, device and ratio") {
  const std::string row = table_row(example());
  CHECK(row.find('\n') == row.size() - 1);
  CHECK(row.find("am_lat") == 0);
  CHECK(row.find("shm0") != row.npos);
  CHECK(row.find("1.500") != row.npos);
}
