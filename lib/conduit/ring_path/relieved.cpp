// Handlers that run on while another thread goes on in their end (PAR; lib/base/relief.hpp). A
// thread that polls, and finds a ring held again and again where it stood, takes the place of the
// thread inside if that one runs a handler: it takes the next message, and keeps the room of the
// one that is still read. The thread whose handler has returned is outside then. It answers, and
// notes the message's end, when it finds the end free; else it leaves both to a poll.
#include <sched.h>

#include <new>
#include <utility>

#include "lib/conduit/ring_path/ring_path_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

constinit thread_place places[concurrent(build_mode) ? max_threads + 1 : 2];

// Called where another thread is inside the end of a ring. True: the caller is inside in its place.
// If the system has descheduled that thread outside a handler, no other one can take messages of
// this ring; so a thread that finds the ring again and again where it stood gives its core away.
bool ring_path::skip(peer& p, bool requests, std::uint32_t tag) noexcept {
  constexpr std::uint32_t skips_a_yield = 64, skips_a_relief = 256;
  poller& mine = c_.my_poller(tag, *p.home);
  const std::uint64_t at = (requests ? p.request_rx.seen() : p.reply_rx.seen())->popped_hint();
  const std::uint32_t i = (2 * p.rank + (requests ? 1 : 0)) % poller::watched;
  if (mine.skipped_at[i] != at) {
    mine.skipped_at[i] = at;
    mine.skips[i] = 0;
    return false;
  }
  const std::uint32_t skips = ++mine.skips[i];
  const bool may = !requests || p.replies_kept.load(std::memory_order_relaxed) < most_relieved;
  if (skips % skips_a_relief == 0 && may && relieve(p, requests, tag)) return true;
  if (skips % skips_a_yield == 0) sched_yield();
  return false;
}

// Takes the place of the thread that runs a handler inside the end. True: the caller is inside.
bool ring_path::relieve(peer& p, bool requests, std::uint32_t tag) noexcept {
  queue_owner& end = p.end_in(requests);
  std::uint32_t reader = 0;
  const bool inside = end.try_relieve(tag, [&](std::uint32_t who, auto&& before) {
    reader = who;
    return places[who].try_take(&end, before);
  });
  if (!inside) return false;
  auto& kept = requests ? p.kept_requests[p.request_in.inside_owner(tag)]
                        : p.kept_replies[p.reply_in.inside_owner(tag)];
  if (!kept) kept.reset(new (std::nothrow) nic::shm::kept_messages);
  if (!kept) fatal(1, "no memory for a message of rank %u", p.rank);
  if (!(requests ? p.request_rx.seen() : p.reply_rx.seen())->keep_front(*kept, reader)) [[unlikely]]
    c_.peer_failed(p, core::malformed);
  if (requests) {  // its answer may come yet, and has its room
    p.replies_kept.fetch_add(1, std::memory_order_relaxed);
    if (auto& room = p.reply_room[p.request_in.inside_owner(tag)]; room != 0) --room;
  }
  return true;
}

// Answers t, whose handler runs while another thread has its end: at once if the end is free just
// now, else a poll sends a copy of m.
status ring_path::reply_outside(token_state& t, const outgoing& m) noexcept {
  peer& p = *t.from;
  const std::uint32_t tag = my_tag();
  p.request_in.give_bias_up(tag);
  t.replied = true;
  t.lane = nullptr;
  t.reply_chunk = 0;  // the end's is another way (end_outside)
  if (const auto in = p.request_in.try_enter(tag)) {
    answer_late(*in, t, m);
    p.request_in.leave(tag);
    return status::ok;
  }
  left_answer* const a = left_answer::copy_of(t, m, true);
  if (a == nullptr) fatal(1, "no memory for an answer to rank %u", p.rank);
  // relaxed: the list carries the answer
  answers_left_.fetch_add(1, std::memory_order_relaxed);
  c_.deferred().fetch_add(1, std::memory_order_relaxed);
  p.answers.push(*a);
  return status::ok;
}

// Sends an answer for which room was kept.
void ring_path::answer_late(inside<end_of::request_in> in, token_state& t,
                            const outgoing& m) noexcept {
  peer& p = *t.from;
  answer(in, t, m);
  p.replies_kept.fetch_sub(1, std::memory_order_relaxed);
  p.credits.settled(in);
}

// Called by the thread whose handler of t has returned, and whose end another thread has taken.
void ring_path::end_outside(const token_state& t, relieved_end e, std::uint32_t tag) noexcept {
  peer& p = *t.from;
  queue_owner& end = p.end_in(t.request);
  end.give_bias_up(tag);
  places[tag].outside();
  e.reader = tag;
  e.request = t.request;
  e.left = t.reply_chunk != queues::no_chunk;
  if (!t.replied) e.cost = t.cost, e.grant = t.grant;
  if (end.try_enter(tag)) {
    note_end(p, e, tag);
    end.leave(tag);
    return;
  }
  auto* const left = new (std::nothrow) relieved_end(e);
  if (left == nullptr) fatal(1, "no memory for a message of rank %u", p.rank);
  c_.deferred().fetch_add(1, std::memory_order_relaxed);
  p.relieved.push(*left);
}

// Notes the end of a message; inside its end.
void ring_path::note_end(peer& p, const relieved_end& e, std::uint32_t tag) noexcept {
  if (e.request) {
    const auto in = p.request_in.inside_owner(tag);
    p.request_rx[in]->release(*p.kept_requests[in], e.reader);
    if (!e.left) p.replies_kept.fetch_sub(1, std::memory_order_relaxed);
    if (e.counts) p.counts.handled.note(e.kind, e.bytes, e.system);
    p.requests_handled.add(e.handled);
    p.home->ledger->count_requests(e.handled);
    if (e.cost != 0) p.credits.owe(in, e.cost, e.grant);
    if (e.urgent || p.credits.batch_is_due()) give_credits_back(in, p, tag);
  } else {
    const auto in = p.reply_in.inside_owner(tag);
    p.reply_rx[in]->release(*p.kept_replies[in], e.reader);
    if (e.counts) p.counts.answered.note(e.kind, e.bytes, e.system);
    p.replies_handled.add(1);
    p.request_tx.seen()->answered();
  }
}

void ring_path::send_put_off() noexcept {
  const std::uint32_t tag = my_tag();
  for (std::uint32_t i = 0; i < c_.domain_count(); ++i) {
    const domain& d = c_.domains()[i];
    for (std::uint32_t k = 0, all = d.rings.count(); k < all; ++k) {
      peer& p = d.rings[k];
      const bool put_off = p.credits_put_off.load(std::memory_order_relaxed);
      if (const auto in = put_off ? p.request_in.try_enter(tag) : std::nullopt) {
        if (credits_.take_put_off(*in, p))
          give_credits_back(*in, p, tag);  // or puts them off again
        p.request_in.leave(tag);
      }
      if (const auto in = p.answers.any() ? p.request_in.try_enter(tag) : std::nullopt) {
        for (left_answer* a = p.answers.take_all(); a != nullptr;) {
          left_answer& left = *std::exchange(a, a->next);
          c_.note_sending();
          answer_late(*in, left.request, left.m);
          left_answer::free_one(left);
          c_.deferred().fetch_sub(1, std::memory_order_relaxed);
          // L1 sent  release answers_left_  -> L2 (ring_path.hpp): what was pushed
          answers_left_.fetch_sub(1, std::memory_order_release);
        }
        p.request_in.leave(tag);
      }
      for (relieved_end* e = p.relieved.take_all(); e != nullptr;) {
        relieved_end& left = *std::exchange(e, e->next);
        queue_owner& end = p.end_in(left.request);
        if (!end.try_enter(tag)) {
          p.relieved.push(left);
          continue;
        }
        note_end(p, left, tag);
        end.leave(tag);
        delete &left;
        c_.deferred().fetch_sub(1, std::memory_order_relaxed);
      }
    }
  }
}

// When no thread uses the endpoint any more.
void ring_path::free_left() noexcept {
  for (peer& p : c_.all_begun()) {
    if (!p.rings()) continue;
    for (left_answer* a = p.answers.take_all(); a != nullptr;)
      left_answer::free_one(*std::exchange(a, a->next));
    for (relieved_end* e = p.relieved.take_all(); e != nullptr;) delete std::exchange(e, e->next);
  }
}

// Goes on behind a mark at the front, and says what is there. A mark that has to wait hides all
// that is behind it.
nic::shm::ring_rx::sight ring_path::behind_mark(nic::shm::ring_rx& rx,
                                                const nic::shm::ring_slot*& s) noexcept {
  auto seen = nic::shm::ring_rx::sight::mark;
  while (seen == nic::shm::ring_rx::sight::mark && rx.follow()) seen = rx.peek(op_direct, s);
  return seen == nic::shm::ring_rx::sight::mark && rx.keeps() ? nic::shm::ring_rx::sight::nothing
                                                              : seen;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
