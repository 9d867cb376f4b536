// The same processes under a PMIx launcher: Debian's Open MPI mpirun. Built only where it is
// installed.
#include <doctest/doctest.h>

#include <cstdlib>
#include <set>

#include "test/job/run.hpp"

using namespace testing;

namespace {

outcome mpirun(const char* n, std::vector<std::string> program) {
  // Containers and guests run tests as root, and with fewer cores than processes.
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  std::vector<std::string> command{MPIRUN, "--oversubscribe", "-n", n};
  command.insert(command.end(), program.begin(), program.end());
  return run(command);
}

outcome probe(const char* n, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), PROBE);
  return mpirun(n, arguments);
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("processes started by mpirun find each other through PMIx") {
  for (const char* n : {"1", "2", "5"}) {
    const auto o = probe(n, {"exchange"});
    CAPTURE(o.err);
    CHECK(o.code == 0);
    const auto ranks = numbers_after(o.out, "exchanged ");
    CHECK(std::set<pid_t>(ranks.begin(), ranks.end()).size() ==
          static_cast<std::size_t>(std::atoi(n)));
    CHECK(o.out.find(std::string("of ") + n + " host 0 of " + n + " name ") != o.out.npos);
  }
}

TEST_CASE("they know the job by one unguessable name") {
  const auto o = probe("3", {"exchange"});
  std::set<std::string> names;
  for (auto at = o.out.find("name "); at != o.out.npos; at = o.out.find("name ", at + 1))
    names.insert(o.out.substr(at + 5, 32));
  CHECK(names.size() == 1);
}

TEST_CASE("large contributions pass through the launcher") {
  const auto o = probe("2", {"exchange-big"});
  CAPTURE(o.err);
  CHECK(o.code == 0);
}

TEST_CASE("mpirun learns the code of an abort, and ends the survivors") {
  const auto o = probe("3", {"abort", "2", "23"});
  CHECK(o.code == 23);
  CHECK(all_end(numbers_after(o.out, "watching pid ")));
}

TEST_CASE("a death under mpirun ends the job with its signal") {
  const auto o = probe("3", {"kill", "1"});
  CHECK(o.code == 137);
  CHECK(all_end(numbers_after(o.out, "watching pid ")));
}

TEST_CASE("a process that leaves in good order with a code of its own gives the job that code") {
  CHECK(probe("3", {"finalize-and-return", "1", "7"}).code == 7);
}

TEST_CASE("a process that ends the job with a code says so, since mpirun does not") {
  const auto o = probe("3", {"end", "1", "5"});
  CAPTURE(o.err);
  CHECK(o.code == 5);
  CHECK(count(o.err, "ends the job with code 5") == 1);
  CHECK(count(o.err, "penstock[1/3") == 1);
  CHECK(probe("3", {"end", "1", "0"}).err.empty());
}

TEST_CASE("active messages run between processes that mpirun started") {
  const auto greeting = mpirun("4", {"-x", "PENSTOCK_DEVICE=shm0", HELLO});
  CAPTURE(greeting.err);
  CHECK(greeting.code == 0);
  CHECK(count(greeting.out, " says hello") == 4);
  CHECK(count(greeting.out, " answers") == 4);
  for (const char* direct : {"PENSTOCK_DIRECT=1", "PENSTOCK_DIRECT=0"}) {
    const auto flood = mpirun("3", {"-x", "PENSTOCK_DEVICE=shm0", "-x", direct, FLOOD, "20000"});
    CAPTURE(flood.err);
    CHECK(flood.code == 0);
  }
}

TEST_CASE("a setting that cannot be ends the job at once, with its line") {
  const auto o = mpirun("2", {"-x", "PENSTOCK_DEVICE=mlx99", HELLO});
  CHECK(o.code == 1);
  CHECK(count(o.err, "there is no device mlx99; there is: ") >= 1);
}

TEST_CASE("both paths are in one job that mpirun started, and their counters are right") {
  const auto o = mpirun("4", {"-x", "PENSTOCK_DEVICE=shm0", "-x", "PENSTOCK_SUPERNODE_MAXSIZE=2",
                              "-x", "PENSTOCK_MEMORY_REPORT=yes", COUNTED, "300"});
  CAPTURE(o.err);
  CHECK(o.code == 0);
  CHECK(count(o.out, "counted\n") == 1);
  CHECK((o.out + o.err).find("by rings, in shared memory: ranks 1\n") != std::string::npos);
  CHECK((o.out + o.err).find("by queue pairs of shm0: ranks 2 to 3\n") != std::string::npos);
}
