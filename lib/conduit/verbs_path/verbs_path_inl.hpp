// What sending, answering and receiving by verbs have in common: the words of an immediate, a
// queue's owner that is waited for, and what is written into a work request. This folder's alone.
#pragma once

#include "lib/base/backoff.hpp"
#include "lib/conduit/channel/core_inl.hpp"
#include "lib/conduit/verbs_path/verbs_path.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// An immediate: the chunk that was answered; or a system message, whole.
inline constexpr std::uint32_t imm_system = 1u << 31, imm_epoch = 1u << 30, imm_urgent = 1u << 29;
inline constexpr std::uint32_t imm_op_shift = 16, imm_op = 15, imm_count = 0xffff;

/// Enters when the thread inside has left; that one waits for no thread (claim 18).
inline void enter(queue_owner& o, std::uint32_t tag) noexcept {
  backoff b(64);
  while (!o.try_enter(tag)) b.idle();
}

// What of a work request every device reads. The rest, two lines of it, is not even cleared.
[[gnu::always_inline]] inline void describe(ibv_send_wr& wr, ibv_wr_opcode op, ibv_sge& sge,
                                            bool copied) noexcept {
  wr.next = nullptr;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = op;
  wr.send_flags = copied ? unsigned{IBV_SEND_INLINE} : 0u;
}

// What writes m, packed, where it will be sent from; l is its layout.
template <codec::words W>
[[gnu::always_inline]] inline auto packed_writer(const outgoing& m,
                                                 const codec::packed& l) noexcept {
  return [&m, &l ](std::byte * to, const wire::header& h) __attribute__((always_inline)) {
    l.write<W>(m, h, to);
  };
}

// Waits for what completions of p's domain bring (claim 15). No handler runs, and none is waited
// for: another thread may just be at the completion, and may need this core.
template <class Arrived>
void verbs_path::await_sends(peer& p, Arrived&& arrived) noexcept {
  if (arrived()) return;
  long_wait named(c_.waits(), wait_for::sends, p.rank);
  for (backoff b(64); !arrived();)
    if (reap_sends(*p.home) == 0) b.idle(), named.step(true);
}

// The handler of t's request has returned; tag's thread has what answers it in hand.
[[gnu::always_inline]] inline void verbs_path::handled(token_state& t, poller& mine, bool urgent,
                                                       std::uint32_t tag) noexcept {
  peer& p = *t.from;
  count_shared(p.requests_handled, 1);
  if (!t.replied) {
    enter(p.request_in, tag);
    p.unanswered[p.unanswered_count++] = t.header.chunk;
    p.credits.owe(t.cost, t.grant);
    const bool full = p.unanswered_count >= unanswered_limit_ || p.credits.batch_is_due();
    if (urgent || full) give_credits_back(p, tag);
    p.request_in.leave(tag);
  }
  if (t.reply_chunk == queues::no_chunk) mine.reply_chunk.reset();
}

// True for a Short or a Medium of a user that costs one credit, as its handler takes it.
inline bool verbs_path::is_plain(const outgoing& m) const noexcept {
  const bool carries = m.kind == wire::kind::medium;
  return m.bytes <= cheap_medium && carries == (m.payload != nullptr) &&
         c_.handlers_.takes(m.kind, m.handler, m.nargs);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
