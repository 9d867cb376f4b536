// The account of what a process has registered: the limit, who may use all of it, what a refusal
// says, and that nothing is counted twice or forgotten.
#include "memreg/account.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "lib/base/page.hpp"
#include "memreg/temporary.hpp"
#include "test/memreg/fake_registrar.hpp"

using namespace penstock;
using namespace penstock::memreg;

namespace {

const std::size_t page = page_bytes();

struct books {
  fake_registrar* device = new fake_registrar;
  account all{std::unique_ptr<registrar>(device), limit()};
  char* const memory = reinterpret_cast<char*>(page);  // nobody reads it

  static pin_budget limit() {
    pin_budget b;
    b.per_process = 8 * page;
    b.binding = "the limit of this test";
    b.hint = "raise it";
    return b;
  }
};

}  // namespace

TEST_CASE(
    "all registrations together stay within the limit, and a refusal names limit and remedy") {
  books b;
  auto first = b.all.messages().reg(b.memory, 5 * page, access::all);
  REQUIRE(first);
  CHECK(b.all.used() == 5 * page);
  const auto second = b.all.messages().reg(b.memory, 3 * page + 1, access::all);
  REQUIRE(!second);
  CHECK(second.error().code == ENOMEM);
  CHECK(second.error().message().find("the limit of this test") != std::string::npos);
  CHECK(second.error().message().find("raise it") != std::string::npos);
  CHECK(b.device->live_bytes() == 5 * page);
  CHECK(b.all.messages().reg(b.memory, 3 * page, access::all));
  b.all.messages().dereg(*first);
  CHECK(b.all.used() == 3 * page);
}

TEST_CASE("what is counted are the pages that a registration pins") {
  books b;
  const auto across = b.all.caches().reg(b.memory + page - 1, 2, access::all);
  REQUIRE(across);
  CHECK(b.all.used() == 2 * page);
  CHECK(b.all.messages().reg(b.memory + 1, page - 1, access::all));
  CHECK(b.all.used() == 3 * page);
  b.all.caches().dereg(*across);
  CHECK(b.all.used() == page);
}

TEST_CASE("caches leave an eighth to messages") {
  books b;
  CHECK(b.all.left_to_caches() == 7 * page);
  CHECK(b.all.caches().reg(b.memory, 7 * page, access::all));
  CHECK(!b.all.caches().reg(b.memory, 1, access::all));
  CHECK(b.all.left_to_caches() == 0);
  CHECK(b.all.messages().reg(b.memory, page, access::all));
  CHECK(!b.all.messages().reg(b.memory, 1, access::all));
}

TEST_CASE("a registration that the device refuses is not counted") {
  books b;
  b.device->refuse = true;
  CHECK(!b.all.caches().reg(b.memory, page, access::all));
  CHECK(b.all.used() == 0);
}

TEST_CASE("memory that is counted apart from its registration takes room from all others") {
  books b;
  CHECK(b.all.take(7 * page));
  CHECK(!b.all.take(page + 1));
  CHECK(!b.all.messages().reg(b.memory, page + 1, access::all));
  CHECK(b.all.left_to_caches() == 0);
  b.all.give(7 * page);
  CHECK(b.all.used() == 0);
}

TEST_CASE("what temporaries register comes back with them") {
  books b;
  temporary_pool pool(b.all.caches(), 8);
  std::vector<temporary> held(8);
  for (int i = 0; i < 7; ++i)
    CHECK(pool.try_register(b.memory, page, access::all, held[i]) == status::ok);
  failure why;
  CHECK(pool.try_register(b.memory, page, access::all, held[7], &why) == status::device_error);
  CHECK(why.code == ENOMEM);
  held.clear();
  CHECK(b.all.used() == 0);
  CHECK(b.device->live().empty());
}
