// Whole jobs of ledgers over a network that delivers in any order: after every step each credit is
// in exactly one place, and every message is sent in the end, however few credits there are.
#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "test/credit/names.hpp"
#include "test/credit/protocol.hpp"

using credit::testing::message;
using credit::testing::what;

namespace {

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
  /// unmet: a process knows another one only from the first message between the two on.
  job(std::uint32_t ranks, const overrides& o, std::uint32_t requests, std::uint64_t seed,
      bool unmet)
      : random_(seed), met_(ranks * ranks, !unmet), lowered_(ranks * ranks) {
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
      const auto how = [this, by = m.to](std::uint32_t peer) { return reached(by, peer); };
      REQUIRE(credit::testing::handle(processes_[m.to]->l, m, emit, how));
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
        // A process that was never met is yet to hear that it holds the minimum.
        const bool unheard = lowered_[y * ranks() + x] && !met_[y * ranks() + x];
        const std::uint32_t loan = unheard ? lender.settings().credits_per_peer : lender.loan(x);
        if (unheard && (lender.loan(x) != min_credits || borrower.in_use(y) != 0)) return false;
        if (borrower.send_credits(y) + moving != loan) return false;
        if (borrower.in_use(y) != in_flight || in_flight > lender.loan(x)) return false;
      }
    }
    return true;
  }

  [[nodiscard]] std::uint64_t sent() const { return sent_; }
  /// Loans that were lowered before their process was met.
  [[nodiscard]] std::uint64_t lowered() const {
    return static_cast<std::uint64_t>(std::count(lowered_.begin(), lowered_.end(), true));
  }

 private:
  /// What `lender` can do about the loan of a peer.
  reach reached(std::uint32_t lender, std::uint32_t peer) {
    const std::uint32_t i = lender * ranks() + peer;
    if (met_[i] || lowered_[i]) return reach::ask;
    lowered_[i] = true;
    return reach::take;
  }
  /// The first message between the two is about to go: each tells the other of its loan.
  void meet(std::uint32_t a, std::uint32_t b) {
    if (met_[a * ranks() + b]) return;
    met_[a * ranks() + b] = met_[b * ranks() + a] = true;
    if (lowered_[a * ranks() + b]) processes_[b]->l.on_lowered(a);
    if (lowered_[b * ranks() + a]) processes_[a]->l.on_lowered(b);
  }

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
      meet(me, p.to);
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
  std::vector<bool> met_, lowered_;  // by lender and borrower
  std::uint64_t sent_ = 0;
};

/// Runs a job to its end; false if it does not end within many times the steps it should need.
/// Answers how many loans were lowered before their process was met.
std::uint64_t run(std::uint32_t ranks, overrides o, std::uint64_t seed, bool unmet = false) {
  constexpr std::uint32_t requests = 60;
  job j(ranks, o, requests, seed, unmet);
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
  return j.lowered();
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

TEST_CASE("loans of processes that were never met are lent to others, and no credit is lost") {
  std::uint64_t lowered = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed)
    lowered += run(4 + seed % 5, small(9, 5, 16), seed, true);
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    lowered += run(6, small(40, 100, 64), seed, true);
  CHECK(lowered > 20);
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
