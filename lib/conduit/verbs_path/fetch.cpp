// Large Mediums by queue pairs, at the target: an RDMA read brings the payload from its sender's
// buffer into one of this process, an RDMA write puts the word that frees the sender's buffer, and
// the handler runs when both have completed. This code waits for nothing but completions (claim
// 15): a fetch that cannot be started now is tried again by the next poll, in the order in which
// the messages came (claim 22).
#include <cstring>
#include <new>
#include <utility>

#include "lib/conduit/verbs_path/verbs_path_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

// Keeps a large message of p, which has n bytes at `at`; false: its bytes are malformed.
bool verbs_path::keep_large(peer& p, const wire::header& h, const std::byte* at, std::uint32_t n,
                            bool request, fetches::more say) noexcept {
  const codec::packed l(h);
  if (l.bytes > n || h.nargs() > max_args) return false;
  fetch* const f = new (std::nothrow) fetch;
  if (f == nullptr) fatal(1, "no memory for a message of rank %u", p.rank);
  f->from = &p;
  f->header = h;
  f->request = request;
  f->grant = say.grant;
  f->urgent = say.urgent;
  const std::byte* const fixed = at + sizeof h;
  std::memcpy(&f->where, fixed, sizeof f->where);
  std::memcpy(f->args, fixed + sizeof f->where, 4 * h.nargs());
  if (!large_buffers::holds(f->where.buffer, std::size_t{h.length} + 1) || f->where.number == 0) {
    delete f;
    return false;
  }
  fetches_[p.home->index].add(*f);
  return true;
}

// Keeps t's request, which has n bytes at `at`, until its sender has taken large replies (claim
// 21). The sender's loan bounds how many there are, since their credits go back when they have been
// handled.
void verbs_path::keep_request(token_state& t, const std::byte* at, std::uint32_t n) noexcept {
  fetch* const f = new (std::nothrow) fetch;
  if (f != nullptr) f->copy.reset(new (std::nothrow) std::byte[n]);
  if (f == nullptr || f->copy == nullptr)
    fatal(1, "no memory for a message of rank %u", t.from->rank);
  std::memcpy(f->copy.get(), at, n);
  f->bytes = n;
  f->from = t.from;
  f->header = t.header;
  f->request = true;
  f->urgent = credits_.note_request(*t.from, t);
  f->grant = t.grant;
  f->cost = static_cast<std::uint16_t>(t.cost);
  f->under_way = true;  // nothing has to be started
  f->payload.store(fetch::state::here, std::memory_order_relaxed);
  fetches_[t.from->home->index].add(*f);
}

// True if requests wait for room for their replies, or until their senders have taken large
// replies.
bool verbs_path::holds_back(domain& d, std::uint32_t tag) noexcept {
  return !acquire_reply_resources(d, c_.my_poller(tag, d)) || fetches_[d.index].waiting() ||
         !c_.large().may_reply();
}

// Posts the read of f's payload and, behind it, the write of the word that frees the sender's
// buffer, if both can be posted now. A fence keeps the write behind the read, so the write's
// completion says that both are over. The source of the write is the first line of this process's
// buffer.
void verbs_path::start_fetch(fetch& f, std::uint32_t tag) noexcept {
  peer& p = *f.from;
  domain& d = *p.home;
  queues::lane& lane = p.lanes[lane_reply];
  PENSTOCK_ASSERT(f.copy == nullptr, ==, true);  // else nothing has to be fetched
  PENSTOCK_ASSERT(f.buffer, ==, large_buffers::none);
  if (!p.reply_out.try_enter(tag)) return;
  const auto use = !f.request                                ? large_buffers::use::fetched_reply
                   : large_buffers::is_offer(f.where.buffer) ? large_buffers::use::fetched_offer
                                                             : large_buffers::use::fetched_request;
  if (lane.has_room(2)) f.buffer = c_.large().take(use, p.rank);
  const bool taken = f.buffer != large_buffers::none;
  if (!taken || !d.queues->admits(lane, false, queues::room_share::all)) {
    if (taken) c_.large().give(std::exchange(f.buffer, large_buffers::none));
    leave_replies(p, tag);
    return;
  }
  const std::uint32_t key = c_.large().local_key(f.buffer);
  if (key == 0) fatal(1, "a large Medium of rank %u needs registered memory", p.rank);
  std::byte* const line = c_.large().line(f.buffer);
  const std::uint32_t number = f.where.number;
  std::memcpy(line, &number, sizeof number);
  const std::uint64_t there = f.where.base + large_buffers::offset(f.where.buffer);
  const auto post = [&](ibv_wr_opcode op, std::byte* here, std::uint32_t n, std::uint64_t remote,
                        unsigned flags, queues::holding h, bool signal) {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(here), n, key};
    ibv_send_wr wr{};
    describe(wr, op, sge, false);
    wr.send_flags = flags;
    wr.wr.rdma.remote_addr = remote;
    wr.wr.rdma.rkey = f.where.key;
    if (const int e = lane.post(wr, identity(p.rank, lane_reply), h, signal); e != 0)
      c_.post_refused(p, e);
  };
  fetches& all = fetches_[d.index];
  PENSTOCK_ASSERT(f.buffer, <, large_buffers::count);
  all.by_buffer[f.buffer].store(&f, std::memory_order_relaxed);
  f.under_way = true;
  post(IBV_WR_RDMA_READ, line + 64, std::uint32_t{f.header.length} + 1, there + 64, 0, {}, false);
  await_reply_room(p, true);
  post(IBV_WR_RDMA_WRITE, line, sizeof number, there, IBV_SEND_FENCE,
       {queues::no_chunk, queues::no_source, f.buffer}, true);
  leave_replies(p, tag);
}

// Runs the handler of f, whose payload has been fetched.
void verbs_path::run_one_fetched(fetch& f, poller& mine, std::uint32_t tag) noexcept {
  peer& p = *f.from;
  const std::size_t bytes = std::size_t{f.header.length} + 1;
  PENSTOCK_ASSERT((f.copy != nullptr) == (f.buffer == large_buffers::none), ==, true);
  token_state t(c_.self(), p, f.header, f.request);
  if (f.request) {
    PENSTOCK_ASSERT(mine.reply_chunk.has_value(), ==, true);  // (I3)
    t.cost = f.cost;
    t.grant = f.grant;
    t.reply_chunk = static_cast<std::uint16_t>(*mine.reply_chunk);
  }
  if (f.copy != nullptr) {
    run_other(t, f.copy.get(), f.bytes, t.header.chunk);
    return handled(t, mine, f.urgent, tag);
  }
  t.header.kind_args = wire::kind_args(wire::kind::medium, f.header.nargs());
  t.header.length = 0;
  if (!c_.run_handler(t, {reinterpret_cast<std::byte*>(f.args), c_.large().at(f.buffer)},
                      f.where.name(), bytes)) [[unlikely]]
    c_.peer_failed(p, core::malformed);
  if (f.request)
    handled(t, mine, f.urgent, tag);
  else
    count_shared(p.replies_handled, 1);
}

// Starts the fetches that can be started, and runs the handlers of messages whose payload has been
// fetched; those of requests only if `requests` is set. Returns the number of handlers that have
// run.
unsigned verbs_path::run_fetched(domain& d, poller& mine, std::uint32_t tag,
                                 bool requests) noexcept {
  fetches& all = fetches_[d.index];
  (void)reap_sends(d);
  unsigned n = 0;
  const bool may = requests && c_.large().may_reply() &&
                   (mine.holds_reply_resources() || acquire_reply_resources(d, mine));
  for (;;) {
    if (!all.at.try_enter(tag)) break;
    all.take_arrived();
    fetch* ready = nullptr;
    const peer* full = nullptr;  // the last one found to have its share of large replies
    const auto may_run = [&](const peer* of) {
      if (!may || !mine.reply_chunk || of == full) return false;
      if (!c_.large().crowded() || c_.large().may_reply(of->rank)) return true;
      full = of;
      return false;
    };
    for (fetch** at = &all.first; *at != nullptr;) {
      fetch& f = **at;
      const bool gone = c_.is_gone(f.from->rank);
      if (!f.under_way && !gone) start_fetch(f, tag);
      // F2 here  acquire payload  <- F2 (fetches.hpp): the payload
      const auto payload = f.payload.load(std::memory_order_acquire);
      // That a fetch has failed ends this process, unless the sender turns out to have left.
      if (gone && (payload == fetch::state::failed || !f.under_way)) [[unlikely]] {
        c_.large().lost(f.from->rank);
        *at = f.next;
        if (f.buffer != large_buffers::none) c_.large().give(f.buffer);
        all.remove();
        delete &f;
        continue;
      }
      if (payload == fetch::state::here && (!f.request || may_run(f.from))) {
        ready = &f;
        *at = f.next;
        break;
      }
      at = &f.next;
    }
    all.at.leave(tag);
    if (ready == nullptr) break;
    const bool request = ready->request;
    run_one_fetched(*ready, mine, tag);
    if (ready->buffer != large_buffers::none) c_.large().give(ready->buffer);
    delete ready;
    all.remove();
    ++n;
    if (request && !mine.holds_reply_resources() && !acquire_reply_resources(d, mine)) break;
  }
  if (requests) release_reply_resources(d, mine);
  return n;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
