// Receiving by rings: requests and replies, and the polls that look for them.
#include <cstring>

#include "lib/conduit/message/cost.hpp"
#include "lib/conduit/ring_path/ring_path_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

// The credits that the request with header h cost its sender.
std::uint32_t cost_of_request(const wire::header& h) noexcept {
  return wire::cost_of_request(h.kind(), h.nargs(), wire::carried_bytes(h));
}

}  // namespace

// Calls the handler of the plain Medium at the front, whose header is t.header, and takes the
// message out; false: the message is malformed, and no handler was called.
inline bool ring_path::run_plain_medium(nic::shm::ring_rx& rx, token_state& t,
                                        relieved_end& e) noexcept {
  const wire::header h = t.header;
  if (h.length > max_eager) [[unlikely]]
    return false;
  const auto l = codec::in_slot::fitting(h.nargs(), h.length);
  const auto m = rx.front_of(op_direct, l.data_bytes);
  if (!m) [[unlikely]]
    return false;
  const codec::parts at = l.find(const_cast<std::byte*>(m.slot->body), m.data);
  thread_place& place = places[my_tag()];
  place.lend(&t.from->end_in(t.request));
  c_.call_handler(c_.handlers().user[h.handler], t, at.fixed, at.payload, h.length);
  if (!place.back()) [[unlikely]] {
    e.counts = true, e.kind = wire::kind::medium, e.bytes = h.length;
    return true;
  }
  (t.request ? t.from->counts.handled : t.from->counts.answered).medium(h.length);
  rx.pop(m);
  return true;
}

// Runs the handler of a message of any kind; false: its bytes are malformed. e.counts: another
// thread has taken the end meanwhile. large: the bytes of a large Medium.
bool ring_path::run_lent(token_state& t, codec::parts at, std::size_t large,
                         relieved_end& e) noexcept {
  thread_place& place = places[my_tag()];
  place.lend(&t.from->end_in(t.request));
  return c_.run_handler(t, at, 0, large, [&](wire::kind k, std::size_t bytes) {
    if (place.back()) [[likely]]
      return true;
    e.counts = true, e.kind = k, e.bytes = bytes, e.system = t.header.system();
    return false;
  });
}

inline bool ring_path::run_any(const nic::shm::ring_rx::message& m, token_state& t,
                               relieved_end& e) noexcept {
  const codec::in_slot l(t.header);
  if (m.op != op_direct || l.data_bytes != m.data_bytes) [[unlikely]]
    return false;
  const codec::parts at = l.find(const_cast<std::byte*>(m.slot->body), m.data);
  if (t.header.kind() == wire::kind::large) return run_large(t, at, e);
  return run_lent(t, at, 0, e);
}

// Takes the request at the front, of any kind, whose header is `word`; `before` requests were taken
// since the end was entered.
ring_path::outcome ring_path::take_other_request(inside<end_of::request_in> in, peer& p,
                                                 nic::shm::ring_rx& rx, std::uint64_t word,
                                                 unsigned before, std::uint32_t tag) noexcept {
  relieved_end e{.handled = before + 1};
  token_state t(c_.self(), p, wire::header_of(word), true);
  t.cost = cost_of_request(t.header);
  credits_.check_claim(p, t.cost, p.credits.due());
  if (c_.handlers().plain(wire::kind::medium, word)) [[likely]] {
    t.lane = p.plain_tx[in];
    if (!run_plain_medium(rx, t, e)) [[unlikely]]
      c_.peer_failed(p, core::malformed);
    if (e.counts) [[unlikely]]
      return end_outside(t, e, tag), outcome::relieved;
    if (!t.replied) p.credits.owe(in, t.cost, 0);
    return outcome::done;
  }
  const auto m = rx.front();
  if (!m) [[unlikely]]  // peek() has seen it
    c_.peer_failed(p, core::malformed);
  const bool urgent = credits_.note_request(p, t);
  t.lane = t.grant == 0 ? p.plain_tx[in] : nullptr;
  if (!run_any(m, t, e)) [[unlikely]]
    c_.peer_failed(p, core::malformed);
  if (e.counts) [[unlikely]] {
    e.urgent = urgent;
    return end_outside(t, e, tag), outcome::relieved;
  }
  rx.pop(m);
  if (!t.replied) p.credits.owe(in, t.cost, t.grant);
  return urgent ? outcome::urgent : outcome::done;
}

// Called when n requests were taken, and the ring is empty. A look at the line that p writes next
// takes the line away from p's core, and p waits for it. So when p sends a stream of requests
// without an answer, polls stop looking for back_off_ticks, and then find several requests at once.
// A process that sends to p meanwhile waits for an answer, and does not back off. Only polls back
// off: the progress thread looks all the same before it goes to sleep (progress::waiting).
inline void ring_path::back_off_in_stream(inside<end_of::request_in> in, peer& p,
                                          unsigned n) noexcept {
  constexpr std::uint32_t stream = 16;  // requests
  const std::uint64_t sent = p.request_tx.seen()->pushed();
  const bool one_way = sent == p.sent_before[in] && p.credits.due() != 0;
  p.sent_before[in] = sent;
  p.streak[in] = one_way ? p.streak[in] + n : 0;
  if (p.streak[in] >= stream)
    p.back_off_until.store(ticks() + back_off_ticks, std::memory_order_relaxed);
}

[[gnu::always_inline]] inline unsigned ring_path::take_requests(peer& p,
                                                                std::uint32_t tag) noexcept {
  const auto entered = p.request_in.try_enter(tag);
  if (!entered && !skip(p, true, tag)) [[unlikely]]
    return 0;
  const auto in = p.request_in.inside_owner(tag);
  nic::shm::ring_rx& rx = *p.request_rx[in];
  const unsigned limit = p.back_off_until.load(std::memory_order_relaxed) == 0 ? c_.am_limit() : 0;
  unsigned n = 0;
  for (; n < limit; ++n) {
    const nic::shm::ring_slot* s;
    auto seen = rx.peek(op_direct, s);
    if (seen == nic::shm::ring_rx::sight::mark) [[unlikely]]
      seen = behind_mark(rx, s);
    if (seen == nic::shm::ring_rx::sight::nothing) {
      if (n != 0) back_off_in_stream(in, p, n);
      break;
    }
    if (p.reply_room[in] == 0 && !find_reply_room(in, p)) [[unlikely]]
      break;
    if (n == 0) p.reply_tx[in]->answered();
    bool urgent = false;
    const std::uint64_t word = s->header;
    if (seen == nic::shm::ring_rx::sight::plain && c_.handlers().plain(wire::kind::short_, word))
        [[likely]] {
      token_state t(c_.self(), p, wire::header_of(word), true);
      t.cost = 1;
      t.lane = p.plain_tx[in];
      places[tag].lend(&p.request_in);
      c_.call_handler(c_.handlers().user[t.header.handler], t, s->body, nullptr, 0);
      if (!places[tag].back()) [[unlikely]] {
        end_outside(t, {.handled = n + 1}, tag);
        return n + 1;
      }
      rx.pop_slot();
      if (!t.replied) p.credits.owe(in, 1, 0);
    } else if (wire::header_of(word).kind() == wire::kind::large && !may_take_large(p, rx, word))
        [[unlikely]] {
      break;
    } else {
      const outcome what = take_other_request(in, p, rx, word, n, tag);
      if (what == outcome::relieved) [[unlikely]]
        return n + 1;
      urgent = what == outcome::urgent;
    }
    if (urgent || p.credits.batch_is_due()) [[unlikely]]
      give_credits_back(in, p, tag);
  }
  if (n != 0) {
    p.requests_handled.add(n);
    p.home->ledger->count_requests(n);
    p.idle[in] = 0;
    p.plain_tx[in] = p.wakes || p.home->ledger->has_epoch_mark(p.rank) ? nullptr : p.reply_tx[in];
  } else if (p.credits.due() != 0 && ++p.idle[in] >= idle_polls) {
    p.idle[in] = 0;
    give_credits_back(in, p, tag);
  }
  p.request_in.leave(tag);
  return n;
}

// Takes the message at the front of the reply lane, of any kind, whose header is `word`.
ring_path::outcome ring_path::take_other_reply(inside<end_of::reply_in> in, peer& p,
                                               nic::shm::ring_rx& rx, std::uint64_t word,
                                               std::uint32_t tag) noexcept {
  const wire::header h = wire::header_of(word);
  if (h.kind() == wire::kind::credits || h.kind() == wire::kind::system) {
    const auto m = rx.front_of(op_direct, 0);
    if (!m || !credits_.system_message(p, h, in)) [[unlikely]]
      c_.peer_failed(p, core::malformed);
    rx.pop(m);
    return outcome::done;
  }
  constexpr std::uint8_t more_than_a_count = 0xf0;
  if ((h.credit & more_than_a_count) != 0) [[unlikely]]
    credits_.absorb_reply(p, h, tag, in);
  else
    credits_.note_returned(in, p, h.chunk);
  token_state t(c_.self(), p, h, false);
  relieved_end e;
  if (c_.handlers().plain(wire::kind::medium, word)) [[likely]] {
    if (!run_plain_medium(rx, t, e)) [[unlikely]]
      c_.peer_failed(p, core::malformed);
  } else {
    const auto m = rx.front();
    if (!m || !run_any(m, t, e)) [[unlikely]]
      c_.peer_failed(p, core::malformed);
    if (!e.counts) [[likely]]
      rx.pop(m);
  }
  if (e.counts) [[unlikely]]
    return end_outside(t, e, tag), outcome::relieved;
  p.replies_handled.add(1);
  p.request_tx.seen()->answered();
  return outcome::done;
}

[[gnu::always_inline]] inline unsigned ring_path::take_replies(peer& p,
                                                               std::uint32_t tag) noexcept {
  const auto entered = p.reply_in.try_enter(tag);
  if (!entered && !skip(p, false, tag)) [[unlikely]]
    return 0;
  const auto in = p.reply_in.inside_owner(tag);
  nic::shm::ring_rx& rx = *p.reply_rx[in];
  unsigned n = 0;
  for (; n < c_.safe_limit(); ++n) {
    const nic::shm::ring_slot* s;
    auto seen = rx.peek(op_direct, s);
    if (seen == nic::shm::ring_rx::sight::mark) [[unlikely]]
      seen = behind_mark(rx, s);
    if (seen == nic::shm::ring_rx::sight::nothing) break;
    const std::uint64_t word = s->header;
    if (seen == nic::shm::ring_rx::sight::plain && c_.handlers().plain(wire::kind::short_, word))
        [[likely]] {
      token_state t(c_.self(), p, wire::header_of(word), false);
      credits_.note_returned(in, p, wire::chunk_of(word));
      places[tag].lend(&p.reply_in);
      c_.call_handler(c_.handlers().user[t.header.handler], t, s->body, nullptr, 0);
      if (!places[tag].back()) [[unlikely]] {
        end_outside(t, {}, tag);
        return n + 1;
      }
      p.replies_handled.add(1);
      rx.pop_slot();
      p.request_tx.seen()->answered();
    } else if (wire::header_of(word).kind() == wire::kind::large && !may_take_large(p, rx, word))
        [[unlikely]] {
      break;
    } else if (take_other_reply(in, p, rx, word, tag) == outcome::relieved) [[unlikely]] {
      return n + 1;
    }
  }
  p.reply_in.leave(tag);
  return n;
}

unsigned ring_path::poll_requests_of(peer& p, std::uint32_t tag) noexcept {
  return take_requests(p, tag);
}

unsigned ring_path::poll_replies_of(peer& p, std::uint32_t tag) noexcept {
  return take_replies(p, tag);
}

[[gnu::always_inline]] inline unsigned ring_path::poll_peer(peer& p, std::uint32_t tag) noexcept {
  unsigned n = 0;
  if (replies_news(p)) n += poll_replies_of(p, tag);
  if (requests_news(p)) n += poll_requests_of(p, tag);
  return n;
}

// The reply rings, which have system messages, too, before the first request.
unsigned ring_path::poll_from(domain& d, std::uint32_t tag, std::uint32_t first,
                              std::uint32_t all) noexcept {
  unsigned n = 0;
  for (std::uint32_t i = first; i < all; ++i)
    if (peer& p = d.rings[i]; replies_news(p)) n += poll_replies_of(p, tag);
  for (std::uint32_t i = first; i < all; ++i)
    if (peer& p = d.rings[i]; requests_news(p)) n += poll_requests_of(p, tag);
  return n;
}

unsigned ring_path::poll(domain& d, std::uint32_t tag, bool, bool&) noexcept {
  const std::uint32_t all = d.rings.count();
  if (all <= poller::few_peers) return poll_from(d, tag, 0, all);
  return poll_in_turn(d, tag, all);
}

unsigned ring_path::poll_others(domain& d, std::uint32_t tag) noexcept {
  const std::uint32_t all = d.rings.count();
  return all > poller::few_peers ? poll_from(d, tag, 0, all) : 0;
}

unsigned ring_path::poll_replies(domain& d, std::uint32_t tag) noexcept {
  unsigned n = 0;
  for (std::uint32_t i = 0, all = d.rings.count(); i < all; ++i) n += take_replies(d.rings[i], tag);
  return n;
}

// Looks at the hot peers, and at some of all peers in turn: each is looked at once in all /
// cold_a_poll polls at least.
unsigned ring_path::poll_in_turn(domain& d, std::uint32_t tag, std::uint32_t all) noexcept {
  unsigned n = 0;
  poller& mine = c_.my_poller(tag, d);
  const auto look = [&](std::uint32_t i, unsigned got) {
    n += got;
    if (got != 0) mine.sent_lately |= 1u << i;
  };
  for (std::uint32_t i = 0; i < mine.hot_count; ++i)
    if (peer& p = *mine.hot[i]; replies_news(p)) look(i, poll_replies_of(p, tag));
  for (std::uint32_t i = 0; i < mine.hot_count; ++i)
    if (peer& p = *mine.hot[i]; requests_news(p)) look(i, poll_requests_of(p, tag));
  for (std::uint32_t i = 0; i < poller::cold_a_poll; ++i) {
    mine.cursor = mine.cursor + 1 < all ? mine.cursor + 1 : 0;
    peer& p = d.rings[mine.cursor];
    if (const unsigned got = poll_peer(p, tag); got != 0) [[unlikely]] {
      n += got;
      mine.warm(&p);
    }
  }
  if (--mine.until_cooling == 0) [[unlikely]] {
    mine.cool();
    if (const std::uint32_t epoch = d.ledger->epoch();
        epoch != d.tidied && d.tidied.exchange(epoch, std::memory_order_relaxed) != epoch)
      tidy(d, tag);
  }
  return n;
}

status ring_path::poll_replies_news(unsigned* n, peer& p, std::uint32_t first) noexcept {
  const std::uint32_t tag = my_tag();
  unsigned got = take_replies(p, tag);
  domain& d = *p.home;
  const std::uint32_t all = d.rings.count();
  for (std::uint32_t i = first + 1; i < all; ++i)
    if (peer& q = d.rings[i]; replies_news(q)) got += poll_replies_of(q, tag);
  for (std::uint32_t i = 0; i < all; ++i)
    if (peer& q = d.rings[i]; requests_news(q)) [[unlikely]]
      got += poll_requests_of(q, tag);
  // A caller that waits for a reply goes on at once, so this poll leaves slow_progress() out. If
  // each of its polls finds a reply, the caller's requests see to slow_progress().
  if (n != nullptr) *n += got;
  return status::ok;
}
status ring_path::poll_requests_news(unsigned* n, peer& p, std::uint32_t first) noexcept {
  unsigned got = take_requests(p, my_tag());
  if (c_.attention_to_device()) [[unlikely]]
    c_.slow_progress();
  domain& d = *p.home;
  const std::uint32_t all = d.rings.count();
  if (first + 1 < all) got += poll_from(d, my_tag(), first + 1, all);
  if (n != nullptr) *n += got;
  return status::ok;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
