// Real threads in every ledger at once, with high revoke rates: at the end each credit is in its
// place. Meant for TSan above all; interleave_test.cpp has all interleavings of small cases.
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "test/credit/names.hpp"
#include "test/credit/protocol.hpp"

using credit::testing::message;
using credit::testing::what;

namespace {

/// Messages under way; whoever asks gets any of them.
class wire {
 public:
  void put(const message& m) {
    const std::lock_guard hold(mutex_);
    messages_.push_back(m);
  }
  bool take(message& m, std::uint64_t random) {
    const std::lock_guard hold(mutex_);
    if (messages_.empty()) return false;
    std::swap(messages_[random % messages_.size()], messages_.back());
    m = messages_.back();
    messages_.pop_back();
    return true;
  }

 private:
  std::mutex mutex_;
  std::vector<message> messages_;
};

struct job {
  job(std::uint32_t ranks, const overrides& o) {
    for (std::uint32_t me = 0; me < ranks; ++me)
      ledgers.push_back(std::make_unique<par_ledger>(planned(ranks, me, o)));
  }
  std::vector<std::unique_ptr<par_ledger>> ledgers;
  wire under_way;
  std::atomic<std::uint64_t> refused{0}, requests{0};

  void deliver(const message& m) {
    const auto send = [this](const message& next) { under_way.put(next); };
    if (!credit::testing::handle(*ledgers[m.to], m, send))
      refused.fetch_add(1, std::memory_order_relaxed);
  }

  /// Sends one request if there are credits, or asks for them.
  void send(std::mt19937_64& random) {
    const auto ranks = static_cast<std::uint32_t>(ledgers.size());
    const auto me = static_cast<std::uint32_t>(random() % ranks);
    const auto to = static_cast<std::uint32_t>((me + 1 + random() % (ranks - 1)) % ranks);
    const std::uint32_t n =
        random() % 4 == 0 ? max_cost : 1 + static_cast<std::uint32_t>(random() % 3);
    par_ledger& l = *ledgers[me];
    const std::uint32_t extra = static_cast<std::uint32_t>(random() % 5);
    const std::uint32_t got = l.take_up_to(to, n, n + extra);
    if (got == 0) {
      l.note_stall(to, n);
      const std::uint32_t want = l.begin_want(to, n);
      if (want != 0) under_way.put({what::want, me, to, want, 0, l.take_epoch_mark(to), true});
      l.end_stall(to);
      return;
    }
    if (got > n) l.give_back(to, got - n);
    under_way.put({what::request, me, to, n, n > 3 ? n / 2 : 0, l.take_epoch_mark(to)});
    requests.fetch_add(1, std::memory_order_relaxed);
  }
};

void run(const overrides& o) {
  constexpr int threads = 4, rounds = 300000;
  job j(3, o);
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&j, t] {
      std::mt19937_64 random(static_cast<std::uint64_t>(t) + 1);
      for (int i = 0; i < rounds; ++i) {
        message m{};
        if (random() % 3 == 0)
          j.send(random);
        else if (j.under_way.take(m, random()))
          j.deliver(m);
      }
    });
  }
  for (std::thread& w : workers) w.join();
  message m{};
  // With nobody sending, what is under way comes to an end.
  for (int left = 200000; left > 0 && j.under_way.take(m, 0); --left) j.deliver(m);
  REQUIRE_FALSE(j.under_way.take(m, 0));
  CHECK(j.refused == 0);
  CHECK(j.requests > 1000);
  for (const auto& lender : j.ledgers) {
    CHECK(lent_and_banked(*lender) == lender->settings().total_credits());
    for (const auto& borrower : j.ledgers) {
      if (lender == borrower) continue;
      const std::uint32_t x = borrower->settings().me, y = lender->settings().me;
      CHECK(borrower->in_use(y) == 0);
      CHECK(borrower->send_credits(y) == lender->loan(x));
    }
  }
}

}  // namespace

TEST_CASE("many threads, few credits: nothing is lost") { run(small(5, 20, 16)); }

TEST_CASE("many threads, a busy bank: nothing is lost") { run(small(20, 60, 32)); }

TEST_CASE("many threads, the other way to fade and to count: nothing is lost") {
  overrides o = small(6, 30, 16);
  o.fade = decay::last_curr;
  o.revoked = revoked_at::lender;
  run(o);
}
