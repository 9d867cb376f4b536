// What errors of a peer's socket mean: only a hang-up is a death. The rows are those of
// nic/shm/README.md.
#include <doctest/doctest.h>

#include <cerrno>

#include "nic/shm/direct.hpp"
#include "nic/shm/wire.hpp"

using namespace penstock::nic::shm;

TEST_CASE("only a hang-up, or a name that nobody has, says that a peer is gone") {
  for (const int e : {EPIPE, ECONNRESET, ESRCH, ECONNREFUSED, ENOENT, EHOSTUNREACH}) {
    CAPTURE(e);
    CHECK(meaning_of(e) == meaning::gone);
    CHECK(means_gone(e));
  }
  for (int e = 1; e < 134; ++e) {
    if (e == EPIPE || e == ECONNRESET || e == ESRCH || e == ECONNREFUSED || e == ENOENT ||
        e == EHOSTUNREACH)
      continue;
    CAPTURE(e);
    CHECK(!means_gone(e));
  }
  CHECK(!means_gone(0));
}

TEST_CASE("shortages of this machine, and a slow peer, are worth another try") {
  for (const int e :
       {EAGAIN, EINTR, ETIMEDOUT, ENOBUFS, ENOMEM, ENOSPC, EMFILE, ENFILE, ETOOMANYREFS}) {
    CAPTURE(e);
    CHECK(meaning_of(e) == meaning::later);
  }
}

TEST_CASE(
    "a call that a sandbox refuses, another user's peer and bytes without sense are refusals") {
  for (const int e : {EPERM, ENOSYS, EACCES, EPROTO}) {
    CAPTURE(e);
    CHECK(meaning_of(e) == meaning::refused);
  }
}

TEST_CASE("two processes of a host find each other unless network namespace or user differ") {
  const whereabouts mine{.network = 4, .users = 9, .user = 100};
  CHECK(why_apart(mine, mine).empty());
  auto his = mine;
  his.network = 5;
  CHECK(why_apart(mine, his).find("network namespace") != std::string::npos);
  his.network = 0;  // its /proc does not tell
  CHECK(why_apart(mine, his).empty());
  his = mine;
  his.user = 101;
  CHECK(why_apart(mine, his).find("user 101") != std::string::npos);
  his.users = 8;  // numbers of another namespace of users
  CHECK(why_apart(mine, his).empty());
  CHECK(why_apart(here(), here()).empty());
}
