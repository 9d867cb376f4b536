// Large Mediums by rings: the payload stands in a buffer of its sender's, which this process has
// mapped. The handler reads it there, so only the sender copies it.
#include <cerrno>
#include <cstring>

#include "lib/base/cross_process.hpp"
#include "lib/base/log.hpp"
#include "lib/base/shortage.hpp"
#include "lib/conduit/ring_path/ring_path_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

// Maps p's buffers, which stand at `base` in its own address space; false: errno says why. Threads
// in request_in, in reply_in and the connector's may come here at once; the device gives all one
// address.
bool ring_path::map_large(peer& p, std::uint64_t base, std::uint32_t key,
                          std::uint64_t patience_ns) noexcept {
  auto* const here = static_cast<std::byte*>(nic::shm::map_remote(
      p.lanes[lane_request].qp, base, large_buffers::bytes(), key, patience_ns));
  if (here == nullptr) return false;
  if (c_.offers()) large_buffers::ready_offers(here);
  p.large_base.store(base, std::memory_order_relaxed);
  // B5 mapped  release p.large_here  -> B5 (may_take_large)
  p.large_here.store(here, std::memory_order_release);
  return true;
}

// Called when p's message at the front of rx is a large one with header `word`: maps p's buffers if
// they are not mapped yet. True: the message can be taken; if p's process has ended, run_large()
// does without the mapping. False: p is stopped, so that the device could not map them; the message
// and all behind it wait in the ring.
bool ring_path::may_take_large(peer& p, nic::shm::ring_rx& rx, std::uint64_t word) noexcept {
  // B5 mapped  acquire p.large_here  <- B5 (map_large): p.large_base
  if (p.large_here.load(std::memory_order_acquire) != nullptr) [[likely]]
    return true;
  const auto m = rx.front();
  const codec::in_slot l(wire::header_of(word));
  if (!m || m.op != op_direct || l.data_bytes != m.data_bytes) [[unlikely]]
    c_.peer_failed(p, core::malformed);
  wire::large_block where;
  std::memcpy(&where, l.find(const_cast<std::byte*>(m.slot->body), m.data).fixed, sizeof where);
  if (map_large(p, where.base, where.key, while_polling_ns)) return true;
  const int e = errno;
  if (e == ETIMEDOUT) return false;
  // A rank that has left has said so behind this message; others tell of a death. One that closes
  // its endpoint while this rank leaves, too, refuses: what its handlers sent last is lost.
  if (nic::shm::means_gone(e) || (e == 0 && c_.closing())) return true;
  if (e == 0) c_.peer_failed(p, "it does not show its buffers of large messages");
  const failure why{"mmap of its buffers of large messages", e, what_to_raise(e)};
  fatal(1, "no connection to rank %u: %s", p.rank, why.message().c_str());
}

// Runs the handler of a large message whose parts lie at `at`, if its payload can be read; false:
// its bytes are malformed.
bool ring_path::run_large(token_state& t, codec::parts at, relieved_end& e) noexcept {
  peer& p = *t.from;
  std::byte* const here = p.large_here.load(std::memory_order_relaxed);
  if (here == nullptr) [[unlikely]] {
    c_.large().lost(p.rank);
    return true;
  }
  wire::large_block where;
  std::memcpy(&where, at.fixed, sizeof where);
  const std::size_t bytes = std::size_t{t.header.length} + 1;
  if (!large_buffers::holds(where.buffer, bytes) ||
      where.base != p.large_base.load(std::memory_order_relaxed) || where.number == 0) [[unlikely]]
    return false;
  std::byte* const line = here + large_buffers::offset(where.buffer);
  at.fixed += sizeof where;
  at.payload = line + cache_line;
  // The owner used the buffer anew after the word below, by which another thread may have freed it.
  tsan_hear_peer(line);
  t.header.kind_args = wire::kind_args(wire::kind::medium, t.header.nargs());
  t.header.length = 0;
  if (!run_lent(t, at, bytes, e)) [[unlikely]]
    return false;
  tsan_tell_peer(line);
  // B1 done  release word  -> B2 (peer/buffer_use.hpp): all has been read
  std::atomic_ref(*reinterpret_cast<std::uint32_t*>(line))
      .store(where.number, std::memory_order_release);
  return true;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
