// What threads leave behind that have run a handler and find an end held by a thread that does not
// leave it, since the system has descheduled it, say, or a debugger has stopped it (PAR). An answer
// goes into peer::answers; the thread inside the reply lane sends it when it leaves
// (lib/base/leave_behind.hpp). Of requests without an answer, the chunks and credits go back by a
// poll that finds the ends free (peer::ends, peer::credits_put_off); so do those for which no reply
// chunk was free, in every mode. So no thread waits, but for one whose answer cannot be copied.
#include <new>
#include <utility>

#include "lib/base/leave_behind.hpp"
#include "lib/conduit/verbs_path/verbs_path_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

bool try_enter_again(queue_owner& o, std::uint32_t tag) noexcept {
  constexpr unsigned tries = 64;  // more than a thread that runs stays inside
  for (unsigned i = 0; i < tries && !o.asked(); ++i) {
    cpu_relax();
    if (o.try_enter(tag)) return true;
  }
  return false;
}

// Leaves m, which answers t, to the thread inside reply_out. False: it could not be copied.
bool verbs_path::leave_answer(token_state& t, const outgoing& m, std::uint32_t tag) noexcept {
  peer& p = *t.from;
  left_answer* const a = left_answer::copy_of(t, m);
  if (a == nullptr) return false;
  t.replied = true;
  // relaxed: the list carries the answer
  answers_left_.fetch_add(1, std::memory_order_relaxed);
  leave_behind(p.reply_out, p.answers, *a, tag, [this](left_answer& x) { send_left(x); });
  return true;
}

void verbs_path::see_to_answers(peer& p, std::uint32_t tag) noexcept {
  see_to_left(p.reply_out, p.answers, tag, [this](left_answer& x) { send_left(x); });
}

// Sends a, or puts it off where it needs a chunk and there is none; inside reply_out. It waits for
// completions alone (claim 15): the chunks may be held by threads that do not poll.
void verbs_path::send_left(left_answer& a) noexcept {
  peer& p = *a.request.from;
  PENSTOCK_ASSERT(a.request.reply_chunk, ==, queues::no_chunk);  // it is found now
  queues::chunk_pool& chunks = *p.home->queues->reply_chunks;
  if (codec::packed(a.m).bytes > short_inline_ ||
      (a.m.kind == wire::kind::long_ && a.m.bytes != 0)) {
    auto chunk = chunks.take();
    if (!chunk && reap_sends(*p.home) != 0) chunk = chunks.take();
    if (!chunk) {
      if (!std::exchange(a.put_off, true)) c_.deferred().fetch_add(1, std::memory_order_relaxed);
      p.answers.push(a);
      return;
    }
    a.request.reply_chunk = static_cast<std::uint16_t>(*chunk);
  }
  c_.note_sending();
  const written w = answer(a.request, a.m);
  if (w.in_place) await_sends(p, [&] { return p.lanes[lane_reply].completed(w.last); });
  if (a.request.reply_chunk != queues::no_chunk) chunks.give(a.request.reply_chunk);
  if (a.put_off) c_.deferred().fetch_sub(1, std::memory_order_relaxed);
  left_answer::free_one(a);
  // L1 sent  release answers_left_  -> L2 (verbs_path.hpp): what was posted
  [[maybe_unused]] const auto before = answers_left_.fetch_sub(1, std::memory_order_release);
  PENSTOCK_ASSERT(before, !=, 0u);
}

// Leaves the end of a request of p to a later poll.
void verbs_path::leave_end(peer& p, const left_end& e) noexcept {
  auto* const left = new (std::nothrow) left_end(e);
  if (left == nullptr) fatal(1, "no memory for a message of rank %u", p.rank);
  c_.deferred().fetch_add(1, std::memory_order_relaxed);
  p.ends.push(*left);
}

void verbs_path::see_to_ends(peer& p, std::uint32_t tag) noexcept {
  const auto in = p.request_in.try_enter(tag);
  if (!in) return;
  if (credits_.take_put_off(*in, p)) {  // or puts them off again
    give_credits_back(*in, p, tag);
    if (p.placed != nullptr && p.placed->rx.due()) tell_freed(p, tag);
  }
  for (left_end* e = p.ends.take_all(); e != nullptr;) {
    left_end& left = *std::exchange(e, e->next);
    if (note_unanswered(*in, p, left, tag)) {
      delete &left;
      c_.deferred().fetch_sub(1, std::memory_order_relaxed);
    } else {
      p.ends.push(left);
    }
  }
  p.request_in.leave(tag);
}

void verbs_path::send_put_off() noexcept {
  const std::uint32_t tag = my_tag();
  for (std::uint32_t i = 0; i < c_.domain_count(); ++i) {
    const domain& d = c_.domains()[i];
    for (std::uint32_t k = 0, all = d.verbs.count(); k < all; ++k) {
      peer& p = d.verbs[k];
      // What a thread inside was asked to send is left to it.
      if (p.answers.any() && !p.reply_out.asked()) see_to_answers(p, tag);
      if (p.ends.any() || p.credits_put_off.load(std::memory_order_relaxed)) see_to_ends(p, tag);
    }
  }
  if (connections_.parts() && running == nullptr) see_to_partings();
}

// When no thread uses the endpoint any more.
void verbs_path::free_left() noexcept {
  for (peer& p : c_.all_begun()) {
    for (left_answer* a = p.answers.take_all(); a != nullptr;)
      left_answer::free_one(*std::exchange(a, a->next));
    for (left_end* e = p.ends.take_all(); e != nullptr;) delete std::exchange(e, e->next);
  }
}

}  // namespace penstock::conduit::PENSTOCK_ABI
