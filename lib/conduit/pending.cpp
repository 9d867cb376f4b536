#include "lib/conduit/pending.hpp"

#include "lib/base/assert.hpp"
#include "lib/conduit/collective/departure.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/one_sided/rma.hpp"
#include "lib/conduit/report/waiting.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

std::uint32_t pending_requests::cost_of(const peer& p, const outgoing& m) const noexcept {
  if (m.is_large()) return 1;
  return ways_.of(p, [&](const auto& path) { return path.cost_of(p, m); });
}

bool pending_requests::is_gone(const peer& p) const noexcept {
  return engine_.who_left().news() && engine_.who_left().is_gone(p.rank);
}

status pending_requests::attempt(peer& p, const outgoing& m) noexcept {
  if (engine_.one_sided().must_settle()) [[unlikely]]
    return status::busy;
  core_.note_sending();
  return ways_.of(p, [&](auto& path) { return path.try_request(p, m); });
}

// The credits that m, if it is sent whole, leaves to its being offered; 0: it is never offered for
// want of credits. choose() and ask_for_credits() ask this alone: a message that is not offered has
// to ask for credits urgently, else nothing that it waits for would come (claim 22).
std::uint32_t pending_requests::left_to_offers(const peer& p, const outgoing& m) const noexcept {
  return m.is_offerable() ? p.home->ledger->left_to_offers(p.rank, cost_of(p, m)) : 0;
}

// True for a Long that takes several credits since its payload travels with it. It needs none of
// them: the payload can be written to its place beside the header, which takes one.
bool pending_requests::packs(const peer& p, const outgoing& m) const noexcept {
  return m.kind == wire::kind::long_ && cost_of(p, m) > 1;
}

bool pending_requests::has_another_way(const peer& p, const outgoing& m,
                                       status why) const noexcept {
  if (why == status::no_credit && packs(p, m)) return true;
  return m.is_offerable() &&
         (why == status::no_credit || why == status::not_ready || why == status::no_space);
}

// Whether m, which is offerable, is one that its target's space has had no room for since a while
// (claim 25), and may be offered. A stream to a target that polls finds room sooner than that, and
// what is placed is faster.
bool pending_requests::may_go_beside(peer& p, const outgoing& m) const noexcept {
  return p.placed != nullptr && p.placed->tx.is_stuck() &&
         codec::packed(m).bytes > p.home->queues->size.small_bytes &&
         p.home->ledger->left_to_offers(p.rank, credit::max_cost) != 0 &&
         core_.large().may_offer() && credits_.has_credit(p);
}

// The way of r's next try.
way_out pending_requests::choose(peer& p, pending& r) noexcept {
  if (r.lacks == status::no_credit && packs(p, r.m)) {
    if (r.short_of_credits == pending::patience) return way_out::apart;
    ++r.short_of_credits;
    return way_out::whole;
  }
  if (!r.m.is_offerable()) return way_out::whole;
  if (r.lacks == status::not_ready)  // its lane is being connected; that of Shorts may be there
    return p.posts() && connections::is_ready(p, lane_request) && core_.large().may_offer() &&
                   credits_.has_credit(p)
               ? way_out::offer
               : way_out::whole;
  if (r.lacks == status::no_space) return may_go_beside(p, r.m) ? way_out::offer : way_out::whole;
  const bool no_buffer = r.tried == way_out::offer && r.lacks == status::no_chunk;
  if (r.lacks != status::no_credit && !no_buffer) return way_out::whole;
  const std::uint32_t left = left_to_offers(p, r.m);
  if (left == 0) return way_out::whole;
  // Who waits comes here at each poll, and need not copy the payload before there is a credit.
  if (!credits_.has_credit(p)) return way_out::none;
  if (!credits_.lacks(p, cost_of(p, r.m) + left)) return way_out::whole;
  return core_.large().may_offer() && !no_buffer ? way_out::offer : way_out::last;
}

// The payload is copied once, whatever the request waits for after that. A request that waits holds
// its buffer meanwhile; that ends no wait of others for good, since what it waits for needs no
// buffer (claim 22).
status pending_requests::step_large(peer& p, pending& r) noexcept {
  if (r.m.buffer == large_buffers::none &&
      !(r.has_buffer = large_.take(r.m, p.rank, large_buffers::use::request)))
    return status::no_chunk;
  return large_.send(p, r.m);
}

// Offers r's Medium, or sends its Long without the payload that is written beside it; and asks for
// the credits that it lacks itself.
status pending_requests::go_for_one_credit(peer& p, const pending& r) noexcept {
  const std::uint32_t cost = cost_of(p, r.m);
  const bool lacked = r.lacks != status::not_ready && p.home->ledger->lacks(p.rank, cost);
  outgoing header = r.m;
  header.by = payload_way::beside_header;
  const status s = r.tried == way_out::offer ? large_.offer(p, r.m) : attempt(p, header);
  if (s == status::ok && lacked) {
    credit::stall asked;
    credits_.stall(p, cost, asked, credit_flow::lack::offered);
    p.home->ledger->end_stall(p.rank);
  }
  return s;
}

// One try of r. ok, and what is not is_short(), is its end.
status pending_requests::step(peer& p, pending& r) noexcept {
  if (engine_.one_sided().must_settle()) [[unlikely]]
    return r.lacks = status::busy;
  if (r.m.is_large() && p.rank != core_.rank()) return r.lacks = step_large(p, r);
  r.tried = choose(p, r);
  switch (r.tried) {
    case way_out::whole:
      return r.lacks = attempt(p, r.m);
    case way_out::offer:
    case way_out::apart:
      return r.lacks = go_for_one_credit(p, r);
    case way_out::last: {
      outgoing last = r.m;
      last.last_way = true;
      return r.lacks = attempt(p, last);
    }
    case way_out::none:
      return r.lacks = status::no_credit;
  }
  __builtin_unreachable();
}

// r has been sent (ok), or never will be.
void pending_requests::end(peer& p, pending& r) noexcept {
  if (r.stalled.noted) p.home->ledger->end_stall(p.rank);
  if (r.has_buffer && r.lacks != status::ok) core_.large().give(r.m.buffer);
}

void pending_requests::ask_for_credits(peer& p, pending& r) noexcept {
  const bool one_is_enough =
      packs(p, r.m) || (left_to_offers(p, r.m) != 0 && core_.large().has_offer(p.rank));
  credits_.stall(p, cost_of(p, r.m), r.stalled,
                 one_is_enough ? credit_flow::lack::awaits_offer : credit_flow::lack::blocked);
}

status pending_requests::try_once(peer& p, const outgoing& m, status why) noexcept {
  pending r{.m = m, .lacks = why, .short_of_credits = pending::patience};
  (void)step(p, r);
  end(p, r);
  return r.lacks;
}

status pending_requests::wait(peer& p, const outgoing& m, status why) noexcept {
  pending r{.m = m, .lacks = why};
  (void)step(p, r);
  hear(p);
  if (is_short(r.lacks)) {
    waiting named(p.counts, p.rank, m.named_handler(), reporter_, core_.drawn());
    unsigned held = 0;
    for (unsigned empty = 0; is_short(r.lacks); (void)step(p, r), hear(p)) {
      named.step(r.lacks);
      // The thread inside the end leaves within a few polls, unless the system has descheduled it.
      // Then this thread does not wait for it.
      if (concurrent(build_mode) && r.lacks == status::busy && hand_over(p, r.m, ++held))
          [[unlikely]] {
        r.lacks = status::ok;
        break;
      }
      if (r.lacks == status::no_credit) ask_for_credits(p, r);
      if (is_gone(p)) [[unlikely]] {
        r.lacks = status::peer_dead;
        break;
      }
      if (const status w = engine_.limited_step(empty, false); w != status::ok) {
        r.lacks = w;
        break;
      }
    }
  }
  end(p, r);
  return r.lacks;
}

// A thread that finds another one inside the sending end, and that does not leave, leaves a copy of
// its request behind and goes on. The thread that leaves the end steps it (owner's asked()), and
// after that polls do. found_held: how often this call has found the end held, with a poll after
// each time. True: m has been handed over.
bool pending_requests::hand_over(peer& p, const outgoing& m, unsigned found_held) noexcept {
  constexpr unsigned polls_of_patience = 64;  // more than a thread that runs stays inside
  if (found_held <= polls_of_patience && !p.request_out.asked()) return false;
  if (engine_.one_sided().must_settle() || !p.handed.accept(m, core_.handed())) return false;
  if (m.written != nullptr && m.written->chunk != draft::no_chunk)
    ways_.of(p, [&](auto& path) { path.cancel(p, *m.written); });
  if (p.request_out.try_enter_or_ask(my_tag())) {
    p.request_out.leave(my_tag());
    send_handed(p);
  }
  return true;
}

void pending_requests::send_handed(peer& p) noexcept {
  const std::uint32_t tag = my_tag();
  do {
    p.request_out.heard();
    bool held = false;
    p.handed.send_all(core_.handed(), [&](pending& r) {
      if (held || engine_.one_sided().must_settle()) return false;
      const status s = step(p, r);
      held = s == status::busy;
      if (s == status::no_credit) ask_for_credits(p, r);
      if (is_short(s) && !is_gone(p)) return false;
      end(p, r);
      return true;
    });
    // Another thread is inside again, and sends the rest when it leaves, unless it has left
    // meanwhile.
    if (held) {
      if (!p.request_out.try_enter_or_ask(tag)) return;
      p.request_out.leave(tag);
    }
    // This thread was inside for each try, and may have been asked meanwhile.
  } while (p.request_out.asked());
}

// Those that a thread inside an end was asked to send are left to it, but for one call in
// looks_between.
void pending_requests::step_all() noexcept {
  constexpr std::uint32_t looks_between = 256;
  if (running != nullptr) return;
  const bool all = looks_.fetch_add(1, std::memory_order_relaxed) % looks_between == 0;
  for (peer& p : core_.all_begun())
    if (p.handed.any() && (all || !p.request_out.asked())) send_handed(p);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
