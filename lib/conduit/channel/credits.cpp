// The engine's side of the credit system: what credit/ decides is put on messages and taken off
// them here. credit/ledger.hpp holds the rules; credit/DEADLOCK.md the argument.
//
// System messages travel on the reply lanes, cost nothing, and are at most one of a kind to a peer
// at a time. When a queue has no room for one it is kept in its peer (deferred) and sent by a later
// poll.
#include <algorithm>
#include <fstream>
#include <utility>

#include "lib/base/thread_index.hpp"
#include "lib/conduit/engine_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr std::uint8_t epoch_bit = 0x80;  // E of the credit byte

}  // namespace

// Takes cost credits for p into its lease, most at the utmost but for the first message; inside
// request_out. A stream takes several at a time, so that it pays one RMW in sixteen messages.
status engine::take_credits(peer& p, std::uint32_t cost, std::uint32_t most) noexcept {
  const std::uint32_t missing = cost - p.lease;
  const std::uint32_t wanted =
      std::min(missing + (credit::lease_messages - 1) * cost, std::max(missing, most));
  const std::uint32_t got = p.home->ledger->take_up_to(p.rank, missing, wanted);
  if (got == 0) [[unlikely]]
    return status::no_credit;
  p.lease += got;
  if (p.home->ledger->take_epoch_mark(p.rank)) [[unlikely]]
    p.say.fetch_or(epoch_bit, std::memory_order_relaxed);
  return status::ok;
}

// What replies have given back is the ledger's again, unless somebody is just taking replies.
void engine::collect_returned(peer& p, std::uint32_t tag) noexcept {
  if (!p.reply_in.try_enter(tag)) return;
  tell_returned(p);
  p.reply_in.leave(tag);
}

// The same where a message from p is handled, which on the direct path is inside reply_in.
void engine::settle_returned(peer& p, std::uint32_t tag) noexcept {
  if (direct_)
    tell_returned(p);
  else
    collect_returned(p, tag);
}

// Credits of p may have come back and lie in its queue: taking them out is no waiting.
void engine::look_for_credits(peer& p) noexcept {
  const std::uint32_t tag = my_tag();
  if (!direct_)
    (void)poll_replies_verbs(*p.home, my_poller(tag, *p.home), tag);
  else if ((p.ready.load(std::memory_order_acquire) >> lane_reply & 1) != 0)
    (void)poll_replies_direct(p, tag);
}

// Unless somebody is just sending.
void engine::give_back_lease(peer& p) noexcept {
  const std::uint32_t tag = thread_tag();
  if (!p.request_out.try_enter(tag)) return;
  if (direct_ && (p.ready.load(std::memory_order_acquire) >> lane_request & 1) != 0)
    p.lease += p.request_tx->recall();
  if (p.lease != 0) p.home->ledger->give_back(p.rank, std::exchange(p.lease, 0));
  p.request_out.leave(tag);
}

status engine::expect(rank_id r, std::uint32_t messages, std::size_t bytes) noexcept {
  if (running != nullptr) return status::in_handler;
  if (r >= size_) return status::bad_rank;
  if (!started_) return over();
  if (bytes > max_medium) return status::too_long;
  if (r == rank_) return status::ok;
  peer& p = channel(r);
  const std::uint32_t each = cost_of({.kind = wire::kind::medium, .bytes = bytes});
  const auto ready = p.ready.load(std::memory_order_acquire);
  for (const unsigned l : {lane_request, lane_reply})
    if ((ready >> l & 1) == 0) (void)connect(p, l);
  const std::uint64_t wanted = std::min<std::uint64_t>(std::uint64_t{messages} * each, 65535);
  if (const std::uint32_t n = p.home->ledger->hint(r, static_cast<std::uint32_t>(wanted)); n != 0)
    send_system(p, wire::system_op::want, n, p.home->ledger->take_epoch_mark(r), false);
  return status::ok;
}

// The loan to p has grown, or what it gave back has come.
void engine::loan_changed(peer& p, std::uint32_t lent, std::uint32_t revoked) noexcept {
  const std::uint32_t batch = credit::return_batch(p.home->ledger->loan(p.rank));
  p.return_batch.store(static_cast<std::uint16_t>(batch), std::memory_order_relaxed);
  if (lent != 0) credits_lent_.fetch_add(lent, std::memory_order_relaxed);
  if (revoked != 0) credits_revoked_.fetch_add(revoked, std::memory_order_relaxed);
}

// A request to p waits for credits: tells the ledger, and asks for what it names.
void engine::stall(peer& p, std::uint32_t cost, bool first) noexcept {
  if (first) {
    p.credit_stalls.fetch_add(1, std::memory_order_relaxed);
    const std::uint32_t missing =
        std::min<std::uint32_t>(p.home->ledger->note_stall(p.rank, cost), 7);
    p.say.fetch_or(static_cast<std::uint8_t>(missing << 4), std::memory_order_relaxed);
  }
  if (const credit::want w = p.home->ledger->next_want(p.rank, cost, first); w.count != 0)
    send_system(p, wire::system_op::want, w.count, p.home->ledger->take_epoch_mark(p.rank),
                w.urgent);
}

// A request came that asks for credits or tells of an epoch. True: its sender waits.
bool engine::grant_more(peer& p, token_state& t) noexcept {
  const auto byte = credit::credit_byte::decode(t.header.credit);
  t.grant = static_cast<std::uint8_t>(
      std::min<std::uint32_t>(p.home->ledger->on_need(p.rank, byte.need, byte.end_epoch), 7));
  if (byte.need == 0) return false;
  loan_changed(p, t.grant, 0);
  say_intents();
  return true;
}

// The header of a message that gives p all it is owed; inside request_in, and to be sent.
wire::header engine::credits_header(peer& p) noexcept {
  const std::uint32_t due = std::min<std::uint32_t>(p.owed.load(std::memory_order_relaxed), 65535);
  const std::uint32_t grant = std::min<std::uint32_t>(p.grant, 7);
  wire::header h;
  h.kind_args = wire::kind_args(wire::kind::credits, 0);
  h.length = static_cast<std::uint16_t>(due);
  h.credit = credit::credit_byte{p.home->ledger->take_epoch_mark(p.rank),
                                 static_cast<std::uint8_t>(grant), 0}
                 .encode();
  p.owed.store(p.owed.load(std::memory_order_relaxed) - due, std::memory_order_relaxed);
  p.grant -= grant;
  return h;
}

bool engine::system_message(peer& p, const wire::header& h) noexcept {
  const bool epoch = credit::credit_byte::decode(h.credit).end_epoch;
  if (h.kind() == wire::kind::credits) {
    absorb_credits(p, h, h.length, my_tag());
    return true;
  }
  if (h.kind() != wire::kind::system) return false;
  const bool urgent = (h.flags & wire::flag_urgent) != 0;
  switch (static_cast<wire::system_op>(h.handler)) {
    case wire::system_op::revoke: {
      // What has come back, and what a stream has leased and not spent, can be given up too.
      settle_returned(p, my_tag());
      give_back_lease(p);
      const auto a = p.home->ledger->on_revoke(p.rank, epoch, urgent, h.length);
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
      return p.home->ledger->on_grant(p.rank, h.length, epoch) == status::ok;
  }
  return false;
}

// Sends what the ledgers want sent: REVOKEs while the bank is low, GRANTs to those who wait.
void engine::follow_intents() noexcept {
  // A4 intents  acquire intents_  <- R4: what the ledger was told is visible
  if (!intents_.exchange(false, std::memory_order_acquire)) return;
  for (std::uint32_t i = 0; i < domain_count_; ++i) {
    domain& d = domains_[i];
    if (!d.ledger->has_intents()) continue;
    credit::grant g;
    while (d.ledger->next_grant(g)) {
      loan_changed(d.peers[g.peer], g.count, 0);
      send_system(d.peers[g.peer], wire::system_op::grant, g.count, g.end_epoch, false);
    }
    credit::revoke_intent asked[16];
    const std::uint32_t n = d.ledger->next_revoke(asked);
    for (std::uint32_t k = 0; k < n; ++k)
      send_system(d.peers[asked[k].peer], wire::system_op::revoke, asked[k].at_most,
                  asked[k].end_epoch, asked[k].urgent);
  }
}

void engine::send_system(peer& p, wire::system_op op, std::uint32_t count, bool epoch,
                         bool urgent) noexcept {
  wire::header h;
  h.kind_args = wire::kind_args(wire::kind::system, 0);
  h.handler = static_cast<std::uint8_t>(op);
  h.length = static_cast<std::uint16_t>(count);
  h.flags = urgent ? wire::flag_urgent : std::uint8_t{0};
  h.credit = credit::credit_byte{epoch, 0, 0}.encode();
  if (push_system(p, h)) return;
  // R1 defer  release deferred  -> A1 below
  p.deferred[h.handler].store(wire::word_of(h), std::memory_order_release);
  deferred_.fetch_add(1, std::memory_order_relaxed);
}

// Tries again what found no room, or no connection.
void engine::send_deferred() noexcept {
  for (peer& p : peers_)
    for (auto& d : p.deferred) {
      // A1 take  acquire deferred  <- R1; whoever takes it sends it or puts it back
      const std::uint64_t w = d.exchange(0, std::memory_order_acquire);
      if (w == 0) continue;
      if (push_system(p, wire::header_of(w)))
        deferred_.fetch_sub(1, std::memory_order_relaxed);
      else
        d.store(w, std::memory_order_release);
    }
}

// At the end. Further domains and endpoints of a process number theirs.
void engine::write_credit_statistics() noexcept {
  if (settings_.credit_stats == "0") return;
  static std::atomic<unsigned> written{0};
  for (peer& p : peers_) {
    collect_returned(p, thread_tag());
    give_back_lease(p);
  }
  for (std::uint32_t i = 0; i < domain_count_; ++i) {
    std::string path = settings_.credit_stats == "1" ? "penstock_credits" : settings_.credit_stats;
    path.append(".").append(std::to_string(rank_));
    if (const unsigned n = written.fetch_add(1, std::memory_order_relaxed); n != 0)
      path.append(".").append(std::to_string(n + 1));
    std::ofstream file(path);
    file << credit::snapshot(*domains_[i].ledger);
    if (!file.flush())
      log(log_level::warning, "PENSTOCK_CREDIT_STATS: cannot write %s", path.c_str());
  }
}

// Puts a system message on the reply lane to p. False: not now.
bool engine::push_system(peer& p, const wire::header& h) noexcept {
  if ((p.ready.load(std::memory_order_acquire) >> lane_reply & 1) == 0) {
    (void)connect(p, lane_reply);
    return false;
  }
  const std::uint32_t tag = thread_tag();
  queue_owner& lane = direct_ ? p.request_in : p.reply_out;
  if (!lane.try_enter(tag)) return false;
  const bool done = direct_ ? push_word_direct(p, h) : push_word_verbs(p, h);
  lane.leave(tag);
  if (direct_) wake(p);
  return done;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
