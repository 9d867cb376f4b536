// The requester's side of remote.hpp, and what both sides share. The owner's is in
// remote_owner.cpp.
#include "firehose/remote.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "firehose/remote_messages.hpp"
#include "memreg/host_memory.hpp"

namespace penstock::firehose {
namespace {

constexpr std::uint32_t number_bits = 20;
constexpr std::uint32_t most_regions = (1u << number_bits) - 1;

// Notes on a region (region::mark) in state filling.
constexpr std::uint32_t note_refused = 1;
constexpr std::uint32_t note_refused_now = 2;

std::uint32_t table_size(const remote_share& s, unsigned processes) {
  // Enough for the full share at a thousand peers; beyond that regions move between peers.
  const std::uint64_t all = std::uint64_t{s.regions} * (processes - 1);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(all, 1, 1u << 16));
}

}  // namespace

remote_share share_of(const remote_settings& s) noexcept {
  remote_share r;
  const std::uint64_t others = s.processes > 1 ? s.processes - 1 : 1;
  r.bytes = memreg::round_down(s.max_bytes / others, memreg::page_bytes());
  if (r.bytes == 0) return r;
  r.region_bytes = std::bit_floor(
      std::max<std::uint64_t>(memreg::page_bytes(), std::min(s.max_region_bytes, r.bytes)));
  const std::uint64_t regions = s.max_regions != 0 ? s.max_regions : s.max_bytes / r.region_bytes;
  r.regions =
      static_cast<std::uint32_t>(std::clamp<std::uint64_t>(regions / others, 1, most_regions));
  return r;
}

remote_firehoses::remote_firehoses(send_function send, void* channel, pool& local,
                                   const remote_settings& settings)
    : send_(send),
      channel_(channel),
      local_(local),
      settings_(settings),
      share_(share_of(settings)),
      table_(table_size(share_, std::max(2u, settings.processes)),
             std::max<std::uint64_t>(share_.region_bytes, memreg::page_bytes())),
      peers_(settings.processes),
      changes_seen_(local.changed_count()) {}

remote_firehoses::~remote_firehoses() = default;

status remote_firehoses::acquire_slow(unsigned peer, std::uint64_t addr, std::size_t len,
                                      purpose use, lease& out) {
  if (peer >= peers_.size()) return status::bad_rank;
  if (len == 0) return status::bad_arguments;
  if (share_.bytes == 0) return status::device_error;
  status answer = status::pending;
  {
    const std::lock_guard guard(lock_);
    const std::uint64_t window_end = (table_.window_of(addr) + 1) * table_.window_bytes();
    const std::uint64_t n = std::min<std::uint64_t>(len, window_end - addr);
    const std::uint32_t write = static_cast<std::uint32_t>(use);
    for (std::uint32_t i = table_.first(peer + 1, table_.window_of(addr)); i != 0;) {
      region& r = table_.at(i);
      const std::uint32_t next = r.next.load(std::memory_order_relaxed);
      const bool covers = addr - r.start.load(std::memory_order_relaxed) <
                              r.bytes.load(std::memory_order_relaxed) &&
                          r.space.load(std::memory_order_relaxed) == peer + 1 &&
                          r.writable.load(std::memory_order_relaxed) >= write;
      const region_state s = r.state.load(std::memory_order_relaxed);
      if (covers && s == region_state::live)
        return table_.take(i, addr, n, out) ? status::ok : status::no_ticket;
      if (covers && s == region_state::filling) {
        if (r.mark == 0) return status::pending;
        const bool for_ever = r.mark == note_refused;
        table_.unlink(i);
        drop(i);
        if (for_ever) return status::device_error;
      }
      i = next;
    }
    // Whole pages are asked for. If a region that ends just before them exists already, a thread
    // walks through the memory; then as much again as that region has is asked for, so that the
    // walk does not ask for every page.
    const std::uint64_t start = memreg::round_down(addr, memreg::page_bytes());
    const std::uint64_t exact_end = memreg::round_up(addr + n, memreg::page_bytes());
    std::uint64_t end = exact_end;
    table_.overlapping(
        peer + 1, std::max<std::uint64_t>(start, 1) - 1, start, [&](std::uint32_t i) {
          const region& r = table_.at(i);
          if (r.state.load(std::memory_order_relaxed) == region_state::live)
            end =
                std::max(end, std::min(window_end, end + r.bytes.load(std::memory_order_relaxed)));
        });
    message m{};
    m.kind = remote_kind::ask;
    std::uint32_t i = room_for(peer, end - start, m.give_back);
    if (i == 0 && end != exact_end) {
      end = exact_end;
      i = room_for(peer, end - start, m.give_back);
    }
    if (i == 0) {
      answer = status::no_ticket;
    } else {
      region& r = table_.at(i);
      m.id = ++serial_ << number_bits | i;
      m.start = start;
      m.end = end;
      m.exact_end = exact_end;
      m.writable = write;
      r.start.store(start, std::memory_order_relaxed);
      r.bytes.store(end - start, std::memory_order_relaxed);
      r.space.store(peer + 1, std::memory_order_relaxed);
      r.writable.store(write, std::memory_order_relaxed);
      r.handle = reinterpret_cast<void*>(m.id);
      r.mark = 0;
      r.state.store(region_state::filling, std::memory_order_relaxed);
      table_.link(i);
      peers_[peer].held_bytes += end - start;
      ++peers_[peer].held_regions;
      ++stats_.asks;
      post(peer, m);
    }
  }
  flush();
  return answer;
}

// A region number within the share at `peer`. If need be an idle region there is given up for it;
// its id goes into the ask, so that the owner never counts both. When the table is full, regions of
// other peers are given back, too. 0: everything is leased.
std::uint32_t remote_firehoses::room_for(unsigned peer, std::uint64_t bytes,
                                         std::uint64_t& given_back) {
  const peer_state& p = peers_[peer];
  const auto fits = [&] {
    return p.held_bytes + bytes <= share_.bytes && p.held_regions < share_.regions;
  };
  while (!fits()) {
    std::uint32_t victim = table_.next_victim(peer + 1);
    if (victim == 0 || table_.close(&victim, 1) == 0) return 0;
    if (given_back != 0) {
      message m{};
      m.kind = remote_kind::give_back;
      m.id = given_back;
      post(peer, m);
    }
    given_back = drop(victim);
  }
  std::uint32_t i = table_.allocate();
  if (i != 0) return i;
  std::uint32_t victim = table_.next_victim();
  if (victim == 0) return 0;
  const unsigned other = table_.at(victim).space.load(std::memory_order_relaxed) - 1;
  if (table_.close(&victim, 1) == 0) return 0;
  message m{};
  m.kind = remote_kind::give_back;
  m.id = drop(victim);
  post(other, m);
  return table_.allocate();
}

// Region i, unlinked, is no longer ours; returns its id.
std::uint64_t remote_firehoses::drop(std::uint32_t i) {
  region& r = table_.at(i);
  peer_state& p = peers_[r.space.load(std::memory_order_relaxed) - 1];
  p.held_bytes -= r.bytes.load(std::memory_order_relaxed);
  --p.held_regions;
  const auto id = reinterpret_cast<std::uint64_t>(r.handle);
  table_.free(i);
  ++stats_.given_back;
  return id;
}

// The region that a peer's message names, or 0 when it has been given up already.
std::uint32_t remote_firehoses::mine(unsigned peer, std::uint64_t id) noexcept {
  const auto i = static_cast<std::uint32_t>(id & most_regions);
  if (i == 0 || i >= table_.size()) return 0;
  const region& r = table_.at(i);
  const bool same = r.handle == reinterpret_cast<void*>(id) &&
                    r.space.load(std::memory_order_relaxed) == peer + 1 &&
                    r.state.load(std::memory_order_relaxed) != region_state::absent;
  return same ? i : 0;
}

void remote_firehoses::on_answer(unsigned peer, const message& m) {
  const std::uint32_t i = mine(peer, m.id);
  if (i == 0 || table_.at(i).state.load(std::memory_order_relaxed) != region_state::filling) return;
  region& r = table_.at(i);
  if (m.kind == remote_kind::refused) {
    r.mark = m.reason != 0 ? note_refused : note_refused_now;
    ++stats_.refused;
    return;
  }
  const std::uint64_t start = r.start.load(std::memory_order_relaxed);
  const std::uint64_t bytes = r.bytes.load(std::memory_order_relaxed);
  if (m.start != start || m.end <= start || m.end > start + bytes) {  // not what was asked for
    r.mark = note_refused;
    message back{};
    back.kind = remote_kind::give_back;
    back.id = m.id;
    post(peer, back);
    return;
  }
  peers_[peer].held_bytes -= bytes - (m.end - start);
  r.bytes.store(m.end - start, std::memory_order_relaxed);
  r.rkey.store(m.rkey, std::memory_order_relaxed);
  r.writable.store(m.writable != 0 ? 1 : 0, std::memory_order_relaxed);
  r.taken_then = table_.uses(i).taken;
  ++stats_.granted;
  // V1 publish  store-release state  -> U2 (region_table.hpp)
  r.state.store(region_state::live, std::memory_order_release);
}

void remote_firehoses::on_revoke(unsigned peer, const message& m) {
  const std::uint32_t i = mine(peer, m.id);
  // The region does not exist: it was given back already, and that message is on its way.
  if (i == 0 || table_.at(i).state.load(std::memory_order_relaxed) != region_state::live) return;
  table_.at(i).state.store(region_state::dead, std::memory_order_relaxed);
  ++dead_;
  give_back_dead();
}

// Gives back the revoked regions that are no longer leased.
void remote_firehoses::give_back_dead() {
  for (std::uint32_t i = 1; dead_ != 0 && i < table_.size(); ++i) {
    region& r = table_.at(i);
    if (r.state.load(std::memory_order_relaxed) != region_state::dead || table_.uses(i).out != 0)
      continue;
    const unsigned peer = r.space.load(std::memory_order_relaxed) - 1;
    std::uint32_t which = i;
    if (table_.close(&which, 1) == 0) continue;
    --dead_;
    message m{};
    m.kind = remote_kind::give_back;
    m.id = drop(i);
    post(peer, m);
  }
}

void remote_firehoses::post(unsigned peer, const message& m) {
  outbox_.push_back({peer, m});
  work_.store(true, std::memory_order_relaxed);
}

// Sends the outbox in order. One thread at a time; a second thread leaves it to the first or to the
// next progress().
void remote_firehoses::flush() {
  const std::unique_lock one(flushing_, std::try_to_lock);
  if (!one.owns_lock()) return;
  for (;;) {
    parcel p;
    {
      const std::lock_guard guard(lock_);
      if (outbox_.empty()) {
        work_.store(dead_ != 0, std::memory_order_relaxed);
        return;
      }
      p = outbox_.front();
    }
    const status s = send_(channel_, p.peer, std::as_bytes(std::span(&p.m, 1)));
    if (is_short(s) || s == status::pending) return;
    const std::lock_guard guard(lock_);
    // peer_gone() may have removed it meanwhile; otherwise only the flusher takes from the front.
    if (!outbox_.empty() && outbox_.front().m.id == p.m.id && outbox_.front().m.kind == p.m.kind)
      outbox_.pop_front();
  }
}

bool remote_firehoses::on_message(unsigned peer, std::span<const std::byte> bytes) {
  message m;
  if (peer >= peers_.size() || bytes.size() != sizeof m) return false;
  std::memcpy(&m, bytes.data(), sizeof m);
  switch (m.kind) {
    case remote_kind::ask:
      on_ask(peer, m);
      break;
    case remote_kind::granted:
    case remote_kind::refused: {
      const std::lock_guard guard(lock_);
      on_answer(peer, m);
      break;
    }
    case remote_kind::give_back: {
      const std::lock_guard guard(lock_);
      end_grant(peer, m.id);
      break;
    }
    case remote_kind::revoke: {
      const std::lock_guard guard(lock_);
      on_revoke(peer, m);
      break;
    }
    default:
      return false;
  }
  return true;
}

void remote_firehoses::progress() {
  if (local_.changed_count() != changes_seen_.load(std::memory_order_relaxed)) revoke_changed();
  if (!work_.load(std::memory_order_relaxed)) return;
  {
    const std::lock_guard guard(lock_);
    give_back_dead();
  }
  flush();
}

}  // namespace penstock::firehose
