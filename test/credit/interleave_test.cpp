// Every interleaving of small cases: threads that send, receive replies, lend, revoke and wait at
// once create and lose no credit. See test/model/model.hpp for what "every" means.
#include <array>
#include <memory>
#include <vector>

#include "test/credit/names.hpp"
#include "test/model/model.hpp"

namespace {

using tried = ledger<thread_mode::par, model::scheduled>;

/// A ledger, and what its threads have done to it.
struct bench {
  explicit bench(const config& c) : l(c) {}
  tried l;
  std::uint32_t taken = 0, returned = 0, granted = 0, given_up = 0, lent = 0;
  int marks = 0, asked = 0;
};
using bench_ptr = std::shared_ptr<bench>;

bench_ptr make(std::uint32_t ranks, const overrides& o) {
  return std::make_shared<bench>(planned(ranks, 0, o));
}

/// (C-3): what is in flight never exceeds what was lent.
bool covered(const bench& b) { return b.l.in_use(1) <= b.l.send_credits(1); }
/// (C-2) at rest, for peer 1 that lent `each` at start.
bool borrowed_adds_up(const bench& b, std::uint32_t each) {
  return b.l.send_credits(1) + b.given_up == each + b.granted &&
         b.l.in_use(1) + b.returned == b.taken;
}
/// (C-1): a thread may hold some for a moment, but none may appear.
bool none_created(const bench& b) { return lent_and_banked(b.l) <= b.l.settings().total_credits(); }
bool none_lost(const bench& b) { return lent_and_banked(b.l) == b.l.settings().total_credits(); }

void send(const bench_ptr& b, std::uint32_t n) { b->taken += b->l.try_take(1, n); }
void receive(const bench_ptr& b, std::uint32_t returned, std::uint32_t granted, bool end_epoch) {
  if (b->l.on_credits(1, returned, granted, end_epoch) != status::ok) return;
  b->returned += returned;
  b->granted += granted;
}
void revoked(const bench_ptr& b, bool end_epoch, bool urgent) {
  b->given_up += b->l.on_revoke(1, end_epoch, urgent).count;
}

void check_all(const model::trial_maker& make_trial) {
  const model::report r = model::search(make_trial);
  CHECK_MESSAGE(r.ok(), r.text());
  CHECK_MESSAGE(r.complete, r.text());
}

/// The same where all interleavings would take too long: those with one older value and two
/// preemptions, and random ones.
void check_few_old(const model::trial_maker& make_trial) {
  for (const model::report& r : {model::explore(make_trial, {.old = 1, .preemptions = 2}),
                                 model::sample(make_trial, 20261128, 20000)})
    CHECK_MESSAGE(r.ok(), r.text());
}

}  // namespace

TEST_CASE("two send, one receives a reply, one is revoked") {
  for (const bool end_epoch : {false, true}) {
    for (const bool urgent : {false, true}) {
      check_all([=] {
        auto b = make(2, small(8, 20));
        send(b, 2);
        return model::trial{
            {[b] { send(b, 3); }, [b] { send(b, 4); }, [b] { receive(b, 2, 1, false); },
             [=] { revoked(b, end_epoch, urgent); }},
            [b] { return covered(*b); },
            [b] { return borrowed_adds_up(*b, 8); }};
      });
    }
  }
}

TEST_CASE("a lease, its rest given back, a reply that ends an epoch, and a recall") {
  check_all([] {
    auto b = make(2, small(9, 20));
    send(b, 5);
    return model::trial{{[b] {
                           const std::uint32_t n = b->l.take_up_to(1, 2, 4);
                           b->taken += n;
                           if (n == 0) return;
                           b->l.give_back(1, n - 1);
                           b->taken -= n - 1;
                         },
                         [b] { receive(b, 5, 0, true); }, [b] { revoked(b, false, true); }},
                        [b] { return covered(*b); },
                        [b] { return borrowed_adds_up(*b, 9); }};
  });
}

TEST_CASE("two requests compete for the bank's last credits") {
  check_all([] {
    auto b = make(3, small(4, 13));
    static_cast<void>(b->l.on_need(2, 8, false));
    const auto ask = [b](std::uint32_t p) { b->lent += b->l.on_need(p, 4, false); };
    return model::trial{{[=] { ask(1); }, [=] { ask(2); }},
                        [b] { return none_created(*b); },
                        [b] { return none_lost(*b) && b->lent == 5 && b->l.bank() == 0; }};
  });
}

TEST_CASE("a loan grows while the same peer's RETURN comes in") {
  check_all([] {
    auto b = make(3, small(6, 20));
    std::array<revoke_intent, 4> r;
    static_cast<void>(b->l.on_need(2, 18, false));
    const std::uint32_t n = b->l.next_revoke(r);
    return model::trial{
        {[b] { b->lent += b->l.on_need(1, 2, false); },
         [b] {
           if (b->l.on_return(1, 2, false) == status::ok) b->returned += 2;
         }},
        [b] { return none_created(*b); },
        [b, n] { return none_lost(*b) && n == 1 && b->l.loan(1) + b->returned == 6 + b->lent; }};
  });
}

TEST_CASE("two threads look for credits at once: no peer is asked twice, none falls off the list") {
  check_all([] {
    overrides o = small(6, 13);
    o.num_scavenge = 1;
    auto b = make(3, o);
    static_cast<void>(b->l.on_need(2, 13, false));
    b->l.count_requests(8);  // what peer 2 asked for is forgotten
    b->l.count_requests(8);
    static_cast<void>(b->l.on_want(1, 11, true, false));
    const auto look = [b] {
      std::array<revoke_intent, 4> r;
      b->asked += static_cast<int>(b->l.next_revoke(r));
    };
    return model::trial{{look, look}, nullptr, [b] {
                          int marked = 0, listed = 0;
                          for (const std::uint32_t p : {1U, 2U}) {
                            marked += b->l.figures(p).sys_in_flight ? 1 : 0;
                            listed += b->l.figures(p).listed ? 1 : 0;
                          }
                          return b->asked == marked && b->asked >= 1 && listed == 2;
                        }};
  });
}

TEST_CASE("credits that come in as a peer begins to wait are not overlooked") {
  check_all([] {
    auto b = make(3, small(4, 13));
    static_cast<void>(b->l.on_need(2, 13, false));
    static_cast<void>(b->l.on_want(1, 13, true, false));
    std::array<revoke_intent, 4> r;
    static_cast<void>(b->l.next_revoke(r));
    const auto serve = [b] {
      grant g{};
      while (b->l.next_grant(g)) b->lent += g.count;
    };
    return model::trial{{[=] {
                           static_cast<void>(b->l.on_return(2, 13, false));
                           serve();
                         },
                         serve},
                        [b] { return none_created(*b); },
                        // Without another poll: nothing may tell the engine of it.
                        [b] { return none_lost(*b) && b->lent == 13 && b->l.waiting() == 0; }};
  });
}

TEST_CASE("an urgent WANT and a RETURN at once: one of the two threads grants it") {
  check_all([] {
    auto b = make(3, small(4, 13));
    static_cast<void>(b->l.on_need(2, 13, false));
    for (int epochs = 0; epochs < 2; ++epochs) b->l.count_requests(8);
    static_cast<void>(b->l.on_need(1, 1, false));
    std::array<revoke_intent, 4> r;
    static_cast<void>(b->l.next_revoke(r));
    const auto serve = [b] {
      grant g{};
      while (b->l.next_grant(g)) b->lent += g.count;
    };
    return model::trial{{[=] {
                           const want_answer a = b->l.on_want(1, 6, true, false);
                           if (a.send) b->lent += a.message.count;
                           serve();
                         },
                         [=] {
                           static_cast<void>(b->l.on_return(2, 13, false));
                           serve();
                         }},
                        [b] { return none_created(*b); },
                        [b] { return none_lost(*b) && b->l.waiting() == 0; }};
  });
}

namespace {
/// What a thread does after a message.
void follow(const bench_ptr& b) {
  grant g{};
  while (b->l.next_grant(g)) b->lent += g.count;
  std::array<revoke_intent, 4> r;
  b->asked += static_cast<int>(b->l.next_revoke(r));
}
/// Peer 1 waits, with a loan that leaves no room for its wish, and has been asked for what it has
/// too much.
bench_ptr waits_without_room() {
  overrides o = small(10, 100);
  o.max_per_peer = max_cost;
  auto b = make(3, o);
  static_cast<void>(b->l.on_want(1, max_wish, true, false));
  follow(b);
  return b;
}
}  // namespace

// Sampled: all interleavings would take too long.
TEST_CASE(
    "a loan that leaves no room for a wish shrinks as that peer begins to wait: it is served") {
  const auto want_and_return = [] {
    const bench_ptr b = waits_without_room();
    return model::trial{
        {[b] { follow(b); },
         [b] {
           static_cast<void>(b->l.on_return(1, 6, false));
           follow(b);
         }},
        [b] { return none_created(*b); },
        [b] { return none_lost(*b) && b->lent == max_wish && b->l.waiting() == 0; }};
  };
  const model::report r = model::sample(want_and_return, 20261126, 20000);
  CHECK_MESSAGE(r.ok(), r.text());
}

// Sampled: all interleavings would take too long.
TEST_CASE("a peer begins to wait while another thread looks for credits: somebody is asked") {
  const auto begin_and_look = [] {
    auto b = make(3, small(4, 13));                 // only peer 2 has more than the minimum
    static_cast<void>(b->l.on_need(2, 13, false));  // who asked lately is asked urgently only
    const auto look = [b] {
      std::array<revoke_intent, 4> r;
      static_cast<void>(b->l.next_revoke(r));
    };
    return model::trial{{look,
                         [=] {
                           static_cast<void>(b->l.on_want(1, 9, true, false));
                           look();
                         }},
                        nullptr,
                        [b] { return b->l.figures(2).sys_in_flight; }};
  };
  const model::report r = model::sample(begin_and_look, 20070308, 20000);
  CHECK_MESSAGE(r.ok(), r.text());
}

TEST_CASE("a bank falls and a peer begins to wait while another thread looks: somebody is asked") {
  const auto fall_and_look = [] {
    overrides o = small(4, 2 * max_wish);
    o.low_water = 2 * max_wish + 1;
    auto b = make(3, o);
    static_cast<void>(b->l.on_need(2, max_wish, false));  // asked urgently only
    const auto look = [b] {
      std::array<revoke_intent, 4> r;
      static_cast<void>(b->l.next_revoke(r));
    };
    return model::trial{{look,
                         [=] {
                           b->lent += b->l.on_need(2, max_wish, false);
                           static_cast<void>(b->l.on_want(1, max_wish, true, false));
                           look();
                         }},
                        nullptr,
                        [b] {
                          return b->lent == max_wish && b->l.waiting() == 1 &&
                                 b->l.figures(2).sys_in_flight;
                        }};
  };
  check_few_old(fall_and_look);
}

TEST_CASE(
    "a RETURN of nothing, of a peer whose loan leaves no room for its wish: it is asked again") {
  const auto look_and_return = [] {
    const bench_ptr b = waits_without_room();
    return model::trial{
        {[b] { follow(b); },
         [b] {
           static_cast<void>(b->l.on_return(1, 0, false));
           follow(b);
         }},
        nullptr,
        [b] { return b->asked == 2 && b->lent == 0 && b->l.figures(1).sys_in_flight; }};
  };
  check_few_old(look_and_return);
}

TEST_CASE("whichever thread asks the peer that waits first asks for what its loan has too much") {
  const auto wait_and_look = [] {
    overrides o = small(4, 3 * max_wish - 1);
    o.max_per_peer = max_cost;
    auto b = make(4, o);
    const auto look = [b] {
      std::array<revoke_intent, 4> r;
      const std::uint32_t n = b->l.next_revoke(r);
      b->asked += static_cast<int>(n);
      for (std::uint32_t i = 0; i < n; ++i) b->taken += r[i].at_most;
    };
    const auto serve = [b] {
      grant g{};
      while (b->l.next_grant(g)) b->lent += g.count;
    };
    // Peer 1 has waited before, for more.
    for (const std::uint32_t p : {2U, 3U}) static_cast<void>(b->l.on_need(p, max_wish, false));
    static_cast<void>(b->l.on_want(1, max_wish, true, false));
    look();
    for (const std::uint32_t p : {2U, 3U}) static_cast<void>(b->l.on_return(p, max_wish, false));
    serve();
    b->asked = 0, b->taken = 0;
    return model::trial{{look,
                         [=] {
                           static_cast<void>(b->l.on_want(1, 5, true, false));
                           serve();
                           look();
                         }},
                        nullptr,
                        [b] {
                          return b->lent == max_wish && b->asked == 1 && b->taken == 5 &&
                                 b->l.figures(1).sys_in_flight;
                        }};
  };
  check_few_old(wait_and_look);
}

TEST_CASE("a RETURN of too little while another thread has its peer in hand: it is asked again") {
  for (const std::uint32_t returned : {0U, 1U}) {
    const auto look_and_return = [returned] {
      auto b = make(3, small(4, 13));
      static_cast<void>(b->l.on_need(2, 13, false));
      static_cast<void>(b->l.on_want(1, 13, true, false));
      std::array<revoke_intent, 4> asked;
      static_cast<void>(b->l.next_revoke(asked));
      const auto look = [b] {
        std::array<revoke_intent, 4> r;
        static_cast<void>(b->l.next_revoke(r));
      };
      return model::trial{
          {look,
           [=] {
             static_cast<void>(b->l.on_return(2, returned, false));
             grant g{};
             while (b->l.next_grant(g)) b->lent += g.count;
             look();
           }},
          nullptr,
          // Without another message: nothing else may be under way.
          [b] { return none_lost(*b) && b->lent == 0 && b->l.figures(2).sys_in_flight; }};
    };
    const model::report r = model::sample(look_and_return, 20261127, 20000);
    CHECK_MESSAGE(r.ok(), r.text());
  }
}

TEST_CASE("an epoch ends once, and its mark goes out with one message") {
  check_all([] {
    auto b = make(2, small(4, 20, 4));
    b->l.count_requests(3);
    const auto receive_and_reply = [b] {
      b->l.count_requests(1);
      b->marks += b->l.take_epoch_mark(1) ? 1 : 0;
    };
    return model::trial{{receive_and_reply, receive_and_reply}, nullptr, [b] {
                          b->marks += b->l.take_epoch_mark(1) ? 1 : 0;
                          return b->marks == 1 && b->l.epoch() == 1;
                        }};
  });
}

TEST_CASE("epochs go on after one ended late: others counted whole epochs meanwhile") {
  check_all([] {
    auto b = make(2, small(4, 20, 4));
    const auto receive = [b] {
      for (int i = 0; i < 3; ++i) b->l.count_requests(3);
    };
    return model::trial{{receive, receive}, nullptr, [b] {
                          b->l.count_requests(2);
                          return b->l.epoch() == 5;
                        }};
  });
}

TEST_CASE("one WANT is in flight, however many threads stall") {
  check_all([] {
    auto b = make(2, small(4, 20));
    const auto stall = [b] {
      b->l.note_stall(1, 17);
      b->asked += b->l.begin_want(1, 17) != 0 ? 1 : 0;
    };
    return model::trial{{stall, stall}, nullptr, [b] { return b->asked == 1; }};
  });
}

TEST_CASE("the queue hands out each peer once, in any interleaving of pushes and pops") {
  using list = peer_list<thread_mode::par, model::scheduled>;
  struct queue {
    list l;
    std::array<list::link_word, 4> links;
    std::array<int, 4> seen{};
    auto link() {
      return [this](std::uint32_t p) -> auto& { return links[p]; };
    }
    void pop(bool push_again) {
      const std::uint32_t p = l.pop(link());
      if (p == no_peer) return;
      if (push_again)
        l.push(p, link());
      else
        ++seen[p];
    }
  };
  for (const bool push_again : {false, true}) {
    check_all([=] {
      auto q = std::make_shared<queue>();
      q->l.push(0, q->link());
      q->l.push(1, q->link());
      return model::trial{{[q] { q->l.push(2, q->link()); }, [q] { q->pop(false); },
                           [q, push_again] { q->pop(push_again); }},
                          nullptr,
                          [q] {
                            for (int i = 0; i < 4; ++i) q->pop(false);
                            return q->seen == std::array<int, 4>{1, 1, 1, 0};
                          }};
    });
  }
}

TEST_CASE("the queue keeps first come first served for one consumer") {
  using list = peer_list<thread_mode::par, model::scheduled>;
  list l;
  std::array<list::link_word, 6> links;
  const auto link = [&](std::uint32_t p) -> auto& { return links[p]; };
  for (const std::uint32_t p : {3U, 1U, 4U}) l.push(p, link);
  CHECK(l.pop(link) == 3);
  l.push(5, link);
  l.push_front(3, link);
  for (const std::uint32_t p : {3U, 1U, 4U, 5U}) CHECK(l.pop(link) == p);
  CHECK(l.pop(link) == no_peer);
}

TEST_CASE("both roles at once, seeded: four threads of everything") {
  const auto everything = [] {
    auto b = make(3, small(7, 15, 3));
    const auto poll = [b] {
      std::array<revoke_intent, 4> r;
      grant g{};
      if (b->l.next_grant(g)) b->lent += g.count;
      const std::uint32_t n = b->l.next_revoke(r);
      for (std::uint32_t i = 0; i < n; ++i)
        if (b->l.on_return(r[i].peer, r[i].peer == 1 ? 2 : 0, true) != status::ok)
          model::fail("a RETURN that was asked for was refused");
    };
    return model::trial{{[=] {
                           send(b, 5);
                           static_cast<void>(b->l.on_request(1, 1, 6, true));
                           poll();
                         },
                         [=] {
                           static_cast<void>(b->l.on_request(2, 2, 9, false));
                           send(b, 2);
                           static_cast<void>(b->l.on_want(1, 9, true, false));
                           poll();
                         },
                         [=] {
                           revoked(b, true, false);
                           send(b, 3);
                           revoked(b, false, true);
                           poll();
                         },
                         [=] {
                           send(b, 1);
                           receive(b, 1, 2, true);
                           static_cast<void>(b->l.on_want(2, 5, true, true));
                           poll();
                         }},
                        [b] { return covered(*b) && none_created(*b); },
                        [b] { return borrowed_adds_up(*b, 7) && none_lost(*b); }};
  };
  const model::report r = model::sample(everything, 20070308, 20000);
  CHECK_MESSAGE(r.ok(), r.text());
}

TEST_CASE("two threads touch a record first, and its start loan is there once") {
  using deed = void (*)(const bench_ptr&);
  constexpr deed deeds[] = {[](const bench_ptr& b) { send(b, 2); },
                            [](const bench_ptr& b) { b->lent += b->l.on_need(1, 3, false); },
                            [](const bench_ptr& b) { revoked(b, false, true); }};
  for (const deed one : deeds)
    for (const deed other : deeds)
      check_all([=] {
        auto b = make(2, small(8, 20));
        return model::trial{{[=] { one(b); }, [=] { other(b); }},
                            [b] { return covered(*b) && none_created(*b); },
                            [b] {
                              return borrowed_adds_up(*b, 8) && none_lost(*b) &&
                                     b->l.loan(1) == 8 + b->lent;
                            }};
      });
}
