// The verbs path: messages as SENDs into shared receive queues, replies as RDMA writes with
// immediate into the chunk that the request came from. One code for every device of the table in
// nic/device.hpp.
//
//   request   SEND of header, fixed part, payload; small lane up to 256 bytes, else the bulk lane
//   Long      RDMA WRITE of the payload, then the header's SEND on the same queue pair. A reliable
//             connection delivers in order, so the header's completion says that the payload is in
//             place: no second event, and nothing to match.
//   reply     RDMA WRITE with immediate: reply_word | chunk
//   credits   the same, with a list of the chunks that it frees
//
// Why nothing waits for ever: send queues, reply chunks and the tickets of signalled work requests
// are freed by completions of what was sent, which the devices bring without help of the peer's
// program; a reply's receive is posted
// before its request goes out; a request is taken from am_cq only with a reply chunk and a spare
// in hand, so that its buffer is not missed (queues/receive_pool.hpp).
//
// What comes is handled in verbs_receive.cpp.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/backoff.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/cross_process.hpp"
#include "lib/conduit/verbs_path/verbs_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

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
[[gnu::always_inline]] inline auto writer_of(const outgoing& m, const codec::packed& l) noexcept {
  return [&m, &l ](std::byte * to, const wire::header& h) __attribute__((always_inline)) {
    l.write<W>(m, h, to);
  };
}

// no_space unless the next work request on that lane of p may be posted; inside request_out.
[[gnu::always_inline]] inline status may_request(peer& p, unsigned l) noexcept {
  return p.home->queues->admits(p.lanes[l], false, queues::room_share::requests) ? status::ok
                                                                                 : status::no_space;
}

}  // namespace

// For a wait that has lasted. Who has nothing on its way hears of no error: a peer that is cut off
// (on this host the launcher tells) would be waited for for ever. A write of nothing has to be
// acknowledged, or the queue pair breaks after its retries. Few a second, in turn.
void engine::probe_peers() noexcept {
  constexpr std::uint64_t pause_ns = 1'000'000'000;
  constexpr std::uint32_t most = 64;
  if (direct_ || device_.shared_memory) return;
  const std::uint32_t tag = my_tag();
  domain& d = my_domain(tag);
  poller& mine = my_poller(tag, d);
  const std::uint64_t now = now_ns();
  if (now - mine.probed_ns < pause_ns) return;
  mine.probed_ns = now;
  // A1 peers  acquire connected  <- R1; A2 ready  acquire p.ready  <- R2 (both in connect.cpp)
  const std::uint32_t all = d.connected.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < std::min(all, most); ++i) {
    mine.cursor = mine.cursor + 1 < all ? mine.cursor + 1 : 0;
    peer& p = *d.order[mine.cursor];
    if ((p.ready.load(std::memory_order_acquire) >> lane_request & 1) == 0 ||
        !p.request_out.try_enter(tag))
      continue;
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = p.reply_base;
    wr.wr.rdma.rkey = p.reply_rkey;
    queues::lane& lane = p.lanes[lane_request];
    const bool may = d.queues->admits(lane, true, queues::room_share::requests);
    if (const int e = may ? lane.post(wr, identity(p.rank, lane_request), {}, true) : 0; e != 0)
      peer_failed(p, std::strerror(e));
    p.request_out.leave(tag);
  }
}

// Waits for what completions of p's domain bring. No handler runs, and none is waited for: another
// thread may just be at the completion, and may need this core.
template <class Arrived>
void engine::await_sends(peer& p, Arrived&& arrived) noexcept {
  for (backoff b(64); !arrived();)
    if (reap_sends(*p.home) == 0) b.idle();
}

// True for a Long whose payload travels with its header.
bool engine::packs(const outgoing& m) const noexcept {
  return !direct_ && settings_.packed_long && m.bytes <= max_medium &&
         m.bytes + wire::fixed_bytes(m.kind, m.nargs) + sizeof(wire::header) <=
             settings_.packed_long_cutover;
}

// Registers a Long's payload for one transfer, or finds it in the segment.
result<std::uint32_t> engine::key_for(const void* payload, std::size_t bytes,
                                      ibv_mr*& temporary) noexcept {
  temporary = nullptr;
  const auto own = segment();
  const auto at =
      reinterpret_cast<std::uintptr_t>(payload) - reinterpret_cast<std::uintptr_t>(own.data());
  if (at < own.size() && bytes <= own.size() - at) return segment_->keys().lkey;
  temporary = device_.verbs->reg_mr(pd_, const_cast<void*>(payload), bytes, 0);
  if (temporary == nullptr)
    return failure{"ibv_reg_mr of the payload of a Long", errno, "raise ulimit -l"};
  return temporary->lkey;
}

// Posts the payload of a Long in pieces that the device takes; inside request_out or reply_out.
status engine::write_payload(peer& p, unsigned l, const outgoing& m,
                             std::uint64_t& number) noexcept {
  ibv_mr* temporary = nullptr;
  auto key = key_for(m.payload, m.bytes, temporary);
  if (!key) {
    log(log_level::error, "%s", key.error().message().c_str());
    return status::device_error;
  }
  const std::size_t piece = std::min<std::size_t>(device_.max_message(), std::size_t{1} << 30);
  const auto share = l == lane_reply ? queues::room_share::all : queues::room_share::requests;
  for (std::size_t done = 0; done < m.bytes;) {
    const std::size_t n = std::min(piece, m.bytes - done);
    const bool last = done + n == m.bytes;
    await_sends(p, [&] {
      return p.lanes[l].has_room(2) && p.home->queues->admits(p.lanes[l], last, share);
    });
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(m.payload) + done, static_cast<std::uint32_t>(n),
                *key};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(m.dest) + done;
    wr.wr.rdma.rkey = p.segment_rkey;
    if (const int e = p.lanes[l].post(wr, identity(p.rank, l),
                                      {queues::no_chunk, last ? temporary : nullptr}, last);
        e != 0)
      peer_failed(p, std::strerror(e));
    done += n;
  }
  number = p.lanes[l].posted();
  return status::ok;
}

// The setting LONG_DEPTH: payloads of Longs to a peer that may be on their way. Inside request_out;
// all go by one lane, so the oldest of them is the first to arrive.
bool engine::long_may_go(const peer& p, unsigned l) const noexcept {
  if (p.home->longs.empty()) return true;
  const domain::longs_out& o = p.home->longs[p.rank];
  return o.count < settings_.long_depth ||
         p.lanes[l].completed(o.number[o.count % settings_.long_depth]);
}

void engine::long_went(const peer& p, std::uint64_t number) noexcept {
  if (p.home->longs.empty()) return;
  domain::longs_out& o = p.home->longs[p.rank];
  o.number[o.count++ % settings_.long_depth] = number;
}

// True for a Short or a Medium of a user that costs one credit, as its handler takes it.
inline bool engine::is_plain(const outgoing& m) const noexcept {
  const bool carries = m.kind == wire::kind::medium;
  return m.bytes <= cheap_medium && carries == (m.payload != nullptr) &&
         handlers_.takes(m.kind, m.handler, m.nargs);
}

// Posts a request of n bytes, which write(to, header) builds, on lane l; `cost` credits are leased
// for it; inside request_out. copied: n <= short_inline_. before(): sends what has to be on its way
// first, and sees that the request itself may be posted.
template <class Write, class Before>
[[gnu::always_inline]] inline status engine::post_request(peer& p, std::uint32_t tag, unsigned l,
                                                          std::uint32_t cost, std::uint32_t n,
                                                          bool copied, Write&& write,
                                                          Before&& before) noexcept {
  queues::chunk_pool& chunks = *p.home->queues->request_chunks;
  const std::optional<std::uint32_t> chunk = chunks.take();
  if (!chunk) return status::no_chunk;
  if (const status s = before(); s != status::ok) [[unlikely]] {
    chunks.give(*chunk);
    return s;
  }
  // What the device copies at once is built here: the chunk's lines were written by the peer, and
  // will be again.
  alignas(16) std::byte here[wire::credit_bytes];
  std::byte* const at = copied ? here : chunks.at(*chunk);
  wire::header h;
  h.credit = request_credit_byte(p, cost);
  h.chunk = static_cast<std::uint16_t>(*chunk);
  write(at, h);
  chunks.lend(*chunk, p.rank);
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(at), n, copied ? 0 : chunks.keys().lkey};
  ibv_send_wr wr;
  describe(wr, IBV_WR_SEND, sge, copied);
  if (const int e = p.lanes[l].post(wr, identity(p.rank, l), {}); e != 0)
    peer_failed(p, std::strerror(e));
  p.lease -= cost;
  p.requests_sent.add(1);
  my_poller(tag, *p.home).replies_due = polls_for_replies;
  return status::ok;
}

// A plain request, when all it needs is at hand. False: nothing was done, and the long way finds
// out why.
[[gnu::always_inline]] inline bool engine::post_plain_request(rank_id to,
                                                              const outgoing& m) noexcept {
  if (to >= size_ || running != nullptr || !plain_verbs_ || !is_plain(m)) [[unlikely]]
    return false;
  const codec::packed l(m);
  if (l.bytes > short_inline_) [[unlikely]]
    return false;
  peer& p = channel(to);
  // A2 ready  acquire p.ready  <- R2 (connect.cpp); never for this process itself
  if ((p.ready.load(std::memory_order_acquire) >> lane_request & 1) == 0) [[unlikely]]
    return false;
  const std::uint32_t tag = my_tag();
  if (!p.request_out.try_enter(tag)) [[unlikely]]
    return false;
  const auto before = [&p] { return may_request(p, lane_request); };
  const bool sent =
      p.lease != 0 && post_request(p, tag, lane_request, 1, l.bytes, true,
                                   writer_of<codec::words::pairs>(m, l), before) == status::ok;
  p.request_out.leave(tag);
  return sent;
}

status engine::request_short_verbs(rank_id to, std::uint8_t handler, const std::uint32_t* args,
                                   unsigned nargs) noexcept {
  return post_plain_request(to, short_of(handler, args, nargs))
             ? status::ok
             : request_short_slow(to, handler, args, nargs);
}

status engine::request_medium_verbs(rank_id to, std::uint8_t handler, const std::uint32_t* args,
                                    unsigned nargs, const void* payload,
                                    std::size_t bytes) noexcept {
  return post_plain_request(to, medium_of(handler, args, nargs, payload, bytes))
             ? status::ok
             : request_medium_slow(to, handler, args, nargs, payload, bytes);
}

status engine::request_verbs(peer& p, const outgoing& original) noexcept {
  outgoing m = original;
  if (m.kind == wire::kind::long_ && packs(m)) m.kind = wire::kind::packed_long;
  const codec::packed layout(m);
  const unsigned l = layout.bytes <= p.home->queues->size.small_bytes ? lane_request : lane_bulk;
  // A2 ready  acquire p.ready  <- R2 (connect.cpp)
  if ((p.ready.load(std::memory_order_acquire) >> l & 1) == 0) [[unlikely]]
    return connect(p, l);
  const std::uint32_t tag = my_tag();
  if (!p.request_out.try_enter(tag)) [[unlikely]]
    return status::busy;
  status s = status::ok;
  const std::uint32_t cost = l == lane_request ? 1 : p.home->queues->size.full_cost;
  std::uint64_t written = 0;
  const bool separate = m.kind == wire::kind::long_ && m.bytes != 0;
  const bool leases = p.lease < cost;
  if (leases) {
    collect_returned(p, tag);
    s = take_credits(p, cost);
  }
  if (s == status::ok)
    s = post_request(p, tag, l, cost, layout.bytes, layout.bytes <= short_inline_,
                     writer_of<codec::words::exact>(m, layout), [&] {
                       if (!separate) return may_request(p, l);
                       if (!p.lanes[l].has_room(2) || !long_may_go(p, l)) return status::no_space;
                       const status w = write_payload(p, l, m, written);
                       if (w != status::ok) return w;
                       long_went(p, written);
                       // The payload has gone: its header follows now, and not once more.
                       await_sends(p, [&] { return may_request(p, l) == status::ok; });
                       return status::ok;
                     });
  p.request_out.leave(tag);
  if (s == status::no_space || s == status::no_chunk) reap_sends(*p.home);
  if (spins_before_yield_ == 1 && leases && s == status::ok) [[unlikely]]
    share_core(credit::lease_messages);
  if (s == status::ok && separate && !m.async)
    await_sends(p, [&] { return p.lanes[l].completed(written); });
  return s;
}

// Waits until the next work request on p's reply lane may be posted.
void engine::await_reply_room(peer& p, bool signalled) noexcept {
  await_sends(p, [&] {
    return p.home->queues->admits(p.lanes[lane_reply], signalled, queues::room_share::all);
  });
}

// Writes n bytes, built by write(to), into the requester's chunk that imm names; inside reply_out.
// Not copied (n <= short_inline_): from this process's reply chunk, which is given back when they
// have been sent.
template <class Write>
[[gnu::always_inline]] inline void engine::write_reply(peer& p, std::uint32_t chunk,
                                                       std::uint32_t n, bool copied,
                                                       std::uint32_t imm, Write&& write) noexcept {
  queues::lane& lane = p.lanes[lane_reply];
  if (!p.home->queues->admits(lane, !copied, queues::room_share::all)) [[unlikely]]
    await_reply_room(p, !copied);
  peer_answered(&p.reply_base);  // <- heard_hello: its request came by a lane that was bound later
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
      p.reply_base + std::uint64_t{imm & imm_count} * p.home->queues->size.chunk_bytes;
  wr.wr.rdma.rkey = p.reply_rkey;
  const queues::holding h{copied ? queues::no_chunk : static_cast<std::uint16_t>(chunk), nullptr};
  if (const int e = lane.post(wr, identity(p.rank, lane_reply), h); e != 0)
    peer_failed(p, std::strerror(e));
}

// Sends the reply of n bytes, which write(to, header) builds; inside reply_out.
template <class Write>
[[gnu::always_inline]] inline void engine::post_reply(token_state& t, std::uint32_t n, bool copied,
                                                      Write&& write) noexcept {
  peer& p = *t.from;
  write_reply(p, t.reply_chunk, n, copied, t.header.chunk,
              [&](std::byte* to) { write(to, reply_header(p, t, t.cost)); });
  if (!copied) t.reply_chunk = queues::no_chunk;
}

// A plain reply. False: nothing was done; it goes the long way, or by the rings.
[[gnu::always_inline]] inline bool engine::post_plain_reply(token_state& t,
                                                            const outgoing& m) noexcept {
  if (t.reply_chunk == queues::no_chunk || t.replied || running != &t || !plain_verbs_ ||
      !is_plain(m)) [[unlikely]]
    return false;
  const codec::packed l(m);
  if (l.bytes > short_inline_) [[unlikely]]
    return false;
  peer& p = *t.from;
  told_peer(&p);
  const std::uint32_t tag = my_tag();
  enter(p.reply_out, tag);
  post_reply(t, l.bytes, true, writer_of<codec::words::pairs>(m, l));
  p.reply_out.leave(tag);
  t.replied = true;
  return true;
}

status engine::reply_short_verbs(token_state& t, std::uint8_t handler, const std::uint32_t* args,
                                 unsigned nargs) noexcept {
  if (t.engine->post_plain_reply(t, short_of(handler, args, nargs))) [[likely]]
    return status::ok;
  return t.engine->reply(t, short_of(handler, args, nargs));
}

status engine::reply_medium_verbs(token_state& t, std::uint8_t handler, const std::uint32_t* args,
                                  unsigned nargs, const void* payload, std::size_t bytes) noexcept {
  if (t.engine->post_plain_reply(t, medium_of(handler, args, nargs, payload, bytes))) [[likely]]
    return status::ok;
  return t.engine->reply(t, medium_of(handler, args, nargs, payload, bytes));
}

status engine::reply_verbs(token_state& t, const outgoing& original) noexcept {
  peer& p = *t.from;
  outgoing m = original;
  if (m.kind == wire::kind::long_ && packs(m)) m.kind = wire::kind::packed_long;
  if (m.kind != wire::kind::medium && m.bytes != 0 && !in_segment(p, m.dest, m.bytes))
    return status::out_of_segment;
  const std::uint32_t tag = my_tag();
  enter(p.reply_out, tag);
  std::uint64_t written = 0;
  const bool separate = m.kind == wire::kind::long_ && m.bytes != 0;
  const status s = separate ? write_payload(p, lane_reply, m, written) : status::ok;
  const codec::packed l(m);
  if (s == status::ok)
    post_reply(t, l.bytes, l.bytes <= short_inline_, writer_of<codec::words::exact>(m, l));
  p.reply_out.leave(tag);
  if (s == status::ok && separate)
    await_sends(p, [&] { return p.lanes[lane_reply].completed(written); });
  return s;
}

// A system message is all in the immediate: a write of nothing. Inside reply_out.
bool engine::push_word_verbs(peer& p, const wire::header& h) noexcept {
  queues::lane& lane = p.lanes[lane_reply];
  if (!p.home->queues->admits(lane, false, queues::room_share::all)) return false;
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.wr.rdma.remote_addr = p.reply_base;
  wr.wr.rdma.rkey = p.reply_rkey;
  wr.imm_data = htobe32(imm_system | std::uint32_t{h.handler} << imm_op_shift | h.length |
                        ((h.flags & wire::flag_urgent) != 0 ? imm_urgent : 0) |
                        (credit::credit_byte::decode(h.credit).end_epoch ? imm_epoch : 0));
  if (const int e = lane.post(wr, identity(p.rank, lane_reply), {}); e != 0)
    peer_failed(p, std::strerror(e));
  return true;
}

// Sends what p is owed, and the chunks of its requests that had no reply; inside request_in.
void engine::push_credits_verbs(peer& p, std::uint32_t tag) noexcept {
  if (p.unanswered_count == 0) return;
  std::optional<std::uint32_t> chunk;
  await_sends(p, [&] { return (chunk = p.home->queues->reply_chunks->take()).has_value(); });
  enter(p.reply_out, tag);
  wire::header h = credits_header(p);
  const std::uint16_t last = p.unanswered[--p.unanswered_count];
  h.chunk = last;
  const auto n = static_cast<std::uint32_t>(sizeof h + 2u * p.unanswered_count);
  const bool copied = n <= short_inline_;
  write_reply(p, *chunk, n, copied, last, [&](std::byte* to) {
    std::memcpy(to, &h, sizeof h);
    std::memcpy(to + sizeof h, p.unanswered, 2u * p.unanswered_count);
  });
  p.unanswered_count = 0;
  p.credit_messages.add(1);
  p.reply_out.leave(tag);
  if (copied) p.home->queues->reply_chunks->give(*chunk);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
