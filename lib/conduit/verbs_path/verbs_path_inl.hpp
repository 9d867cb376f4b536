// What sending, answering and receiving by queue pairs have in common: the bits of an immediate,
// the wait for a queue's owner, and the fields of a work request. Only this folder includes it.
#pragma once

#include "lib/base/backoff.hpp"
#include "lib/conduit/credit_flow/credit_flow_inl.hpp"
#include "lib/conduit/peer/core_inl.hpp"
#include "lib/conduit/verbs_path/verbs_path.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// Bits of an immediate, which has the number of the chunk that was answered, or a whole system
/// message.
inline constexpr std::uint32_t imm_system = 1u << 31, imm_epoch = 1u << 30, imm_urgent = 1u << 29;
inline constexpr std::uint32_t imm_op_shift = 16, imm_op = 15, imm_count = 0xffff;

/// Enters o, after waiting until the thread inside has left; that thread waits for no other one
/// (claim 18).
inline void enter(queue_owner& o, std::uint32_t tag) noexcept {
  backoff b(64);
  while (!o.try_enter(tag)) b.idle();
}

/// Enters o if the thread inside leaves it soon, as a thread does that runs. False: it stays, or
/// others have left something for it already.
[[gnu::noinline]] bool try_enter_again(queue_owner& o, std::uint32_t tag) noexcept;
inline bool enter_soon(queue_owner& o, std::uint32_t tag) noexcept {
  return o.try_enter(tag) || try_enter_again(o, tag);
}

// Sets the fields of a work request that every device reads. The rest, two cache lines, is not even
// cleared.
[[gnu::always_inline]] inline void describe(ibv_send_wr& wr, ibv_wr_opcode op, ibv_sge& sge,
                                            bool copied) noexcept {
  wr.next = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = op;
  wr.send_flags = copied ? unsigned{IBV_SEND_INLINE} : 0u;
}

// A function that writes m, whose layout is l, to the place from which it will be sent.
template <codec::words W>
[[gnu::always_inline]] inline auto packed_writer(const outgoing& m,
                                                 const codec::packed& l) noexcept {
  return [&m, &l ](std::byte * to, const wire::header& h) __attribute__((always_inline)) {
    l.write<W>(m, h, to);
  };
}

// Waits until arrived() is true, which completions of p's domain bring about (claim 15). No handler
// runs meanwhile. It yields the core, since another thread may be about to handle the completion.
template <class Arrived>
void verbs_path::await_sends(peer& p, Arrived&& arrived) noexcept {
  if (arrived()) return;
  long_wait named(c_.waits(), wait_for::sends, p.rank);
  for (backoff b(64); !arrived();)
    if (reap_sends(*p.home) == 0) b.idle(), named.step(true);
}

// Notes that a request of p had no answer. False: there is no place, since its
// chunks and credits could not be sent.
[[gnu::always_inline]] inline bool verbs_path::note_unanswered(inside<end_of::request_in> in,
                                                               peer& p, const left_end& e,
                                                               std::uint32_t tag) noexcept {
  auto& unanswered = p.unanswered[in];
  if (unanswered.count == max_unanswered) [[unlikely]]
    return false;
  unanswered.chunk[unanswered.count++] = e.chunk;
  p.credits.owe(in, e.cost, e.grant);
  const bool full = unanswered.count >= unanswered_limit_ || p.credits.batch_is_due();
  if (e.urgent || full) give_credits_back(in, p, tag);
  return true;
}

// Called when the handler of t's request has returned: notes the credits and the chunk that the
// requester is owed where the handler has not replied. tag: the calling thread's, which holds the
// reply resources in mine.
[[gnu::always_inline]] inline void verbs_path::handled(token_state& t, poller& mine, bool urgent,
                                                       std::uint32_t tag) noexcept {
  peer& p = *t.from;
  PENSTOCK_ASSERT(mine.reply_chunk.has_value(), ==, true);  // (I3)
  PENSTOCK_ASSERT(t.reply_chunk == queues::no_chunk || t.reply_chunk == *mine.reply_chunk, ==,
                  true);
  count_shared(p.requests_handled, 1);
  if (!t.replied) {
    const left_end end{nullptr, t.header.chunk, t.grant, urgent, t.cost};
    const bool entered = enter_soon(p.request_in, tag);
    if (!entered || !note_unanswered(p.request_in.inside_owner(tag), p, end, tag)) [[unlikely]]
      leave_end(p, end);
    if (entered) [[likely]]
      p.request_in.leave(tag);
  }
  if (t.reply_chunk == queues::no_chunk) mine.reply_chunk.reset();
}

// Ends p's right to answer into that chunk. False: p has ended, and the chunk was taken back.
inline bool verbs_path::settle(queues::chunk_pool& chunks, peer& p, std::uint32_t chunk) noexcept {
  if (chunks.settle(chunk, p.rank)) [[likely]]
    return true;
  if (!p.ended.load(std::memory_order_relaxed)) c_.peer_failed(p, core::malformed);
  return false;
}

// True if p keeps a space for this process's messages; p is connected.
inline bool verbs_path::has_space(const peer& p) noexcept {
  return p.placed != nullptr && p.placed->tx.is_open();
}

// True if messages to p that fit no small buffer are placed; while p is not connected, if p's to
// this process are (claim 25).
inline bool verbs_path::places(const peer& p) noexcept {
  return connections::is_ready(p, lane_request) ? has_space(p) : p.home->queues->size.space != 0;
}

// True for a user's Short or Medium that costs one credit and that its handler takes.
inline bool verbs_path::is_plain(const outgoing& m) const noexcept {
  const bool carries = m.kind == wire::kind::medium;
  return m.bytes <= cheap_medium && carries == (m.payload != nullptr) &&
         c_.handlers().takes(m.kind, m.handler, m.nargs);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
