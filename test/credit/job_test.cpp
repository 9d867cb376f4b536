// Whole jobs of ledgers over a network that delivers in any order: after every step each credit is
// in exactly one place, and every message is sent in the end, however few credits there are.
#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <vector>

#include "test/credit/protocol.hpp"
#include "test/credit/two_ledgers.hpp"

using namespace penstock;
using namespace penstock::credit;
using credit::testing::lent_and_banked;
using credit::testing::message;
using credit::testing::planned;
using credit::testing::small;
using credit::testing::what;

namespace {

using seq_ledger = ledger<thread_mode::seq>;

/// A process: its ledger, and the one request it is trying to send.
struct process {
  explicit process(const config& c) : l(c) {}
  seq_ledger l;
  std::uint32_t left = 0;  // requests still to be begun
  std::uint32_t to = 0, cost = 0, need = 0;
  bool stalled = false, busy = false;
};

class job {
 public:
  job(std::uint32_t ranks, const overrides& o, std::uint32_t requests, std::uint64_t seed)
      : random_(seed) {
    for (std::uint32_t me = 0; me < ranks; ++me) {
      processes_.push_back(std::make_unique<process>(planned(ranks, me, o)));
      processes_.back()->left = requests;
    }
  }

  /// One thing happens: a message arrives, or a process goes on. False when all is done.
  bool advance() {
    const bool deliver = !wire_.empty() && below(3) != 0;
    if (deliver) {
      const std::size_t i = below(static_cast<std::uint32_t>(wire_.size()));
      std::swap(wire_[i], wire_.back());
      const message m = wire_.back();
      wire_.pop_back();
      const auto emit = [this](const message& next) { send(next); };
      REQUIRE(credit::testing::handle(processes_[m.to]->l, m, emit));
      return true;
    }
    const std::uint32_t r = below(ranks());
    go_on(r, *processes_[r]);
    if (!wire_.empty()) return true;
    for (const auto& p : processes_)
      if (p->busy || p->left != 0) return true;
    return false;
  }

  /// (C-1), (C-2), (C-3), over everything that exists.
  [[nodiscard]] bool conserved() const {
    for (std::uint32_t y = 0; y < ranks(); ++y) {
      const seq_ledger& lender = processes_[y]->l;
      if (lent_and_banked(lender) != lender.settings().total_credits()) return false;
      for (std::uint32_t x = 0; x < ranks(); ++x) {
        if (x == y) continue;
        std::uint32_t moving = 0, in_flight = 0;
        for (const message& m : wire_) {
          if (m.from == y && m.to == x && m.type == what::reply) moving += m.extra;
          if (m.from == y && m.to == x && m.type == what::grant) moving += m.count;
          if (m.from == x && m.to == y && m.type == what::return_) moving += m.count;
          const bool request = m.from == x && m.to == y && m.type == what::request;
          const bool reply = m.from == y && m.to == x && m.type == what::reply;
          if (request || reply) in_flight += m.count;
        }
        const seq_ledger& borrower = processes_[x]->l;
        if (borrower.send_credits(y) + moving != lender.loan(x)) return false;
        if (borrower.in_use(y) != in_flight || in_flight > lender.loan(x)) return false;
      }
    }
    return true;
  }

  [[nodiscard]] std::uint64_t sent() const { return sent_; }

 private:
  [[nodiscard]] std::uint32_t ranks() const {
    return static_cast<std::uint32_t>(processes_.size());
  }
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  void go_on(std::uint32_t me, process& p) {
    if (!p.busy) {
      if (p.left == 0) return;
      --p.left;
      p.busy = true;
      // Rank 0 is everybody's favourite; one message in three is full-size.
      p.to = below(2) == 0 ? 0 : below(ranks());
      if (p.to == me) p.to = (me + 1) % ranks();
      p.cost = below(3) == 0 ? max_cost : 1 + below(4);
    }
    if (p.l.try_take(p.to, p.cost) == 0) {
      if (!p.stalled) p.need = p.l.note_stall(p.to, p.cost);
      p.stalled = true;
      if (const std::uint32_t n = p.l.begin_want(p.to, p.cost); n != 0)
        send({what::want, me, p.to, n, 0, p.l.take_epoch_mark(p.to), true});
      return;
    }
    if (p.stalled) p.l.end_stall(p.to);
    send({what::request, me, p.to, p.cost, p.need, p.l.take_epoch_mark(p.to)});
    ++sent_;
    p.busy = p.stalled = false;
    p.need = 0;
  }

  void send(const message& m) { wire_.push_back(m); }

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<process>> processes_;
  std::vector<message> wire_;
  std::uint64_t sent_ = 0;
};

/// Runs a job to its end; false if it does not end within many times the steps it should need.
void run(std::uint32_t ranks, overrides o, std::uint64_t seed) {
  constexpr std::uint32_t requests = 60;
  job j(ranks, o, requests, seed);
  const std::uint64_t most_steps = std::uint64_t{ranks} * requests * 400;
  std::uint64_t steps = 0;
  bool going = true, conserved = true;
  while (going && conserved && steps < most_steps) {
    going = j.advance();
    conserved = j.conserved();
    ++steps;
  }
  INFO("ranks ", ranks, " seed ", seed, " steps ", steps, " sent ", j.sent());
  REQUIRE(conserved);
  REQUIRE_FALSE(going);
  REQUIRE(j.sent() == std::uint64_t{ranks} * requests);
}

}  // namespace

TEST_CASE("with the fewest credits that are allowed, every message is sent and each credit kept") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) run(2 + seed % 5, small(4, 13, 5), seed);
}

TEST_CASE("with some credits lent at start and little in the bank, too") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) run(3 + seed % 4, small(9, 5, 16), seed);
}

TEST_CASE("with plenty, too") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) run(4, small(40, 100, 64), seed);
}

TEST_CASE("whichever way statistics fade and whoever counts what was given back") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    overrides o = small(6, 11, 7);
    o.fade = seed % 2 == 0 ? decay::shift : decay::last_curr;
    o.revoked = seed % 3 == 0 ? revoked_at::borrower : revoked_at::lender;
    o.revoke_limit = 3;
    o.lender_limit = 5;
    run(5, o, seed);
  }
}
