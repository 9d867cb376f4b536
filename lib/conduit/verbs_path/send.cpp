// Sending by queue pairs: requests, and the payloads of Longs.
#include <algorithm>
#include <cstring>

#include "lib/base/backoff.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/cross_process.hpp"
#include "lib/conduit/verbs_path/verbs_path_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

// ok if the next work request on lane l of p may be posted, else no_space.
[[gnu::always_inline]] inline status may_request(inside<end_of::request_out>, peer& p,
                                                 unsigned l) noexcept {
  return p.home->queues->admits(p.lanes[l], false, queues::room_share::requests) ? status::ok
                                                                                 : status::no_space;
}

// The offset in its chunk at which a message that is written in place begins, so that its payload
// is aligned for any type. A Medium surely fits behind it, since chunks have room for a packed
// Long's block.
constexpr std::uint32_t begin_in_chunk(wire::kind k, unsigned nargs) noexcept {
  const std::uint32_t at = codec::packed::payload_at(wire::fixed_bytes(k, nargs));
  return (at + 15u) / 16 * 16 - at;
}
static_assert(begin_in_chunk(wire::kind::medium, max_args) +
                  codec::packed::payload_at(wire::fixed_bytes(wire::kind::medium, max_args)) +
                  max_eager <=
              wire::full_bytes(max_eager));

}  // namespace

std::uint32_t verbs_path::cost_of(const peer& p, const outgoing& m) const noexcept {
  if (places(p)) return 1;
  const bool carry = m.kind == wire::kind::medium || (m.kind == wire::kind::long_ && packs(m));
  const std::uint32_t n = wire::packed_bytes(wire::fixed_bytes(m.kind, m.nargs),
                                             carry ? static_cast<std::uint32_t>(m.bytes) : 0);
  return n <= c_.queue_sizes().small_bytes ? 1 : c_.queue_sizes().full_cost;
}

// True for a Long whose payload travels with its header.
bool verbs_path::packs(const outgoing& m) const noexcept {
  return m.by == payload_way::best && c_.options().packed_long && m.bytes <= max_eager &&
         m.bytes + wire::fixed_bytes(m.kind, m.nargs) + sizeof(wire::header) <=
             c_.options().packed_long_cutover;
}

// Posts the payload of a Long; inside request_out or reply_out. A small payload that its sender
// wants back at once is copied, as a put's is. The code waits for completions of sends only, which
// need nothing that this thread holds.
verbs_path::written verbs_path::write_payload(peer& p, unsigned l, const outgoing& m,
                                              chunk_place chunk) noexcept {
  queues::lane& lane = p.lanes[l];
  const auto share = l == lane_reply ? queues::room_share::all : queues::room_share::requests;
  const std::size_t most = std::min<std::size_t>(c_.device().max_message(), std::size_t{1} << 30);
  const std::size_t copied =
      m.async ? 0
              : std::min<std::size_t>(c_.options().put_bounce_limit, c_.queue_sizes().chunk_bytes);
  const auto* const from = static_cast<const std::byte*>(m.payload);
  written w;
  std::size_t done = 0;
  const auto post = [&](const void* at, std::size_t n, std::uint32_t key, unsigned flags,
                        bool awaited, std::uint16_t held = queues::no_source) noexcept {
    const bool signal = awaited || held != queues::no_source || done + n == m.bytes;
    await_sends(p, [&]() noexcept {
      return lane.has_room(2) && p.home->queues->admits(lane, signal, share);
    });
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(at), static_cast<std::uint32_t>(n), key};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = flags;
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(m.dest) + done;
    wr.wr.rdma.rkey = p.segment_rkey.load(std::memory_order_relaxed);
    if (const int e = lane.post(wr, identity(p.rank, l), {queues::no_chunk, held}, signal); e != 0)
      c_.post_refused(p, e);
    done += n;
    w.last = lane.posted();
  };
  while (done < m.bytes) {
    const std::size_t left = m.bytes - done;
    long_source s;
    if (left <= max_inline_) {
      post(from + done, left, 0, IBV_SEND_INLINE, false);
    } else if (chunk.has_payload) {
      post(from + done, left, chunk.lkey, 0, false);
    } else if (left > copied && c_.hold_source(from + done, left, s)) {
      w.in_place = true;
      for (std::size_t n; s.bytes != 0; s.bytes -= n) {
        n = std::min(s.bytes, most);
        post(from + done, n, s.lkey, 0, false, n == s.bytes ? s.held : queues::no_source);
      }
    } else {
      await_sends(p, [&]() noexcept { return lane.completed(w.by_chunk); });
      const std::size_t n = std::min<std::size_t>(left, c_.queue_sizes().chunk_bytes);
      std::memcpy(chunk.at, from + done, n);
      post(chunk.at, n, chunk.lkey, 0, true);
      w.by_chunk = w.last;
    }
  }
  return w;
}

// True if the setting LONG_DEPTH, which limits the payloads of Longs under way to a peer, allows
// another one. All of them go by one lane, so the oldest is the first to
// arrive.
bool verbs_path::long_may_go(inside<end_of::request_out> in, const peer& p,
                             unsigned l) const noexcept {
  if (p.home->longs.empty()) return true;
  const domain::longs_out& o = p.home->longs[p.rank][in];
  return o.count < long_depth_ || p.lanes[l].completed(o.number[o.count % long_depth_]);
}

void verbs_path::long_went(inside<end_of::request_out> in, const peer& p,
                           std::uint64_t number) noexcept {
  if (p.home->longs.empty()) return;
  domain::longs_out& o = p.home->longs[p.rank][in];
  o.number[o.count++ % long_depth_] = number;
}

// Posts a request of n bytes, which write(to, header) builds, on lane l; `cost` credits are leased
// for it. copied: the device takes it inline. held: its chunk, if it has one already.
// before(chunk): posts what has to go ahead of the request, and says whether the request may be
// posted. opcode(wr): turns the SEND into what the message goes by, or leaves it.
template <class Write, class Before, class Opcode>
[[gnu::always_inline]] inline status verbs_path::post_request(
    inside<end_of::request_out> in, peer& p, std::uint32_t tag, unsigned l, std::uint32_t cost,
    std::uint32_t n, bool copied, const held_chunk& held, Write&& write, Before&& before,
    Opcode&& opcode) noexcept {
  queues::chunk_pool& chunks = *p.home->queues->request_chunks;
  const bool take = held.chunk == queues::no_chunk;
  const std::optional<std::uint32_t> chunk = take ? chunks.take_for(p.rank) : held.chunk;
  if (!chunk) return status::no_chunk;
  if (const status s = before(*chunk); s != status::ok) [[unlikely]] {
    if (take) chunks.give(*chunk);
    return s;
  }
  // A message that the device copies at once is built on the stack: the peer has written the
  // chunk's lines, and will do so again, so they are not in this core's cache.
  alignas(16) std::byte here[wire::credit_bytes];
  std::byte* const at = copied ? here : chunks.at(*chunk) + held.begin;
  wire::header h;
  h.credit = credits_.request_credit_byte(in, p, cost);
  h.chunk = static_cast<std::uint16_t>(*chunk);
  write(at, h);
  PENSTOCK_ASSERT(n, <=, copied ? wire::credit_bytes : chunks.chunk_bytes() - held.begin);
  chunks.lend(*chunk, p.rank);
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(at), n, copied ? 0 : chunks.keys().lkey};
  ibv_send_wr wr;
  describe(wr, IBV_WR_SEND, sge, copied);
  opcode(wr);
  if (const int e = p.lanes[l].post(wr, identity(p.rank, l), {}); e != 0) c_.post_refused(p, e);
  PENSTOCK_ASSERT(p.credits.lease[in], >=, cost);
  p.credits.lease[in] -= cost;
  p.requests_sent.add(1);
  c_.my_poller(tag, *p.home).replies_due = polls_for_replies;
  return status::ok;
}

[[gnu::always_inline]] inline bool verbs_path::request_plain(peer& p, std::uint32_t tag,
                                                             const outgoing& m) noexcept {
  if (!plain_ || !is_plain(m)) [[unlikely]]
    return false;
  const codec::packed l(m);
  if (l.bytes > short_inline_) [[unlikely]]
    return false;
  const auto entered = p.request_out.try_enter(tag);
  if (!entered) [[unlikely]]
    return false;
  if (!connections::is_ready(p, lane_request)) [[unlikely]] {  // never for this process itself
    p.request_out.leave(tag);
    return false;
  }
  const auto in = *entered;
  const auto before = [in, &p](std::uint32_t) { return may_request(in, p, lane_request); };
  const bool sent =
      p.credits.lease[in] != 0 && post_request(in, p, tag, lane_request, 1, l.bytes, true, {},
                                               packed_writer<codec::words::pairs>(m, l), before,
                                               [](ibv_send_wr&) {}) == status::ok;
  if (m.kind == wire::kind::medium && sent) p.counts.sent.medium(m.bytes);
  if (sent) PENSTOCK_PROBE(request, p.rank, m.handler, static_cast<unsigned>(m.kind), m.bytes);
  p.request_out.leave(tag);
  return sent;
}

bool verbs_path::request_quick(peer& p, std::uint32_t tag, std::uint8_t handler,
                               const std::uint32_t* args, unsigned nargs) noexcept {
  return request_plain(p, tag, of_user(handler, args, nargs));
}

bool verbs_path::request_quick(peer& p, std::uint32_t tag, std::uint8_t handler,
                               const std::uint32_t* args, unsigned nargs, const void* payload,
                               std::size_t bytes) noexcept {
  return request_plain(p, tag, of_user(handler, args, nargs, payload, bytes));
}

// Finds the draft a chunk: the payload's place is behind room for the header and the words, so that
// the message is sent from the chunk. Drafts hold a quarter of a domain's chunks at most, so that
// other requests find some.
void verbs_path::reserve(peer& p, draft& d, std::size_t least, std::size_t most) noexcept {
  queues::chunk_pool& chunks = *p.home->queues->request_chunks;
  const std::uint32_t at = begin_in_chunk(d.kind, d.nargs) +
                           codec::packed::payload_at(wire::fixed_bytes(d.kind, d.nargs));
  const std::size_t room =
      d.kind == wire::kind::medium ? std::size_t{max_eager} : chunks.chunk_bytes() - at;
  if (least > room || drafts_.load(std::memory_order_relaxed) >= chunks.chunks() / 4) return;
  const std::optional<std::uint32_t> chunk = chunks.take_spare();
  if (!chunk) return take_chunks_back(*p.home);
  drafts_.fetch_add(1, std::memory_order_relaxed);
  d.chunk = static_cast<std::uint16_t>(*chunk);
  d.payload = chunks.at(*chunk) + at;
  d.most = std::min(most, room);
}

void verbs_path::cancel(peer& p, draft& d) noexcept {
  PENSTOCK_ASSERT(d.chunk, !=, queues::no_chunk);
  p.home->queues->request_chunks->give(std::exchange(d.chunk, queues::no_chunk));
  [[maybe_unused]] const auto before = drafts_.fetch_sub(1, std::memory_order_relaxed);
  PENSTOCK_ASSERT(before, !=, 0u);
}

// Called for m, which takes a lane that is not connected yet: asks for the lane, unless m finds too
// few credits for it anyway and can go by rendezvous. Then the lane is made when there are credits.
status verbs_path::ask_for_lane(peer& p, unsigned lane, const outgoing& m) noexcept {
  if (lane == lane_bulk && m.is_offerable() && connections::is_ready(p, lane_request)) {
    const auto& ledger = *p.home->ledger;
    const std::uint32_t cost = c_.queue_sizes().full_cost,
                        left = ledger.left_to_offers(p.rank, cost);
    if (left != 0 && credits_.lacks(p, cost + left)) return status::no_credit;
  }
  return connections_.connect(p, lane);
}

// Has the lane of full-size messages made once the loan holds one, before it is needed.
void verbs_path::expect_bulk(peer& p) noexcept {
  if (places(p)) return;
  if (connections::is_ready(p, lane_bulk)) return;
  const auto& ledger = *p.home->ledger;
  const std::uint32_t cost = c_.queue_sizes().full_cost;
  if (ledger.send_credits(p.rank) >= cost + ledger.left_to_offers(p.rank, cost))
    connections_.foresee_bulk(p);
}

status verbs_path::try_request(peer& p, const outgoing& original) noexcept {
  outgoing m = original;
  if (m.kind == wire::kind::long_ && packs(m)) m.kind = wire::kind::packed_long;
  const codec::packed layout(m);
  const bool small = layout.bytes <= p.home->queues->size.small_bytes;
  const bool placed = !small && places(p);
  const unsigned l = small || placed ? lane_request : lane_bulk;
  if (c_.some_gone() && c_.is_gone(p.rank)) [[unlikely]]
    return status::peer_dead;
  if (!connections::is_ready(p, l)) [[unlikely]]
    return ask_for_lane(p, l, m);
  const std::uint32_t tag = my_tag();
  const auto entered = p.request_out.try_enter(tag);
  if (!entered) [[unlikely]]
    return status::busy;
  const auto in = *entered;
  // A peer that was connected meanwhile may have no space.
  if (connections::closed_meanwhile(p, l) || (placed && !has_space(p))) [[unlikely]] {
    p.request_out.leave(tag);
    return status::busy;
  }
  status s = status::ok;
  const std::uint32_t cost = l == lane_request ? 1 : p.home->queues->size.full_cost;
  written w;
  std::uint32_t sent_chunk = 0;
  queues::placing place;
  const bool separate = m.kind == wire::kind::long_ && m.bytes != 0 && m.by != payload_way::ahead;
  const bool leases = p.credits.lease[in] < cost;
  if (leases) {
    credits_.collect_returned(p, tag);
    s = credits_.take_credits(in, p, m, cost);
  }
  const held_chunk held = m.written == nullptr
                              ? held_chunk{}
                              : held_chunk{m.written->chunk, begin_in_chunk(m.kind, m.nargs)};
  const bool copied = layout.bytes <= short_inline_;
  if (s == status::ok)
    s = post_request(
        in, p, tag, l, cost, layout.bytes, copied, held,
        [&](std::byte* to, const wire::header& h) {
          sent_chunk = h.chunk;
          packed_writer<codec::words::exact>(m, layout)(to, h);
        },
        [&](std::uint32_t chunk) {
          if (placed) {
            const auto found = p.placed->tx.find(layout.bytes);
            if (p.placed->tx.is_broken()) [[unlikely]]
              c_.peer_failed(p, core::malformed);
            if (!found) return status::no_space;
            place = *found;
          }
          if (!separate) return may_request(in, p, l);
          if (m.bytes >= c_.cut_from() && m.by == payload_way::best && !m.async &&
              held.chunk == queues::no_chunk) [[unlikely]]
            return status::unsupported;
          if (!p.lanes[l].has_room(2) || !long_may_go(in, p, l)) return status::no_space;
          const queues::chunk_pool& chunks = *p.home->queues->request_chunks;
          w = write_payload(p, l, m,
                            {chunks.at(chunk), chunks.keys().lkey, held.chunk != queues::no_chunk});
          long_went(in, p, w.last);
          // The payload has been posted, so the header must follow: a further try would post the
          // payload again.
          await_sends(p, [&] {
            return (copied || p.lanes[l].completed(w.by_chunk)) &&
                   may_request(in, p, l) == status::ok;
          });
          return status::ok;
        },
        [&](ibv_send_wr& wr) {
          if (!placed) return;
          p.placed->tx.take(place, layout.bytes);
          wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
          wr.imm_data = htobe32(place.immediate());
          wr.wr.rdma.remote_addr = p.placed->tx.address(place);
          wr.wr.rdma.rkey = p.placed->tx.rkey();
        });
  if (s == status::ok) {
    p.counts.sent.note(m.kind, m.bytes, m.system());
    if (c_.drawn() != nullptr) [[unlikely]]
      c_.trace_sent(p, m, m.where != nullptr ? m.where->name() : sent_chunk, false);
    PENSTOCK_PROBE(request, p.rank, m.handler, static_cast<unsigned>(m.kind), m.bytes);
  }
  p.request_out.leave(tag);
  if (s == status::no_space || s == status::no_chunk) reap_sends(*p.home);
  if (s == status::no_chunk) take_chunks_back(*p.home);
  if (leases && s == status::ok) {
    credits_.ask_early(p, cost);
    expect_bulk(p);
    if (c_.spins_before_yield() == 1) [[unlikely]]
      c_.share_core(credit::lease_messages);
  }
  if (s == status::ok && held.chunk != queues::no_chunk) {
    // The chunk belongs to the request now, and comes back with the answer.
    m.written->chunk = queues::no_chunk;
    drafts_.fetch_sub(1, std::memory_order_relaxed);
  } else if (s == status::ok && w.in_place && !m.async) {
    await_sends(p, [&] { return p.lanes[l].completed(w.last); });
  }
  return s;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
