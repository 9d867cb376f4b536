// The ledger: what this process has lent to its peers, and what they have lent to it. It answers
// "may I send to peer p", absorbs what messages report, and says which system messages to send. It
// knows no device and no clock, sends nothing and waits for nothing: the engine, the simulator and
// the tests turn its answers into messages.
//
// Two roles, per peer. As borrower: credits the peer lent us, taken by requests and brought back by
// replies. As lender: the loan we gave, which grows out of the bank on demand and shrinks by REVOKE
// and RETURN.
//
//   request  E·need·n   -> on_request at the lender      reply E·granted·n -> on_credits
//   REVOKE   E,at_most,urgent -> on_revoke at borrower   RETURN E,count    -> on_return
//   WANT     E,count,urgent   -> on_want at the lender   GRANT  E,count    -> on_grant
// REVOKE and RETURN, WANT and GRANT are pairs: at most one of each is in flight per pair of
// processes and direction. System messages cost no credits.
//
// Who with whom: in PAR any thread may call anything at any time; in PARSYNC one at a time; in SEQ
//   one. Every call is lock-free: a thread stopped anywhere stops no other. At worst it keeps the
//   credits it is just moving, or the peers it has taken off a list, until it goes on.
// Invariants (claims 1 to 3 of DEADLOCK.md; the last: claim 7), I2 of lib/README.md:
//   (C-1) Lender: bank + Σ loans (+ what a thread is moving between two words) = total.
//   (C-2) Borrower: credits + owed + grants in flight + returns in flight = the peer's loan.
//   (C-3) in use ≤ credits + owed, so messages in flight never exceed the loan.
//   (C-4) A loan never falls below min_credits by our own doing.
// Input from the wire (peer numbers, counts) is checked: what would break an invariant changes
//   nothing and is answered with a failure, or with 0.
// Memory orders: every count is a number of its own and guards no other memory, so relaxed does;
//   the lists order their links themselves (peer_list.hpp). Pairs, R1 to R8 in ledger_*_inl.hpp,
//   see to it that of two threads one notices what both bring together.
// Cost: given at each function, RMWs counted in PAR; in SEQ they are plain loads and stores.
#pragma once

#include <algorithm>
#include <span>

#include "credit/config.hpp"
#include "credit/cost.hpp"
#include "credit/peer_list.hpp"
#include "credit/peer_state.hpp"
#include "lib/base/assert.hpp"
#include "lib/base/mode.hpp"
#include "lib/base/status.hpp"

namespace penstock::credit {

/// A REVOKE to send: next_revoke has marked it as in flight and taken the E mark.
struct revoke_intent {
  std::uint32_t peer;
  std::uint16_t at_most;  ///< credits asked back at most
  bool end_epoch;
  bool urgent;  ///< a peer waits that cannot send at all: statistics do not count
};

/// What can be done about the loan of a peer that gives credits up.
enum class reach : std::uint8_t {
  ask,    ///< a REVOKE goes to it
  take,   ///< it was never met, and will learn before it can send that it holds the minimum alone
  leave,  ///< it was never met, and there is no receive space for its loan, which stays unused
};

/// A RETURN to send. Always sent, also with count 0: it ends the exchange.
struct revoke_answer {
  std::uint16_t count;
  bool end_epoch;
};

/// A GRANT to send.
struct grant {
  std::uint32_t peer;
  std::uint16_t count;
  bool end_epoch;
};

/// What on_want decided: answer now (send), or later through next_grant.
struct want_answer {
  bool send;
  grant message;
};

/// A WANT to send; count 0: none.
struct want {
  std::uint32_t count;
  bool urgent;
};

/// A request that waits for credits, kept by its sender until end_stall.
struct stall {
  bool noted = false;     ///< note_stall was called
  std::uint8_t asks = 0;  ///< WANTs that were sent for it and are not urgent
};

/// One peer's figures at one moment; see snapshot.hpp for writing them.
struct peer_figures {
  std::uint32_t loan, given, requested;                     // as lender
  std::uint32_t send, in_use, most, owed, stalls, revoked;  // as borrower
  bool listed, waiting, sys_in_flight;
};

template <thread_mode M, template <class> class Atomic = std::atomic,
          template <class> class Store = dense_store>
class ledger {
 public:
  using state = peer_state<M, Atomic>;

  /// c comes from plan(). Allocates Store's memory; dense: none yet, 40 bytes for each peer that is
  /// touched, and as much address space for each rank.
  explicit ledger(const config& c)
      : cfg_(c),
        bank_(c.bank),
        fresh_(c.credits_per_peer > min_credits ? 0 : c.ranks),
        store_(cfg_.ranks, &start, cfg_) {}
  ledger(const ledger&) = delete;
  ledger& operator=(const ledger&) = delete;

  // ---- borrower: peers' credits that we spend. peer < ranks and not our own rank.

  /// Takes n credits of peer for one request, all or nothing: n, or 0 when short. n ≤ 65535.
  /// Cost: 1 RMW when it takes, 0 when short.
  [[nodiscard]] std::uint32_t try_take(std::uint32_t peer, std::uint32_t n) noexcept {
    return take_up_to(peer, n, n);
  }

  /// A lease for a stream: takes as many as there are between min and want, or 0 when there are
  /// fewer than min. The caller owns them, and gives back what it does not send. `left` further
  /// ones must remain. Cost: as try_take.
  [[nodiscard]] std::uint32_t take_up_to(std::uint32_t peer, std::uint32_t min, std::uint32_t want,
                                         std::uint32_t left = 0) noexcept;

  /// Gives back n taken credits that were not sent. Cost: 1 RMW.
  void give_back(std::uint32_t peer, std::uint32_t n) noexcept;

  /// Notes that a request of n credits must wait for peer, once per request and not per poll: for
  /// some epochs this peer's credits are not given up. Answers how many it lacks: the XXX of the
  /// request when it is sent at last. Cost: 1 RMW.
  std::uint32_t note_stall(std::uint32_t peer, std::uint32_t n) noexcept;

  /// A reply or a bulk return came: `returned` credits are free again, `granted` are lent on top.
  /// bad_rank, or bad_arguments when more return than are in use or the sum would pass 65535; then
  /// nothing has changed. Cost: 1 RMW; more with end_epoch.
  status on_credits(std::uint32_t peer, std::uint32_t returned, std::uint32_t granted,
                    bool end_epoch) noexcept;

  /// A request that costs n waits, and returning credits alone can never satisfy it (n exceeds all
  /// that peer has lent us). Answers how many to ask for with an urgent WANT; 0 when none need be
  /// sent, because it can be satisfied or a WANT is in flight. Ask again at each poll of the stall:
  /// what was granted may have gone to another thread. n ≤ max_cost. Cost: two loads, seldom 1 RMW.
  [[nodiscard]] std::uint32_t begin_want(std::uint32_t peer, std::uint32_t n) noexcept;

  /// The WANT that a request of n credits sends while it waits (after note_stall): begin_want's,
  /// urgent; else one that is not urgent, for as much again as it holds, and no less than
  /// stream_credits_of(n): XXX in the request can ask for 7 at most, and in smaller steps a demand
  /// would be met after many round trips only. If what was granted is not enough it asks again,
  /// up to most_asks times, since others give credits back meanwhile. Cost: as begin_want, twice
  /// until it has asked most_asks times.
  /// blocked: false if the request was offered instead; then no WANT is urgent.
  [[nodiscard]] want next_want(std::uint32_t peer, std::uint32_t n, stall& s,
                               bool blocked = true) noexcept;
  static constexpr std::uint8_t most_asks = 16;

  /// The WANT that is sent before a request stalls: answers how many to ask for. 0 while the loan
  /// is no smaller than stream_credits, and unless a request to a peer with so small a loan has
  /// stalled since this was last answered: who sends bursts above the start loan to one peer does
  /// so to the next, too, and a stall lasts a round trip. Ask when n credits were taken for a
  /// message. Cost: one load; seldom 2 RMWs.
  [[nodiscard]] std::uint32_t early_want(std::uint32_t peer, std::uint32_t n) noexcept;

  /// A request that had called note_stall has its credits now, or was given up. Until this call,
  /// the credits that were granted for it are kept from REVOKEs (claim 10). Cost: one load, seldom
  /// 1 RMW.
  void end_stall(std::uint32_t peer) noexcept;

  /// How many credits a Medium of n that could be offered leaves to offers: offer_reserve, while
  /// the loan may still grow. Else 0: who holds the largest loan waits, as its receiver is slow.
  /// Cost: one load.
  [[nodiscard]] std::uint32_t left_to_offers(std::uint32_t peer, std::uint32_t n) const noexcept {
    return n > 1 && cfg_.may_grow(send_credits(peer)) ? offer_reserve : 0;
  }

  /// Whether peer has lent fewer than n credits that are free now. A Medium of n that was offered
  /// though it lacked none asks for no more. Cost: two loads.
  [[nodiscard]] bool lacks(std::uint32_t peer, std::uint32_t n) const noexcept {
    const send_fields f = send_of(peer);
    return f.credits < std::uint32_t{f.in_use} + n;
  }

  /// The client names peer as one it will soon send to, with `wanted` credits in flight. Answers
  /// how many to ask for with a WANT that is not urgent; 0 when none need be sent. Cost: 0 or 1
  /// RMW.
  [[nodiscard]] std::uint32_t hint(std::uint32_t peer, std::uint32_t wanted) noexcept;

  /// The GRANT that answers our WANT came; count may be 0. Statuses as on_credits.
  status on_grant(std::uint32_t peer, std::uint32_t count, bool end_epoch) noexcept;

  /// Peer has said, before we sent it anything, that it lends us the minimum alone and not the
  /// start loan (reach::take). To be called once. What it may have granted since stays. Cost: 1
  /// RMW.
  void on_lowered(std::uint32_t peer) noexcept;

  /// A REVOKE came. Decides what to give back, which is gone from here when this returns; the
  /// answer must be sent. Rules: credits in use, in use lately (most), or below min_credits stay;
  /// nothing after a recent stall; at most revoke_limit in an epoch. An urgent one overrules all
  /// but min_credits, and what is still in use is then owed: it is not spent again, and goes back
  /// with the next REVOKE. A peer number that is not one is answered with 0. Cost: 2 to 4 RMWs.
  [[nodiscard]] revoke_answer on_revoke(std::uint32_t peer, bool end_epoch, bool urgent = false,
                                        std::uint32_t at_most = counter_max) noexcept;

  // ---- lender: our credits that peers spend

  /// A request from peer came that used n credits and had missed `need`. Counts it towards the
  /// epoch. Answers the credits granted on top, to go with the reply. Cost: 1 RMW without need.
  [[nodiscard]] std::uint32_t on_request(std::uint32_t peer, std::uint32_t n, std::uint32_t need,
                                         bool end_epoch) noexcept {
    if (!may_have_spent(peer, n)) [[unlikely]]
      return 0;
    count_requests(1);
    return need == 0 && !end_epoch ? 0 : on_need(peer, need, end_epoch);
  }

  /// Whether peer can have n credits in use: at most what it was lent. Credits in use stay lent.
  /// True of a peer that has gone, whose requests may still be waiting here. Cost: one load.
  [[nodiscard]] bool may_have_spent(std::uint32_t peer, std::uint32_t n) const noexcept {
    return n <= loan(peer) || !cfg_.flow_control || is_gone(peer);
  }

  /// The two halves of on_request, for callers that handle requests in batches: one RMW for k
  /// requests …
  void count_requests(std::uint32_t k) noexcept;
  /// … and this call only for the requests that carry E or a need.
  [[nodiscard]] std::uint32_t on_need(std::uint32_t peer, std::uint32_t need,
                                      bool end_epoch) noexcept;

  /// Whether the next message to peer must carry E; clears the mark, so ask only when sending.
  /// Cost: two loads; 1 RMW once per epoch and peer.
  [[nodiscard]] bool take_epoch_mark(std::uint32_t peer) noexcept {
    return has_epoch_mark(peer) && clear_epoch_mark(peer);
  }
  /// What take_epoch_mark() would answer, as far as this thread can see. Cost: two loads.
  [[nodiscard]] bool has_epoch_mark(std::uint32_t peer) const noexcept {
    // loan_fields by hand: this is the hot path.
    const std::uint64_t loan = store_[peer].loan.load(std::memory_order_relaxed);
    const auto stamp = static_cast<std::uint16_t>(loan >> 32);
    const auto now = static_cast<std::uint16_t>(epoch_.load(std::memory_order_relaxed));
    return epochs_since(stamp, now) != 0 || (loan >> 56 & flag_reached_epoch) != 0;
  }

  /// True when the bank is below its low-water mark. Cost: one load.
  [[nodiscard]] bool bank_low() const noexcept {
    return bank_.load(std::memory_order_relaxed) < cfg_.low_water;
  }
  /// True when next_revoke or next_grant may have something. Cost: two loads; ask after a request
  /// with a need, after a WANT, and after a RETURN.
  [[nodiscard]] bool has_intents() const noexcept {
    return demanded() || waiting_count_.load(std::memory_order_relaxed) != 0;
  }

  /// Peers to send a REVOKE to (ask next_grant first), at most num_scavenge and at most out.size();
  /// answers how many were filled in. None unless more than rare_asks() came in this epoch and the
  /// bank is low, or unless a peer waits. Passes over peers as the note says: those with a system
  /// message in flight, with no more than the minimum lent, that answered 0 in this epoch, or that
  /// asked for more lately. Cost: at most max_visits peers that stay on the list, 2 to 3 RMWs each,
  /// and those that leave it. Claim 9 says that a waiting peer is served; claim 12, that the
  /// exchange ends.
  /// how(peer) says what can be done about a peer that the walk comes to. Where it says `take`, the
  /// loan is the minimum afterwards and the bank has the rest: ask next_grant again.
  template <class How>
  [[nodiscard]] std::uint32_t next_revoke(std::span<revoke_intent> out, How&& how) noexcept;
  [[nodiscard]] std::uint32_t next_revoke(std::span<revoke_intent> out) noexcept {
    return next_revoke(out, [](std::uint32_t) { return reach::ask; });
  }

  /// The RETURN that answers our REVOKE came. bad_rank; bad_arguments when none was asked for, or
  /// for more than is lent: nothing has changed then. Cost: 2 RMWs.
  status on_return(std::uint32_t peer, std::uint32_t count, bool end_epoch) noexcept;

  /// The peer is no more: all that it was lent is the bank's again, and it is lent nothing from now
  /// on. What it sent before and is yet to be handled changes nothing. Answers the credits that
  /// came back; 0 when this was known. Cost: 2 RMWs.
  std::uint32_t on_gone(std::uint32_t peer) noexcept;

  /// A WANT came. One that is not urgent is answered at once with what the limits allow, perhaps 0.
  /// An urgent one is answered in full: at once, or by next_grant when the credits have come in.
  [[nodiscard]] want_answer on_want(std::uint32_t peer, std::uint32_t count, bool urgent,
                                    bool end_epoch) noexcept;

  /// The next GRANT that can be sent to a peer that waits, first come first served. False: none.
  /// Call it after a RETURN or WANT, until it answers false. Cost: one load when no peer waits.
  [[nodiscard]] bool next_grant(grant& out) noexcept;

  // ---- figures, for statistics and tests

  [[nodiscard]] const config& settings() const noexcept { return cfg_; }
  [[nodiscard]] std::uint32_t bank() const noexcept {
    return bank_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t epoch() const noexcept {
    return epoch_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t waiting() const noexcept {
    return waiting_count_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t loan(std::uint32_t peer) const noexcept;
  [[nodiscard]] std::uint32_t send_credits(std::uint32_t peer) const noexcept;
  [[nodiscard]] std::uint32_t in_use(std::uint32_t peer) const noexcept;
  [[nodiscard]] peer_figures figures(std::uint32_t peer) const noexcept;
  /// True if nothing that this process has sent to peer still waits for an answer: no credits of
  /// peer's are in use, and neither a WANT nor a REVOKE is in flight to it. With flow control only.
  [[nodiscard]] bool is_idle(std::uint32_t peer) const noexcept;

  /// True if (C-1) holds at this moment, when no thread is inside a call: bank and loans add up to
  /// the total. Builds with assertions look after each call that moves credits, in SEQ and PARSYNC,
  /// and for jobs in which that takes few steps.
  [[nodiscard]] bool adds_up() const noexcept;

  /// Most peers that one walk of next_revoke leaves on the list; the next goes on from there.
  static constexpr std::uint32_t max_visits = 32;

 private:
  /// (C-1), see adds_up(): when the call that holds it returns.
  struct conserved {
    const ledger& of;
    ~conserved() {
      if constexpr (assertions && !concurrent(M))
        if (of.cfg_.ranks <= 64) PENSTOCK_ASSERT(of.adds_up(), ==, true);
    }
  };
  /// (C-3) and the range of counts, of a word that is about to be stored.
  static void check(const send_fields& f) noexcept {
    PENSTOCK_ASSERT(f.in_use, <=, std::uint32_t{f.credits} + f.owed);
    PENSTOCK_ASSERT(std::uint32_t{f.credits} + f.owed, <=, counter_max);
  }
  static void start(state& s, std::uint32_t peer, const config& c) noexcept;
  [[nodiscard]] static send_fields start_send(const config& c) noexcept;
  [[nodiscard]] static loan_fields start_loan(const config& c) noexcept;
  /// The peer's record, which has its start loan. Functions on a message's way, which do not call
  /// it, look for a word that is zero themselves.
  state& begun(std::uint32_t peer) noexcept;
  [[gnu::noinline]] void begin(state& s, std::uint32_t peer) noexcept;
  /// True if a word of the peer's record tells that nobody has touched it.
  [[nodiscard]] bool untouched(std::uint64_t w, std::uint32_t peer) const noexcept {
    return w == 0 && is_peer(peer) && cfg_.credits_per_peer != 0;
  }
  /// The words of a record that may be untouched.
  [[nodiscard]] send_fields send_of(std::uint32_t peer) const noexcept;
  [[nodiscard]] loan_fields loan_of(std::uint32_t peer) const noexcept;
  [[nodiscard]] bool is_peer(std::uint32_t p) const noexcept {
    return p < cfg_.ranks && p != cfg_.me;
  }

  // borrower
  status add_credits(std::uint32_t peer, std::uint32_t returned, std::uint32_t granted) noexcept;
  void fade_send(state& s) noexcept;
  [[nodiscard]] bool mark_want(state& s, want_state now) noexcept;
  template <class Change>
  static past_fields change_past(state& s, Change&& change) noexcept;

  // lender
  /// The number of asks in an epoch that take no credits from other peers: those of one message in
  /// 1024, which asks in its request and by a WANT. Without it an occasional burst would keep
  /// credits moving for ever.
  [[nodiscard]] std::uint32_t rare_asks() const noexcept {
    return std::min(cfg_.epoch_requests / 512, 2U);
  }
  [[nodiscard]] bool demanded() const noexcept {
    return demand_.load(std::memory_order_relaxed) > rare_asks();
  }
  [[nodiscard]] std::uint32_t take_bank(std::uint32_t least, std::uint32_t most) noexcept;
  void fill_bank(std::uint32_t n) noexcept;
  [[nodiscard]] loan_fields synced(loan_fields f, std::uint16_t now) const noexcept;
  [[gnu::noinline]] bool clear_epoch_mark(std::uint32_t peer) noexcept;
  template <class Change>
  bool change_loan(state& s, Change&& change) noexcept;
  void catch_up(state& s) noexcept;
  void fade_lent(state& s, loan_fields before, std::uint16_t epochs) noexcept;
  template <class Change>
  static void change_lent(state& s, Change&& change) noexcept;
  /// In a large job, the loan up to which demand is met while this much is banked: an equal share
  /// of all, and a quarter of what is left. So the peers that ask first leave some for the others.
  [[nodiscard]] std::uint32_t ceiling() const noexcept { return share_and(bank() / 4); }
  /// When the bank is low, a peer that holds more than this is asked for it even while it asks for
  /// more itself: lower, since credits that are lent and not used are what others lack.
  [[nodiscard]] std::uint32_t recall_above() const noexcept { return share_and(bank() / 16) + 1; }
  [[nodiscard]] std::uint32_t share_and(std::uint32_t more) const noexcept {
    if (cfg_.ranks < large_job) return counter_max;
    return std::max(cfg_.total_credits() / (cfg_.ranks - 1) + more, max_cost);
  }
  /// The most that is lent at once in a large job: many peers that ask together then get about the
  /// same.
  [[nodiscard]] std::uint32_t portion() const noexcept {
    if (cfg_.ranks < large_job) return counter_max;
    return std::max<std::uint32_t>(bank() / std::min(cfg_.ranks / 4, 64U), credit_byte::need_max);
  }
  [[nodiscard]] bool is_gone(std::uint32_t p) const noexcept {
    return is_peer(p) && gone(fields<loan_fields>(store_[p].loan.load(std::memory_order_relaxed)));
  }
  [[nodiscard]] static bool gone(const loan_fields& f) noexcept {
    return (f.flags & flag_gone) != 0;
  }
  [[nodiscard]] std::uint32_t allowance(const loan_fields& f, const state& s) const noexcept;
  [[nodiscard]] std::uint32_t lend(std::uint32_t peer, std::uint32_t n) noexcept;
  /// Lends n out of the caller's hand, and ends that the peer waits. False: its loan would become
  /// too large; the bank has them back, and nothing else has changed.
  [[nodiscard]] bool lend_in_full(std::uint32_t peer, std::uint32_t n) noexcept;
  /// True if a loan may grow by n.
  [[nodiscard]] bool fits(const loan_fields& f, std::uint32_t n) const noexcept {
    return f.loan + n <= cfg_.max_per_peer;
  }
  [[nodiscard]] std::uint32_t wish_of(std::uint32_t peer) const noexcept {
    return fields<lent_fields>(store_[peer].lent.load(std::memory_order_relaxed)).wish;
  }
  [[nodiscard]] bool ask_first(revoke_intent& out) noexcept;
  [[nodiscard]] std::uint32_t pop_listed() noexcept;
  enum class visit : std::uint8_t { ask, keep, drop };
  void pass_over(std::uint32_t peer, bool lower) noexcept;
  template <class How>
  [[nodiscard]] std::uint32_t walk(bool urgent, std::span<revoke_intent> out, std::uint32_t filled,
                                   How& how) noexcept;
  [[nodiscard]] visit look_at(std::uint32_t peer, bool urgent, revoke_intent& out) noexcept;

  auto scavenge_links() noexcept {
    return [this](std::uint32_t p) -> auto& { return store_[p].scavenge_link; };
  }
  auto waiting_links() noexcept {
    return [this](std::uint32_t p) -> auto& { return store_[p].waiting_link; };
  }

  // Read by all threads, never written.
  config cfg_;
  // Changed once per request received: a line of its own.
  alignas(cache_line) word<M, std::int64_t, Atomic> epoch_left_{cfg_.epoch_requests};
  // Changed on demand or once per epoch.
  alignas(cache_line) word<M, std::uint32_t, Atomic> bank_;
  word<M, std::uint32_t, Atomic> epoch_{0};
  word<M, std::uint32_t, Atomic> demand_{0};         // asks in this epoch that left the bank low
  word<M, std::uint32_t, Atomic> waiting_count_{0};  // peers on the waiting list
  word<M, std::uint32_t, Atomic> returns_{0};        // RETURNs handled, modulo 2^32
  // 1: a request stalled by a small loan, and early_want has not asked since. Only a guess, so its
  // order with the rest does not matter and is not explored (test/credit/interleave_test.cpp).
  std::atomic<std::uint32_t> small_stall_{0};
  word<M, std::uint32_t, Atomic> fresh_;  // peers from here on (me + 1 + k) were not yet looked at
  peer_list<M, Atomic> lent_most_;        // lent more than the minimum, after the fresh ones
  peer_list<M, Atomic> wait_list_;
  Store<state> store_;
};

}  // namespace penstock::credit

#include "credit/ledger_borrow_inl.hpp"
#include "credit/ledger_lend_inl.hpp"
#include "credit/ledger_revoke_inl.hpp"
