#include "lib/conduit/ways/large_mediums.hpp"

#include <cstring>
#include <utility>

#include "lib/base/backoff.hpp"
#include "lib/base/cross_process.hpp"
#include "lib/base/log.hpp"
#include "lib/conduit/peer/long_wait.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

bool large_mediums::take(outgoing& m, rank_id to, large_buffers::use u) noexcept {
  m.buffer = core_.large().take(u, to);
  if (m.buffer == large_buffers::none) return false;
  std::memcpy(core_.large().at(m.buffer), m.payload, m.bytes);
  m.payload = core_.large().at(m.buffer);
  return true;
}

void large_mediums::no_memory(const outgoing& m) noexcept {
  fatal(1, "a Medium of %zu bytes needs registered memory, and there is none", m.bytes);
}

// Makes m, whose payload stands in its buffer, the message that tells p of it; where: what it says.
// False: the buffer cannot be registered.
bool large_mediums::describe(const peer& p, outgoing& m, wire::large_block& where) noexcept {
  if (!core_.large().name(m.buffer, p.maps(), where)) [[unlikely]]
    return false;
  m.kind = wire::kind::large;
  m.where = &where;
  m.written = nullptr;
  tsan_tell_peer(core_.large().at(m.buffer));  // -> is_done (large_buffers.cpp)
  return true;
}

status large_mediums::send_described(peer& p, const outgoing& m,
                                     const wire::large_block& where) noexcept {
  core_.note_sending();
  const status s = ways_.of(p, [&](auto& path) { return path.try_request(p, m); });
  if (s == status::ok) core_.large().sent(m.buffer, where.number);
  return s;
}

status large_mediums::send(peer& p, const outgoing& m) noexcept {
  outgoing named = m;
  wire::large_block where{};
  if (!describe(p, named, where)) [[unlikely]]
    no_memory(m);
  return send_described(p, named, where);
}

status large_mediums::offer(peer& p, const outgoing& m) noexcept {
  outgoing named = m;
  if (!take(named, p.rank, large_buffers::use::offer)) return status::no_chunk;
  wire::large_block where{};
  const status s = describe(p, named, where) ? send_described(p, named, where) : status::no_chunk;
  if (s != status::ok) core_.large().give(named.buffer);
  return s;
}

// A buffer is free, since the request would not have been taken otherwise (claim 21), unless more
// handlers run at once than large_buffers::most_handlers.
status large_mediums::reply(token_state& t, outgoing m) noexcept {
  peer& p = *t.from;
  const bool own = m.buffer == large_buffers::none;  // else its payload is written there
  if (own) m.buffer = core_.large().take(large_buffers::use::reply, p.rank);
  if (m.buffer == large_buffers::none) [[unlikely]] {
    long_wait named(core_.waits(), wait_for::large_reply, p.rank);
    for (backoff b(64); m.buffer == large_buffers::none; named.step()) {
      b.idle();
      core_.slow_progress_in_wait();
      m.buffer = core_.large().take(large_buffers::use::reply, p.rank);
    }
  }
  if (own) std::memcpy(core_.large().at(m.buffer), m.payload, m.bytes);
  wire::large_block where{};
  if (!describe(p, m, where)) [[unlikely]]
    no_memory(m);
  const status s = ways_.of(p, [&](auto& path) { return path.reply(t, m); });
  if (s == status::ok)
    core_.large().sent(m.buffer, where.number);
  else if (own)
    core_.large().give(m.buffer);
  return s;
}

// Gives d a buffer, unless drafts hold most_drafts already: the others are left to requests.
void large_mediums::reserve(draft& d, std::size_t most) noexcept {
  std::atomic<std::uint32_t>& drafts = core_.large().drafts;
  if (drafts.fetch_add(1, std::memory_order_relaxed) < large_buffers::most_drafts)
    d.buffer = core_.large().take(large_buffers::use::request, d.to);
  if (d.buffer == large_buffers::none) {
    drafts.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  d.payload = core_.large().at(d.buffer);
  d.most = most;
}

// unused: no message took the buffer.
void large_mediums::end(draft& d, bool unused) noexcept {
  core_.large().drafts.fetch_sub(1, std::memory_order_relaxed);
  const std::uint16_t buffer = std::exchange(d.buffer, large_buffers::none);
  if (unused) core_.large().give(buffer);
}

void large_mediums::reserve(token_state& t, reply_place& at) noexcept {
  at.buffer = core_.large().take(large_buffers::use::reply, t.from->rank);
  if (at.buffer != large_buffers::none) at.payload = core_.large().at(at.buffer);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
