// The local side of a piece of a transfer: the memory that it is sent from or lands in, and the key
// of that memory. See rma.hpp.
#include <algorithm>
#include <cstring>

#include "firehose/firehose.hpp"
#include "lib/conduit/one_sided/rma_everything.hpp"
#include "lib/conduit/one_sided/rma_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

// Finds a place to send from for [from, from+bytes), or for as much of it as one registration,
// chunk or work request takes.
status transfers::source(const std::byte* from, std::size_t bytes, reuse r, part& out) noexcept {
  if (bytes <= max_inline_) {
    out.at = reinterpret_cast<std::uintptr_t>(from);
    out.bytes = bytes;
    out.inlined = true;
    return status::ok;
  }
  if (r == reuse::on_completion || bytes > put_bounce_)
    if (const std::uint32_t* key = own_key(from, out.bytes = bytes)) {
      out.at = reinterpret_cast<std::uintptr_t>(from);
      out.lkey = *key;
      return status::ok;
    }
  if (bytes > put_bounce_)
    if (const status s = registered(from, bytes, firehose::purpose::source, out);
        s != status::unsupported)
      return s;
  const status s = chunk(std::min<std::size_t>(bytes, core_.queue_sizes().chunk_bytes), out);
  if (s == status::ok) std::memcpy(reinterpret_cast<void*>(out.at), from, out.bytes);
  return s;
}

status transfers::destination(std::byte* to, std::size_t bytes, part& out) noexcept {
  if (const std::uint32_t* key = own_key(to, out.bytes = bytes)) {
    out.at = reinterpret_cast<std::uintptr_t>(to);
    out.lkey = *key;
    return status::ok;
  }
  out.hold.copy_to = nullptr;
  if (bytes > slot_bytes && bytes > get_bounce_)
    if (const status s = registered(to, bytes, firehose::purpose::destination, out);
        s != status::unsupported)
      return s;
  if (bytes <= slot_bytes) {
    const auto slot = slots_->take();
    if (!slot) return status::no_chunk;
    out.hold.slot = static_cast<std::uint16_t>(*slot);
    out.at = reinterpret_cast<std::uintptr_t>(slots_->at(*slot));
    out.lkey = slots_->keys().lkey;
    out.bytes = bytes;
  } else if (const status s =
                 chunk(std::min<std::size_t>(bytes, core_.queue_sizes().chunk_bytes), out);
             s != status::ok) {
    return s;
  }
  out.hold.copy_to = to;
  out.hold.copy_bytes = static_cast<std::uint32_t>(out.bytes);
  return status::ok;
}

// The key of memory that stays registered: the segment or a heap. Null: `at` lies in neither.
// bytes: the caller's number; in the program's heap it is cut to what has this key.
const std::uint32_t* transfers::own_key(const void* at, std::size_t& bytes) const noexcept {
  if (core_.own_segment() && core_.own_segment()->contains(at, bytes))
    return &core_.own_segment()->keys().lkey;
  // H2 heap  acquire heap_seen_  <- H1
  const memreg::lasting_heap* const h = heap_seen_.load(std::memory_order_acquire);
  if (h == nullptr || !h->contains(at)) {
    const memreg::registration* const r = program_heap_ ? program_heap_->find(at, bytes) : nullptr;
    return r != nullptr ? &r->lkey : nullptr;
  }
  const memreg::registration& first = h->keys_of(at);
  const auto* const last = static_cast<const std::byte*>(at) + bytes - 1;
  return first.handle != nullptr && h->contains(last) && h->keys_of(last).handle == first.handle
             ? &first.lkey
             : nullptr;
}

// The program's heap, which the first call makes.
result<memreg::lasting_heap*> transfers::heap(memreg::heap_maker make) {
  const std::lock_guard guard(heap_lock_);
  if (!heap_) {
    auto made = make(core_.account().caches());
    if (!made) return made.error();
    heap_ = std::move(*made);
    // H1 heap  release heap_seen_  -> H2
    heap_seen_.store(heap_.get(), std::memory_order_release);
  }
  return heap_.get();
}

// Registers the memory through firehose or for this transfer alone. unsupported: the caller has to
// copy through a chunk.
status transfers::registered(const void* at, std::size_t bytes, firehose::purpose use,
                             part& out) noexcept {
  status s;
  out.at = reinterpret_cast<std::uintptr_t>(at);
  if (pool_) {
    s = pool_->acquire(at, bytes, use, out.hold.lease);
    if (s == status::ok) {
      out.lkey = out.hold.lease.lkey();
      out.bytes = out.hold.lease.bytes();
    }
  } else {
    const unsigned access =
        use == firehose::purpose::source ? memreg::access::local_read : memreg::access::local_write;
    s = temporaries_->try_register(const_cast<void*>(at), bytes, access, out.hold.registration);
    if (s == status::ok) {
      out.lkey = out.hold.registration.lkey();
      out.bytes = bytes;
    }
  }
  // No more memory can be pinned, or not this memory, or not now: a copy is always possible.
  return s == status::ok ? s : status::unsupported;
}

// The same for a Long's payload; out.held is the index in held_ of the entry that keeps its
// registration.
bool transfers::hold_source(const void* at, std::size_t bytes, long_source& out) noexcept {
  out.held = queues::no_source;
  if (const std::uint32_t* key = own_key(at, out.bytes = bytes)) {
    out.lkey = *key;
    return true;
  }
  const auto h = held_free_->take();
  if (!h) return false;
  part p;
  if (registered(at, bytes, firehose::purpose::source, p) != status::ok) {
    held_free_->give(*h);
    return false;
  }
  held_[*h].lease = std::move(p.hold.lease);
  held_[*h].registration = std::move(p.hold.registration);
  out = {p.bytes, p.lkey, static_cast<std::uint16_t>(*h)};
  return true;
}

void transfers::release_source(std::uint16_t held) noexcept {
  held_[held].lease.reset();
  held_[held].registration.reset();
  held_free_->give(held);
}

status transfers::chunk(std::size_t bytes, part& out) noexcept {
  const auto c = chunks().take();
  if (!c) return status::no_chunk;
  out.hold.chunk = static_cast<std::uint16_t>(*c);
  out.at = reinterpret_cast<std::uintptr_t>(chunks().at(*c));
  out.lkey = chunks().keys().lkey;
  out.bytes = bytes;
  return status::ok;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
