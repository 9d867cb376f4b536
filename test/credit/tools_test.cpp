// The simulator and the viewer as programs: the figures that the credit system has to reach, and
// that what one writes the other can read. Arguments: paths of creditsim, pencredit, penrun, and of
// a job for three processes in which rank 0 lends to the others.
#include <unistd.h>

#include <doctest/doctest.h>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "test/credit/two_ledgers.hpp"

using namespace penstock;
using namespace penstock::credit;
using credit::testing::planned;
using credit::testing::small;

namespace {

std::string creditsim, pencredit, penrun, job;

/// What a command prints, and how it ended.
struct run {
  std::string out;
  int code = -1;
};
run execute(const std::string& command) {
  run r;
  std::FILE* pipe = popen(("timeout 100 " + command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[4096];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) r.out.append(buffer, n);
  const int status = pclose(pipe);
  r.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return r;
}

nlohmann::json simulate(const std::string& arguments) {
  const run r = execute(creditsim + " --json " + arguments);
  CHECK_MESSAGE(r.code == 0, r.out);
  return nlohmann::json::parse(r.out);
}

}  // namespace

TEST_CASE(
    "ghost zones at 1,024 nodes: 95 % of unlimited credits within 10 MB, then nothing moves") {
  const auto j = simulate("--pattern ghost --nodes 1024");
  CHECK(j["throughput_ratio"].get<double>() >= 0.95);
  CHECK(j["bytes_per_node"].get<std::uint64_t>() <= 10'000'000);
  CHECK(j["credits_moved_last_epoch"].get<int>() == 0);
  CHECK(j["credits_moved"].get<int>() > 0);
  CHECK(j["stall_fraction_second_half"].get<double>() < 0.001);
}

TEST_CASE("ghost zones with credits that may not move are far slower: the measure can tell") {
  const auto j = simulate("--pattern ghost --nodes 216 --static --cred-per-node 17");
  CHECK(j["throughput_ratio"].get<double>() < 0.5);
  CHECK(j["credits_moved"].get<int>() == 0);
}

TEST_CASE("ghost zones of processes that take turns: when all is where it is needed, it stays") {
  // The bank holds what may be in flight: 3 neighbours' 92 messages of two steps, of 17 credits.
  const auto j = simulate(
      "--pattern ghost --nodes 8 --messages 46 --iterations 400 --cores 2 --slice 3000 --batches "
      "--medium-cost 17 --latency 2 --service 12 --cred-per-node 4 --max-cred-per-node 1600 "
      "--lender-limit 128 --banked 4800");
  CHECK(j["credits_moved"].get<int>() > 10'000);
  CHECK(j["credits_moved_second_half"].get<int>() == 0);
  CHECK(j["stall_fraction_second_half"].get<double>() < 0.001);
}

TEST_CASE("no demand moves no credit, at any size") {
  for (const char* nodes : {"2", "64", "1024"}) {
    const auto j = simulate(std::string("--pattern none --nodes ") + nodes);
    CHECK(j["credits_moved"].get<int>() == 0);
  }
}

TEST_CASE("a hot spot that moves settles within ten epochs each time") {
  const auto j = simulate("--pattern hotspot --nodes 1024");
  CHECK(j["epochs_to_settle"].get<int>() <= 10);
  CHECK(j["epochs_to_settle"].get<int>() >= 1);
  // Those who wait ask for a part of their loan: with seven credits at a time it is twice that.
  CHECK(j["stall_fraction"].get<double>() < 0.01);
}

TEST_CASE(
    "demand that oscillates moves at most lender_limit an epoch, also when the bank is small") {
  for (const char* more : {"", " --banked 20 --cred-per-node 6"}) {
    const auto j = simulate(std::string("--pattern oscillate --nodes 512") + more);
    CHECK(j["credits_moved_last_epoch"].get<int>() <= 64);
  }
}

TEST_CASE("senders that compete get equal shares") {
  CHECK(simulate("--pattern alltoone --nodes 64")["fairness"].get<double>() > 0.99);
}

TEST_CASE("every pattern ends with the fewest credits that are allowed") {
  for (const char* pattern :
       {"none", "ghost", "tree", "random", "hotspot", "alltoone", "oscillate"})
    CHECK(simulate(std::string("--pattern ") + pattern +
                   " --nodes 27 --cred-per-node 4 --banked 13 --messages 50")["finished"]
              .get<bool>());
}

TEST_CASE("the same seed gives the same run") {
  CHECK(simulate("--pattern random --nodes 64 --seed 7 --messages 500") ==
        simulate("--pattern random --nodes 64 --seed 7 --messages 500"));
}

TEST_CASE("every pattern ends with leases and returns in batches, and on fewer cores than nodes") {
  for (const char* how : {" --batches", " --cores 2", " --batches --cores 3 --medium-cost 17"})
    for (const char* pattern :
         {"none", "ghost", "tree", "random", "hotspot", "alltoone", "oscillate"})
      for (const char* few : {"", " --cred-per-node 4 --banked 13"})
        CHECK(simulate(std::string("--pattern ") + pattern + " --nodes 12 --messages 50" + how +
                       few)["finished"]
                  .get<bool>());
}

TEST_CASE("a run does not depend on the order in which the simulator does the nodes' steps") {
  for (const char* pattern : {"ghost", "tree", "oscillate"}) {
    const std::string run = std::string("--pattern ") + pattern + " --nodes 700 --messages 12";
    CHECK(simulate(run) == simulate(run + " --stretch 1"));
    CHECK(simulate(run) == simulate(run + " --stretch 7"));
  }
}

// About 6 s of one core; run by a test of its own, in release builds.
TEST_CASE("ghost zones at a hundred thousand nodes are simulated in less than two minutes") {
  const auto j = simulate("--pattern ghost --nodes 100000");
  CHECK(j["finished"].get<bool>());
  CHECK(j["messages"].get<std::uint64_t>() == 24'000'000);
}

TEST_CASE("settings that contradict each other are refused in one line") {
  const run r = execute(creditsim + " --nodes 8 --cred-per-node 500");
  CHECK(r.code == 2);
  CHECK(r.out.find("CRED_PER_NODE=500") != std::string::npos);
  CHECK(r.out.find('\n') == r.out.size() - 1);
}

TEST_CASE("the viewer shows who lends to whom, from what a ledger writes") {
  const std::string path = "credit_tools_test." + std::to_string(getpid());
  ledger<thread_mode::seq> l(planned(3, 0, small(4, 100)));
  CHECK(l.on_need(2, 7, false) == 7);
  std::ofstream(path) << snapshot(l);
  const run r = execute(pencredit + " " + path + " --svg " + path + ".svg");
  CHECK_MESSAGE(r.code == 0, r.out);
  CHECK(r.out.find("       0        2       11") != std::string::npos);
  std::ifstream picture(path + ".svg");
  const std::string svg{std::istreambuf_iterator<char>(picture), {}};
  CHECK(svg.find("<title>11</title>") != std::string::npos);
  std::ofstream(path) << "rubbish\n";
  CHECK(execute(pencredit + " " + path).code == 2);
  std::remove(path.c_str());
  std::remove((path + ".svg").c_str());
}

TEST_CASE("the viewer shows what a job's processes wrote") {
  const std::string path = "credit_tools_job." + std::to_string(getpid());
  const run r = execute(
      penrun + " -n 3 --timeout 60 -x PENSTOCK_DEVICE=shm0 -x PENSTOCK_CREDIT_STATS=" + path + " " +
      job);
  CHECK_MESSAGE(r.code == 0, r.out);
  const std::string files = path + ".0 " + path + ".1 " + path + ".2";
  const run shown = execute(pencredit + " " + files + " --svg " + path + ".svg");
  CHECK_MESSAGE(shown.code == 0, shown.out);
  // Rank 0 has lent to both; what it says is what they say.
  std::istringstream lines(shown.out);
  int lent = 0;
  for (std::string line; std::getline(lines, line);) {
    unsigned lender = 0, borrower = 0, loan = 0, holds = 0;
    if (std::sscanf(line.c_str(), "%u %u %u %u", &lender, &borrower, &loan, &holds) != 4) continue;
    if (lender != 0 || borrower == 0 || borrower > 2 || loan == 0) continue;
    CHECK(loan > 4);
    CHECK(holds == loan);
    ++lent;
  }
  CHECK(lent == 2);
  CHECK(execute("grep -c '<title>' " + path + ".svg").code == 0);
  CHECK(execute("rm " + files + " " + path + ".svg").code == 0);
}

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  creditsim = argv[1];
  pencredit = argv[2];
  penrun = argv[3];
  job = argv[4];
  doctest::Context context(argc - 4, argv + 4);
  return context.run();
}
