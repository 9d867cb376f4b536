// How credits move between the places of credit_places.hpp. credit/ledger.hpp has the rules, and
// credit/DEADLOCK.md argues why they suffice.
#include "lib/conduit/credit_flow/credit_flow.hpp"
#include "lib/base/assert.hpp"
#include "lib/base/probes.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/thread_index.hpp"
#include "lib/conduit/credit_flow/credit_flow_inl.hpp"
#include "lib/conduit/peer/core_inl.hpp"
#include "nic/shm/ring.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

static constexpr std::uint8_t epoch_bit = 0x80;  // E of the credit byte

// (I2) as one thread sees it after each move where assertions are on: what is leased, and what the
// ring permits, is in use. A peer that gave back too many breaks it.
void credit_flow::places_add_up(inside<end_of::request_out> in, const peer& p) const noexcept {
  if (!assertions || !core_.credit_config().flow_control) return;
  std::uint64_t unspent = p.credits.lease[in];
  // A3 ready  acquire p.stream  <- R3 (ring_path/send.cpp)
  if (const auto* const tx = p.stream.load(std::memory_order_acquire)) unspent += tx->permitted();
  if (const std::uint32_t used = p.home->ledger->in_use(p.rank); unspent > used)
    fatal(1, "credits of rank %u do not add up: %llu are not spent, and %u are in use", p.rank,
          static_cast<unsigned long long>(unspent), used);
}

// Fills p's lease so that it covers one message like m, of `cost` credits. It takes credits for
// further messages, too, so that a stream pays one RMW in lease_messages messages, but not more
// than `most` unless the one message needs them.
status credit_flow::take_credits(inside<end_of::request_out> in, peer& p, const outgoing& m,
                                 std::uint32_t cost, std::uint32_t most) noexcept {
  note_lowered(in, p);
  PENSTOCK_ASSERT(cost, >, p.credits.lease[in]);  // else nothing is missing
  const std::uint32_t missing = cost - p.credits.lease[in];
  const std::uint32_t wanted =
      std::min(missing + (credit::lease_messages - 1) * cost, std::max(missing, most));
  const std::uint32_t left = m.is_offerable() ? p.home->ledger->left_to_offers(p.rank, cost) : 0;
  const std::uint32_t got = p.home->ledger->take_up_to(p.rank, missing, wanted, left);
  if (got == 0) [[unlikely]]
    return status::no_credit;
  PENSTOCK_ASSERT(got, >=, missing);
  p.credits.lease[in] += got;
  p.marks[in].took(got);
  places_add_up(in, p);
  if (p.home->ledger->take_epoch_mark(p.rank)) [[unlikely]]
    p.credits.say.fetch_or(epoch_bit, std::memory_order_relaxed);
  return status::ok;
}

// Hands the credits that replies have given back to the ledger, unless another thread is inside
// reply_in.
void credit_flow::collect_returned(peer& p, std::uint32_t tag) noexcept {
  const auto in = p.reply_in.try_enter(tag);
  if (!in) return;
  tell_returned(*in, p);
  p.reply_in.leave(tag);
}

// The same for a caller that handles a message from p, and may be inside reply_in.
void credit_flow::settle_returned(peer& p, std::uint32_t tag, reply_right at) noexcept {
  at ? tell_returned(*at, p) : collect_returned(p, tag);
}

// Tells the ledger once that p lends the minimum and not the start loan, before the first
// credit is taken, and before an answer to a REVOKE.
inline void credit_flow::note_lowered(inside<end_of::request_out>, peer& p) noexcept {
  // relaxed, both: A2 has seen it with the lane, and request_out orders the two threads
  if (!p.lowered.load(std::memory_order_relaxed)) [[likely]]
    return;
  p.lowered.store(false, std::memory_order_relaxed);
  p.home->ledger->on_lowered(p.rank);
}

// Hands what is leased and not spent back to the ledger, unless another thread is inside
// request_out.
void credit_flow::give_back_lease(peer& p) noexcept {
  const std::uint32_t tag = thread_tag();
  const auto in = p.request_out.try_enter(tag);
  if (!in) return;
  note_lowered(*in, p);
  std::uint32_t& lease = p.credits.lease[*in];
  // A3 ready  acquire p.stream  <- R3 (ring_path/send.cpp)
  if (auto* const tx = p.stream.load(std::memory_order_acquire)) lease += tx->recall();
  places_add_up(*in, p);
  if (const std::uint32_t left = std::exchange(lease, 0); left != 0) {
    p.marks[*in].gave_back(left);
    p.home->ledger->give_back(p.rank, left);
  }
  places_add_up(*in, p);
  p.request_out.leave(tag);
  if (p.request_out.asked()) p.request_out.heard();  // a poll sends what was handed over
}

// True if p lacks n credits even with those that have come back. Who waits, or chooses another way
// for want of credits, asks this and not the ledger: no lease is taken meanwhile, so nobody else
// tells the ledger of those.
bool credit_flow::lacks(peer& p, std::uint32_t n) noexcept {
  const auto& ledger = *p.home->ledger;
  if (!ledger.lacks(p.rank, n)) return false;
  collect_returned(p, my_tag());
  return ledger.lacks(p.rank, n);
}

// True if one credit for p is at hand, or leased, or has come back.
bool credit_flow::has_credit(peer& p) noexcept {
  if (!lacks(p, 1)) return true;
  give_back_lease(p);
  return !p.home->ledger->lacks(p.rank, 1);
}

// Called when the loan to p has grown by `lent`, or p has given back `revoked` credits of it.
void credit_flow::loan_changed(peer& p, std::uint32_t lent, std::uint32_t revoked) noexcept {
  p.credits.return_batch.store(core_.return_batch(p), std::memory_order_relaxed);
  count_shared(p.counts.credits_lent, lent);
  count_shared(p.counts.credits_revoked, revoked);
  if (lent != 0) PENSTOCK_PROBE(loan, p.rank, lent);
  if (revoked != 0) PENSTOCK_PROBE(revoke, p.rank, revoked);
  if (lent != 0) credits_lent_.fetch_add(lent, std::memory_order_relaxed);
  if (revoked != 0) credits_revoked_.fetch_add(revoked, std::memory_order_relaxed);
}

// Called when rank r has gone: each domain lends to others from now on what it had lent to r.
// Requests of r that wait to be taken hold their buffers a moment longer, as r's replies do.
void credit_flow::loans_come_back(std::uint32_t r) noexcept {
  for (std::uint32_t i = 0; i < core_.domain_count(); ++i) {
    domain& d = core_.domains()[i];
    // Where there is no room for it, the loan to a rank that was never met stays unused.
    if (!d.met.may_return(r, core_.room_for_loan(d, r))) continue;
    if (const std::uint32_t n = d.ledger->on_gone(r); n != 0)
      loan_changed(core_.begun(d.peers[r]), 0, n);
  }
  say_intents();
}

// Called when a request to p waits for credits, or was offered for want of them: tells the ledger,
// and asks p for as many as the ledger names (claim 8).
void credit_flow::stall(peer& p, std::uint32_t cost, credit::stall& s, lack how) noexcept {
  if (!std::exchange(s.noted, true)) {
    if (how != lack::offered) p.credit_stalls.fetch_add(1, std::memory_order_relaxed);
    const std::uint32_t missing =
        std::min<std::uint32_t>(p.home->ledger->note_stall(p.rank, cost), 7);
    p.credits.say.fetch_or(static_cast<std::uint8_t>(missing << 4), std::memory_order_relaxed);
  }
  const bool blocked = how == lack::blocked;
  // Who waits has told the ledger of all that has come back: else it may wait for that.
  if (!concurrent(build_mode) && how != lack::offered)
    PENSTOCK_ASSERT(p.credits.returned[p.reply_in.inside_owner(my_tag())], ==, 0u);
  PENSTOCK_ASSERT(cost, <=, credit::max_cost);
  if (const credit::want w = p.home->ledger->next_want(p.rank, cost, s, blocked); w.count != 0)
    send_system(p, wire::system_op::want, w.count, p.home->ledger->take_epoch_mark(p.rank),
                w.urgent);
}

// Called when credits were taken for a message to p: asks for more if the ledger expects that they
// will soon be short. The caller is inside no end.
void credit_flow::ask_early(peer& p, std::uint32_t cost) noexcept {
  if (const std::uint32_t n = p.home->ledger->early_want(p.rank, cost); n != 0) [[unlikely]]
    send_system(p, wire::system_op::want, n, p.home->ledger->take_epoch_mark(p.rank), false);
}

// Called when the client will soon have `wanted` credits in flight to p: asks for what p lacks,
// now, or when the WANT that is in flight has been answered, since only one is at a time. If two
// threads call it just then, the hint may be lost, which costs a round trip later.
void credit_flow::expect_credits(peer& p, std::uint32_t wanted) noexcept {
  if (p.lowered.load(std::memory_order_relaxed)) give_back_lease(p);
  p.expected.store(static_cast<std::uint16_t>(wanted), std::memory_order_relaxed);
  const std::uint32_t n = p.home->ledger->hint(p.rank, wanted);
  if (n != 0 || p.home->ledger->send_credits(p.rank) >= wanted)
    p.expected.store(0, std::memory_order_relaxed);
  if (n != 0)
    send_system(p, wire::system_op::want, n, p.home->ledger->take_epoch_mark(p.rank), false);
}

// Called when a request came that asks for credits or tells of an epoch's end. True: its sender
// waits for credits.
bool credit_flow::grant_more(peer& p, token_state& t) noexcept {
  const auto byte = credit::credit_byte::decode(t.header.credit);
  t.grant = static_cast<std::uint8_t>(
      std::min<std::uint32_t>(p.home->ledger->on_need(p.rank, byte.need, byte.end_epoch), 7));
  if (byte.need == 0) return false;
  loan_changed(p, t.grant, 0);
  say_intents();
  return true;
}

// The header of a message that gives p all that it is owed, and announces all that it was lent and
// not told of. A loan is 65,535 credits at most, so either number fits; without flow control nobody
// counts them. The caller must send it, since the credits are in the message from now on.
wire::header credit_flow::credits_header(inside<end_of::request_in> in, peer& p) noexcept {
  const std::uint32_t due = p.credits.due(), grant = std::exchange(p.credits.grant[in], 0);
  if (p.home->ledger->settings().flow_control) {
    PENSTOCK_ASSERT(due, <=, credit::counter_max);
    PENSTOCK_ASSERT(grant, <=, credit::counter_max);
  }
  wire::header h;
  h.kind_args = wire::kind_args(wire::kind::credits, 0);
  h.length = static_cast<std::uint16_t>(due);
  h.chunk = static_cast<std::uint16_t>(grant);
  h.credit = credit::credit_byte{p.home->ledger->take_epoch_mark(p.rank), 0, 0}.encode();
  p.credits.settled(in);
  return h;
}

// The credits that p is owed found no room, or no way out; a later poll sends them.
void credit_flow::put_credits_off(peer& p) noexcept {
  // R13 put off  release credits_put_off  -> A13: what was freed, and is yet to be told
  if (!p.credits_put_off.exchange(true, std::memory_order_release))
    core_.deferred().fetch_add(1, std::memory_order_relaxed);
}

// Whether the caller is to send what was put off.
bool credit_flow::take_put_off(inside<end_of::request_in>, peer& p) noexcept {
  // A13 put off  acquire credits_put_off  <- R13
  if (!p.credits_put_off.exchange(false, std::memory_order_acquire)) return false;
  [[maybe_unused]] const auto before = core_.deferred().fetch_sub(1, std::memory_order_relaxed);
  PENSTOCK_ASSERT(before, !=, 0u);
  return true;
}

bool credit_flow::system_message(peer& p, const wire::header& h, reply_right at) noexcept {
  const bool epoch = credit::credit_byte::decode(h.credit).end_epoch;
  if (h.kind() == wire::kind::credits) {
    absorb_credits(p, h, h.length, h.chunk, my_tag(), at);
    return true;
  }
  if (h.kind() != wire::kind::system) return false;
  const bool urgent = (h.flags & wire::flag_urgent) != 0;
  switch (static_cast<wire::system_op>(h.handler)) {
    case wire::system_op::revoke: {
      // Credits that have come back, or are leased and not spent, can be given up, too.
      settle_returned(p, my_tag(), at);
      give_back_lease(p);
      // Another thread, which is just about to send, is still to note what p lends: nothing now.
      const std::uint32_t most = p.lowered.load(std::memory_order_relaxed) ? 0 : h.length;
      const auto a = p.home->ledger->on_revoke(p.rank, epoch, urgent, most);
      send_system(p, wire::system_op::give_back, a.count, a.end_epoch, false);
      return true;
    }
    case wire::system_op::give_back:
      if (p.home->ledger->on_return(p.rank, h.length, epoch) != status::ok) return false;
      loan_changed(p, 0, h.length);
      say_intents();
      return true;
    case wire::system_op::want: {
      const auto a = p.home->ledger->on_want(p.rank, h.length, urgent, epoch);
      if (a.send) {
        loan_changed(p, a.message.count, 0);
        send_system(p, wire::system_op::grant, a.message.count, a.message.end_epoch, false);
      }
      say_intents();
      return true;
    }
    case wire::system_op::grant:
      if (p.home->ledger->on_grant(p.rank, h.length, epoch) != status::ok) return false;
      if (const std::uint16_t wanted = p.expected.exchange(0, std::memory_order_relaxed))
        expect_credits(p, wanted);
      return true;
  }
  return false;
}

// Sends what the ledgers want sent: REVOKEs while the bank is low, and GRANTs to peers that wait.
void credit_flow::follow_intents() noexcept {
  if (!core_.intents().take_down()) return;
  for (std::uint32_t i = 0; i < core_.domain_count(); ++i) {
    domain& d = core_.domains()[i];
    if (!d.ledger->has_intents()) continue;
    send_grants(d);
    std::uint32_t lowered = 0;
    credit::revoke_intent asked[16];
    const std::uint32_t n = d.ledger->next_revoke(asked, [&](std::uint32_t r) {
      const auto how = d.met.reach(r, core_.room_for_loan(d, r));
      lowered += how == credit::reach::take ? 1 : 0;
      return how;
    });
    for (std::uint32_t k = 0; k < n; ++k)
      send_system(core_.begun(d.peers[asked[k].peer]), wire::system_op::revoke, asked[k].at_most,
                  asked[k].end_epoch, asked[k].urgent);
    if (lowered == 0) continue;
    const std::uint32_t each = core_.credit_config().credits_per_peer - credit::min_credits;
    credits_revoked_.fetch_add(std::uint64_t{lowered} * each, std::memory_order_relaxed);
    send_grants(d);
  }
}

void credit_flow::send_grants(domain& d) noexcept {
  credit::grant g;
  while (d.ledger->next_grant(g)) {
    peer& p = core_.begun(d.peers[g.peer]);
    loan_changed(p, g.count, 0);
    send_system(p, wire::system_op::grant, g.count, g.end_epoch, false);
  }
}

void credit_flow::say_intents() noexcept { core_.intents().raise(); }

bool credit_flow::say(peer& p, const wire::header& h) noexcept {
  return core_.up().say(core_.self(), p, h);
}

void credit_flow::send_system(peer& p, wire::system_op op, std::uint32_t count, bool epoch,
                              bool urgent) noexcept {
  PENSTOCK_ASSERT(count, <=, credit::counter_max);
  wire::header h;
  h.kind_args = wire::kind_args(wire::kind::system, 0);
  h.handler = static_cast<std::uint8_t>(op);
  h.length = static_cast<std::uint16_t>(count);
  h.flags = urgent ? wire::flag_urgent : std::uint8_t{0};
  h.credit = credit::credit_byte{epoch, 0, 0}.encode();
  if (say(p, h)) return;
  // At most one of each kind is under way to a peer.
  PENSTOCK_ASSERT(p.deferred[h.handler].load(std::memory_order_relaxed), ==, 0u);
  // R1 defer  release deferred  -> A1 below
  p.deferred[h.handler].store(wire::word_of(h), std::memory_order_release);
  core_.deferred().fetch_add(1, std::memory_order_relaxed);
}

// Tries to send the system messages that found no room, or no connection.
void credit_flow::send_deferred() noexcept {
  for (peer& p : core_.all_begun())
    for (auto& d : p.deferred) {
      // A1 take  acquire deferred  <- R1; the thread that takes it sends it or puts it back
      const std::uint64_t w = d.exchange(0, std::memory_order_acquire);
      if (w == 0) continue;
      if (say(p, wire::header_of(w)))
        core_.deferred().fetch_sub(1, std::memory_order_relaxed);
      else
        d.store(w, std::memory_order_release);  // R1 again
    }
}

}  // namespace penstock::conduit::PENSTOCK_ABI
