// Joining a job, exchanging, and the values on which the processes of a job agree.
#include <doctest/doctest.h>

#include <set>

#include "lib/job/job.hpp"
#include "lib/job/wire.hpp"
#include "test/job/run.hpp"

using namespace testing;
using namespace penstock;

TEST_CASE("a program started by itself is a job of one") {
  const settings s;
  auto j = job::job::join(s);
  REQUIRE(j);
  CHECK((*j)->rank() == 0);
  CHECK((*j)->size() == 1);
  CHECK((*j)->host_size() == 1);
  CHECK((*j)->name().size() == 32);
  CHECK_FALSE((*j)->ended());
  const auto all = (*j)->exchange(std::vector<std::byte>(3, std::byte{7}));
  REQUIRE(all);
  REQUIRE(all->size() == 1);
  CHECK((*all)[0] == std::vector<std::byte>(3, std::byte{7}));
  CHECK((*j)->fence());
}

TEST_CASE("an announcement survives packing, the launcher's own included") {
  for (const auto d :
       {job::death{0, 0}, job::death{12345, -9}, job::death{-1, -2}, job::death{3, 255}}) {
    const auto back = job::unpack(job::pack(d));
    REQUIRE(back);
    CHECK(back->rank == d.rank);
    CHECK(back->code_or_signal == d.code_or_signal);
  }
  CHECK_FALSE(job::unpack(0));
}

TEST_CASE("a ticket is read back, and nothing else is taken for one") {
  const job::launch_ticket t{3, 4, 5, 6, 9, 5, 3, job::random_name()};
  const auto back = job::launch_ticket::parse(t.text());
  REQUIRE(back);
  CHECK(back->bell == 5);
  CHECK(back->rank == 6);
  CHECK(back->host_first == 5);
  CHECK(back->host_size == 3);
  CHECK(back->name == t.name);
  for (const char* bad :
       {"", "3", "3:4:5:6", "3:4:5:6:9:5:3:", "3:4:5:7:7:0:7:0123456789abcdef0123456789abcdef",
        "a:4:5:6:9:5:3:0123456789abcdef0123456789abcdef",
        "3:4:5:6:9:7:2:0123456789abcdef0123456789abcdef",
        "3:4:5:6:9:5:5:0123456789abcdef0123456789abcdef"})
    CHECK_FALSE(job::launch_ticket::parse(bad));
}

TEST_CASE("every process gets everybody's bytes, of any length") {
  for (const char* n : {"1", "2", "5"}) {
    const auto o = run(penrun({"-n", n, PROBE, "exchange"}));
    CAPTURE(o.err);
    CHECK(o.code == 0);
    CHECK(numbers_after(o.out, "exchanged ").size() == static_cast<std::size_t>(std::atoi(n)));
  }
}

TEST_CASE("thirty-two processes on this host exchange") {
  const auto o = run(penrun({"-n", "32", PROBE, "exchange"}));
  CAPTURE(o.err);
  CHECK(o.code == 0);
  const auto ranks = numbers_after(o.out, "exchanged ");
  CHECK(std::set<pid_t>(ranks.begin(), ranks.end()).size() == 32);
}

TEST_CASE("contributions larger than a socket's buffer arrive") {
  const auto o = run(penrun({"-n", "3", PROBE, "exchange-big"}));
  CAPTURE(o.err);
  CHECK(o.code == 0);
}

TEST_CASE("all processes know the job by one name, and the next job by another") {
  const auto names = [] {
    std::set<std::string> out;
    const auto o = run(penrun({"-n", "3", PROBE, "exchange"}));
    for (auto at = o.out.find("name "); at != o.out.npos; at = o.out.find("name ", at + 1))
      out.insert(o.out.substr(at + 5, 32));
    return out;
  };
  const auto first = names(), second = names();
  REQUIRE(first.size() == 1);
  REQUIRE(second.size() == 1);
  CHECK(first != second);
}

TEST_CASE("a collective that a process can no longer take part in fails at the others") {
  const auto o = run(penrun({"-n", "4", PROBE, "miss", "2"}));
  CHECK(numbers_after(o.out, "exchange failed: ") == std::vector<pid_t>{1, 1, 1});
}

TEST_CASE("different collectives at the same time fail everywhere") {
  const auto o = run(penrun({"-n", "3", PROBE, "mismatch", "1"}));
  CHECK(numbers_after(o.out, "collective failed: ") == std::vector<pid_t>{1, 1, 1});
}

TEST_CASE("a process cannot write what the launcher shares with all") {
  const auto o = run(penrun({"-n", "2", PROBE, "board"}));
  CHECK(o.code == 0);
  CHECK(o.out == "writable: 0 0 0\nwritable: 0 0 0\n");
}

TEST_CASE("a process that sends rubbish ends the job, and the others learn who it was") {
  const auto o = run(penrun({"-n", "3", PROBE, "rubbish"}));
  CHECK(o.code == 1);
  CHECK(o.err.find("rank 1 sent what no process") != o.err.npos);
  CHECK(o.out.find("saw: rank 1") != o.out.npos);
}

TEST_CASE("a value that is not valid is told once, by penrun") {
  const auto o = run(penrun({"-n", "3", "-x", "PENSTOCK_SAFE_LIMIT=lots", PROBE, "exchange"}));
  CHECK(o.code == 2);
  CHECK(o.out.empty());
  CHECK(o.err == "penrun: PENSTOCK_SAFE_LIMIT=lots is not valid; allowed: 0 to 65536\n");
}

TEST_CASE("an unknown setting is warned of once") {
  const auto o = run(penrun({"-n", "3", "-x", "PENSTOCK_SAVE_LIMIT=1", PROBE, "exchange"}));
  CHECK(o.code == 0);
  const auto first = o.err.find("PENSTOCK_SAVE_LIMIT");
  CHECK(first != o.err.npos);
  CHECK(o.err.find("PENSTOCK_SAVE_LIMIT", first + 1) == o.err.npos);
}

TEST_CASE("rank 0 prints the settings and where they come from when asked to") {
  const auto o = run(penrun({"-n", "3", "-x", "GASNET_VERBOSEENV=1", PROBE, "exchange"}));
  CHECK(o.code == 0);
  const auto first = o.err.find("PENSTOCK_VERBOSEENV ");
  REQUIRE(first != o.err.npos);
  CHECK(o.err.find("GASNET_VERBOSEENV\n", first) != o.err.npos);
  CHECK(o.err.find("PENSTOCK_VERBOSEENV ", first + 1) == o.err.npos);
}
