// Requests and replies: what is checked, what is waited for, and how a handler is run. How a
// message travels is in direct.cpp and verbs.cpp.
#include <sched.h>

#include <cstring>

#include "lib/base/assert.hpp"
#include "lib/base/backoff.hpp"
#include "lib/base/cross_process.hpp"
#include "lib/base/thread_index.hpp"
#include "lib/conduit/engine_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

thread_local constinit token_state* running = nullptr;

bool engine::in_segment(const peer& p, const void* at, std::size_t bytes) noexcept {
  const auto offset =
      reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(p.segment_base);
  return offset <= p.segment_bytes && bytes <= p.segment_bytes - offset;
}

// Credits that m costs: by the buffer it takes at its target. On the direct path no buffer is
// taken, and the note's costs by size apply.
std::uint32_t engine::cost_of(const outgoing& m) const noexcept {
  const bool carry = m.kind == wire::kind::medium || (m.kind == wire::kind::long_ && packs(m));
  const std::uint32_t n = wire::packed_bytes(wire::fixed_bytes(m.kind, m.nargs),
                                             carry ? static_cast<std::uint32_t>(m.bytes) : 0);
  if (direct_) return credit::cost(static_cast<credit::kind>(m.kind), n);
  return n <= sizes().small_bytes ? 1 : sizes().full_cost;
}

status engine::try_request(rank_id to, const outgoing& m) noexcept {
  if (running != nullptr) [[unlikely]]
    return status::in_handler;
  if (to >= size_) [[unlikely]]
    return status::bad_rank;
  if (!started_) [[unlikely]]
    return over();
  if (const status s = handlers_.check(m); s != status::ok) [[unlikely]]
    return s;
  if (to == rank_) [[unlikely]]
    return request_self(m);
  peer& p = channel(to);
  if (m.kind == wire::kind::long_ && m.bytes != 0 && !in_segment(p, m.dest, m.bytes)) [[unlikely]]
    return status::out_of_segment;
  if (direct_) return request_direct(p, m);
  if (transfers_.must_settle()) [[unlikely]]
    return status::busy;
  return request_verbs(p, m);
}

status engine::request(rank_id to, const outgoing& m) noexcept {
  if (quick_polls_ && running == nullptr && attention_to_device()) [[unlikely]]
    look_around();
  else if (!quick_polls_ && running == nullptr)
    look_around_in_wait();  // who only speaks to itself waits for nothing
  status s = try_request(to, m);
  if (s == status::ok) [[likely]]
    return s;
  if (s == status::no_credit) {
    look_for_credits(channel(to));
    s = try_request(to, m);
  }
  bool stalled = false;
  for (unsigned empty = 0; is_short(s); s = try_request(to, m)) {
    if (s == status::no_credit) stall(channel(to), cost_of(m), !std::exchange(stalled, true));
    if (departure_.news() && departure_.is_gone(to)) [[unlikely]] {
      s = status::peer_dead;
      break;
    }
    if (const status w = wait_step(empty); is_failure(w)) {
      s = w;
      break;
    }
  }
  if (stalled) channel(to).home->ledger->end_stall(to);
  return s;
}

bool kept_message::keep(const outgoing& m, std::span<std::byte> segment) noexcept {
  if (m.kind == wire::kind::long_) {
    const auto at =
        reinterpret_cast<std::uintptr_t>(m.dest) - reinterpret_cast<std::uintptr_t>(segment.data());
    if (m.bytes != 0 && (at > segment.size() || m.bytes > segment.size() - at)) return false;
    if (m.bytes != 0) std::memmove(m.dest, m.payload, m.bytes);
  }
  codec::packed(m).write<codec::words::exact>(m, {}, bytes);
  return true;
}

// A message to itself: its handler runs at once, its reply's handler when that has returned.
status engine::request_self(const outgoing& m) noexcept {
  kept_message request, answer;
  if (!request.keep(m, segment())) return status::out_of_segment;
  const auto deliver = [this](kept_message& c, bool is_request, kept_message* own_reply) {
    token_state t;
    t.engine = this;
    std::memcpy(&t.header, c.bytes, sizeof t.header);
    t.request = is_request;
    t.replied = !is_request;
    t.own_reply = own_reply;
    [[maybe_unused]] const bool made_sense = run_handler(t, codec::packed(t.header).find(c.bytes));
    PENSTOCK_ASSERT(made_sense, ==, true);
    return t.replied;
  };
  if (deliver(request, true, &answer)) (void)deliver(answer, false, nullptr);
  return status::ok;
}

status engine::reply(token_state& t, const outgoing& m) noexcept {
  if (!t.request || t.replied) [[unlikely]]
    return status::replied_twice;
  if (running != &t) [[unlikely]]
    return status::not_in_handler;
  if (const status s = handlers_.check(m); s != status::ok) [[unlikely]]
    return s;
  if (t.from == nullptr) {
    if (!t.own_reply->keep(m, segment())) return status::out_of_segment;
    t.replied = true;
    return status::ok;
  }
  // (R-a of firehose/remote.hpp) The handler may have changed memory that a peer holds a key to.
  // The key comes back by control messages and completions, for which no handler has to run.
  while (transfers_.must_settle()) [[unlikely]] {
      transfers_.progress();
      if (transfers_.reap() == 0) sched_yield();
    }
  if (direct_) return reply_direct(t, m);
  told_peer(t.from);
  const status s = reply_verbs(t, m);
  if (s == status::ok) [[likely]]
    t.replied = true;
  return s;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
