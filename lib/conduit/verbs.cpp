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
// Why nothing waits for ever: send queues and reply chunks are freed by completions of what was
// sent, which the devices bring without help of the peer's program; a reply's receive is posted
// before its request goes out; a request is taken from am_cq only with a reply chunk and a spare
// in hand, so that its buffer is not missed (queues/receive_pool.hpp).
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/backoff.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/cross_process.hpp"
#include "lib/conduit/engine_inl.hpp"

namespace penstock::conduit {
namespace {

// An immediate: the chunk that was answered; or a system message, whole.
constexpr std::uint32_t imm_system = 1u << 31, imm_epoch = 1u << 30, imm_urgent = 1u << 29;
constexpr std::uint32_t imm_op_shift = 16, imm_op = 15, imm_count = 0xffff;

constexpr unsigned batch = 16;
static_assert(batch <= queues::dimensions::receives_a_post,
              "what one poll took is put back at once");

// Writes header, fixed part and payload at to; the length.
std::uint32_t build(std::byte* to, wire::header h, const outgoing& m, bool carry) noexcept {
  const std::uint32_t fixed = wire::fixed_bytes(m.kind, m.nargs);
  const std::uint32_t carried = carry ? static_cast<std::uint32_t>(m.bytes) : 0;
  h.kind_args = wire::kind_args(m.kind, m.nargs);
  h.handler = m.handler;
  h.flags = m.flags;
  h.length = static_cast<std::uint16_t>(carried);
  std::memcpy(to, &h, sizeof h);
  std::byte* f = to + sizeof h;
  if (m.kind == wire::kind::long_ || m.kind == wire::kind::packed_long) {
    const wire::long_block lb{reinterpret_cast<std::uintptr_t>(m.dest), m.bytes};
    std::memcpy(f, &lb, sizeof lb);
    f += sizeof lb;
  }
  if (m.nargs != 0) std::memcpy(f, m.args, m.nargs * 4u);
  const std::uint32_t all = wire::packed_bytes(fixed, carried);
  if (carried != 0) std::memcpy(to + (all - carried), m.payload, carried);
  return all;
}

// The parts of a received message of n bytes; false: they contradict n.
bool find_parts(std::byte* at, std::uint32_t n, wire::header& h, const std::byte*& fixed,
                std::byte*& payload) noexcept {
  if (n < sizeof h) return false;
  std::memcpy(&h, at, sizeof h);
  const std::uint32_t carried = wire::carried_bytes(h);
  const std::uint32_t all = wire::packed_bytes(wire::fixed_bytes(h.kind(), h.nargs()), carried);
  if (all > n) return false;
  fixed = at + sizeof h;
  payload = at + (all - carried);
  return true;
}

// Counts what any thread may handle.
void count(tally& n) noexcept {
  if constexpr (concurrent(build_mode))
    n.add_shared(1);
  else
    n.add(1);
}

void enter(queue_owner& o, std::uint32_t tag) noexcept {
  backoff b(64);
  while (!o.try_enter(tag)) b.idle();
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
    if (const int e = lane.has_room() ? lane.post(wr, identity(p.rank, lane_request), {}, true) : 0;
        e != 0)
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
                             std::uint32_t& number) noexcept {
  ibv_mr* temporary = nullptr;
  auto key = key_for(m.payload, m.bytes, temporary);
  if (!key) {
    log(log_level::error, "%s", key.error().message().c_str());
    return status::device_error;
  }
  const std::size_t piece = std::min<std::size_t>(device_.max_message(), std::size_t{1} << 30);
  for (std::size_t done = 0; done < m.bytes;) {
    const std::size_t n = std::min(piece, m.bytes - done);
    await_sends(p, [&] { return p.lanes[l].has_room(2); });
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(m.payload) + done, static_cast<std::uint32_t>(n),
                *key};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(m.dest) + done;
    wr.wr.rdma.rkey = p.segment_rkey;
    const bool last = done + n == m.bytes;
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

void engine::long_went(const peer& p, std::uint32_t number) noexcept {
  if (p.home->longs.empty()) return;
  domain::longs_out& o = p.home->longs[p.rank];
  o.number[o.count++ % settings_.long_depth] = number;
}

status engine::request_verbs(peer& p, const outgoing& original) noexcept {
  outgoing m = original;
  if (m.kind == wire::kind::long_ && packs(m)) m.kind = wire::kind::packed_long;
  const bool carry = m.kind == wire::kind::medium || m.kind == wire::kind::packed_long;
  const std::uint32_t all = wire::packed_bytes(wire::fixed_bytes(m.kind, m.nargs),
                                               carry ? static_cast<std::uint32_t>(m.bytes) : 0);
  const unsigned l = all <= p.home->queues->size.small_bytes ? lane_request : lane_bulk;
  // A2 ready  acquire p.ready  <- R2 (connect.cpp)
  if ((p.ready.load(std::memory_order_acquire) >> l & 1) == 0) [[unlikely]]
    return connect(p, l);
  const std::uint32_t tag = my_tag();
  if (!p.request_out.try_enter(tag)) [[unlikely]]
    return status::busy;
  status s = status::ok;
  const std::uint32_t cost = l == lane_request ? 1 : p.home->queues->size.full_cost;
  std::uint32_t written = 0;
  const bool separate = m.kind == wire::kind::long_ && m.bytes != 0;
  const bool leases = p.lease < cost;
  if (leases) s = take_credits(p, cost);
  std::optional<std::uint32_t> chunk;
  if (s == status::ok && !p.lanes[l].has_room()) s = status::no_space;
  if (s == status::ok && !(chunk = p.home->queues->request_chunks->take())) s = status::no_chunk;
  if (s == status::ok && separate && !long_may_go(p, l)) s = status::no_space;
  if (s == status::ok && separate) s = write_payload(p, l, m, written);
  if (s == status::ok) {
    if (separate) long_went(p, written);
    std::byte* const at = p.home->queues->request_chunks->at(*chunk);
    wire::header h;
    h.credit = request_credit_byte(p, cost);
    h.chunk = static_cast<std::uint16_t>(*chunk);
    const std::uint32_t n = build(at, h, m, carry);
    p.home->queues->request_chunks->lend(*chunk, p.rank);
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(at), n,
                p.home->queues->request_chunks->keys().lkey};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    if (n <= max_inline_) wr.send_flags = IBV_SEND_INLINE;
    if (const int e = p.lanes[l].post(wr, identity(p.rank, l), {}); e != 0)
      peer_failed(p, std::strerror(e));
    p.lease -= cost;
    p.requests_sent.add(1);
    my_poller(tag, *p.home).replies_due = polls_for_replies;
  } else if (chunk) {
    p.home->queues->request_chunks->give(*chunk);
  }
  p.request_out.leave(tag);
  if (s == status::no_space || s == status::no_chunk) reap_sends(*p.home);
  if (spins_before_yield_ == 1 && leases && s == status::ok) [[unlikely]]
    share_core(credit::lease_messages);
  if (s == status::ok && separate && !m.async)
    await_sends(p, [&] { return p.lanes[l].completed(written); });
  return s;
}

status engine::reply_verbs(token_state& t, const outgoing& original) noexcept {
  peer& p = *t.from;
  outgoing m = original;
  if (m.kind == wire::kind::long_ && packs(m)) m.kind = wire::kind::packed_long;
  const bool carry = m.kind == wire::kind::medium || m.kind == wire::kind::packed_long;
  if (m.kind != wire::kind::medium && m.bytes != 0 && !in_segment(p, m.dest, m.bytes))
    return status::out_of_segment;
  const std::uint32_t tag = my_tag();
  enter(p.reply_out, tag);
  std::uint32_t written = 0;
  const bool separate = m.kind == wire::kind::long_ && m.bytes != 0;
  status s = separate ? write_payload(p, lane_reply, m, written) : status::ok;
  if (s == status::ok) {
    const std::uint32_t n = build(p.home->queues->reply_chunks->at(t.reply_chunk),
                                  reply_header(p, t, t.cost), m, carry);
    s = write_reply(p, t.reply_chunk, n, t.header.chunk);
    if (n > max_inline_) t.reply_chunk = queues::no_chunk;  // given back when it has been sent
  }
  p.reply_out.leave(tag);
  if (s == status::ok && separate)
    await_sends(p, [&] { return p.lanes[lane_reply].completed(written); });
  return s;
}

// Writes n bytes of a reply chunk into the requester's chunk that imm names; inside reply_out.
status engine::write_reply(peer& p, std::uint32_t chunk, std::uint32_t n,
                           std::uint32_t imm) noexcept {
  queues::lane& lane = p.lanes[lane_reply];
  await_sends(p, [&] { return lane.has_room(); });
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(p.home->queues->reply_chunks->at(chunk)), n,
              p.home->queues->reply_chunks->keys().lkey};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.imm_data = htobe32(imm);
  wr.wr.rdma.remote_addr =
      p.reply_base + std::uint64_t{imm & imm_count} * p.home->queues->size.chunk_bytes;
  wr.wr.rdma.rkey = p.reply_rkey;
  const bool inl = n <= max_inline_;
  if (inl) wr.send_flags = IBV_SEND_INLINE;
  const queues::holding h{inl ? queues::no_chunk : static_cast<std::uint16_t>(chunk), nullptr};
  if (const int e = lane.post(wr, identity(p.rank, lane_reply), h); e != 0)
    peer_failed(p, std::strerror(e));
  return status::ok;
}

// A system message is all in the immediate: a write of nothing. Inside reply_out.
bool engine::push_word_verbs(peer& p, const wire::header& h) noexcept {
  queues::lane& lane = p.lanes[lane_reply];
  if (!lane.has_room()) return false;
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

// Handles completions of what was sent. Any thread, any time; runs no handler.
unsigned engine::reap_sends(domain& d) noexcept {
  ibv_wc wc[batch];
  const int n = ibv_poll_cq(d.queues->send_cq, batch, wc);
  if (n < 0) [[unlikely]]
    fatal(1, "ibv_poll_cq of the send queue failed on %s", device_.name.c_str());
  for (int i = 0; i < n; ++i) {
    const auto id = static_cast<std::uint32_t>(wc[i].wr_id >> 32);
    peer& p = d.peers[rank_of(id)];
    if (wc[i].status != IBV_WC_SUCCESS) [[unlikely]] {
      if (!closing_) peer_failed(p, device_.verbs->wc_status_str(wc[i].status));
      continue;
    }
    p.lanes[lane_of(id)].complete(static_cast<std::uint32_t>(wc[i].wr_id),
                                  [this, &d](queues::holding h) {
                                    if (h.chunk != queues::no_chunk)
                                      d.queues->reply_chunks->give(h.chunk);
                                    if (h.mr != nullptr) device_.verbs->dereg_mr(h.mr);
                                  });
  }
  if (n == 0) look_around_in_wait();
  return static_cast<unsigned>(n);
}

void engine::receives_failed() noexcept {
  fatal(1, "ibv_post_srq_recv failed on %s", device_.name.c_str());
}

// SAFE_EQ: replies and system messages.
unsigned engine::poll_replies_verbs(domain& d, poller& mine) noexcept {
  ibv_wc wc[batch];
  const unsigned limit = settings_.safe_limit == 0 ? batch : std::min(settings_.safe_limit, batch);
  const int n = ibv_poll_cq(d.queues->reply_cq, static_cast<int>(limit), wc);
  if (n <= 0) return 0;
  if (d.queues->replace_reply_receives(static_cast<std::uint32_t>(n), mine.late_receives,
                                       mine.equipped()) != 0) [[unlikely]]
    receives_failed();
  for (int i = 0; i < n; ++i) {
    const std::uint32_t rank = rank_of(d.queues->identity_of(wc[i].qp_num));
    if (rank >= size_) [[unlikely]]
      continue;
    peer& p = d.peers[rank];
    if (wc[i].status != IBV_WC_SUCCESS) [[unlikely]] {
      if (!closing_) peer_failed(p, device_.verbs->wc_status_str(wc[i].status));
      continue;
    }
    const std::uint32_t imm = be32toh(wc[i].imm_data);
    if ((imm & imm_system) != 0) {
      wire::header h;
      h.kind_args = wire::kind_args(wire::kind::system, 0);
      h.handler = static_cast<std::uint8_t>(imm >> imm_op_shift & imm_op);
      h.flags = (imm & imm_urgent) != 0 ? wire::flag_urgent : std::uint8_t{0};
      h.length = static_cast<std::uint16_t>(imm & imm_count);
      h.credit = credit::credit_byte{(imm & imm_epoch) != 0, 0, 0}.encode();
      if (!system_message(p, h)) [[unlikely]]
        peer_failed(p, malformed);
      continue;
    }
    const std::uint32_t chunk = imm & imm_count;
    // Settled first: a chunk answered twice, or by another than its target, is a peer gone mad.
    if (!d.queues->request_chunks->settle(chunk, rank)) [[unlikely]]
      peer_failed(p, malformed);
    wire::header h;
    const std::byte* fixed = nullptr;
    std::byte* payload = nullptr;
    std::byte* const at = d.queues->request_chunks->at(chunk);
    peer_answered(at);
    if (!find_parts(at, std::min(wc[i].byte_len, d.queues->size.chunk_bytes), h, fixed, payload))
        [[unlikely]]
      peer_failed(p, malformed);
    if (h.kind() == wire::kind::credits) {
      if (!free_listed_chunks(p, at, wc[i].byte_len) || !system_message(p, h)) [[unlikely]]
        peer_failed(p, malformed);
    } else {
      absorb_credits(p, h, h.chunk);
      token_state t(*this, p, h, false);
      if (!run_handler(t, fixed, payload)) [[unlikely]]
        peer_failed(p, malformed);
      count(p.replies_handled);
    }
    d.queues->request_chunks->give(chunk);
  }
  return static_cast<unsigned>(n);
}

// The chunks that a message of credits frees, behind its header, but for the one it was written to.
bool engine::free_listed_chunks(peer& p, const std::byte* at, std::uint32_t bytes) noexcept {
  if (bytes < sizeof(wire::header) || bytes > p.home->queues->size.chunk_bytes) return false;
  const std::uint32_t n = (bytes - std::uint32_t{sizeof(wire::header)}) / 2;
  for (std::uint32_t i = 0; i < n; ++i) {
    std::uint16_t c;
    std::memcpy(&c, at + sizeof(wire::header) + 2 * i, 2);
    if (!p.home->queues->request_chunks->settle(c, p.rank)) return false;
    peer_answered(p.home->queues->request_chunks->at(c));
    p.home->queues->request_chunks->give(c);
  }
  return true;
}

// Takes what mine lacks; false: something is short.
bool engine::equip(domain& d, poller& mine) noexcept {
  if (!mine.reply_chunk && !(mine.reply_chunk = d.queues->reply_chunks->take())) reap_sends(d);
  if (!mine.spare[0]) mine.spare[0] = d.queues->small->take_spare();
  if (!mine.spare[1]) mine.spare[1] = d.queues->bulk->take_spare();
  return mine.equipped();
}

// Gives back what is the last of its kind, and keeps the rest for the next poll: whoever empties a
// pool fills it again, so that threads which do not poll for long can keep nobody from polling.
void engine::lay_down(domain& d, poller& mine) noexcept {
  if (mine.keeps) return;
  if (mine.reply_chunk && d.queues->reply_chunks->empty()) {
    d.queues->reply_chunks->give(*mine.reply_chunk);
    mine.reply_chunk.reset();
  }
  queues::receive_pool* const pools[] = {d.queues->small.get(), d.queues->bulk.get()};
  for (unsigned i = 0; i < 2; ++i) {
    if (!mine.spare[i] || !pools[i]->no_spare()) continue;
    if (pools[i]->post(mine.held[i]) != 0 ||
        d.queues->replace_reply_receives(0, mine.late_receives, false) != 0) [[unlikely]]
      receives_failed();
    pools[i]->give_spare(*mine.spare[i]);
    mine.spare[i].reset();
  }
}

// AM_EQ: one request with a reply chunk and a spare in hand, up to am_limit of them. Its buffer is
// posted again when all that answers it is on its way.
unsigned engine::poll_requests_verbs(domain& d, poller& mine, std::uint32_t tag) noexcept {
  const unsigned limit = settings_.am_limit == 0 ? batch : std::min(settings_.am_limit, batch);
  ibv_wc wc;
  unsigned n = 0;
  const bool kept = mine.equipped();
  while (n < limit && (mine.equipped() || equip(d, mine)) &&
         ibv_poll_cq(d.queues->am_cq, 1, &wc) == 1) {
    ++n;
    const std::uint32_t from = d.queues->identity_of(wc.qp_num), rank = rank_of(from);
    if (rank >= size_) [[unlikely]]
      continue;
    peer& p = d.peers[rank];
    if (wc.status != IBV_WC_SUCCESS) [[unlikely]] {
      if (!closing_) peer_failed(p, device_.verbs->wc_status_str(wc.status));
      continue;
    }
    const unsigned lane = lane_of(from) == lane_bulk;
    queues::receive_pool& pool = lane == 0 ? *d.queues->small : *d.queues->bulk;
    const auto buffer = static_cast<std::uint32_t>(wc.wr_id);
    wire::header h;
    const std::byte* fixed = nullptr;
    std::byte* payload = nullptr;
    if (!find_parts(pool.at(buffer), wc.byte_len, h, fixed, payload)) [[unlikely]]
      peer_failed(p, malformed);
    token_state t(*this, p, h, true);
    t.cost = lane == 0 ? 1 : d.queues->size.full_cost;
    t.reply_chunk = static_cast<std::uint16_t>(*mine.reply_chunk);
    const bool urgent = note_request(p, t);
    if (!run_handler(t, fixed, payload)) [[unlikely]]
      peer_failed(p, malformed);
    count(p.requests_handled);
    if (!t.replied) {
      enter(p.request_in, tag);
      p.unanswered[p.unanswered_count++] = h.chunk;
      owe(p, t.cost, t.grant);
      const bool full =
          p.unanswered_count >= unanswered_limit_ ||
          p.owed.load(std::memory_order_relaxed) >= p.return_batch.load(std::memory_order_relaxed);
      if (urgent || full) push_credits_verbs(p, tag);
      p.request_in.leave(tag);
    }
    if (t.reply_chunk == queues::no_chunk) mine.reply_chunk.reset();
    if (pool.post_in_turn(buffer, mine.held[lane]) != 0) [[unlikely]]
      peer_failed(p, "ibv_post_srq_recv failed");
  }
  if (n != 0) d.ledger->count_requests(n);
  if (n != 0 || !kept) lay_down(d, mine);
  return n;
}

// Sends what p is owed, and the chunks of its requests that had no reply; inside request_in.
void engine::push_credits_verbs(peer& p, std::uint32_t tag) noexcept {
  if (p.unanswered_count == 0) return;
  std::optional<std::uint32_t> chunk;
  await_sends(p, [&] { return (chunk = p.home->queues->reply_chunks->take()).has_value(); });
  enter(p.reply_out, tag);
  wire::header h = credits_header(p);
  std::byte* const at = p.home->queues->reply_chunks->at(*chunk);
  const std::uint16_t last = p.unanswered[--p.unanswered_count];
  h.chunk = last;
  std::memcpy(at, &h, sizeof h);
  std::memcpy(at + sizeof h, p.unanswered, 2u * p.unanswered_count);
  const auto n = static_cast<std::uint32_t>(sizeof h + 2u * p.unanswered_count);
  p.unanswered_count = 0;
  (void)write_reply(p, *chunk, n, last);
  p.credit_messages.add(1);
  p.reply_out.leave(tag);
  if (n <= max_inline_) p.home->queues->reply_chunks->give(*chunk);
}

unsigned engine::poll_verbs(domain& d, std::uint32_t tag) noexcept {
  poller& mine = my_poller(tag, d);
  unsigned n = 0;
  const bool both = ++mine.since_look % polls_of_one == 0, replies = mine.replies_due != 0;
  if (replies) --mine.replies_due;
  if (replies || both) n = poll_replies_verbs(d, mine);
  if (!replies || both) n += poll_requests_verbs(d, mine, tag);
  if (mine.since_look < polls_a_look) return n;
  mine.since_look = 0;
  if (attention()) [[unlikely]]
    look_around();
  (void)reap_sends(d);
  n += transfers_.reap(d);
  if (n == 0) return_idle_credits(d, mine, tag);
  return n;
}

// Nothing has come: a few peers, in turn, get back what they are owed.
void engine::return_idle_credits(domain& d, poller& mine, std::uint32_t tag) noexcept {
  const std::uint32_t all = d.connected.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < std::min(all, 4u); ++i) {
    mine.cursor = mine.cursor + 1 < all ? mine.cursor + 1 : 0;
    peer& p = *d.order[mine.cursor];
    if (p.owed.load(std::memory_order_relaxed) == 0 || !p.request_in.try_enter(tag)) continue;
    if (++p.idle >= idle_looks) {
      p.idle = 0;
      push_credits_verbs(p, tag);
    }
    p.request_in.leave(tag);
  }
}

}  // namespace penstock::conduit
