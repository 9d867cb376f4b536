// How jobs end: deaths, aborts, time limits; which processes are told; that nothing stays behind.
#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <set>

#include "test/job/run.hpp"

using namespace testing;

namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("a rank killed by SIGKILL is announced to every survivor by name") {
  for (const char* victim : {"0", "2"}) {
    const auto o = run(penrun({"-n", "4", PROBE, "kill", victim}));
    CAPTURE(o.err);
    CHECK(o.code == 137);
    const std::string line = std::string("rank ") + victim + " was killed by signal 9 (Killed)";
    CHECK(count(o.out, "saw: " + line) == 3);
    CHECK(count(o.err, "penrun: " + line) == 1);
  }
}

TEST_CASE("a rank that leaves without a word ends the job") {
  const auto o = run(penrun({"-n", "3", PROBE, "exit", "1", "9"}));
  CHECK(o.code == 9);
  CHECK(count(o.out, "saw: rank 1 ended with code 9") == 2);
  const auto zero = run(penrun({"-n", "3", PROBE, "exit", "1", "0"}));
  CHECK(count(zero.out, "saw: rank 1 ended with code 0") == 2);
  CHECK(zero.code == 1);
}

TEST_CASE("ranks that all leave without a word, with code 0, always give the same code") {
  for (int i = 0; i < 10; ++i) {
    const auto o = run(penrun({"-n", "3", PROBE, "vanish"}));
    CAPTURE(o.err);
    REQUIRE(o.code == 1);
    REQUIRE(count(o.err, "ended without leaving the job") == 1);
  }
}

TEST_CASE("a second program of a rank that has left is told what is wrong with that") {
  const std::string twice = std::string(PROBE) + " exchange && " + PROBE + " exchange";
  const auto o = run(penrun({"-n", "2", "sh", "-c", twice}));
  CAPTURE(o.err);
  CHECK(o.code == 1);
  CHECK(count(o.err, "has left the job, and a second program that it runs wants to join") >= 1);
}

TEST_CASE("a death after leaving in good order is the job's code, and does not end the others") {
  const auto o = run(penrun({"-n", "3", PROBE, "leave-and-die", "1"}));
  CHECK(o.code == 137);
  CHECK(count(o.out, "ended: 0") == 2);
}

TEST_CASE("a code that is not zero is said by a line that names rank and cause") {
  const std::string probe = PROBE;
  struct {
    std::vector<std::string> command;
    int code;
    const char* said;
  } const cases[] = {
      {{probe, "leave-and-die", "0", "11"},
       139,
       "rank 0 was killed by signal 11 (Segmentation fault) after it had left the job"},
      {{probe, "leave-and-die", "0", "6"},
       134,
       "rank 0 was killed by signal 6 (Aborted) after it had left the job"},
      {{probe, "finalize-and-return", "0", "3"},
       3,
       "rank 0 ended with code 3 after it had left the job"},
      {{probe, "finalize", "0", "17"}, 17, "rank 0 left the job with code 17"},
      {{probe, "exit", "0", "9"}, 9, "rank 0 ended with code 9"},
      {{probe, "exit", "0", "0"},
       1,
       "rank 0 ended without leaving the job (by exit or _exit before"},
      {{probe, "end", "0", "5"}, 5, "rank 0 ended with code 5"},
      {{probe, "abort", "0", "23"}, 23, "rank 0 ended with code 23"},
      {{probe, "kill", "0"}, 137, "rank 0 was killed by signal 9"},
      {{"sh", "-c", "exit $((PENRUN_RANK == 0 ? 4 : 0))"}, 4, "rank 0 ended with code 4"},
      {{"sh", "-c", "[ $PENRUN_RANK != 0 ] || kill -SEGV $$"},
       139,
       "rank 0 was killed by signal 11"},
  };
  for (const char* n : {"1", "3"})
    for (const auto& c : cases) {
      CAPTURE(n);
      CAPTURE(c.said);
      std::vector<std::string> words{"-n", n};
      words.insert(words.end(), c.command.begin(), c.command.end());
      const auto o = run(penrun(words));
      CAPTURE(o.err);
      CHECK(o.code == c.code);
      CHECK(count(o.err, std::string("penrun: ") + c.said) == 1);
      words.insert(words.begin(), "-q");
      CHECK(count(run(penrun(words)).err, "penrun:") == 0);
    }
}

TEST_CASE("a signal that penrun has passed on is said, and no other") {
  for (const int sig : {SIGINT, SIGTERM}) {
    running job(penrun({"-n", "2", "sh", "-c", "echo ready; exec sleep 100"}));
    REQUIRE(job.wait_for("ready\n", 2));
    kill(job.pid(), sig);
    const auto o = job.wait();
    CAPTURE(o.err);
    CHECK(o.code == 128 + sig);
    CHECK(count(o.err, "was killed by signal " + std::to_string(sig)) == 1);
    CHECK(count(o.err, "which was sent to all") == 1);
  }
  // It does not die of SIGINT, and learns what the launcher was sent.
  running job(penrun({"-n", "1", "--grace", "0.2", PROBE, "heed"}));
  REQUIRE(job.wait_for("heeding"));
  kill(job.pid(), SIGINT);
  const auto o = job.wait();
  CAPTURE(o.err);
  CHECK(count(o.err, "killing 1 processes") == 1);
  CHECK(count(o.err, "received signal 9") == 0);
}

TEST_CASE("an abort carries its code and its reason") {
  const auto o = run(penrun({"-n", "3", PROBE, "abort", "2", "23"}));
  CHECK(o.code == 23);
  CHECK(count(o.err, "penstock[2/3 ") == 1);
  CHECK(count(o.err, "]: error: told to abort") == 1);
  CHECK(count(o.out, "saw: rank 2 ended with code 23") == 2);
}

TEST_CASE("a fatal error is an abort") {
  const auto o = run(penrun({"-n", "3", PROBE, "fatal", "0", "70"}));
  CHECK(o.code == 70);
  CHECK(count(o.out, "saw: rank 0 ended with code 70") == 2);
}

TEST_CASE("an abort with code zero is still no success") {
  CHECK(run(penrun({"-n", "2", PROBE, "abort", "1", "0"})).code == 1);
}

TEST_CASE("survivors that do not end are killed when the grace is over") {
  const auto o = run(penrun({"-n", "3", "--grace", "0.2", PROBE, "wedge", "1"}));
  CHECK(o.code == 137);
  CHECK(count(o.err, "killing 2 processes") == 1);
  CHECK(all_end(numbers_after(o.out, "wedged pid ")));
}

TEST_CASE("a stopped process is not dead, and the job goes on when it continues") {
  running job(penrun({"-n", "3", PROBE, "stop", "1"}));
  REQUIRE(job.wait_for("joined pid", 3));
  const auto ranks = numbers_after(job.out(), " rank ");
  const auto pids = numbers_after(job.out(), "joined pid ");
  const auto it = std::find(ranks.begin(), ranks.end(), 1);
  REQUIRE(it != ranks.end());
  const pid_t stopped = pids[static_cast<std::size_t>(it - ranks.begin())];
  // It stops itself, and the exchange cannot complete until we have let it go on.
  while (run({"ps", "-o", "stat=", "-p", std::to_string(stopped)}).out.substr(0, 1) != "T")
    REQUIRE(alive(stopped));
  CHECK(count(job.out(), "exchanged") == 0);
  kill(stopped, SIGCONT);
  const auto o = job.wait();
  CHECK(o.code == 0);
  CHECK(count(o.out, "exchanged") == 3);
}

TEST_CASE("the time limit kills the job, says where it was, and gives 124") {
  // On a busy machine processes may need longer to get to where they sleep.
  outcome o;
  for (const char* seconds : {"0.3", "1", "3", "10"}) {
    o = run(penrun({"-n", "2", "--timeout", seconds, PROBE, "watch"}));
    REQUIRE(o.code == 124);
    if (count(o.err, "state S") >= 2) break;
  }
  CHECK(count(o.err, "penrun: rank 0 (pid ") == 1);
  CHECK(count(o.err, "penrun: rank 1 (pid ") == 1);
  CHECK(count(o.err, "state S") >= 2);
  CHECK(all_end(numbers_after(o.out, "watching pid ")));
}

TEST_CASE("descendants end with the job, even daemons in sessions of their own") {
  running job(penrun({"-n", "2", "--grace", "0.2", PROBE, "daemon"}));
  REQUIRE(job.wait_for("daemon pid", 2));
  REQUIRE(job.wait_for("watching pid", 2));
  const auto pids = numbers_after(job.out(), "watching pid ");
  kill(pids[0], SIGKILL);
  const auto o = job.wait();
  CHECK(o.code == 137);
  const auto daemons = numbers_after(o.out, "daemon pid ");
  CHECK(daemons.size() == 2);
  CHECK(all_end(daemons));
  CHECK(all_end(pids));
}

TEST_CASE("killing penrun by SIGKILL leaves nothing behind") {
  running job(penrun({"-n", "3", PROBE, "daemon"}));
  REQUIRE(job.wait_for("daemon pid", 3));
  REQUIRE(job.wait_for("watching pid", 3));
  kill(job.pid(), SIGKILL);
  CHECK(all_end(numbers_after(job.out(), "watching pid ")));
  CHECK(all_end(numbers_after(job.out(), "daemon pid ")));
}

TEST_CASE("killing the keeper by SIGKILL leaves nothing behind either") {
  running job(penrun({"-n", "2", PROBE, "daemon"}));
  REQUIRE(job.wait_for("daemon pid", 2));
  REQUIRE(job.wait_for("watching pid", 2));
  const auto ranks = numbers_after(job.out(), "watching pid ");
  const auto keeper = run({"ps", "-o", "ppid=", "-p", std::to_string(ranks[0])});
  const pid_t pid = std::atoi(keeper.out.c_str());
  REQUIRE(pid > 1);
  REQUIRE(pid != job.pid());
  kill(pid, SIGKILL);
  CHECK(job.wait().code == 137);
  CHECK(all_end(ranks));
  CHECK(all_end(numbers_after(job.out(), "daemon pid ")));
}

TEST_CASE("many deaths in a row leave neither hang nor orphan") {
  for (int i = 0; i < 20; ++i) {
    const auto o = run(penrun({"-q", "-n", "4", PROBE, "kill", std::to_string(i % 4)}));
    REQUIRE(o.code == 137);
    REQUIRE(count(o.out, "saw: rank") == 3);
    REQUIRE(all_end(numbers_after(o.out, "watching pid ")));
  }
}
