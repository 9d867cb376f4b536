// The simulator and the viewer as programs: the figures that the credit system has to reach, and
// that one program can read the files of the other. Arguments: paths of creditsim, pencredit,
// penrun, and of a job for three processes in which rank 0 lends to the others.
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
  // The rarest bursts may still move a few: 0, 2 and 36 with the first three seeds.
  CHECK(j["credits_moved_second_half"].get<int>() <= 64);
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
    const auto j =
        simulate(std::string("--pattern oscillate --nodes 512 --lender-limit 64") + more);
    CHECK(j["credits_moved_last_epoch"].get<int>() <= 64);
  }
}

TEST_CASE("senders that compete get equal shares") {
  CHECK(simulate("--pattern alltoone --nodes 9")["fairness"].get<double>() > 0.99);
  CHECK(simulate("--pattern alltoone --nodes 64")["fairness"].get<double>() > 0.99);
  // More senders than a bank can give a stream's worth to: the early ones give theirs up again.
  CHECK(simulate("--pattern alltoone --nodes 256")["fairness"].get<double>() > 0.97);
  CHECK(simulate("--pattern alltoone --nodes 1024")["fairness"].get<double>() > 0.92);
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

TEST_CASE("who knows all demand saves little of our time, on every pattern") {
  for (const char* pattern :
       {"none", "ghost", "tree", "random", "hotspot", "alltoone", "oscillate"}) {
    CAPTURE(pattern);
    const auto j = simulate(std::string("--pattern ") + pattern + " --nodes 125 --messages 40");
    CHECK(j["regret"].get<double>() <= 0.03);
    CHECK(j["regret"].get<double>() >= 0);
    // With room for all he is as quick as without limits: both simulators keep the same time.
    CHECK(j["steps_clairvoyant"].get<int>() >= j["steps_unlimited"].get<int>());
  }
  for (const char* pattern : {"ghost", "oscillate", "none"}) {
    const auto j = simulate(std::string("--pattern ") + pattern + " --nodes 125 --messages 40");
    CHECK(j["steps_clairvoyant"] == j["steps_unlimited"]);
  }
}

TEST_CASE(
    "at 1,024 nodes who knows all demand when it arises saves next to nothing, on every pattern") {
  for (const char* pattern :
       {"none", "ghost", "tree", "random", "hotspot", "alltoone", "oscillate"}) {
    CAPTURE(pattern);
    const auto j = simulate(std::string("--pattern ") + pattern + " --nodes 1024 --messages 20");
    CHECK(j["regret_online"].get<double>() <= 0.02);
  }
  // In full length who knows it ahead saves little, too: the first round trips are what it saves.
  CHECK(simulate("--pattern hotspot --nodes 1024")["regret"].get<double>() <= 0.02);
}

TEST_CASE("who only knows demand when it arises is bound by the round trip and by fairness") {
  // Six Mediums to one peer after another, with start loans of three: a round trip at each.
  const auto burst = simulate("--nodes 1024 --pattern script --script 661,4,1,389,2,6,64m");
  CHECK(burst["steps_online"].get<int>() > 2 * burst["steps_clairvoyant"].get<int>());
  CHECK(burst["regret_online"].get<double>() <= 0.15);
  // All send to one, then all to the next: who serves one sender to its end before another has both
  // receivers busy, who is fair has not.
  const auto herd = simulate("--nodes 64 --pattern script --script 4,7,64,24,50,187,3m");
  CHECK(herd["steps_online"].get<int>() > 2 * herd["steps_clairvoyant"].get<int>());
  CHECK(herd["regret_online"].get<double>() <= 0.02);
}

TEST_CASE("other rules lose more where memory is short, and say what it cost them") {
  const auto ghost = simulate("--pattern ghost --nodes 125 --messages 40 --rivals")["rivals"];
  CHECK(ghost["fixed"]["regret"].get<double>() > 0.5);
  CHECK(ghost["rnr"]["repeated"].get<int>() == 0);
  const std::string few = "--pattern alltoone --nodes 125 --messages 40 --rivals";
  const auto incast = simulate(few + " --cred-per-node 4 --banked 13");
  for (const char* name : {"fixed", "rnr", "pause"})
    CHECK(incast["rivals"][name]["finished"].get<bool>());
  CHECK(incast["rivals"]["rnr"]["repeated"].get<int>() > 0);
  CHECK(incast["rivals"]["pause"]["pauses"].get<int>() > 0);
  CHECK(incast["rivals"]["rnr"]["regret"].get<double>() > incast["regret"].get<double>());
}

TEST_CASE("the adversary finds the same again, worst first, and what it says can be run") {
  const std::string search = "--adversary 40 --nodes 16 --seed 3";
  const auto worst = simulate(search);
  CHECK(worst == simulate(search));
  REQUIRE(!worst.empty());
  for (std::size_t i = 1; i < worst.size(); ++i)
    CHECK(worst[i - 1]["regret"].get<double>() >= worst[i]["regret"].get<double>());
  const auto again =
      simulate("--nodes 16 --pattern script --script " + worst[0]["script"].get<std::string>());
  CHECK(again["regret_online"] == worst[0]["regret"]);
  CHECK(execute(creditsim + " --pattern script --script 1,2,3").code == 2);
}

TEST_CASE("the worst patterns that the adversary has found have not become worse") {
  struct found {
    const char* script;
    double regret, regret_online;
  };
  // creditsim --adversary 5000 --nodes 64 --seed 2 found them beside the clairvoyant, with loans
  // that doubled at each stall, by 64 in an epoch: the first lost 70 %, the last 42 %.
  const found worst[] = {
      {"47,1,39,1,0,6,1m/23,4,1,42,33,36,64m/53,7,51,55,16,97,2m/0,3,64,44,1,2,15m/"
       "15,4,64,51,1,2,3m",
       0.1058, -0.1306},
      {"9,4,22,10,3,131,6m/14,7,64,2,1,18,3m/32,3,64,58,40,11,9m/35,1,64,4,26,12,13s/"
       "29,4,64,26,1,2,9s",
       0.1911, -0.0681},
      {"24,3,64,12,49,135,3m/27,6,64,59,0,7,20m/31,6,30,15,38,1,64m/17,3,1,63,23,97,16s/"
       "30,7,64,57,42,3,4m/49,4,64,47,0,1,6m",
       0.3555, -0.2976},
      {"4,7,64,24,50,187,3m", 0.3903, -0.3622},
      {"59,1,64,0,1,130,4m/20,5,64,55,48,32,1m", 0.3201, -0.3743},
      {"49,8,14,30,0,12,2m/3,3,6,26,2,403,2m/56,3,64,23,3,13,5s/6,3,2,37,54,6,64m/"
       "5,5,64,29,2,1,64m/21,5,64,16,56,3,64m/39,1,64,39,1,3,64s",
       0.4978, 0.0206},
      {"43,7,64,63,52,259,2m/45,8,3,34,0,2048,1m", 0.432, -0.1059},
      {"28,5,11,56,21,168,13m/32,6,64,53,1,6,4m/34,7,13,19,26,21,11s/56,3,1,36,1,30,64m/"
       "7,3,64,36,59,3,3m/54,7,64,6,2,39,3m/56,1,64,31,0,2,7m/40,2,64,46,27,1,3m",
       0.2151, -0.0877},
      {"44,4,11,48,0,33,26m/58,1,64,5,14,3,64m/60,8,1,47,5,16,64m/27,1,64,42,0,2,64m/"
       "36,2,14,59,0,2,64m/21,5,64,31,2,14,3m/40,4,64,27,44,1,4s",
       0.1962, 0.0074},
      {"30,2,5,28,5,2048,3m/14,4,13,59,16,7,64m", 0.423, 0.0051}};
  for (const found& f : worst) {
    CAPTURE(f.script);
    const auto j = simulate(std::string("--nodes 64 --pattern script --script ") + f.script);
    CHECK(j["regret"].get<double>() <= f.regret + 0.005);
    CHECK(j["regret_online"].get<double>() <= f.regret_online + 0.005);
  }
}

TEST_CASE("at 1,024 nodes the worst found beside an online allocator lose no more than they did") {
  struct found {
    const char* script;
    double regret_online;
  };
  // creditsim --adversary 10000 --nodes 1024 --seed 1 found the first ten while a bank of 400 and
  // more took nothing back: they lost 52, 51, 48, 46, 44, 41, 39, 38, 32 and 31 %. It found the
  // other ten with the rules of today; in between its worst lost 42, 40, 38, 31 and 30 %.
  const found worst[] = {
      {"707,2,89,326,536,45,5m/745,7,3,245,842,21,64s", 0.0004},
      {"527,4,4,646,1,48,64m/646,6,286,708,964,30,2s", 0.0025},
      {"976,7,1024,442,149,6,4m/975,7,2,303,0,505,6s", -0.0151},
      {"536,3,5,374,3,46,64m/663,5,424,396,2,18,2s", -0.0165},
      {"165,7,7,906,335,51,27m/123,4,1024,830,727,13,2m", 0.1083},
      {"867,7,10,82,259,6,64m/689,8,61,233,940,106,4m/504,4,55,96,0,16,4m", 0.0141},
      {"521,2,1,291,3,1,64m/320,3,1,238,3,3,36m/1000,4,101,596,628,25,10m/"
       "158,6,45,295,889,47,5m/244,4,21,577,991,10,12m",
       -0.0125},
      {"410,6,1,583,161,6,1m/99,1,1024,975,1,5,3m/787,2,5,188,987,81,22m", -0.012},
      {"661,4,74,981,493,62,8m/518,7,76,53,232,22,1m", 0.0347},
      {"536,6,52,822,2,91,6m", 0.0455},
      {"829,1,1024,765,1,5,1m/787,1,2,765,6,199,9s", 0},
      {"297,3,1,998,3,3,64m/604,8,59,569,1,101,6m/664,2,5,751,166,113,6m", 0.0355},
      {"358,4,1,236,1,98,5s/863,5,2,482,1,81,64m/100,6,974,496,1,19,1m", -0.0909},
      {"807,6,13,73,604,97,28m", 0.0008},
      {"403,4,12,765,822,105,30m", 0.009},
      {"659,4,36,562,528,7,19m/525,1,9,514,1,5,53m/291,4,187,1022,629,45,3m", -0.044},
      {"6,5,10,909,2,50,64m", -0.0427},
      {"427,4,12,754,433,53,50m", -0.0377},
      {"994,7,19,31,3,94,14m", 0.0237},
      {"232,1,9,71,842,60,64m/38,5,1024,823,2,5,1m", -0.0203}};
  for (const found& f : worst) {
    CAPTURE(f.script);
    const auto j = simulate(std::string("--nodes 1024 --pattern script --script ") + f.script);
    CHECK(j["regret_online"].get<double>() <= f.regret_online + 0.005);
  }
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
