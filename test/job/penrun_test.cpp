// What penrun passes on: exit codes, output, input, environment, signals.
#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <sstream>

#include "test/job/run.hpp"

using namespace testing;

namespace {

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string l; std::getline(in, l);) out.push_back(l);
  return out;
}

}  // namespace

TEST_CASE("a job whose processes all return zero returns zero") {
  CHECK(run(penrun({"-n", "3", "true"})).code == 0);
}

TEST_CASE("the exit code of the only process that fails is the job's") {
  CHECK(run(penrun({"-n", "4", "sh", "-c", "[ $PENRUN_RANK != 2 ] || exit 41"})).code == 41);
}

TEST_CASE("the code given to finalize is the job's even if the process returns zero") {
  CHECK(run(penrun({"-n", "3", PROBE, "finalize", "1", "17"})).code == 17);
}

TEST_CASE("a program that cannot be run gives 127 or 126 and says why") {
  auto o = run(penrun({"-n", "2", "./no-such-program"}));
  CHECK(o.code == 127);
  CHECK(o.err.find("cannot run ./no-such-program") != o.err.npos);
  o = run(penrun({"-n", "2", "/etc/passwd"}));
  CHECK(o.code == 126);
}

TEST_CASE("a wrong command line gives 2") {
  CHECK(run(penrun({"true"})).code == 2);
  CHECK(run(penrun({"-n", "2"})).code == 2);
  CHECK(run(penrun({"-n", "0", "true"})).code == 2);
  CHECK(run(penrun({"-n", "2", "-x", "NAME", "true"})).code == 2);
}

TEST_CASE("options after the program are the program's") {
  const auto o = run(penrun({"-n", "1", "echo", "-n", "x"}));
  CHECK(o.out == "x");
}

TEST_CASE("lines of many processes do not mix, however long they are") {
  // Each rank writes 40 lines of 100 000 equal letters, in pieces that are no lines.
  const std::string script =
      "l=$(printf '%s' $PENRUN_RANK | tr 0-3 a-d); i=0; while [ $i -lt 40 ]; do "
      "head -c 60000 /dev/zero | tr '\\0' $l; head -c 40000 /dev/zero | tr '\\0' $l; echo; "
      "i=$((i+1)); done";
  const auto o = run(penrun({"-n", "4", "sh", "-c", script}));
  CHECK(o.code == 0);
  std::map<std::string, int> seen;
  for (const auto& l : lines(o.out)) ++seen[l];
  CHECK(seen.size() == 4);
  for (const auto& [line, count] : seen) {
    CHECK(line.size() == 100000);
    CHECK(count == 40);
  }
}

TEST_CASE("a line longer than what is held is passed on in pieces and complete") {
  const auto o = run(penrun({"-n", "1", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' z"}));
  CHECK(o.out == std::string(3000000, 'z'));
}

TEST_CASE("standard output and standard error stay apart") {
  const auto o = run(penrun({"-n", "2", "sh", "-c", "echo out; echo err >&2"}));
  CHECK(o.out == "out\nout\n");
  CHECK(o.err == "err\nerr\n");
}

TEST_CASE("what failing processes say alike is shown once, with the ranks of the others") {
  const auto o = run(penrun({"-n", "4", PROBE, "say", "0", "5"}));
  CAPTURE(o.err);
  CHECK(o.code == 5);
  std::map<std::string, int> said, others;
  for (const auto& l : lines(o.err)) {
    const auto words = l.find("so sa");
    if (words == l.npos) continue;
    const bool summary = l.starts_with("penrun: the same from ranks ");
    ++(summary ? others : said)[l.substr(words)];
  }
  CHECK(said == std::map<std::string, int>{{"so say all", 1},
                                           {"so said all", 1},
                                           {"so says rank 0", 1},
                                           {"so says rank 1", 1},
                                           {"so says rank 2", 1},
                                           {"so says rank 3", 1}});
  CHECK(others == std::map<std::string, int>{{"so say all", 1}, {"so said all", 1}});
}

TEST_CASE("what processes say alike is shown in full, and in order, if they do not fail") {
  const auto o = run(penrun({"-n", "3", "-l", PROBE, "say", "0", "0"}));
  CHECK(o.code == 0);
  std::map<char, std::string> said;
  for (const auto& l : lines(o.err)) said[l[1]] += l.substr(4) + "\n";
  REQUIRE(said.size() == 3);
  for (const auto& [rank, text] : said)
    CHECK(text == "penstock[" + std::string(1, rank) + "/3]: error: so say all\nso says rank " +
                      rank + "\nso said all\n");
}

TEST_CASE("a program that is none of ours is shown in full even if it fails") {
  const auto o = run(penrun({"-n", "3", "-q", "sh", "-c", "echo same >&2; exit 3"}));
  CHECK(o.code == 3);
  CHECK(o.err == "same\nsame\nsame\n");
  const auto told = run(penrun({"-n", "3", "sh", "-c", "echo same >&2; exit 3"}));
  CHECK(lines(told.err).size() >= 3);
}

TEST_CASE("labels name the rank of each line") {
  const auto o = run(penrun({"-n", "2", "-l", "sh", "-c", "echo a; printf b"}));
  auto got = lines(o.out);
  std::sort(got.begin(), got.end());
  CHECK(got == std::vector<std::string>{"[0] a", "[0] b", "[1] a", "[1] b"});
}

TEST_CASE("standard input goes to rank 0, and the others find its end") {
  const auto o = run(penrun({"-n", "3", "-l", "cat"}), "one\ntwo\n");
  CHECK(o.code == 0);
  CHECK(o.out == "[0] one\n[0] two\n");
}

TEST_CASE("-x sets the environment of every process") {
  const auto o = run(penrun({"-n", "2", "-x", "A=1", "-x", "B=x y", "sh", "-c", "echo $A $B"}));
  CHECK(o.out == "1 x y\n1 x y\n");
}

TEST_CASE(
    "--bind core gives every process one core, and neighbours different ones where there are") {
  const auto o = run(penrun({"-n", "2", "--bind", "core", "sh", "-c",
                             "grep Cpus_allowed_list /proc/self/status | tr -d '\\t'"}));
  auto got = lines(o.out);
  REQUIRE(got.size() == 2);
  for (const auto& l : got) CHECK(l.find_first_of(",-") == l.npos);
  const auto here = run({"nproc"});
  if (std::atoi(here.out.c_str()) > 1) CHECK(got[0] != got[1]);
}

TEST_CASE("a signal that programs use reaches every process, and the job goes on") {
  running job(penrun({"-n", "3", PROBE, "signal"}));
  REQUIRE(job.wait_for("ready\n", 3));
  kill(job.pid(), SIGUSR1);
  const auto o = job.wait();
  CHECK(o.code == 0);
  CHECK(numbers_after(o.out, "caught ") == std::vector<pid_t>{SIGUSR1, SIGUSR1, SIGUSR1});
}

TEST_CASE("processes may answer SIGTERM in their own way") {
  running job(penrun({"-n", "2", PROBE, "signal"}));
  REQUIRE(job.wait_for("ready\n", 2));
  kill(job.pid(), SIGTERM);
  const auto o = job.wait();
  CHECK(o.code == 0);
  CHECK(numbers_after(o.out, "caught ") == std::vector<pid_t>{SIGTERM, SIGTERM});
}

TEST_CASE("SIGINT ends a job that does not care, with the code a shell would give") {
  running job(penrun({"-n", "3", PROBE, "watch"}));
  REQUIRE(job.wait_for("watching", 3));
  kill(job.pid(), SIGINT);
  CHECK(job.wait().code == 128 + SIGINT);
}

TEST_CASE("stopping the job stops its processes, and continuing it lets them go on") {
  running job(penrun({"-n", "2", PROBE, "signal"}));
  REQUIRE(job.wait_for("ready\n", 2));
  kill(job.pid(), SIGTSTP);
  kill(job.pid(), SIGCONT);
  kill(job.pid(), SIGUSR1);
  CHECK(job.wait().code == 0);
}

TEST_CASE("penrun does not stay stopped when it is continued in the moment it stops") {
  running job(penrun({"-n", "1", PROBE, "signal"}));
  REQUIRE(job.wait_for("ready\n"));
  const auto stopped = [&job] {
    std::ifstream stat("/proc/" + std::to_string(job.pid()) + "/stat");
    std::string pid, name, state;
    stat >> pid >> name >> state;
    return state == "T";
  };
  for (int i = 0; i < 1000; ++i) {
    kill(job.pid(), SIGTSTP);
    // From before penrun has woken to after it has stopped.
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(i % 100);
    while (std::chrono::steady_clock::now() < until) sched_yield();
    kill(job.pid(), SIGCONT);
    // It may not have come to stopping itself yet: time for that.
    usleep(200);
    for (int ms = 0; stopped() && ms < 100; ++ms) usleep(1000);
    REQUIRE(!stopped());
  }
  kill(job.pid(), SIGUSR1);
  CHECK(job.wait().code == 0);
}

TEST_CASE("a job whose reader has gone ends as a shell's pipeline does") {
  const auto o = run({"sh", "-c", std::string(PENRUN) + " -q -n 2 yes | head -1"});
  CHECK(o.code == 0);
  CHECK(o.out == "y\n");
}
