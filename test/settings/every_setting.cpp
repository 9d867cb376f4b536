// Starts jobs with settings out of the table (cases.hpp), each of which sends every kind of message
// (mixture.c), and says which of them failed and how to start it again.
//   every_setting ends [EVERY [FIRST]]    each setting at its ends; of the jobs each EVERY-th
//   every_setting row NAME                one setting at its ends
//   every_setting random FIRST COUNT      random settings by seeds
//   every_setting different               one rank has another value of what must be equal
//   every_setting replay SEED             one random job, with its output
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <sstream>

#include "test/job/run.hpp"
#include "test/settings/cases.hpp"

namespace {

using testing::job_case;

constexpr std::size_t at_a_time = 2;

std::vector<std::string> command_of(const job_case& c) {
  std::vector<std::string> all = {PENRUN, "-n", std::to_string(c.ranks), "--timeout", "25"};
  const auto set = [&](const std::string& name, const std::string& value) {
    all.emplace_back("-x");
    all.push_back("PENSTOCK_" + name + "=" + value);
  };
  set("DEVICE", "shm0");
  for (const auto& [name, value] : c.set) set(name, value);
  all.emplace_back(c.par ? MIXTURE_PAR : MIXTURE_SEQ);
  all.push_back(std::to_string(c.seed));
  return all;
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& w : words) out += (out.empty() ? "" : " ") + w;
  return out;
}

// The line by which a job was refused, if it names one of the settings that the job was given.
std::string refusal(const job_case& c, const testing::outcome& o) {
  if (o.code <= 0 || o.code >= 124) return "";
  std::istringstream lines(o.err);
  for (std::string line; std::getline(lines, line);)
    if (line.find("warning:") == line.npos)
      for (const auto& [name, value] : c.set)
        if (line.find(name) != line.npos) return line;
  return "";
}

struct counts {
  int jobs = 0, refused = 0, failed = 0;
};

void judge(const job_case& c, const testing::outcome& o, counts& n) {
  ++n.jobs;
  if (o.code == 0 && o.out.find("checks on rank 0") != o.out.npos) return;
  if (const std::string line = refusal(c, o); !line.empty()) {
    ++n.refused;
    std::printf("refused: %s: %s\n", c.what.c_str(), line.c_str());
    return;
  }
  ++n.failed;
  std::printf("FAILED: %s: code %d\n  %s\n%s%s", c.what.c_str(), o.code,
              joined(command_of(c)).c_str(), o.out.c_str(), o.err.substr(0, 1500).c_str());
  std::fflush(stdout);
}

counts run_all(const std::vector<job_case>& cases) {
  struct running_case {
    const job_case* c;
    std::unique_ptr<testing::running> job;
  };
  std::deque<running_case> under_way;
  counts n;
  const auto finish_one = [&] {
    const auto o = under_way.front().job->wait();
    judge(*under_way.front().c, o, n);
    under_way.pop_front();
  };
  for (const job_case& c : cases) {
    if (under_way.size() == at_a_time) finish_one();
    under_way.push_back({&c, std::make_unique<testing::running>(command_of(c))});
  }
  while (!under_way.empty()) finish_one();
  return n;
}

// The last rank is started with another value of one setting: the job must end, and say for which
// setting, which values, and whose.
counts run_different() {
  counts n;
  for (const job_case& c : testing::each_different()) {
    const auto& [name, value] = c.set.front();
    const std::string last = std::to_string(c.ranks - 1);
    const auto o = testing::run({PENRUN, "-n", std::to_string(c.ranks), "--timeout", "25", "-x",
                                 "PENSTOCK_DEVICE=shm0", "sh", "-c",
                                 "test $PENRUN_RANK = " + last + " && export PENSTOCK_" + name +
                                     "=" + value + "; exec " MIXTURE_PAR});
    ++n.jobs;
    const std::string whose = ", " + value + " at rank " + last;
    if (o.code > 0 && o.code < 124 && o.err.find("PENSTOCK_" + name + " differs: ") != o.err.npos &&
        o.err.find(" at ranks 0 to 1" + whose) != o.err.npos)
      continue;
    ++n.failed;
    std::printf("FAILED: %s: code %d\n%s", c.what.c_str(), o.code, o.err.c_str());
  }
  return n;
}

std::uint64_t number(char** argv, int argc, int i, std::uint64_t otherwise) {
  return i < argc ? std::strtoull(argv[i], nullptr, 0) : otherwise;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const auto folder =
      std::filesystem::temp_directory_path() / ("penstock-settings-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::filesystem::current_path(folder);  // the files that jobs write
  std::vector<job_case> cases;
  counts n;
  if (what == "ends") {
    const auto all = testing::every_end();
    const std::uint64_t every = number(argv, argc, 2, 1);
    for (std::size_t i = number(argv, argc, 3, 0); i < all.size(); i += every)
      cases.push_back(all[i]);
  } else if (what == "row" && argc > 2) {
    for (const job_case& c : testing::every_end())
      if (c.set.back().first == argv[2]) cases.push_back(c);
  } else if (what == "random") {
    const std::uint64_t first = number(argv, argc, 2, 1), count = number(argv, argc, 3, 1000);
    for (std::uint64_t i = 0; i < count; ++i) cases.push_back(testing::random_case(first + i));
  } else if (what == "replay") {
    const job_case c = testing::random_case(number(argv, argc, 2, 1));
    const auto o = testing::run(command_of(c));
    std::printf("%s\n%s%scode %d\n", joined(command_of(c)).c_str(), o.out.c_str(), o.err.c_str(),
                o.code);
    return o.code;
  }
  n = what == "different" ? run_different() : run_all(cases);
  std::filesystem::current_path("/");
  std::filesystem::remove_all(folder);
  std::printf("%d jobs, %d refused by a line that names a setting, %d failed\n", n.jobs, n.refused,
              n.failed);
  const bool all = what != "different" || n.jobs == penstock::settings_in_common;
  return n.jobs == 0 || n.failed != 0 || !all;
}
