// hello, first, ghost and penperf as a user starts them.
#include <doctest/doctest.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "test/job/run.hpp"

using namespace testing;

namespace {

std::size_t lines_with(const std::string& text, const std::string& what) {
  std::istringstream in(text);
  std::size_t n = 0;
  for (std::string line; std::getline(in, line);) n += line.find(what) != line.npos;
  return n;
}

/// penperf with few operations, in a job of its own making; its one line of JSON.
nlohmann::json measured(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), PENPERF);
  for (const char* a : {"-n", "200", "--rounds", "1", "--json"}) arguments.emplace_back(a);
  const outcome o = run(arguments);
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  REQUIRE(lines_with(o.out, "{") == 1);
  return nlohmann::json::parse(o.out);
}

void check_figures(const nlohmann::json& j) {
  const auto& ns = j["ns"];
  CHECK(ns["min"] > 0);
  CHECK(ns["min"] <= ns["p50"]);
  CHECK(ns["p50"] <= ns["p99"]);
  CHECK(ns["p99"] <= ns["max"]);
  CHECK(j["rate"] > 0);
  CHECK(j["twin_ns"] > 0);
  CHECK(j["twin_rate"] > 0);
  CHECK(j["ratio"] > 0);
  CHECK(j["probe_ns"][0] > 0);
  CHECK(j["procs"] == 2);
  CHECK(j["device"] == "shm0");
}

}  // namespace

TEST_CASE("first says what the first messages to a peer take") {
  for (const char* processes : {"2", "3"}) {
    const outcome o = run(penrun({"-n", processes, FIRST, "2", "1"}));
    CAPTURE(o.err);
    CHECK(o.code == 0);
    CHECK(lines_with(o.out, std::string(processes) + " processes, us: first Short ") == 1);
    CHECK(lines_with(o.out, ": ratio ") == 1);
  }
}

TEST_CASE("Every process that says hello is heard and answered") {
  const outcome o = run(penrun({"-n", "4", HELLO}));
  CHECK(o.code == 0);
  CHECK(lines_with(o.out, "says hello") == 4);
  CHECK(lines_with(o.out, "answers") == 4);
  CHECK(lines_with(o.out, "rank 0: rank 3 says hello") == 1);
}

TEST_CASE("hello by itself greets itself") {
  const outcome o = run({HELLO});
  CHECK(o.code == 0);
  CHECK(lines_with(o.out, "rank 0: rank 0 answers") == 1);
}

TEST_CASE("ghost's sum does not depend on the number of processes, and its picture is written") {
  const auto file = std::filesystem::temp_directory_path() /
                    ("penstock-programs-" + std::to_string(::getpid()) + ".png");
  std::vector<std::string> sums;
  for (const char* n : {"1", "3", "4"}) {
    const outcome o = run(penrun(
        {"-n", n, GHOST, "--cells", "20", "--steps", "3", "--json", "--picture", file.string()}));
    REQUIRE(o.code == 0);
    const auto j = nlohmann::json::parse(o.out);
    CHECK(j["procs"] == std::stoi(n));
    CHECK(j["verified"].is_null());
    sums.push_back(j["checksum"]);
    CHECK(std::filesystem::file_size(file) > 100);
    std::filesystem::remove(file);
  }
  CHECK(sums[0] == sums[1]);
  CHECK(sums[0] == sums[2]);
}

TEST_CASE("ghost refuses what it cannot do, in every process") {
  const outcome thin = run(penrun({"-n", "3", GHOST, "--cells", "8"}));
  CHECK(thin.code == 2);
  CHECK(lines_with(thin.err, "8 cells an edge are too few for 3 processes") == 1);
  CHECK(run({GHOST, "--picture", "x.jpg"}).code == 2);
  CHECK(run({GHOST, "--device", "nosuch0", "--steps", "1"}).code != 0);
}

TEST_CASE("penperf makes its own job of two and measures a round trip beside its twin") {
  std::istringstream modes(PENPERF_MODES);
  for (std::string mode; std::getline(modes, mode, ',');) {
    const auto j = measured({"--mode", mode, "am_lat"});
    CHECK(j["bench"] == "am_lat");
    CHECK(j["kind"] == "short");
    CHECK(j["mode"] == mode);
    CHECK(j["size"] == 8);
    CHECK(j["iters"] == 200);
    check_figures(j);
  }
}

TEST_CASE("penperf measures Mediums and Longs of any size, answered in kind or by a Short") {
  for (const char* kind : {"medium", "long"})
    for (const char* size : {"1", "64", "3000"})
      for (const char* reply : {"same", "short"}) {
        CAPTURE(kind);
        CAPTURE(size);
        CAPTURE(reply);
        const auto j = measured({"am_lat", "--kind", kind, "-s", size, "--reply", reply});
        CHECK(j["kind"] == kind);
        CHECK(j["size"] == std::stoi(size));
        check_figures(j);
      }
}

TEST_CASE("penperf measures a poll that finds nothing, with all processes of the job connected") {
  const auto j = measured({"poll"});
  CHECK(j["bench"] == "poll");
  CHECK(j["iters"] == 192);  // whole samples of 64
  check_figures(j);
  const outcome many =
      run(penrun({"-n", "5", PENPERF, "poll", "-n", "6400", "--rounds", "1", "--json"}));
  CHECK(many.code == 0);
  REQUIRE(lines_with(many.out, "{") == 1);
  CHECK(nlohmann::json::parse(many.out)["procs"] == 5);
}

TEST_CASE("penperf compares a call of a function with a Medium that is answered by one") {
  for (const char* size : {"1", "64", "5000"}) {
    const auto j = measured({"rpc_lat", "-s", size});
    CHECK(j["size"] == std::atoi(size));
    CHECK(j["iters"] == 200);
    check_figures(j);
  }
  const outcome o = run({PENPERF, "rpc_lat", "-s", "65537"});
  CHECK(o.code == 2);
  CHECK(lines_with(o.err, "up to 65536 bytes") == 1);
}

TEST_CASE("penperf counts a flood's requests whose handlers have run") {
  for (const char* bench : {"am_rate", "am_bw"}) {
    const auto j = measured({bench});
    CHECK(j["iters"].get<int>() > 100);
    CHECK(j["bytes_per_s"].get<double>() ==
          doctest::Approx(j["rate"].get<double>() * j["size"].get<double>()).epsilon(0.01));
    check_figures(j);
  }
  for (const char* bench : {"gasnet_rate", "gex_rate"}) {
    check_figures(measured({bench}));
    for (const char* payload : {"ready", "made"})
      check_figures(measured({bench, "--kind", "medium", "-s", "600", "--payload", payload}));
  }
  check_figures(measured({"gex_rate", "--kind", "medium", "--payload", "reserved"}));
  check_figures(measured({"am_bw", "--kind", "long", "-s", "100000"}));
  CHECK(measured({"--mode", "par", "--threads", "2", "am_rate"})["threads"] == 2);
}

TEST_CASE("penperf --placement counts the rounds of one placement, or says that there was none") {
  for (const char* place : {"near", "far"}) {
    CAPTURE(place);
    const outcome o =
        run({PENPERF, "am_lat", "-n", "200", "--rounds", "2", "--json", "--placement", place});
    CAPTURE(o.err);
    if (o.code == 3) {
      CHECK(lines_with(o.err, "--placement") == 1);
      CHECK(o.out.empty());
      continue;
    }
    REQUIRE(o.code == 0);
    REQUIRE(lines_with(o.out, "{") == 1);
    const auto probes = nlohmann::json::parse(o.out)["probe_ns"].get<std::vector<double>>();
    CHECK((*std::min_element(probes.begin(), probes.end()) < 180) ==
          (place == std::string("near")));
  }
}

TEST_CASE("penperf measures puts, gets and fetch-adds of every place beside a twin") {
  for (const char* bench : {"put_lat", "get_lat", "put_bw", "get_bw"})
    for (const char* memory : {"segment", "outside", "private"}) {
      CAPTURE(bench);
      CAPTURE(memory);
      const auto j = measured({bench, "--memory", memory, "-s", "3000"});
      CHECK(j["kind"] == memory);
      CHECK(j["size"] == 3000);
      check_figures(j);
    }
  for (const char* bench : {"atomic_lat", "atomic_rate"}) {
    const auto j = measured({bench});
    CHECK(j["size"] == 8);
    check_figures(j);
  }
}

TEST_CASE("penperf measures gasnet.h's and gasnetex.h's copies beside bare loops") {
  for (const char* bench : {"gasnet_put", "gasnet_get_nbi", "gex_get", "gex_put_nbi", "gex_fadd"}) {
    CAPTURE(bench);
    check_figures(measured({bench}));
  }
}

TEST_CASE("penperf's one-sided benchmarks have bare verbs as twin where nothing is mapped") {
  ::setenv("PENSTOCK_DIRECT", "0", 1);
  for (const char* bench : {"put_lat", "get_bw", "atomic_lat", "atomic_rate"})
    check_figures(measured({bench}));
  check_figures(measured({"put_bw", "--memory", "private", "-s", "20000"}));
  ::unsetenv("PENSTOCK_DIRECT");
}

TEST_CASE("penperf measures registrations: a hit costs less than a registration") {
  for (const char* lookup : {"hit", "miss", "evict"}) {
    const auto j = measured({"reg", "--lookup", lookup});
    CHECK(j["kind"] == lookup);
    check_figures(j);
    if (j["kind"] == "hit") CHECK(j["ratio"] < 0.5);
  }
}

TEST_CASE("penperf under penrun uses the job's processes") {
  const outcome o =
      run(penrun({"-n", "3", PENPERF, "am_lat", "-n", "50", "--rounds", "1", "--json"}));
  CHECK(o.code == 0);
  CHECK(nlohmann::json::parse(o.out)["procs"] == 3);
  const outcome all = run(penrun({"-n", "3", PENPERF, "barrier", "--rounds", "1"}));
  CHECK(all.code == 2);
  CHECK(all.err.find("two processes") != std::string::npos);
}

TEST_CASE("penperf refuses what makes no sense with a line and code 2") {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"nosuch"},
      {"am_lat", "--kind", "tall"},
      {"am_lat", "-s", "9"},
      {"am_bw", "--kind", "short"},
      {"am_rate", "--threads", "2"},
      {"atomic_lat", "-s", "16"},
      {"atomic_rate", "--memory", "private"},
      {"put_lat", "--memory", "everywhere"},
      {"reg", "-s", "1M"},
      {"--mode", "fast", "am_lat"},
      {"am_lat", "-a"},
      {"put_lat", "-a", "-s", "8"},
      {"put_lat", "--kind", "long"},
      {"am_lat", "--memory", "outside"},
      {"am_rate", "--reply", "same"},
      {"get_lat", "--lookup", "miss"},
      {"am_lat", "-D", "1", "-n", "5"},
      {"poll", "-D", "1"},
      {"am_lat", "--cpus", "0"},
      {"am_lat", "--svg", "x.svg"},
      {"am_lat", "--svg-rate", "x.svg"},
      {"am_lat", "--histogram", "--csv"},
      {"am_lat", "--json", "--csv"},
      {"--mode", "par", "am_lat", "--threads", "2"},
      {"am_lat", "-b"},
      {"am_lat", "--placement", "middle"},
      {"am_lat", "-p", "2", "--placement", "far"},
      {"gasnet_lat", "--kind", "medium", "-a"},
      {"gasnet_rate", "--kind", "long"},
      {"gex_rate", "-b"},
      {"gasnet_rate", "--kind", "medium", "--payload", "reserved"},
      {"put_lat", "--window", "4"},
      {"am_rate", "--window", "0"},
      {"barrier", "-p", "2"},
      {"gasnet_put", "-p", "2"},
      {"reg", "--warm-up", "5"},
      {"--mode", "par", "am_rate", "--threads", "2", "-b"},
      {"am_lat", "--cpus", "0,1", "-p", "2"},
      {"am_lat", "--cpus", "0,1,"},
      {"am_lat", "--port", "5"},
      {"am_lat", "--server", "localhost"},
      {"am_lat", "--server", "-p", "2"},
  };
  for (std::vector<std::string> arguments : wrong) {
    arguments.insert(arguments.begin(), PENPERF);
    const outcome o = run(arguments);
    CAPTURE(o.err);
    CHECK(o.code == 2);
    CHECK_FALSE(o.err.empty());
    CHECK(o.out.empty());
    CHECK(std::count(o.err.begin(), o.err.end(), '\n') == 1);
  }
}

TEST_CASE("penperf's table has a heading and a row") {
  const outcome o = run({PENPERF, "am_lat", "-n", "50", "--rounds", "1"});
  CHECK(o.code == 0);
  CHECK(lines_with(o.out, "ratio") == 1);
  CHECK(lines_with(o.out, "am_lat") == 1);
}

TEST_CASE("penperf -a measures every size in one table, and draws it") {
  const auto file =
      std::filesystem::temp_directory_path() / ("penperf-" + std::to_string(::getpid()) + ".svg");
  const outcome o = run({PENPERF, "am_lat", "--kind", "medium", "-a", "-n", "20", "--rounds", "1",
                         "--csv", "--svg", file.string()});
  CAPTURE(o.err);
  REQUIRE(o.code == 0);
  CHECK(lines_with(o.out, "bench,kind,") == 1);
  CHECK(lines_with(o.out, "am_lat,medium,shm0,") == 17);  // 1 to 65536
  CHECK(lines_with(o.out, "am_lat,medium,shm0,seq,2,1,2048,20,") == 1);
  std::ifstream picture(file);
  const std::string svg((std::istreambuf_iterator<char>(picture)), {});
  CHECK(lines_with(svg, "<circle") == 51);  // three curves
  CHECK(svg.ends_with("</svg>\n"));
  std::filesystem::remove(file);
}

TEST_CASE("penperf draws rates by size and the spread of samples, and counts them in a histogram") {
  const auto file = [](const char* what) {
    return (std::filesystem::temp_directory_path() /
            ("penperf-" + std::to_string(::getpid()) + what + ".svg"))
        .string();
  };
  const auto taken = [](const std::string& path) {
    std::ifstream picture(path);
    std::string svg((std::istreambuf_iterator<char>(picture)), {});
    std::filesystem::remove(path);
    CHECK(svg.ends_with("</svg>\n"));
    return svg;
  };
  const outcome sizes = run({PENPERF, "am_rate", "--kind", "medium", "-a", "-n", "20", "--rounds",
                             "1", "--svg-rate", file("rate"), "--svg-cdf", file("all")});
  CAPTURE(sizes.err);
  REQUIRE(sizes.code == 0);
  const std::string rates = taken(file("rate"));
  CHECK(lines_with(rates, "<circle") == 34);  // ours and the twin, 17 sizes
  CHECK(lines_with(rates, ">operations a second</text>") == 1);
  CHECK(lines_with(taken(file("all")), "<polyline") == 17);  // a curve a size
  const outcome one = run({PENPERF, "am_lat", "-n", "500", "--rounds", "1", "--histogram", "--json",
                           "--svg-cdf", file("one")});
  CAPTURE(one.err);
  REQUIRE(one.code == 0);
  const std::string svg = taken(file("one"));
  CHECK(lines_with(svg, "<polyline") == 2);
  CHECK(lines_with(svg, ">twin</text>") == 1);
  const auto j = nlohmann::json::parse(one.out);
  std::uint64_t samples = 0;
  for (const auto& n : j["histogram_samples"]) samples += n.get<std::uint64_t>();
  CHECK(samples == 500);
  CHECK(j["histogram_ns"].front() <= j["ns"]["min"]);
  CHECK(j["histogram_ns"].back() >= j["ns"]["max"]);
}

TEST_CASE("No line that penperf prints for people has more than 100 columns") {
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"am_lat"}, {"credit_take_return"}, {"gasnet_put_nbi"}, {"put_bw", "-s", "8M"}}) {
    std::vector<std::string> words = {PENPERF, "--histogram", "-n", "50", "--rounds", "1"};
    words.insert(words.begin() + 1, more.begin(), more.end());
    const outcome o = run(words);
    CHECK(o.code == 0);
    std::istringstream in(o.out);
    for (std::string line; std::getline(in, line);) {
      CAPTURE(line);
      CHECK(line.size() <= 100);
    }
  }
}

TEST_CASE("penperf -b measures both ways at once, beside a twin that does") {
  for (const char* direct : {"1", "0"}) {
    ::setenv("PENSTOCK_DIRECT", direct, 1);
    for (const std::vector<std::string>& bench :
         std::vector<std::vector<std::string>>{{"am_rate"},
                                               {"am_bw"},
                                               {"am_bw", "--kind", "long"},
                                               {"put_bw"},
                                               {"get_bw", "--memory", "outside"},
                                               {"atomic_rate"}}) {
      CAPTURE(direct);
      CAPTURE(bench[0]);
      std::vector<std::string> words = bench;
      words.emplace_back("-b");
      const auto j = measured(words);
      CHECK(j["both"] == true);
      CHECK(j["iters"].get<int>() >= 2 * 160);  // whole batches, of both
      check_figures(j);
      words.insert(words.end(), {"--window", "5"});
      check_figures(measured(words));
    }
  }
  ::unsetenv("PENSTOCK_DIRECT");
}

TEST_CASE("penperf --window N keeps N in flight: messages are answered after every N") {
  const auto sent = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {PENPERF,    "am_rate", "-n",        "200",
                                      "--rounds", "1",       "--counters"};
    words.insert(words.end(), more.begin(), more.end());
    const outcome o = run(words);
    CAPTURE(o.err);
    REQUIRE(o.code == 0);
    std::uint64_t most = 0;
    for (const pid_t n : numbers_after(o.err, "\"requests_sent\":{\"shorts\":"))
      most = std::max(most, static_cast<std::uint64_t>(n));
    return most;
  };
  CHECK(sent({"--window", "1"}) >= 400);  // each is followed by a question
  CHECK(sent({"--warm-up", "20000"}) >= 20'200);
  for (const char* bench : {"am_bw", "put_bw", "get_bw", "atomic_rate"}) {
    const auto j = measured({bench, "--window", "7"});
    CHECK(j["window"] == 7);
    check_figures(j);
  }
  ::setenv("PENSTOCK_DIRECT", "0", 1);
  for (const char* bench : {"am_rate", "put_bw"}) check_figures(measured({bench, "--window", "7"}));
  ::unsetenv("PENSTOCK_DIRECT");
}

TEST_CASE(
    "penperf --warm-up says how many operations go before, in every benchmark that has some") {
  for (const char* bench : {"am_lat", "am_bw", "gasnet_lat", "barrier", "poll", "strided",
                            "gasnet_put", "put_lat", "get_bw", "atomic_rate", "credit_take_return"})
    check_figures(measured({bench, "--warm-up", "150"}));
}

TEST_CASE("penperf -p measures several pairs at once and adds their rates") {
  for (const char* bench : {"am_lat", "am_rate", "put_lat", "get_bw", "atomic_lat"}) {
    CAPTURE(bench);
    std::vector<std::string> words = {PENPERF, bench,      "-p", "2",     "-n",
                                      "200",   "--rounds", "2",  "--json"};
    const outcome o = run(words);
    CAPTURE(o.err);
    REQUIRE(o.code == 0);
    REQUIRE(lines_with(o.out, "{") == 1);
    const auto j = nlohmann::json::parse(o.out);
    CHECK(j["procs"] == 4);
    CHECK(j["pairs"] == 2);
    CHECK(j["iters"].get<int>() >= 2 * 192);
    CHECK(j["ns"]["p50"] > 0);
    CHECK(j["twin_rate"] > 0);
    CHECK(j["ratio"] > 0);
  }
  const outcome odd = run(penrun({"-n", "3", PENPERF, "am_lat", "-p", "2"}));
  CHECK(odd.code == 2);
  CHECK(odd.err.find("needs a job of 4 processes") != std::string::npos);
}

namespace {
/// The port that a penperf --server says it waits on.
std::string port_of(running& server) {
  REQUIRE(server.wait_for("on port "));
  REQUIRE(server.wait_for("\n"));
  const std::string& out = server.out();
  const auto at = out.find("on port ") + 8;
  return out.substr(at, out.find('\n', at) - at);
}
}  // namespace

TEST_CASE("penperf --server and penperf with its name make a job of two without a launcher") {
  for (const char* direct : {"1", "0"}) {
    ::setenv("PENSTOCK_DIRECT", direct, 1);
    running server({PENPERF, "put_bw", "-n", "200", "--rounds", "1", "--server", "--port", "0"});
    const outcome o = run({PENPERF, "put_bw", "localhost", "--port", port_of(server), "-n", "200",
                           "--rounds", "1", "--json"});
    CAPTURE(o.err);
    CHECK(o.code == 0);
    const outcome s = server.wait();
    CAPTURE(s.err);
    CHECK(s.code == 0);
    CHECK(lines_with(s.out, "{") == 0);
    REQUIRE(lines_with(o.out, "{") == 1);
    check_figures(nlohmann::json::parse(o.out));
  }
  ::unsetenv("PENSTOCK_DIRECT");
}

TEST_CASE(
    "penperf's two sides refuse to measure different things, and a server that is not there") {
  running server({PENPERF, "am_lat", "-n", "50", "--server", "--port", "0"});
  const std::string port = port_of(server);
  const outcome o = run({PENPERF, "am_lat", "-n", "60", "localhost", "--port", port});
  CHECK(o.code == 2);
  CHECK(o.err.find("-n 60") != std::string::npos);
  CHECK(o.err.find("-n 50") != std::string::npos);
  CHECK(server.wait().code == 2);
  const outcome none = run({PENPERF, "am_lat", "localhost", "--port", port});
  CHECK(none.code == 1);
  CHECK(none.err.find("penperf --server waits there") != std::string::npos);
}

TEST_CASE("When one side of penperf is killed the other ends, and nothing is left") {
  // A round is at most some million round trips, so there are many.
  running server({PENPERF, "am_lat", "-D", "1000", "--rounds", "101", "--server", "--port", "0"});
  running client(
      {PENPERF, "am_lat", "-D", "1000", "--rounds", "101", "localhost", "--port", port_of(server)});
  const auto children = [](pid_t parent) {
    std::ifstream in("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) +
                     "/children");
    pid_t child = 0;
    in >> child;
    return child;
  };
  pid_t of_server = 0, of_client = 0;
  for (int i = 0; i < 600 && (of_server == 0 || of_client == 0); ++i) {
    ::usleep(50'000);
    of_server = children(server.pid());
    of_client = children(client.pid());
  }
  REQUIRE(of_server != 0);
  REQUIRE(of_client != 0);
  ::usleep(300'000);
  ::kill(of_server, SIGKILL);
  CHECK(server.wait().code == 128 + SIGKILL);
  CHECK(client.wait().code > 0);
  CHECK(all_end({of_server, of_client}));
}

TEST_CASE("penperf --counters prints what both processes have counted") {
  const outcome o = run({PENPERF, "am_lat", "-n", "50", "--rounds", "1", "--counters", "--json"});
  CHECK(o.code == 0);
  CHECK(lines_with(o.out, "{") == 1);
  CHECK(lines_with(o.err, "\"requests_sent\"") == 2);
}
