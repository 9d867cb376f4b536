// Mediums by rendezvous at the sender, for both paths: the payload is copied to a buffer
// (channel/large_buffers.hpp), and a message of one credit says where it stands. How the target
// reads the payload depends on the path: ring_path/large.cpp, verbs_path/fetch.cpp. Large Mediums
// always go this way, others where credits are short or their lane is being made.
#include <cstring>
#include <utility>

#include "lib/base/backoff.hpp"
#include "lib/base/cross_process.hpp"
#include "lib/base/log.hpp"
#include "lib/conduit/collective/departure.hpp"
#include "lib/conduit/large.hpp"
#include "lib/conduit/message/draft.hpp"
#include "lib/conduit/one_sided/rma.hpp"
#include "lib/conduit/report/waiting.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

// Waits for a buffer first, so that the payload is copied once, whatever else the request waits
// for. A request that waits for credits or room holds its buffer meanwhile; that ends no wait of
// others for good, since what it waits for needs no buffer (claim 22).
status large_mediums::request(engine& e, rank_id to, outgoing m) noexcept {
  if (running != nullptr) return status::in_handler;
  if (to >= e.core_.size()) return status::bad_rank;
  if (!e.core_.has_started()) return engine::over();
  if (const status s = e.core_.handlers().check(m); s != status::ok) return s;
  m.buffer = e.core_.large().take(large_buffers::use::request, to);
  if (m.buffer == large_buffers::none) {
    waiting wait(e.core_.begun(e.core_.channel(to, my_tag())).counts, to, m.named_handler(),
                 e.reporter_.get(), e.core_.drawn());
    for (unsigned empty = 0; m.buffer == large_buffers::none;
         m.buffer = e.core_.large().take(large_buffers::use::request, to)) {
      wait.step(status::no_chunk);
      if (e.departure_->news() && e.departure_->is_gone(to)) return status::peer_dead;
      if (const status w = e.limited_step(empty, false); w != status::ok) return w;
    }
  }
  std::memcpy(e.core_.large().at(m.buffer), m.payload, m.bytes);
  m.payload = e.core_.large().at(m.buffer);
  const status s = e.request(to, m);
  if (s != status::ok) e.core_.large().give(m.buffer);
  return s;
}

void large_mediums::no_memory(const outgoing& m) noexcept {
  fatal(1, "a Medium of %zu bytes needs registered memory, and there is none", m.bytes);
}

// Makes m, whose payload stands in its buffer, the message that tells p of it; where: what it says.
// False: the buffer cannot be registered.
bool large_mediums::describe(engine& e, const peer& p, outgoing& m,
                             wire::large_block& where) noexcept {
  if (!e.core_.large().name(m.buffer, p.maps(), where)) [[unlikely]]
    return false;
  m.kind = wire::kind::large;
  m.where = &where;
  tsan_tell_peer(e.core_.large().at(m.buffer));  // -> is_done (large_buffers.cpp)
  return true;
}

// Sends m, which the handlers' table has been asked about. If the payload was not in a buffer
// before, a failure gives the buffer back.
status large_mediums::try_request(engine& e, peer& p, const outgoing& m) noexcept {
  return send(e, p, m, large_buffers::use::request);
}

// True if one credit for p is at hand, or leased, or has come back and is not yet the ledger's. No
// lease is taken meanwhile, so nobody else tells the ledger of those.
bool large_mediums::has_credit(engine& e, peer& p) noexcept {
  const auto& ledger = *p.home->ledger;
  if (ledger.lacks(p.rank, 1)) e.credits_.collect_returned(p, my_tag());
  if (ledger.lacks(p.rank, 1)) e.credits_.give_back_lease(p);
  return !ledger.lacks(p.rank, 1);
}

// Offers m while the lane that it would take is being connected: the lane of Shorts is there.
status large_mediums::offer_meanwhile(engine& e, peer& p, const outgoing& m) noexcept {
  if (!p.posts() || !connections::is_ready(p, lane_request) || !e.core_.large().may_offer() ||
      !has_credit(e, p))
    return status::not_ready;
  const status s = send(e, p, m, large_buffers::use::offer);
  if (p.request_out.asked()) [[unlikely]]
    (void)e.send_handed(p);
  return is_short(s) ? status::not_ready : s;
}

bool large_mediums::offers(const engine& e, const peer& p, const outgoing& m) noexcept {
  return m.is_offerable() && p.home->ledger->left_to_offers(p.rank, e.cost_of(p, m)) != 0;
}

status large_mediums::offer(engine& e, peer& p, const outgoing& m, status why) noexcept {
  if (why == status::not_ready) return offer_meanwhile(e, p, m);
  if (!offers(e, p, m)) return status::no_credit;
  auto& ledger = *p.home->ledger;
  const std::uint32_t cost = e.cost_of(p, m);
  // Who waits comes here at each poll, and need not copy the payload before there is a credit.
  if (!has_credit(e, p)) return status::no_credit;
  if (e.core_.large().may_offer()) {
    const bool lacks = ledger.lacks(p.rank, cost);
    const status s = send(e, p, m, large_buffers::use::offer);
    if (s == status::ok && lacks) {
      credit::stall asked;
      e.credits_.stall(p, cost, asked, credit_flow::lack::offered);
      ledger.end_stall(p.rank);
    }
    if (p.request_out.asked()) [[unlikely]]
      (void)e.send_handed(p);
    if (s != status::no_chunk) return s;
  }
  outgoing last = m;
  last.last_way = true;
  return e.try_at_once(p.rank, last);
}

status large_mediums::send(engine& e, peer& p, outgoing m, large_buffers::use u) noexcept {
  if (e.transfers_->must_settle()) return status::busy;
  const bool own = m.buffer == large_buffers::none;
  if (own) {
    m.buffer = e.core_.large().take(u, p.rank);
    if (m.buffer == large_buffers::none) return status::no_chunk;
    std::memcpy(e.core_.large().at(m.buffer), m.payload, m.bytes);
  }
  wire::large_block where{};
  if (!describe(e, p, m, where)) [[unlikely]] {
    if (u != large_buffers::use::offer) no_memory(m);
    e.core_.large().give(m.buffer);
    return status::no_chunk;
  }
  m.written = nullptr;
  if (e.core_.drawn() != nullptr) [[unlikely]]
    core::trace_sending();
  const status s = e.ways_.of(p, [&](auto& path) { return path.try_request(p, m); });
  if (s == status::ok)
    e.core_.large().sent(m.buffer, where.number);
  else if (own)
    e.core_.large().give(m.buffer);
  return s;
}

// A buffer is free, since the request would not have been taken otherwise (claim 21), unless more
// handlers run at once than large_buffers::most_handlers.
status large_mediums::reply(engine& e, token_state& t, outgoing m) noexcept {
  peer& p = *t.from;
  const bool own = m.buffer == large_buffers::none;  // else its payload is written there
  if (own) m.buffer = e.core_.large().take(large_buffers::use::reply, p.rank);
  if (m.buffer == large_buffers::none) [[unlikely]] {
    long_wait named(e.core_.waits(), wait_for::large_reply, p.rank);
    for (backoff b(64); m.buffer == large_buffers::none; named.step()) {
      b.idle();
      e.core_.slow_progress_in_wait();
      m.buffer = e.core_.large().take(large_buffers::use::reply, p.rank);
    }
  }
  if (own) std::memcpy(e.core_.large().at(m.buffer), m.payload, m.bytes);
  wire::large_block where{};
  if (!describe(e, p, m, where)) [[unlikely]]
    no_memory(m);
  const status s = e.ways_.of(p, [&](auto& path) { return path.reply(t, m); });
  if (s == status::ok)
    e.core_.large().sent(m.buffer, where.number);
  else if (own)
    e.core_.large().give(m.buffer);
  return s;
}

// Gives d a buffer, unless drafts hold most_drafts already: the others are left to requests.
void large_mediums::reserve(engine& e, draft& d, std::size_t most) noexcept {
  std::atomic<std::uint32_t>& drafts = e.core_.large().drafts;
  if (drafts.fetch_add(1, std::memory_order_relaxed) < large_buffers::most_drafts)
    d.buffer = e.core_.large().take(large_buffers::use::request, d.to);
  if (d.buffer == large_buffers::none) {
    drafts.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  d.payload = e.core_.large().at(d.buffer);
  d.most = most;
}

// unused: no message took the buffer.
void large_mediums::end(engine& e, draft& d, bool unused) noexcept {
  e.core_.large().drafts.fetch_sub(1, std::memory_order_relaxed);
  const std::uint16_t buffer = std::exchange(d.buffer, large_buffers::none);
  if (unused) e.core_.large().give(buffer);
}

void large_mediums::reserve(engine& e, token_state& t, reply_place& at) noexcept {
  at.buffer = e.core_.large().take(large_buffers::use::reply, t.from->rank);
  if (at.buffer != large_buffers::none) at.payload = e.core_.large().at(at.buffer);
}
void large_mediums::end(engine& e, reply_place& at) noexcept { e.core_.large().give(at.buffer); }

}  // namespace penstock::conduit::PENSTOCK_ABI
