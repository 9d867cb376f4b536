// The counters of one peer. They are part of the peer; report/counters.cpp reads them. Shorts are
// not counted here, so that a Short costs nothing: their number is the total of the queue, which
// the queue knows anyway, less all that is counted here.
//
// Each group belongs to one end of a queue. The thread inside that end adds to it, by plain stores
// on lines of its own; any thread may read. Where several threads may add at once, count_shared()
// does.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/build_mode.hpp"
#include "lib/base/event_counter.hpp"
#include "lib/base/mode.hpp"
#include "lib/conduit/message/wire.hpp"
#include "penstock/counters.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// Adds to a counter that several threads may add to at once; in SEQ and PARSYNC there is only one
/// thread.
inline void count_shared(event_counter& t, std::uint64_t n) noexcept {
  if constexpr (concurrent(build_mode))
    t.add_shared(n);
  else
    t.add(n);
}

/// Messages of one direction but for the user's Shorts.
struct kind_counts {
  event_counter mediums, medium_bytes, longs, long_bytes, own;
  event_counter large;  ///< the large ones of mediums: their payload went without their header

  /// Counts a Medium of the user's; inside the end.
  [[gnu::always_inline]] void medium(std::size_t bytes) noexcept {
    mediums.add(1);
    medium_bytes.add(bytes);
  }
  /// Counts a message of any kind; inside the end. of_engine: its handler is the engine's.
  void note(wire::kind k, std::size_t bytes, bool of_engine) noexcept {
    note_by([](event_counter& t, std::uint64_t n) { t.add(n); }, k, bytes, of_engine);
  }
  /// The same where several threads may count at once.
  void note_shared(wire::kind k, std::size_t bytes, bool of_engine) noexcept {
    note_by(count_shared, k, bytes, of_engine);
  }
  /// All counters of the direction; total: messages of its queue.
  [[nodiscard]] message_counters read(std::uint64_t total) const noexcept {
    message_counters c;
    c.mediums = mediums.read(), c.medium_bytes = medium_bytes.read();
    c.longs = longs.read(), c.long_bytes = long_bytes.read();
    c.own = own.read();
    const std::uint64_t others = c.mediums + c.longs + c.own;
    c.shorts = total > others ? total - others : 0;  // read while messages flow
    return c;
  }

 private:
  template <class Add>
  void note_by(Add&& add, wire::kind k, std::size_t bytes, bool of_engine) noexcept {
    if (of_engine) return add(own, 1);
    switch (k) {
      case wire::kind::large:
        add(large, 1);
        [[fallthrough]];
      case wire::kind::medium:
        add(mediums, 1);
        return add(medium_bytes, bytes);
      case wire::kind::long_:
      case wire::kind::packed_long:
        add(longs, 1);
        return add(long_bytes, bytes);
      case wire::kind::short_:
      case wire::kind::credits:
      case wire::kind::system:
        return;
    }
  }
};

struct peer_counts {
  alignas(cache_line) kind_counts sent;      // (request_out)
  alignas(cache_line) kind_counts handled;   // (request_in) by rings; by verbs any thread
  alignas(cache_line) kind_counts replied;   // (request_in) by rings; by verbs (reply_out)
  event_counter replies;                     // (reply_out) by verbs: all replies sent
  event_counter words;                       // (request_in) by rings: messages of the engine's own
  alignas(cache_line) kind_counts answered;  // (reply_in) by rings; by verbs any thread
  alignas(cache_line) event_counter puts;    // any thread, as all that follow
  event_counter put_bytes, gets, get_bytes, atomics;
  event_counter waits, wait_ticks;
  std::atomic<std::uint64_t> waiting_since{0};  ///< ticks; 0: no thread waits
  std::atomic<std::uint8_t> waits_for{0};       ///< the status of the last step of a wait
  std::atomic<std::uint16_t> waits_handler{0};  ///< for which the message is; 0: the library's own
  std::atomic<std::uint32_t> waiters{0};
  event_counter credits_lent, credits_revoked;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
