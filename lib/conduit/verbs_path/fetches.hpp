// Messages that have come by queue pairs and are handled later: large Mediums whose payload is not
// here yet, and requests of a rank that has not taken its share of large replies. A list for each
// domain; only verbs_path uses it (fetch.cpp).
//
// A message is copied out of its receive buffer or chunk, and waits in the list until there is a
// buffer to fetch into. Meanwhile it holds nothing that another message needs; requests and replies
// have buffers of their own. Threads: any thread may add a message, by a compare-and-swap, and may
// note that a fetch has completed; the rest is touched inside the owner `at`. Handlers run outside
// it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "lib/base/assert.hpp"
#include "lib/base/hand_over.hpp"
#include "lib/conduit/message/outgoing.hpp"
#include "lib/conduit/peer/large_buffers.hpp"
#include "lib/conduit/peer/peer.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// A large Medium whose payload is to be fetched; or a whole request (`copy`), of which nothing is.
struct fetch {
  fetch* next = nullptr;
  peer* from = nullptr;
  wire::header header;
  wire::large_block where{};
  std::uint32_t args[max_args] = {};
  bool request = false, urgent = false;
  std::uint8_t grant = 0;
  std::uint16_t cost = 1;             // credits of a request
  std::uint32_t bytes = 0;            // of copy
  std::unique_ptr<std::byte[]> copy;  // the request as it came
  bool under_way = false;             // (at)
  bool freed = false;                 // (at) its sender has been told that it has been read
  enum class state : std::uint8_t { awaited, here, failed };
  std::atomic<state> payload{state::awaited};
  std::uint16_t buffer = large_buffers::none;  // (at) the one that it is fetched into
};

struct fetches {
  /// What the credit byte of a request asked for: credits granted, and whether its sender waits.
  struct more {
    std::uint8_t grant = 0;
    bool urgent = false;
  };
  /// True if there is a message. relaxed: a thread that adds one polls again.
  [[nodiscard]] bool waiting() const noexcept { return count.load(std::memory_order_relaxed) != 0; }
  void add(fetch& f) noexcept {
    count.fetch_add(1, std::memory_order_relaxed);
    arrived.push(f);
  }
  /// A message has left the list.
  void remove() noexcept {
    [[maybe_unused]] const auto before = count.fetch_sub(1, std::memory_order_relaxed);
    PENSTOCK_ASSERT(before, !=, 0u);
  }
  /// Notes that the fetch into that buffer has completed, or never will. Until then the buffer
  /// belongs to the device, whatever becomes of the peer.
  void note_end(std::uint16_t buffer, fetch::state how) noexcept {
    // F2 here  release payload  -> F2 (fetch.cpp): by_buffer was written before the fetch was
    // posted
    fetch* const f = by_buffer[buffer].load(std::memory_order_relaxed);
    PENSTOCK_ASSERT(f != nullptr && f->under_way && f->buffer == buffer, ==, true);
    PENSTOCK_ASSERT(f->payload.load(std::memory_order_relaxed) == fetch::state::awaited, ==, true);
    f->payload.store(how, std::memory_order_release);
  }
  /// Puts the added messages behind the others, in the order in which they came; inside at.
  void take_arrived() noexcept {
    fetch** end = &first;
    while (*end != nullptr) end = &(*end)->next;
    *end = arrived.take_all();
  }

  hand_over<fetch> arrived;
  std::atomic<std::uint32_t> count{0};
  queue_owner at;
  fetch* first = nullptr;  // (at)
  std::atomic<fetch*> by_buffer[large_buffers::count] = {};

  ~fetches() {
    take_arrived();
    while (first != nullptr) {
      fetch* const f = first;
      first = f->next;
      delete f;
    }
  }
};

}  // namespace penstock::conduit::PENSTOCK_ABI
