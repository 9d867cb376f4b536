// The owner's side of remote.hpp: memory that is registered here because peers asked for it.
#include <algorithm>

#include "firehose/remote.hpp"
#include "firehose/remote_messages.hpp"
#include "memreg/host_memory.hpp"

namespace penstock::firehose {
namespace {
// Ids are the requester's, 64 bits; those of different peers are told apart by mixing in the peer's
// number. 20 bits of number and 24 of the serial are unique among one peer's live regions, which
// are at most 2^20.
std::uint64_t key_of(unsigned peer, std::uint64_t id) noexcept {
  return (id & ((std::uint64_t{1} << 44) - 1)) | std::uint64_t{peer} << 44;
}
unsigned peer_of(std::uint64_t key) noexcept { return static_cast<unsigned>(key >> 44); }
}  // namespace

void remote_firehoses::on_ask(unsigned peer, const message& m) {
  message answer{};
  answer.kind = remote_kind::refused;
  answer.id = m.id;
  answer.start = m.start;
  const std::uint64_t page = memreg::page_bytes();
  const bool sound = m.start < m.exact_end && m.exact_end <= m.end && m.start % page == 0 &&
                     m.exact_end % page == 0 && m.end % page == 0 && share_.bytes != 0 &&
                     m.start / share_.region_bytes == (m.end - 1) / share_.region_bytes;
  answer.reason = sound ? 0 : 1;
  const std::uint64_t most = sound ? m.end - m.start : 0;
  bool room = false;
  {
    const std::lock_guard guard(lock_);
    if (m.give_back != 0) end_grant(peer, m.give_back);
    peer_state& p = peers_[peer];
    room = sound && !p.gone && p.granted_regions < share_.regions &&
           p.granted_bytes + most <= share_.bytes && !grants_.contains(key_of(peer, m.id));
    if (room) {  // counted before it is registered: other threads answer the same peer
      ++p.granted_regions;
      p.granted_bytes += most;
      stats_.bytes_granted += most;
    }
  }
  lease l;
  if (room) {
    // Done outside the lock, since registering takes long and allocates.
    void* const at = reinterpret_cast<void*>(m.start);
    const auto want = m.writable != 0 ? purpose::destination : purpose::source;
    status s = local_.acquire(at, most, want, l);
    if (s == status::device_error && m.end != m.exact_end)
      s = local_.acquire(at, m.exact_end - m.start, want, l);
    answer.reason = s == status::no_ticket ? 0 : 1;
  }
  {
    const std::lock_guard guard(lock_);
    // Memory that has changed or is not kept cannot be watched, so no peer may rely on it. This is
    // asked under the lock that revoke_changed() holds, so a later change finds the grant.
    if (l && !peers_[peer].gone && !local_.changed(l)) {
      answer.kind = remote_kind::granted;
      answer.rkey = l.rkey();
      answer.end = m.start + l.bytes();
      answer.writable = m.writable;
      peers_[peer].granted_bytes -= most - l.bytes();
      stats_.bytes_granted -= most - l.bytes();
      const std::uint64_t bytes = l.bytes();
      grants_[key_of(peer, m.id)] = {std::move(l), bytes, m.id, false};
    } else if (room) {
      uncount(peer, most);
    }
    post(peer, answer);
  }
  flush();
}

void remote_firehoses::uncount(unsigned peer, std::uint64_t bytes) {
  --peers_[peer].granted_regions;
  peers_[peer].granted_bytes -= bytes;
  stats_.bytes_granted -= bytes;
}

void remote_firehoses::end_grant(unsigned peer, std::uint64_t id) {
  const auto it = grants_.find(key_of(peer, id));
  if (it == grants_.end()) return;
  uncount(peer, it->second.bytes);
  // V2 store-release revoking_  -> must_settle(): the holder uses the key no more
  if (it->second.revoked) revoking_.fetch_sub(1, std::memory_order_release);
  grants_.erase(it);
}

// Takes back every grant whose memory has changed. The count is raised before changes_seen_ moves,
// so must_settle() is true without a gap.
void remote_firehoses::revoke_changed() {
  {
    const std::lock_guard guard(lock_);
    const std::uint64_t seen = local_.changed_count();
    for (auto& [key, g] : grants_) {
      if (g.revoked || !local_.changed(g.held)) continue;
      g.revoked = true;
      revoking_.fetch_add(1, std::memory_order_relaxed);
      ++stats_.revoked;
      message m{};
      m.kind = remote_kind::revoke;
      m.id = g.id;
      post(peer_of(key), m);
    }
    // C1 store-release changes_seen_  -> must_settle()
    changes_seen_.store(seen, std::memory_order_release);
  }
  flush();
}

void remote_firehoses::peer_gone(unsigned peer) {
  const std::lock_guard guard(lock_);
  if (peer >= peers_.size()) return;
  peers_[peer].gone = true;
  for (auto it = grants_.begin(); it != grants_.end();) {
    const auto next = std::next(it);
    if (peer_of(it->first) == peer) end_grant(peer, it->second.id);
    it = next;
  }
  std::erase_if(outbox_, [peer](const parcel& p) { return p.peer == peer; });
  for (std::uint32_t i = 1; i < table_.size(); ++i) {
    region& r = table_.at(i);
    const region_state s = r.state.load(std::memory_order_relaxed);
    if (r.space.load(std::memory_order_relaxed) != peer + 1 || s == region_state::absent) continue;
    if (s == region_state::filling) {
      r.mark = 1;  // refused for ever: a thread that waits for it learns so
    } else if (s == region_state::live) {
      r.state.store(region_state::dead, std::memory_order_relaxed);
      ++dead_;
    }
  }
  work_.store(true, std::memory_order_relaxed);
}

remote_statistics remote_firehoses::statistics() const {
  const std::lock_guard guard(lock_);
  remote_statistics s = stats_;
  s.hits = table_.hits();
  return s;
}

}  // namespace penstock::firehose
