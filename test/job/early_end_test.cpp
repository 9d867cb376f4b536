// A process that ends before, or while, the job meets for the first time: its end decides the
// job's, not the complaints of the processes that wait for it.
#include <doctest/doctest.h>

#include <csignal>
#include <random>

#include "test/job/run.hpp"

using namespace testing;

namespace {

constexpr int rounds = 30, latest_ms = 30;

struct moment {
  std::string ms, rank;
};

// Any of the first milliseconds, any of four ranks; the same in every run.
moment random_moment() {
  static std::minstd_rand random(7);
  const auto ms = random() % (latest_ms + 1);
  return {std::to_string(ms), std::to_string(random() % 4)};
}

void ends_as(const outcome& o, const moment& m, int code, const std::string& how) {
  CAPTURE(m.ms);
  CAPTURE(o.err);
  REQUIRE(o.code == code);
  REQUIRE(o.err.find("penrun: rank " + m.rank + how) != o.err.npos);
  REQUIRE(o.err.find("another process has left") == o.err.npos);
}

}  // namespace

TEST_CASE("a process killed at any moment of its start is the cause of the job's end") {
  for (int i = 0; i < rounds; ++i) {
    const auto m = random_moment();
    const std::string how = std::to_string(-SIGKILL);
    ends_as(run(penrun({"-n", "4", PROBE, "early", m.rank, how, m.ms})), m, 137,
            " was killed by signal 9 (Killed)");
  }
}

TEST_CASE("a process that exits at any moment of its start is the cause of the job's end") {
  for (int i = 0; i < rounds; ++i) {
    const auto m = random_moment();
    ends_as(run(penrun({"-n", "4", PROBE, "early", m.rank, "7", m.ms})), m, 7,
            " ended with code 7");
  }
}

TEST_CASE("a process killed while peers connect to it is the cause of the job's end") {
  for (int i = 0; i < rounds; ++i) {
    const auto m = random_moment();
    const std::string script = "[ $PENRUN_RANK != " + m.rank + " ] || (sleep " +
                               std::to_string(std::stoi(m.ms) / 1000.0) +
                               "; kill -KILL $$) & exec \"$0\" serve";
    ends_as(run(penrun({"-n", "4", "bash", "-c", script, SERVER})), m, 137,
            " was killed by signal 9 (Killed)");
  }
}
