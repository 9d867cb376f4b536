// Receiving by queue pairs: completions of sends, replies and system messages, requests; and the
// poll that looks for them. verbs_path.hpp says how messages travel.
#include <algorithm>
#include <cstring>

#include "lib/base/cross_process.hpp"
#include "lib/conduit/verbs_path/verbs_path_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr unsigned completions_a_poll = 16;
static_assert(completions_a_poll <= queues::dimensions::receives_a_post,
              "what one poll took is put back at once");

// Copies the header of a message of n bytes at `at` to h; false: the message is shorter than one.
bool find_header(const std::byte* at, std::uint32_t n, wire::header& h) noexcept {
  if (n < sizeof h) return false;
  std::memcpy(&h, at, sizeof h);
  return true;
}

// Adds one to a counter that any thread may add to.
void count(event_counter& n) noexcept {
  if constexpr (concurrent(build_mode))
    n.add_shared(1);
  else
    n.add(1);
}

}  // namespace

// Handles completions of sends. Any thread may call it at any time; it runs no handler.
unsigned verbs_path::reap_sends(domain& d) noexcept {
  ibv_wc wc[completions_a_poll];
  const int n = ibv_poll_cq(d.queues->send_cq, completions_a_poll, wc);
  if (n < 0) [[unlikely]]
    fatal(1, "ibv_poll_cq of the send queue failed on %s", c_.device().name.c_str());
  auto tickets = static_cast<std::uint32_t>(n);
  for (int i = 0; i < n; ++i) {
    const auto id = static_cast<std::uint32_t>(wc[i].wr_id >> 32);
    peer& p = d.peers[rank_of(id)];
    auto payload = fetch::state::here;
    if (wc[i].status != IBV_WC_SUCCESS) [[unlikely]] {
      if (!queues::lane::had_ticket(wc[i].wr_id)) --tickets;
      if (c_.closing()) continue;
      c_.lost_contact(p, c_.device().verbs->wc_status_str(wc[i].status));
      payload = fetch::state::failed;
    }
    p.lanes[lane_of(id)].complete(static_cast<std::uint32_t>(wc[i].wr_id),
                                  [this, &d, payload](queues::holding h) {
                                    if (h.chunk != queues::no_chunk)
                                      d.queues->reply_chunks->give(h.chunk);
                                    if (h.source != queues::no_source) c_.release_source(h.source);
                                    if (h.fetch != queues::no_fetch) [[unlikely]]
                                      fetches_[d.index].note_end(h.fetch, payload);
                                  });
  }
  PENSTOCK_ASSERT(tickets, <=, static_cast<std::uint32_t>(n));
  d.queues->send_room.give(tickets);
  if (n == 0) c_.slow_progress_in_wait();
  return static_cast<unsigned>(n);
}

void verbs_path::receives_failed() noexcept {
  fatal(1, "ibv_post_srq_recv failed on %s", c_.device().name.c_str());
}

// Reposts the n receives for replies that were just taken. A thread that holds a spare posts them
// in batches, and the last ones when its poll finds nothing.
inline void verbs_path::put_receives_back(domain& d, poller& mine, std::uint32_t n,
                                          bool spare) noexcept {
  if (d.queues->replace_reply_receives(n, mine.late_receives, spare) != 0) [[unlikely]]
    receives_failed();
}

// Calls the handler of a plain message of n bytes at `at`. Only its length has to be checked.
[[gnu::always_inline]] inline void verbs_path::run_plain(token_state& t, std::byte* at,
                                                         std::uint32_t n) noexcept {
  const codec::packed l(t.header);
  if (l.bytes > n || l.carried > max_eager) [[unlikely]]
    c_.peer_failed(*t.from, core::malformed);
  const codec::parts where = l.find(at);
  c_.call_handler(c_.handlers().user[t.header.handler], t, where.fixed, where.payload, l.carried);
  if (t.header.kind() == wire::kind::medium)
    (t.request ? t.from->counts.handled : t.from->counts.answered)
        .note_shared(wire::kind::medium, l.carried, false);
}

// The same for a message that is not plain.
void verbs_path::run_other(token_state& t, std::byte* at, std::uint32_t n,
                           std::uint32_t chunk) noexcept {
  const codec::packed l(t.header);
  if (l.bytes > n || !c_.run_handler(t, l.find(at), chunk)) [[unlikely]]
    c_.peer_failed(*t.from, core::malformed);
}

// Takes a reply that is not plain, or a message of credits.
void verbs_path::take_other_reply(peer& p, const wire::header& h, std::byte* at, std::uint32_t n,
                                  std::uint32_t tag) noexcept {
  if (h.kind() == wire::kind::credits) {
    if (!free_listed_chunks(p, at, n) || !credits_.system_message(p, h, {})) [[unlikely]]
      c_.peer_failed(p, core::malformed);
    return;
  }
  // A large one is kept first: when all credits have come back, p is taken for idle unless a
  // payload is yet to be fetched (part.cpp).
  const bool large = h.kind() == wire::kind::large;
  if (large && !keep_large(p, h, at, n, false, {})) c_.peer_failed(p, core::malformed);
  constexpr std::uint8_t more_than_a_count = 0xf0;
  if ((h.credit & more_than_a_count) != 0 || !credits_.try_note_returned(p, h.chunk, tag))
    credits_.absorb_reply(p, h, tag, {});
  if (large) return;
  token_state t(c_.self(), p, h, false);
  const queues::chunk_pool& chunks = *p.home->queues->request_chunks;
  run_other(t, at, n, static_cast<std::uint32_t>(at - chunks.at(0)) / chunks.chunk_bytes());
  count(p.replies_handled);
}

// Takes a request that is not plain. True: its sender waits for credits.
bool verbs_path::take_other_request(token_state& t, std::byte* at, std::uint32_t n) noexcept {
  const bool urgent = credits_.note_request(*t.from, t);
  run_other(t, at, n, t.header.chunk);
  return urgent;
}

// Takes up to limit of what a poll of reply_cq finds: system messages, then replies (SAFE_EQ).
[[gnu::always_inline]] inline unsigned verbs_path::take_some_replies(domain& d, poller& mine,
                                                                     std::uint32_t tag,
                                                                     unsigned limit) noexcept {
  ibv_wc wc[completions_a_poll];
  const int n = ibv_poll_cq(d.queues->reply_cq, static_cast<int>(limit), wc);
  if (n <= 0) {
    if (n < 0) [[unlikely]]
      fatal(1, "ibv_poll_cq of replies failed on %s", c_.device().name.c_str());
    if (mine.late_receives >= queues::dimensions::most_late / 2) [[unlikely]]
      put_receives_back(d, mine, 0, false);
    return 0;
  }
  put_receives_back(d, mine, static_cast<std::uint32_t>(n), mine.holds_reply_resources());
  std::uint32_t kinds = 0;
  for (int i = 0; i < n; ++i) kinds |= wc[i].imm_data;
  if ((kinds & htobe32(imm_system)) != 0) [[unlikely]]
    take_words(d, wc, n);
  for (int i = 0; i < n; ++i) {
    const std::uint32_t rank = rank_of(d.queues->identity_of(wc[i].qp_num));
    if (rank >= c_.size()) [[unlikely]]
      continue;
    peer& p = d.peers[rank];
    if (wc[i].status != IBV_WC_SUCCESS) [[unlikely]] {
      if (!c_.closing()) c_.lost_contact(p, c_.device().verbs->wc_status_str(wc[i].status));
      continue;
    }
    const std::uint32_t imm = be32toh(wc[i].imm_data);
    if ((imm & imm_system) != 0) [[unlikely]]  // taken before
      continue;
    const std::uint32_t chunk = imm & imm_count;
    // The chunk is settled first: if it was answered twice, or by another rank than its target, the
    // peer's bytes are malformed.
    if (!settle(*d.queues->request_chunks, p, chunk)) [[unlikely]]
      continue;
    wire::header h;
    std::byte* const at = d.queues->request_chunks->at(chunk);
    tsan_hear_peer(at, 16);  // one that was written in place begins within it
    if (!find_header(at, wc[i].byte_len, h) || wc[i].byte_len > d.queues->size.chunk_bytes)
        [[unlikely]]
      c_.peer_failed(p, core::malformed);
    if (c_.handlers().plain(h) && credits_.try_note_returned(p, h.chunk, tag)) [[likely]] {
      token_state t(c_.self(), p, h, false);
      run_plain(t, at, wc[i].byte_len);
      count(p.replies_handled);
    } else {
      take_other_reply(p, h, at, wc[i].byte_len, tag);
    }
    d.queues->request_chunks->give(chunk);
  }
  return static_cast<unsigned>(n);
}

// Takes at most safe_limit of them.
[[gnu::always_inline]] inline unsigned verbs_path::take_replies(domain& d, poller& mine,
                                                                std::uint32_t tag) noexcept {
  const unsigned batch = std::min(c_.safe_limit(), completions_a_poll);
  unsigned all = take_some_replies(d, mine, tag, batch), n = all;
  while (n == completions_a_poll && all < c_.safe_limit()) [[unlikely]] {
      n = take_some_replies(d, mine, tag, std::min(c_.safe_limit() - all, batch));
      all += n;
    }
  return all;
}

// Takes the reply resources that mine lacks (I3, claim 17); false: one of them is short.
bool verbs_path::acquire_reply_resources(domain& d, poller& mine) noexcept {
  if (!mine.reply_chunk && !(mine.reply_chunk = d.queues->reply_chunks->take())) reap_sends(d);
  if (!mine.spare[0]) mine.spare[0] = d.queues->small->take_spare();
  if (!mine.spare[1])  // where no lane has full-size buffers, any number stands for one
    mine.spare[1] = d.queues->bulk != nullptr ? d.queues->bulk->take_spare() : std::optional(0u);
  return mine.holds_reply_resources();
}

// Gives back each resource that was the last one of its pool, and keeps the others for the next
// poll. A thread that empties a pool refills it in this way, so that threads that hold resources
// and do not poll cannot keep other threads from polling.
void verbs_path::release_reply_resources(domain& d, poller& mine) noexcept {
  if (mine.keeps) return;
  if (mine.reply_chunk && d.queues->reply_chunks->empty()) {
    d.queues->reply_chunks->give(*mine.reply_chunk);
    mine.reply_chunk.reset();
  }
  queues::receive_pool* const pools[] = {d.queues->small.get(), d.queues->bulk.get()};
  for (unsigned i = 0; i < 2; ++i) {
    if (!mine.spare[i] || pools[i] == nullptr || !pools[i]->no_spare()) continue;
    if (pools[i]->post(mine.held[i]) != 0) [[unlikely]]
      receives_failed();
    put_receives_back(d, mine, 0, false);
    pools[i]->give_spare(*mine.spare[i]);
    mine.spare[i].reset();
  }
}

// The placed message of wc.
std::byte* verbs_path::place_of(peer& p, const ibv_wc& wc) noexcept {
  tsan_hear_peer(&p.buffers_base);  // <- heard_hello
  std::byte* const at =
      p.placed == nullptr ? nullptr : p.placed->rx.place_of(be32toh(wc.imm_data), wc.byte_len);
  if (at == nullptr) [[unlikely]]
    c_.peer_failed(p, core::malformed);
  return at;
}

// The placed message of wc has been read.
void verbs_path::free_place(peer& p, const ibv_wc& wc, std::uint32_t tag) noexcept {
  if (p.placed->rx.free(be32toh(wc.imm_data), wc.byte_len)) tell_freed(p, tag);
}

// Takes what polls of am_cq (AM_EQ) find: at most am_limit requests, each with a reply chunk and
// spares in hand. A request's buffer is posted again when its handler has returned and its answer
// is under way.
[[gnu::always_inline]] inline unsigned verbs_path::take_requests(domain& d, poller& mine,
                                                                 std::uint32_t tag) noexcept {
  if (!c_.large().may_reply()) [[unlikely]]  // (claim 21)
    return 0;
  const unsigned limit = c_.am_limit();
  ibv_wc wc;
  unsigned n = 0;
  int got = 0;
  const bool kept = mine.holds_reply_resources(), crowded = c_.large().crowded();
  while (n < limit && (mine.holds_reply_resources() || acquire_reply_resources(d, mine)) &&
         (got = ibv_poll_cq(d.queues->am_cq, 1, &wc)) == 1) {
    ++n;
    const std::uint32_t from = d.queues->identity_of(wc.qp_num), rank = rank_of(from);
    if (rank >= c_.size()) [[unlikely]]
      continue;
    peer& p = d.peers[rank];
    if (wc.status != IBV_WC_SUCCESS) [[unlikely]] {
      if (!c_.closing()) c_.lost_contact(p, c_.device().verbs->wc_status_str(wc.status));
      continue;
    }
    const unsigned lane = lane_of(from) == lane_bulk && d.queues->bulk != nullptr;
    queues::receive_pool& pool = lane == 0 ? *d.queues->small : *d.queues->bulk;
    const auto buffer = static_cast<std::uint32_t>(wc.wr_id);
    const bool placed = wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM;
    std::byte* const at = placed ? place_of(p, wc) : pool.at(buffer);
    wire::header h;
    if (!find_header(at, wc.byte_len, h)) [[unlikely]]
      c_.peer_failed(p, core::malformed);
    token_state t(c_.self(), p, h, true);
    t.cost = lane == 0 ? 1 : d.queues->size.full_cost;
    credits_.check_claim(p, t.cost, 0);
    t.reply_chunk = static_cast<std::uint16_t>(*mine.reply_chunk);
    bool urgent = false, later = false;
    if (crowded && !h.system() && !c_.large().may_reply(rank) && h.kind() != wire::kind::large)
        [[unlikely]] {
      keep_request(t, at, wc.byte_len);
      later = true;
    } else if (c_.handlers().plain(h)) [[likely]] {
      run_plain(t, at, wc.byte_len);
    } else if (h.kind() == wire::kind::large) {
      urgent = credits_.note_request(p, t);
      if (!keep_large(p, h, at, wc.byte_len, true, {t.grant, urgent}))
        c_.peer_failed(p, core::malformed);
      later = true;
    } else {
      urgent = take_other_request(t, at, wc.byte_len);
    }
    if (!later) handled(t, mine, urgent, tag);
    if (placed) [[unlikely]]
      free_place(p, wc, tag);
    if (pool.post_in_turn(buffer, mine.held[lane]) != 0) [[unlikely]]
      receives_failed();
  }
  if (got < 0) [[unlikely]]
    fatal(1, "ibv_poll_cq of requests failed on %s", c_.device().name.c_str());
  if (n != 0) d.ledger->count_requests(n);
  if (n != 0 || !kept) release_reply_resources(d, mine);
  return n;
}

unsigned verbs_path::poll_replies(domain& d, std::uint32_t tag) noexcept {
  poller& mine = c_.my_poller(tag, d);
  const unsigned n = take_replies(d, mine, tag);
  return fetches_[d.index].waiting() ? n + run_fetched(d, mine, tag, false) : n;
}

unsigned verbs_path::poll(domain& d, std::uint32_t tag, bool busy, bool& due) noexcept {
  poller& mine = c_.my_poller(tag, d);
  unsigned n = 0;
  const bool both = ++mine.since_look % polls_of_one == 0 || busy;
  // The queue that the caller most likely waits for is polled last, so that the caller goes on at
  // once.
  if (fetches_[d.index].waiting()) [[unlikely]]
    n += run_fetched(d, mine, tag, true);
  if (mine.replies_due != 0) {
    --mine.replies_due;
    if (both) n += take_requests(d, mine, tag);
    n += take_replies(d, mine, tag);
  } else {
    if (both) n += take_replies(d, mine, tag);
    const unsigned requests = take_requests(d, mine, tag);
    // While requests come, nobody waits for the next poll of their queue, and it may find a whole
    // batch of handlers to run: what is in the other queue comes before it.
    if (requests != 0 && !both) n += take_replies(d, mine, tag);
    n += requests;
  }
  // While messages come, a look is put off for polls_a_look further polls.
  due = mine.since_look >= (n == 0 ? polls_a_look : 2 * polls_a_look);
  if (due) [[unlikely]]
    mine.since_look = 0;
  return n;
}

// Called when no message has come: gives a few peers, in turn, the credits that they are owed.
void verbs_path::return_idle_credits(domain& d, std::uint32_t tag) noexcept {
  poller& mine = c_.my_poller(tag, d);
  const std::uint32_t all = d.verbs.count();
  for (std::uint32_t i = 0; i < std::min(all, 4u); ++i) {
    mine.turn = mine.turn + 1 < all ? mine.turn + 1 : 0;
    peer& p = d.verbs[mine.turn];
    if (p.credits.due() == 0) continue;
    const auto in = p.request_in.try_enter(tag);
    if (!in) continue;
    if (++p.idle[*in] >= idle_looks) {
      p.idle[*in] = 0;
      give_credits_back(*in, p, tag);
    }
    p.request_in.leave(tag);
  }
}

}  // namespace penstock::conduit::PENSTOCK_ABI
