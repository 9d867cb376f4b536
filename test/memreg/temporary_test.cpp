// Temporary registrations: the limit holds, and each one ends with its object.
#include "memreg/temporary.hpp"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "test/memreg/fake_registrar.hpp"

using namespace penstock;
using namespace penstock::memreg;

TEST_CASE("the limit of temporary registrations holds and frees up again") {
  fake_registrar device;
  temporary_pool pool(device, 2);
  char memory[64];
  temporary a, b, c;
  REQUIRE(pool.try_register(memory, 64, access::local_read, a) == status::ok);
  REQUIRE(pool.try_register(memory, 64, access::local_write, b) == status::ok);
  CHECK(pool.try_register(memory, 64, access::local_write, c) == status::no_ticket);
  CHECK_FALSE(static_cast<bool>(c));
  CHECK(pool.in_use() == 2);
  a.reset();
  CHECK(pool.try_register(memory, 64, access::local_write, c) == status::ok);
  CHECK(device.live().size() == 2);
}

TEST_CASE("a moved registration ends once") {
  fake_registrar device;
  temporary_pool pool(device, 4);
  char memory[64];
  {
    temporary a, b;
    REQUIRE(pool.try_register(memory, 64, access::all, a) == status::ok);
    b = std::move(a);
    const temporary c(std::move(b));
    CHECK(c.lkey() != 0);
  }
  CHECK(device.deregistered == 1);
  CHECK(device.wrong == 0);
  CHECK(pool.in_use() == 0);
}

TEST_CASE("a refusal by the device gives the ticket back and says why") {
  fake_registrar device;
  device.refuse = true;
  temporary_pool pool(device, 1);
  char memory[8];
  temporary t;
  failure why;
  CHECK(pool.try_register(memory, 8, access::all, t, &why) == status::device_error);
  CHECK(why.code != 0);
  device.refuse = false;
  CHECK(pool.try_register(memory, 8, access::all, t) == status::ok);
}

TEST_CASE("no more tickets are out than the limit, whoever takes them") {
  ticket_counter<> tickets(3);
  std::atomic<int> out{0}, worst{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        if (!tickets.try_take()) continue;
        const int now = out.fetch_add(1, std::memory_order_relaxed) + 1;
        int seen = worst.load(std::memory_order_relaxed);
        while (now > seen && !worst.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
        }
        out.fetch_sub(1, std::memory_order_relaxed);
        tickets.give();
      }
    });
  for (auto& t : threads) t.join();
  CHECK(worst.load(std::memory_order_relaxed) <= 3);
  CHECK(tickets.available() == 3);
}
