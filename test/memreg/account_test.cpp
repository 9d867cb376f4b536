// The account of what a process has registered: the limit, who may use all of it, what a refusal
// says, and that nothing is counted twice or forgotten.
#include "memreg/account.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "memreg/temporary.hpp"
#include "test/memreg/fake_registrar.hpp"

using namespace penstock;
using namespace penstock::memreg;

namespace {

struct books {
  fake_registrar* device = new fake_registrar;
  account all{std::unique_ptr<registrar>(device), limit()};
  char memory[1];

  static pin_budget limit() {
    pin_budget b;
    b.per_process = 800;
    b.binding = "the limit of this test";
    b.hint = "raise it";
    return b;
  }
};

}  // namespace

TEST_CASE(
    "all registrations together stay within the limit, and a refusal names limit and remedy") {
  books b;
  auto first = b.all.messages().reg(b.memory, 500, access::all);
  REQUIRE(first);
  CHECK(b.all.used() == 500);
  const auto second = b.all.messages().reg(b.memory, 301, access::all);
  REQUIRE(!second);
  CHECK(second.error().code == ENOMEM);
  CHECK(second.error().message().find("the limit of this test") != std::string::npos);
  CHECK(second.error().message().find("raise it") != std::string::npos);
  CHECK(b.device->live_bytes() == 500);
  CHECK(b.all.messages().reg(b.memory, 300, access::all));
  b.all.messages().dereg(*first);
  CHECK(b.all.used() == 300);
}

TEST_CASE("caches leave an eighth to messages") {
  books b;
  CHECK(b.all.left_to_caches() == 700);
  CHECK(b.all.caches().reg(b.memory, 700, access::all));
  CHECK(!b.all.caches().reg(b.memory, 1, access::all));
  CHECK(b.all.left_to_caches() == 0);
  CHECK(b.all.messages().reg(b.memory, 100, access::all));
  CHECK(!b.all.messages().reg(b.memory, 1, access::all));
}

TEST_CASE("a registration that the device refuses is not counted") {
  books b;
  b.device->refuse = true;
  CHECK(!b.all.caches().reg(b.memory, 100, access::all));
  CHECK(b.all.used() == 0);
}

TEST_CASE("memory that is counted apart from its registration takes room from all others") {
  books b;
  CHECK(b.all.take(750));
  CHECK(!b.all.take(51));
  CHECK(!b.all.messages().reg(b.memory, 51, access::all));
  CHECK(b.all.left_to_caches() == 0);
  b.all.give(750);
  CHECK(b.all.used() == 0);
}

TEST_CASE("what temporaries register comes back with them") {
  books b;
  temporary_pool pool(b.all.caches(), 8);
  std::vector<temporary> held(8);
  for (int i = 0; i < 7; ++i)
    CHECK(pool.try_register(b.memory, 100, access::all, held[i]) == status::ok);
  failure why;
  CHECK(pool.try_register(b.memory, 100, access::all, held[7], &why) == status::device_error);
  CHECK(why.code == ENOMEM);
  held.clear();
  CHECK(b.all.used() == 0);
  CHECK(b.device->live().empty());
}
