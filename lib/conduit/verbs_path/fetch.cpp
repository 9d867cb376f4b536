// Large Mediums by queue pairs, at the target: an RDMA read brings the payload from its sender's
// buffer into one of this process. When it has completed an RDMA write puts the word that frees the
// sender's buffer, and the handler runs. This code waits for nothing but completions (claim 15):
// what cannot be posted now is tried again by the next poll, in the order in which the messages
// came (claim 22).
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
  f->under_way = f->freed = true;  // nothing has to be fetched
  f->payload.store(fetch::state::here, std::memory_order_relaxed);
  fetches_[t.from->home->index].add(*f);
}

// True if requests wait for room for their replies, or until their senders have taken large
// replies.
bool verbs_path::holds_back(domain& d, std::uint32_t tag) noexcept {
  return !acquire_reply_resources(d, c_.my_poller(tag, d)) || fetches_[d.index].waiting() ||
         !c_.large().may_reply();
}

// Posts f's read or word, if it can be posted now: n bytes, `at` bytes behind the beginning of the
// sender's buffer and of f's. copied: the device takes them inline, and nobody is told of the end.
// Inside reply_out.
bool verbs_path::post_fetch(const fetch& f, ibv_wr_opcode op, std::size_t at, std::uint32_t n,
                            bool copied) noexcept {
  peer& p = *f.from;
  queues::lane& lane = p.lanes[lane_reply];
  if (!p.home->queues->admits(lane, !copied, queues::room_share::all)) return false;
  const std::uint32_t key = c_.large().local_key(f.buffer);
  if (key == 0) fatal(1, "a large Medium of rank %u needs registered memory", p.rank);
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(c_.large().line(f.buffer) + at), n, key};
  ibv_send_wr wr;
  describe(wr, op, sge, copied);
  wr.wr.rdma.remote_addr = f.where.base + large_buffers::offset(f.where.buffer) + at;
  wr.wr.rdma.rkey = f.where.key;
  const queues::holding h{.fetch = copied ? queues::no_fetch : f.buffer};
  if (const int e = lane.post(wr, identity(p.rank, lane_reply), h); e != 0) c_.post_refused(p, e);
  return true;
}

// Posts the read of f's payload, if there is a buffer and it can be posted now.
void verbs_path::start_fetch(fetch& f, std::uint32_t tag) noexcept {
  peer& p = *f.from;
  PENSTOCK_ASSERT(f.copy == nullptr, ==, true);  // else nothing has to be fetched
  PENSTOCK_ASSERT(f.buffer, ==, large_buffers::none);
  if (!p.reply_out.try_enter(tag)) return;
  const auto use = !f.request                                ? large_buffers::use::fetched_reply
                   : large_buffers::is_offer(f.where.buffer) ? large_buffers::use::fetched_offer
                                                             : large_buffers::use::fetched_request;
  if (p.lanes[lane_reply].has_room()) f.buffer = c_.large().take(use, p.rank);
  if (f.buffer != large_buffers::none) {
    PENSTOCK_ASSERT(f.buffer, <, large_buffers::count);
    fetches_[p.home->index].by_buffer[f.buffer].store(&f, std::memory_order_relaxed);
    f.under_way = true;
    if (!post_fetch(f, IBV_WR_RDMA_READ, 64, std::uint32_t{f.header.length} + 1, false)) {
      f.under_way = false;
      c_.large().give(std::exchange(f.buffer, large_buffers::none));
    }
  }
  leave_replies(p, tag);
}

// f's payload is here: posts the write of the word that frees the sender's buffer, if it can be
// posted now. A read of another message does not wait for it, as it would behind a fence. True: the
// handler may run. Where the device does not copy the word, that has to wait for its completion, as
// the word is sent from the first line of f's buffer.
bool verbs_path::free_source(fetch& f, std::uint32_t tag) noexcept {
  peer& p = *f.from;
  PENSTOCK_ASSERT(f.under_way && !f.freed && f.buffer != large_buffers::none, ==, true);
  if (!p.reply_out.try_enter(tag)) return false;
  const std::uint32_t number = f.where.number;
  const bool copied = sizeof number <= short_inline_;
  std::memcpy(c_.large().line(f.buffer), &number, sizeof number);
  if (!copied) f.payload.store(fetch::state::awaited, std::memory_order_relaxed);
  f.freed = post_fetch(f, IBV_WR_RDMA_WRITE, 0, sizeof number, copied);
  if (!f.freed) f.payload.store(fetch::state::here, std::memory_order_relaxed);
  leave_replies(p, tag);
  return f.freed && copied;
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
  const bool may_answer = requests && c_.large().may_reply() &&
                          (mine.holds_reply_resources() || acquire_reply_resources(d, mine));
  // Before the first handler runs, all that can be started or freed now is.
  for (bool whole = true;; whole = false) {
    if (!all.at.try_enter(tag)) break;
    all.take_arrived();
    fetch* ready = nullptr;
    const peer* full = nullptr;  // the last one found to have its share of large replies
    const auto may_run = [&](const peer* of) {
      if (!may_answer || !mine.reply_chunk || of == full) return false;
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
      const bool read = payload == fetch::state::here && (f.freed || gone || free_source(f, tag));
      if (read && ready == nullptr && (!f.request || may_run(f.from))) {
        ready = &f;
        *at = f.next;
        if (!whole) break;
      } else {
        at = &f.next;
      }
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
