// A buffer that a target gives back by a word, by C++'s memory model: two threads of the owner, and
// the target in another process.
#include "lib/conduit/peer/buffer_use.hpp"

#include <doctest/doctest.h>

#include <memory>

#include "test/model/model.hpp"

using namespace penstock;
using conduit::buffer_use;

namespace {

constexpr std::uint32_t target = 7;

struct scene {
  buffer_use use;
  std::uint32_t word = 0;
  model::scheduled<std::uint32_t> mail{0};  // the last message that tells of a use: its number
  model::var<std::uint32_t> payload{0};
  std::uint32_t last_read = 0;  // the target's own

  model::scheduled_ref<std::uint32_t> first_line() { return model::scheduled_ref(word); }
  bool has_ended(std::uint64_t s) {
    const auto e = use.look(s, first_line());
    if (e.what == buffer_use::end::wrong) model::fail("a healthy target's word is called wrong");
    return e.what == buffer_use::end::told;
  }
  bool take() {
    const std::uint64_t s = use.state();
    return (!buffer_use::is_out(s) || has_ended(s)) && use.try_begin(s, target);
  }
  void send() {
    if (!take()) return;
    const std::uint32_t number = buffer_use::number_of(use.state_hint());
    payload = number;
    mail.store(number, std::memory_order_release);
    use.sent(static_cast<std::uint16_t>(number));
  }
  // What a thread does that looks for replies that have been read.
  void free_what_has_ended() {
    const std::uint64_t s = use.state();
    if (buffer_use::is_out(s) && has_ended(s)) (void)use.try_end(s);
  }
  void take_and_give() {
    if (take()) payload = 0, use.give(first_line());
  }
  // As for a use that no target tells of: a payload is fetched into the buffer.
  void take_and_give_back() {
    const std::uint64_t s = use.state();
    if (!buffer_use::is_out(s) && use.try_begin(s, target))
      payload = buffer_use::number_of(use.state_hint()), use.give();
  }
  void read() {
    const std::uint32_t number = mail.load(std::memory_order_acquire);
    if (number == last_read) return;
    last_read = number;
    if (payload != number) model::fail("the payload is another use's");
    first_line().store(number, std::memory_order_release);
  }
};

template <class F>
auto times(int n, F f) {
  return [n, f] {
    for (int i = 0; i < n; ++i) f();
  };
}

void check(void (*one)(scene&), void (*other)(scene&), std::uint64_t uses_before) {
  const auto r = model::sample(
      [=] {
        auto s = std::make_shared<scene>();
        for (std::uint64_t i = 0; i < uses_before; ++i) s->send(), s->read();
        return model::trial{{times(3, [=] { one(*s); }), times(3, [=] { other(*s); }),
                             times(6, [=] { s->read(); })},
                            nullptr,
                            nullptr,
                            {0, 0, 1}};
      },
      1, 10'000);
  CHECK_MESSAGE(r.ok(), r.text());
}

}  // namespace

TEST_CASE("two threads that take one buffer again and again find healthy words") {
  for (const std::uint64_t before : {0, 1, 2})
    check([](scene& s) { s.send(); }, [](scene& s) { s.send(); }, before);
}

TEST_CASE("a thread that looks for replies that were read finds healthy words") {
  const auto free_and_send = [](scene& s) { s.free_what_has_ended(), s.send(); };
  for (const std::uint64_t before : {0, 1, 2}) {
    check([](scene& s) { s.send(); }, [](scene& s) { s.free_what_has_ended(); }, before);
    check(free_and_send, free_and_send, before);
  }
}

TEST_CASE("a buffer whose message was not sent is given back by its word, as its target would") {
  for (const std::uint64_t before : {0, 1})
    check([](scene& s) { s.take_and_give(); }, [](scene& s) { s.send(); }, before);
}

TEST_CASE("a buffer that no target tells of is given back with what was done in it") {
  const auto again = [](scene& s) { s.take_and_give_back(); };
  for (const std::uint64_t before : {0, 1}) {
    const auto r = model::sample(
        [=] {
          auto s = std::make_shared<scene>();
          for (std::uint64_t i = 0; i < before; ++i) s->take_and_give_back();
          return model::trial{{times(3, [=] { again(*s); }), times(3, [=] { again(*s); })}};
        },
        1, 5'000);
    CHECK_MESSAGE(r.ok(), r.text());
  }
}

TEST_CASE("the number of a use comes round, and 0 is the number of none") {
  buffer_use u;
  std::uint32_t word = 0;
  const model::scheduled_ref<std::uint32_t> line(word);
  for (std::uint32_t i = 1; i <= 0x10001; ++i) {
    REQUIRE(u.try_begin(u.state(), target));
    const std::uint32_t number = buffer_use::number_of(u.state());
    REQUIRE(number == (i <= 0xffff ? i : i - 0xffff));
    REQUIRE(buffer_use::rank_of(u.state()) == target);
    REQUIRE(u.look(u.state(), line).what == buffer_use::end::open);
    u.give(line);
    REQUIRE(u.look(u.state(), line).what == buffer_use::end::told);
  }
  word = 17;
  CHECK(u.look(u.state(), line).what == buffer_use::end::wrong);
}
