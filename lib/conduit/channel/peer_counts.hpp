// What is counted for one peer while messages flow. Part of a peer; read by report/counters.cpp.
// Only what would otherwise be lost is counted here: Shorts are the total of their queue (which the
// queue counts anyway) less all that is counted here, so that a Short costs nothing.
//
// Each group belongs to one end of a queue and is added to inside that end, by plain stores on
// lines of its own; any thread may read. add_shared where several threads may be there.
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

/// Adds to what several threads may count at once; in SEQ and PARSYNC there is only one.
inline void count_shared(event_counter& t, std::uint64_t n) noexcept {
  if constexpr (concurrent(build_mode))
    t.add_shared(n);
  else
    t.add(n);
}

/// Messages of one direction that are not Shorts of the user's.
struct kind_counts {
  event_counter mediums, medium_bytes, longs, long_bytes, own;
  event_counter large;  ///< of mediums: those whose payload did not travel with their header

  /// A Medium of a user's handler; by the owner of the end.
  [[gnu::always_inline]] void medium(std::size_t bytes) noexcept {
    mediums.add(1);
    medium_bytes.add(bytes);
  }
  /// A message of any kind; by the owner of the end. own: its handler is the engine's.
  void note(wire::kind k, std::size_t bytes, bool of_engine) noexcept {
    note_by([](event_counter& t, std::uint64_t n) { t.add(n); }, k, bytes, of_engine);
  }
  /// The same where several threads may be there.
  void note_shared(wire::kind k, std::size_t bytes, bool of_engine) noexcept {
    note_by(count_shared, k, bytes, of_engine);
  }
  /// What these and the total of the direction say together.
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
    if (of_engine) {
      add(own, 1);
    } else if (k == wire::kind::medium || k == wire::kind::large) {
      add(mediums, 1);
      add(medium_bytes, bytes);
      if (k == wire::kind::large) add(large, 1);
    } else if (k == wire::kind::long_ || k == wire::kind::packed_long) {
      add(longs, 1);
      add(long_bytes, bytes);
    }
  }
};

struct peer_counts {
  alignas(cache_line) kind_counts sent;      // (request_out)
  alignas(cache_line) kind_counts handled;   // (request_in) by rings; by verbs any thread
  alignas(cache_line) kind_counts replied;   // (request_in) by rings; by verbs (reply_out)
  event_counter replies;                     // (reply_out) by verbs: all that are sent
  event_counter words;                       // (request_in) by rings: words of the engine
  alignas(cache_line) kind_counts answered;  // (reply_in) by rings; by verbs any thread
  alignas(cache_line) event_counter puts;    // any thread, as all that follow
  event_counter put_bytes, gets, get_bytes, atomics;
  event_counter waits, wait_ticks;
  std::atomic<std::uint64_t> waiting_since{0};  ///< ticks; 0: nobody waits
  std::atomic<std::uint8_t> waits_for{0};       ///< the status that the last step of a wait had
  std::atomic<std::uint32_t> waiters{0};
  event_counter credits_lent, credits_revoked;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
