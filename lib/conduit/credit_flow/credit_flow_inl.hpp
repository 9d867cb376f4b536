// The hot bodies of credit_flow: credits on messages. Only the paths and credit_flow include it.
#pragma once

#include <algorithm>
#include <utility>

#include "lib/conduit/credit_flow/credit_flow.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// The credit byte of a request that costs `cost` credits.
inline std::uint8_t credit_flow::request_credit_byte(inside<end_of::request_out>, peer& p,
                                                     std::uint32_t cost) noexcept {
  const auto count = static_cast<std::uint8_t>(cost < 15 ? cost : 15);
  if (p.credits.say.load(std::memory_order_relaxed) == 0) [[likely]]
    return count;
  return static_cast<std::uint8_t>(p.credits.say.exchange(0, std::memory_order_relaxed) | count);
}

/// Called when a request came: grants the credits that it asks for. True: its sender waits for
/// credits, so it is answered without delay.
inline bool credit_flow::note_request(peer& p, token_state& t) noexcept {
  return (t.header.credit & 0xf0) == 0 ? false : grant_more(p, t);
}

/// Called when a request that cost `cost` came from p, which `unreturned` credits are still to be
/// given back to: p cannot have spent more than it was lent. Each peer has credits for a Short at
/// any time.
inline void credit_flow::check_claim(const peer& p, std::uint32_t cost,
                                     std::uint32_t unreturned) noexcept {
  if (cost > credit::min_credits && !p.home->ledger->may_have_spent(p.rank, unreturned + cost))
      [[unlikely]]
    core_.peer_failed(p, core::overdrawn);
}

/// The header of a reply that gives `returned` credits back and tells no other news of credits.
inline wire::header returning(std::uint32_t returned) noexcept {
  wire::header h;
  h.chunk = static_cast<std::uint16_t>(returned);
  h.credit = static_cast<std::uint8_t>(std::min<std::uint32_t>(returned, 15));
  return h;
}

/// The header of a reply that gives `returned` credits back, and tells of an epoch's end and of a
/// grant where there is one.
inline wire::header credit_flow::reply_header(peer& p, const token_state& t,
                                              std::uint32_t returned) noexcept {
  wire::header h = returning(returned);
  const bool mark = p.home->ledger->take_epoch_mark(p.rank);
  if (mark || t.grant != 0) [[unlikely]]
    h.credit |= credit::credit_byte{mark, t.grant, 0}.encode();
  return h;
}

/// Hands the credits that replies have given back to the ledger.
inline void credit_flow::tell_returned(inside<end_of::reply_in> in, peer& p) noexcept {
  std::uint32_t& returned = p.credits.returned[in];
  if (returned == 0) return;
  if (p.home->ledger->on_credits(p.rank, std::exchange(returned, 0), 0, false) != status::ok)
      [[unlikely]]
    core_.peer_failed(p, core::malformed);
}

/// Called when a reply has given n credits back. The ledger is told of lease_messages credits at a
/// time, and at the latest when p's next lease is taken.
inline void credit_flow::note_returned(inside<end_of::reply_in> in, peer& p,
                                       std::uint32_t n) noexcept {
  if ((p.credits.returned[in] += n) >= credit::lease_messages) [[unlikely]]
    tell_returned(in, p);
}

/// note_returned() from outside reply_in. False: another thread is inside, and no credit was noted.
inline bool credit_flow::try_note_returned(peer& p, std::uint32_t n, std::uint32_t tag) noexcept {
  const auto in = p.reply_in.try_enter(tag);
  if (!in) [[unlikely]]
    return false;
  note_returned(*in, p, n);
  p.reply_in.leave(tag);
  return true;
}

/// Called when a message came from p that tells more of credits than the number returned, or that
/// is a message of credits alone.
inline void credit_flow::absorb_credits(peer& p, const wire::header& h, std::uint32_t returned,
                                        std::uint32_t granted, std::uint32_t tag,
                                        reply_right at) noexcept {
  settle_returned(p, tag, at);  // before an epoch ends
  const bool epoch = credit::credit_byte::decode(h.credit).end_epoch;
  if (p.home->ledger->on_credits(p.rank, returned, granted, epoch) != status::ok) [[unlikely]]
    core_.peer_failed(p, core::malformed);
}
/// The same for a reply, whose field XXX says what was granted.
inline void credit_flow::absorb_reply(peer& p, const wire::header& h, std::uint32_t tag,
                                      reply_right at) noexcept {
  absorb_credits(p, h, h.chunk, credit::credit_byte::decode(h.credit).need, tag, at);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
