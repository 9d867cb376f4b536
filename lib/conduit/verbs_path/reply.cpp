// Answering by queue pairs: replies, credits, and messages of the engine's own.
#include <cerrno>
#include <cstring>

#include "lib/base/cross_process.hpp"
#include "lib/conduit/verbs_path/verbs_path_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

// Waits until the next work request on p's reply lane may be posted.
void verbs_path::await_reply_room(peer& p, bool signalled) noexcept {
  await_sends(p, [&] {
    return p.home->queues->admits(p.lanes[lane_reply], signalled, queues::room_share::all);
  });
}

// Writes n bytes, built by write(to), into the requester's chunk that imm names; inside reply_out.
// copied: the device takes them inline (n <= short_inline_). Otherwise they are built in this
// process's reply chunk, which is given back when they have been sent.
template <class Write>
[[gnu::always_inline]] inline void verbs_path::write_reply(peer& p, std::uint32_t chunk,
                                                           std::uint32_t n, bool copied,
                                                           std::uint32_t imm,
                                                           Write&& write) noexcept {
  queues::lane& lane = p.lanes[lane_reply];
  PENSTOCK_ASSERT(copied || chunk != queues::no_chunk, ==, true);
  PENSTOCK_ASSERT(n, <=, copied ? wire::credit_bytes : p.home->queues->size.chunk_bytes);
  if (!p.home->queues->admits(lane, !copied, queues::room_share::all)) [[unlikely]]
    await_reply_room(p, !copied);
  // <- heard_hello: its request came by a lane that was bound later
  tsan_hear_peer(&p.buffers_base);
  alignas(16) std::byte here[wire::credit_bytes];
  std::byte* at = here;
  std::uint32_t key = 0;
  if (!copied) [[unlikely]] {
    at = p.home->queues->reply_chunks->at(chunk);
    key = p.home->queues->reply_chunks->keys().lkey;
  }
  write(at);
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(at), n, key};
  ibv_send_wr wr;
  describe(wr, IBV_WR_RDMA_WRITE_WITH_IMM, sge, copied);
  wr.imm_data = htobe32(imm);
  wr.wr.rdma.remote_addr =
      p.buffers_base + std::uint64_t{imm & imm_count} * p.home->queues->size.chunk_bytes;
  wr.wr.rdma.rkey = p.buffers_rkey;
  const queues::holding h{copied ? queues::no_chunk : static_cast<std::uint16_t>(chunk)};
  if (const int e = lane.post(wr, identity(p.rank, lane_reply), h); e != 0) c_.post_refused(p, e);
}

// Sends a reply of n bytes, which write(to, header) builds; inside reply_out.
template <class Write>
[[gnu::always_inline]] inline void verbs_path::post_reply(token_state& t, std::uint32_t n,
                                                          bool copied, Write&& write) noexcept {
  peer& p = *t.from;
  write_reply(p, t.reply_chunk, n, copied, t.header.chunk,
              [&](std::byte* to) { write(to, credits_.reply_header(p, t, t.cost)); });
  if (!copied) t.reply_chunk = queues::no_chunk;
  p.counts.replies.add(1);
}

[[gnu::always_inline]] inline bool verbs_path::reply_plain(token_state& t,
                                                           const outgoing& m) noexcept {
  if (t.reply_chunk == queues::no_chunk || t.replied || running != &t || !plain_ || !is_plain(m))
      [[unlikely]]
    return false;
  const codec::packed l(m);
  if (l.bytes > short_inline_) [[unlikely]]
    return false;
  peer& p = *t.from;
  tsan_tell_peer(&p);
  const std::uint32_t tag = my_tag();
  if (!p.reply_out.try_enter(tag)) [[unlikely]]
    return false;
  post_reply(t, l.bytes, true, packed_writer<codec::words::pairs>(m, l));
  if (m.kind == wire::kind::medium) p.counts.replied.medium(m.bytes);
  leave_replies(p, tag);
  t.replied = true;
  return true;
}

bool verbs_path::reply_quick(token_state& t, std::uint8_t handler, const std::uint32_t* args,
                             unsigned nargs) noexcept {
  return reply_plain(t, of_user(handler, args, nargs));
}

bool verbs_path::reply_quick(token_state& t, std::uint8_t handler, const std::uint32_t* args,
                             unsigned nargs, const void* payload, std::size_t bytes) noexcept {
  return reply_plain(t, of_user(handler, args, nargs, payload, bytes));
}

// The payload is written where the reply is built.
void verbs_path::reserve(token_state& t, const outgoing& m, reply_place& at,
                         std::size_t most) noexcept {
  outgoing filled = m;
  filled.bytes = most;
  if (t.reply_chunk == queues::no_chunk || (m.kind == wire::kind::long_ && !packs(filled))) return;
  const wire::kind k = m.kind == wire::kind::long_ ? wire::kind::packed_long : m.kind;
  at.payload = t.from->home->queues->reply_chunks->at(t.reply_chunk) +
               codec::packed::payload_at(wire::fixed_bytes(k, m.nargs));
}

status verbs_path::reply(token_state& t, const outgoing& original) noexcept {
  tsan_tell_peer(t.from);
  peer& p = *t.from;
  outgoing m = original;
  if (m.kind == wire::kind::long_ && packs(m)) m.kind = wire::kind::packed_long;
  const bool is_long = m.kind == wire::kind::long_ || m.kind == wire::kind::packed_long;
  if (is_long && m.bytes != 0 && !c_.in_segment(p, m.dest, m.bytes)) return status::out_of_segment;
  const std::uint32_t tag = my_tag();
  if (!enter_soon(p.reply_out, tag)) [[unlikely]] {
    if (leave_answer(t, m, tag)) return status::ok;
    enter(p.reply_out, tag);
  }
  const written w = answer(t, m);
  leave_replies(p, tag);
  if (w.in_place) await_sends(p, [&] { return p.lanes[lane_reply].completed(w.last); });
  t.replied = true;
  return status::ok;
}

// Posts m, which answers t and has passed all checks; inside reply_out. What of a Long is sent from
// its place may still be under way afterwards.
verbs_path::written verbs_path::answer(token_state& t, const outgoing& m) noexcept {
  peer& p = *t.from;
  written w;
  if (m.kind == wire::kind::long_ && m.bytes != 0) {
    const queues::chunk_pool& chunks = *p.home->queues->reply_chunks;
    w = write_payload(p, lane_reply, m, {chunks.at(t.reply_chunk), chunks.keys().lkey});
    // The header may be built in the chunk, and the chunk may hold another message next.
    await_sends(p, [&] { return p.lanes[lane_reply].completed(w.by_chunk); });
  }
  const codec::packed l(m);
  p.counts.replied.note(m.kind, m.bytes, m.system());
  post_reply(t, l.bytes, l.bytes <= short_inline_, packed_writer<codec::words::exact>(m, l));
  if (c_.drawn() != nullptr) [[unlikely]]
    c_.trace_sent(p, m, m.where != nullptr ? m.where->name() : t.header.chunk, true);
  return w;
}

// A system message is all in the immediate of an RDMA write of no bytes.
bool verbs_path::say(peer& p, const wire::header& h) noexcept {
  if (!connections::is_ready(p, lane_reply)) {
    (void)connections_.connect(p, lane_reply);
    return false;
  }
  const std::uint32_t tag = thread_tag();
  if (!p.reply_out.try_enter(tag)) return false;
  queues::lane& lane = p.lanes[lane_reply];
  const bool room = !connections::closed_meanwhile(p, lane_reply) &&
                    p.home->queues->admits(lane, false, queues::room_share::all);
  if (room) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.wr.rdma.remote_addr = p.buffers_base;
    wr.wr.rdma.rkey = p.buffers_rkey;
    wr.imm_data = htobe32(imm_system | std::uint32_t{h.handler} << imm_op_shift | h.length |
                          ((h.flags & wire::flag_urgent) != 0 ? imm_urgent : 0) |
                          (credit::credit_byte::decode(h.credit).end_epoch ? imm_epoch : 0));
    if (const int e = lane.post(wr, identity(p.rank, lane_reply), {}); e != 0)
      c_.post_refused(p, e);
  }
  leave_replies(p, tag);
  return room;
}

// Sends p the credits that it is owed, and the chunks of its requests that had no reply. Where
// another thread stays inside reply_out, or no reply chunk is free, a later poll sends them: the
// chunks may be held by threads whose handlers wait (claim 17).
void verbs_path::give_credits_back(inside<end_of::request_in> in, peer& p,
                                   std::uint32_t tag) noexcept {
  auto& unanswered = p.unanswered[in];
  if (unanswered.count == 0) return;
  queues::chunk_pool& chunks = *p.home->queues->reply_chunks;
  const auto n = static_cast<std::uint32_t>(sizeof(wire::header) + 2u * (unanswered.count - 1u));
  const bool copied = n <= short_inline_;
  std::optional<std::uint32_t> chunk;
  if (!copied) [[unlikely]] {
    chunk = chunks.take();
    if (!chunk && reap_sends(*p.home) != 0) chunk = chunks.take();
    if (!chunk) return credits_.put_credits_off(p);
  }
  if (!enter_soon(p.reply_out, tag)) [[unlikely]] {
    if (chunk) chunks.give(*chunk);
    return credits_.put_credits_off(p);
  }
  const wire::header h = credits_.credits_header(in, p);
  PENSTOCK_ASSERT(unanswered.count, <=, max_unanswered);
  const std::uint16_t last = unanswered.chunk[--unanswered.count];
  write_reply(p, chunk.value_or(queues::no_chunk), n, copied, last, [&](std::byte* to) {
    std::memcpy(to, &h, sizeof h);
    std::memcpy(to + sizeof h, unanswered.chunk, 2u * unanswered.count);
  });
  unanswered.count = 0;
  p.credit_messages.add(1);
  leave_replies(p, tag);
}

// Writes how much p's placed messages have freed into p's word. Where another thread stays inside
// reply_out, or the lane is closed, a later poll does it.
void verbs_path::tell_freed(peer& p, std::uint32_t tag) noexcept {
  if (!enter_soon(p.reply_out, tag)) [[unlikely]]
    return credits_.put_credits_off(p);
  queues::lane& lane = p.lanes[lane_reply];
  if (!connections::is_ready(p, lane_reply)) [[unlikely]] {
    credits_.put_credits_off(p);
  } else if (const auto freed = p.placed->rx.collect()) {
    if (!p.home->queues->admits(lane, false, queues::room_share::all)) [[unlikely]]
      await_reply_room(p, false);
    ibv_sge sge = p.placed->say(*freed, p.home->queues->blocks_lkey());
    ibv_send_wr wr;
    describe(wr, IBV_WR_RDMA_WRITE, sge, sge.length <= short_inline_);
    wr.wr.rdma.remote_addr = p.placed->word_base;
    wr.wr.rdma.rkey = p.placed->word_rkey;
    if (const int e = lane.post(wr, identity(p.rank, lane_reply), {}); e != 0)
      c_.post_refused(p, e);
  }
  leave_replies(p, tag);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
