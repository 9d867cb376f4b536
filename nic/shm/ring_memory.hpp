// How a ring lies in memory: slots, the part that both processes map first, sizes, and how much of
// it is used. What the two ends do there is ring.hpp's, which draws it. Used by ring.hpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/base/limits.hpp"
#include "lib/base/mode.hpp"

namespace penstock::nic::shm {

/// Bytes of a message that travel in the slot itself.
inline constexpr std::size_t slot_body = limits::slot_body;

struct alignas(cache_line) ring_slot {
  /// position + 1 when filled, in the low half; data bytes << 8 | operation in the high half. One
  /// word, so that a push is few stores: they queue up behind lines that are on their way.
  std::atomic<std::uint64_t> state;
  std::uint64_t header;  ///< each operation gives it its own meaning
  std::byte body[slot_body];

  static constexpr std::uint64_t filled(std::uint64_t position, std::uint32_t data_bytes,
                                        std::uint8_t op) noexcept {
    return (std::uint64_t{data_bytes << 8 | op} << 32) | static_cast<std::uint32_t>(position + 1);
  }
  static constexpr bool is_at(std::uint64_t state, std::uint64_t position) noexcept {
    return static_cast<std::uint32_t>(state) == static_cast<std::uint32_t>(position + 1);
  }
};
static_assert(sizeof(ring_slot) == cache_line);

/// What a consumer without a ring looks at: nothing is ever there.
inline constinit ring_slot no_slot{};

/// Copies n words into a slot's body, at most those it holds, in pairs: there must be room for an
/// even number at words.
inline void copy_words(std::byte* body, const std::uint32_t* words, unsigned n) noexcept {
  static_assert(slot_body == 48);
  if (n <= 2) [[likely]] {
    if (n != 0) std::memcpy(body, words, 8);
    return;
  }
  switch ((n + 1) / 2) {
    case 6:
      std::memcpy(body + 40, words + 10, 8);
      [[fallthrough]];
    case 5:
      std::memcpy(body + 32, words + 8, 8);
      [[fallthrough]];
    case 4:
      std::memcpy(body + 24, words + 6, 8);
      [[fallthrough]];
    case 3:
      std::memcpy(body + 16, words + 4, 8);
      [[fallthrough]];
    default:
      std::memcpy(body + 8, words + 2, 8);
      std::memcpy(body, words, 8);
  }
}

/// The part of a ring that both processes map, at the start of its memory.
struct ring_shared {
  alignas(cache_line) std::atomic<std::uint64_t> head;  // written by the consumer
  std::atomic<std::uint64_t> data_head;
  alignas(cache_line) std::atomic<std::uint32_t> producer_state;  // for the device's use
  std::atomic<std::uint32_t> producer_waits;
};
static_assert(sizeof(ring_shared) == 2 * cache_line);

/// Sizes of a ring; both are powers of two. The same on both sides, fixed when the ring is made.
struct ring_geometry {
  std::uint32_t slots = limits::ring_slots;
  std::uint32_t data_bytes = limits::ring_data;
  [[nodiscard]] constexpr std::size_t memory() const noexcept {
    return sizeof(ring_shared) + std::size_t{slots} * sizeof(ring_slot) + data_bytes;
  }
  /// Longest payload one message may put in the data ring: half of it, so that a wrap never wedges.
  [[nodiscard]] constexpr std::uint32_t longest() const noexcept { return data_bytes / 2; }
};
static_assert(ring_geometry{}.longest() >= limits::longest_message &&
              ring_geometry{}.longest() < 1u << 24);  // a slot's state has 24 bits for it

/// How much of a ring is used, in whole pages of the kernel: data bytes, and slots. The slot of the
/// mark is not counted among them, if they are fewer than all.
struct ring_length {
  std::uint32_t slots = 0, data = 0;
  /// The shortest length that holds `slots` slots and `data` data bytes.
  static ring_length holding(std::uint32_t slots, std::uint32_t data,
                             const ring_geometry& g = {}) noexcept;
  static constexpr ring_length all(const ring_geometry& g = {}) noexcept {
    return {g.slots, g.data_bytes};
  }
  /// Bytes of memory that a ring of this length uses.
  [[nodiscard]] std::size_t memory(const ring_geometry& g = {}) const noexcept;
};

/// Where n data bytes go when the data position is `at`: never across the end of the ring.
struct ring_span {
  std::uint64_t begin, end;
  constexpr ring_span(std::uint64_t at, std::uint32_t n, std::uint32_t size) noexcept {
    const std::uint64_t used = at & (size - 1);
    begin = used + n > size ? at + (size - used) : at;
    end = begin + ((n + cache_line - 1) & ~(cache_line - 1));
  }
};

/// The parts of a ring's memory, as one process maps it.
struct ring_memory {
  ring_shared* shared = nullptr;
  ring_slot* slots = nullptr;
  std::byte* data = nullptr;
  ring_geometry geometry;

  ring_memory() = default;
  ring_memory(void* base, ring_geometry g) noexcept
      : shared(static_cast<ring_shared*>(base)),
        slots(reinterpret_cast<ring_slot*>(static_cast<std::byte*>(base) + sizeof(ring_shared))),
        data(reinterpret_cast<std::byte*>(slots + g.slots)),
        geometry(g) {}
};

/// Messages that were taken out of a ring, and are still read where they lie, the oldest first.
/// Each has the number of the thread that reads it.
struct kept_messages {
  struct one {
    std::uint64_t head, data_head;  ///< what the producer may be told meanwhile
    std::uint32_t reader;
    bool done;
  };
  one at[ring_geometry{}.slots];
  std::uint32_t count = 0;
};

}  // namespace penstock::nic::shm
