// Requests and replies of every kind: they are checked here and go by the path of their peer; a
// request that cannot go at once waits (pending.cpp). The paths know how messages travel.
#include <cstring>

#include "lib/base/assert.hpp"
#include "lib/base/cross_process.hpp"
#include "lib/base/thread_index.hpp"
#include "lib/conduit/collective/departure.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/one_sided/rma.hpp"
#include "lib/conduit/ways/ways.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

// The attribute is repeated here: GCC forgets that of the declaration, and would make a call to
// find the address.
thread_local constinit token_state* running __attribute__((tls_model("initial-exec"))) = nullptr;

// Sends a user's Short or Medium, if all that it needs is at hand; any other goes the long way.
template <class... What>
[[gnu::always_inline]] inline status engine::request_user(rank_id to, What... what) noexcept {
  if (const std::uint32_t tag = known_tag(); to < core_.size() && running == nullptr && tag != 0)
      [[likely]]
    if (peer& p = core_.channel(to, tag);
        ways::request_at_once(core_.handlers(), p, tag, of_user(what...))) [[likely]]
      return pending_.hear(p), status::ok;
  return request_user_slow(to, what...);
}

// Sends a message that did not go at once. In a stream the sender comes here once a lease. Its
// stores queue up behind those of the stream, so this code makes few: the description of the
// message stays in registers unless it goes the long way.
template <class... What>
status engine::request_user_slow(rank_id to, What... what) noexcept {
  core_.calling().look();
  if (to < core_.size() && running == nullptr) [[likely]] {
    const std::uint32_t tag = my_tag();
    peer& p = core_.channel(to, tag);
    if (core_.has_begun(p) &&  // else the long way begins it
        ways_.of(p, [&](auto& path) { return path.request_quick(p, tag, what...); })) [[likely]]
      return pending_.hear(p), status::ok;
  }
  return request(to, of_user(what...));
}

status engine::request_short(rank_id to, std::uint8_t handler, const std::uint32_t* args,
                             unsigned nargs) noexcept {
  return request_user(to, handler, args, nargs);
}

status engine::request_medium(rank_id to, std::uint8_t handler, const std::uint32_t* args,
                              unsigned nargs, const void* payload, std::size_t bytes) noexcept {
  return request_user(to, handler, args, nargs, payload, bytes);
}

// Why m cannot be sent to `to`, whenever it is tried; ok: it can.
[[gnu::always_inline]] inline status engine::check_request(rank_id to, const outgoing& m) noexcept {
  core_.calling().look();
  if (running != nullptr) [[unlikely]]  // (I5)
    return status::in_handler;
  if (to >= core_.size()) [[unlikely]]
    return status::bad_rank;
  if (!core_.has_started()) [[unlikely]]
    return over();
  return core_.handlers().check(m);
}

// Whether a try of m has found that its payload is one that may be cut over several rails.
static bool goes_by_rails(const outgoing& m, status s) noexcept {
  return s == status::unsupported && m.kind == wire::kind::long_;
}

status engine::try_request(rank_id to, const outgoing& m) noexcept {
  const status s = try_at_once(to, m);
  if (s == status::ok) [[likely]]
    return s;
  if (goes_by_rails(m, s)) {
    outgoing whole = m;  // as this caller does not wait for a put
    whole.by = payload_way::beside_header;
    return try_at_once(to, whole);
  }
  if (!is_short(s)) return s;
  peer& p = core_.channel(to, my_tag());
  if (!pending_.has_another_way(p, m, s)) return s;
  const status t = pending_.try_once(p, m, s);
  pending_.hear(p);
  return t;
}

status engine::try_at_once(rank_id to, const outgoing& m) noexcept {
  if (const status s = check_request(to, m); s != status::ok) [[unlikely]]
    return s;
  if (to == core_.rank() && !ways::to_oneself) [[unlikely]]
    return request_self(m);
  peer& p = core_.begun(core_.channel(to, my_tag()));
  status s;
  if (m.is_large() && to != core_.rank()) [[unlikely]] {
    s = pending_.try_once(p, m, status::ok);
  } else if (m.kind == wire::kind::long_ && m.bytes != 0 && !core_.in_segment(p, m.dest, m.bytes))
      [[unlikely]] {
    return status::out_of_segment;
  } else {
    s = pending_.attempt(p, m);
  }
  pending_.hear(p);
  return s;
}

status engine::request(rank_id to, const outgoing& m) noexcept {
  if (quick_polls_ && running == nullptr && core_.attention_to_device()) [[unlikely]]
    slow_progress();
  else if (!quick_polls_ && running == nullptr)
    core_.slow_progress_in_wait();  // a process that sends to itself alone has no other look
  // The payload of a large one is copied once, whatever it waits for.
  const bool large = m.is_large() && to != core_.rank();
  status s = large ? check_request(to, m) : try_at_once(to, m);
  if (s == status::ok && !large) [[likely]]
    return s;
  if (s == status::ok || is_short(s)) {
    peer& p = core_.begun(core_.channel(to, my_tag()));
    if (s == status::no_credit || s == status::not_ready) look_for_credits(p);
    s = pending_.wait(p, m, s);
  }
  if (goes_by_rails(m, s)) {
    outgoing header = m;
    header.by = payload_way::ahead;
    s = transfers_->put_ahead(to, m);
    if (s == status::ok) return request(to, header);
  }
  return s == status::ok ? s : core_.refused(to, m, s);
}

// Takes replies out of p's queue, since credits may have come back with them. It does not wait.
void engine::look_for_credits(peer& p) noexcept {
  if (connections::is_ready(p, lane_reply))
    ways_.of(p, [&](auto& path) { (void)path.poll_replies_of(p, my_tag()); });
}

status engine::expect(rank_id r, std::uint32_t messages, std::size_t bytes) noexcept {
  if (running != nullptr) return status::in_handler;
  if (r >= core_.size()) return status::bad_rank;
  if (!core_.has_started()) return over();
  if (bytes > max_medium) return status::too_long;
  if (r == core_.rank()) return status::ok;
  peer& p = core_.begun(core_.channel(r, my_tag()));
  const std::uint32_t each = pending_.cost_of(p, {.kind = wire::kind::medium, .bytes = bytes});
  for (const unsigned l : {lane_request, lane_reply})
    if (!connections::is_ready(p, l)) (void)connections_.connect(p, l);
  if (each > 1 && p.posts() && !connections::is_ready(p, lane_bulk)) connections_.foresee_bulk(p);
  // With those that messages leave to offers, so that none of these messages is offered.
  const std::uint64_t wanted = std::min<std::uint64_t>(
      std::uint64_t{messages} * each + (each > 1 ? credit::offer_reserve : 0), 65535);
  credits_.expect_credits(p, static_cast<std::uint32_t>(wanted));
  return status::ok;
}

status kept_message::keep(const outgoing& m, std::span<std::byte> segment) noexcept {
  if (m.is_large()) {
    large.reset(new (std::nothrow) std::byte[m.bytes]);
    if (large == nullptr) return status::no_space;
    std::memcpy(large.get(), m.payload, m.bytes);
    large_bytes = m.bytes;
    outgoing head = m;
    head.payload = nullptr, head.bytes = 0;
    codec::packed(head).write<codec::words::exact>(head, {}, bytes);
    return status::ok;
  }
  if (m.kind == wire::kind::long_) {
    const auto at =
        reinterpret_cast<std::uintptr_t>(m.dest) - reinterpret_cast<std::uintptr_t>(segment.data());
    if (m.bytes != 0 && (at > segment.size() || m.bytes > segment.size() - at))
      return status::out_of_segment;
    if (m.bytes != 0) std::memmove(m.dest, m.payload, m.bytes);
  }
  codec::packed(m).write<codec::words::exact>(m, {}, bytes);
  return status::ok;
}

// A message to this process itself: its handler runs at once, and the reply's handler after that.
status engine::request_self(const outgoing& m) noexcept {
  kept_message request, answer;
  if (const status s = request.keep(m, core_.segment()); s != status::ok) return s;
  peer& self = core_.channel(core_.rank(), my_tag());
  self.counts.sent.note_shared(m.kind, m.bytes, m.system());
  count_shared(self.requests_sent, 1);
  PENSTOCK_PROBE(request, core_.rank(), m.handler, static_cast<unsigned>(m.kind), m.bytes);
  const auto deliver = [this, &self](kept_message& c, bool is_request, kept_message* own_reply) {
    token_state t;
    t.engine = this;
    std::memcpy(&t.header, c.bytes, sizeof t.header);
    t.request = is_request;
    t.replied = !is_request;
    t.own_reply = own_reply;
    codec::parts at = codec::packed(t.header).find(c.bytes);
    if (c.large) at.payload = c.large.get();
    [[maybe_unused]] const bool made_sense = core_.run_handler(t, at, 0, c.large_bytes);
    PENSTOCK_ASSERT(made_sense, ==, true);
    count_shared(is_request ? self.requests_handled : self.replies_handled, 1);
    return t.replied;
  };
  if (deliver(request, true, &answer)) (void)deliver(answer, false, nullptr);
  return status::ok;
}

template <class... What>
[[gnu::always_inline]] inline status engine::reply_user(token_state& t, What... what) noexcept {
  if (ways::reply_at_once(t.engine->core_.handlers(), t, of_user(what...))) [[likely]]
    return status::ok;
  return reply_user_slow(t, what...);
}

template <class... What>
status engine::reply_user_slow(token_state& t, What... what) noexcept {
  engine& e = *t.engine;
  if (t.from != nullptr &&
      e.ways_.of(*t.from, [&](auto& path) { return path.reply_quick(t, what...); }))
    return status::ok;
  return e.reply(t, of_user(what...));
}

status engine::reply_short(token_state& t, std::uint8_t handler, const std::uint32_t* args,
                           unsigned nargs) noexcept {
  return reply_user(t, handler, args, nargs);
}

status engine::reply_medium(token_state& t, std::uint8_t handler, const std::uint32_t* args,
                            unsigned nargs, const void* payload, std::size_t bytes) noexcept {
  return reply_user(t, handler, args, nargs, payload, bytes);
}

status engine::reply(token_state& t, const outgoing& m) noexcept {
  if (!t.request || t.replied) [[unlikely]]
    return core_.refused(t.source(), m, status::replied_twice);
  if (running != &t) [[unlikely]]
    return core_.refused(t.source(), m, status::not_in_handler);
  if (const status s = core_.handlers().check(m); s != status::ok) [[unlikely]]
    return core_.refused(t.source(), m, s);
  core_.note_sending();
  if (t.from == nullptr) {
    if (const status s = t.own_reply->keep(m, core_.segment()); s != status::ok) return s;
    peer& self = core_.channel(core_.rank(), my_tag());
    self.counts.replied.note_shared(m.kind, m.bytes, m.system());
    count_shared(self.counts.replies, 1);
    t.replied = true;
    return status::ok;
  }
  if (transfers_->must_settle()) [[unlikely]]
    transfers_->settle_in_handler();  // (R-a of firehose/remote.hpp, claim 20)
  if (m.is_large() && t.from->rank != core_.rank()) [[unlikely]]
    return large_.reply(t, m);
  return ways_.of(*t.from, [&](auto& path) { return path.reply(t, m); });
}

}  // namespace penstock::conduit::PENSTOCK_ABI
