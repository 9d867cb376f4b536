// A message whose payload its sender writes in place: where it is written, and how many bytes may
// be. The path to the target finds the place (reserve) and takes it back (cancel); a message that
// names its draft (outgoing::written) commits it. This file knows no device; drafts::reserve
// makes drafts.
//
// A draft holds no credit and no end of a queue, so a thread that keeps one for long holds up no
// other thread. Where a path has no place, the draft uses memory of its own, from which the commit
// copies as any request does. So reserving never waits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "lib/conduit/message/outgoing.hpp"
#include "penstock/penstock.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

struct draft {
  static constexpr std::uint16_t no_chunk = 0xffff;

  // The message, as far as it is known when the place is reserved.
  rank_id to = 0;
  wire::kind kind = wire::kind::medium;
  std::uint8_t nargs = 0;
  void* dest = nullptr;   ///< a Long's address in the target's segment; null: the commit says it
  std::uint32_t tag = 0;  ///< of the thread that may commit

  // Where the payload is written.
  std::byte* payload = nullptr;
  std::size_t most = 0;            ///< bytes that may be written there
  std::uint16_t chunk = no_chunk;  ///< by queue pairs: the chunk that holds the place
  std::uint16_t buffer = 0xffff;   ///< of a large Medium: the buffer that holds it

  /// Uses the draft's own memory, for at least `least` bytes. False: there is no memory.
  bool use_own(std::size_t least, std::size_t limit) noexcept {
    payload = block;
    if (least > sizeof block) {
      large.reset(new (std::nothrow) std::byte[least]);
      payload = large.get();
    }
    most = std::min(limit, std::max(least, sizeof block));
    return payload != nullptr;
  }

  /// A draft without a place: one that this thread has let go, or a new one. Null: there is no
  /// memory.
  [[nodiscard]] static draft* take() noexcept;
  /// Ends d, which has given its place back; this thread keeps one draft for the next take().
  static void let_go(draft& d) noexcept;

 private:
  std::unique_ptr<std::byte[]> large;
  alignas(64) std::byte block[max_eager];
};

class engine;
struct token_state;

/// Where a handler writes the payload of its reply in place. The place is aligned for any type. It
/// belongs to the handler that runs, which may answer by it, or drops it.
struct reply_place {
  std::byte* payload = nullptr;   ///< null: the path has no such place
  std::size_t most = 0;           ///< bytes that may be written there
  std::uint16_t buffer = 0xffff;  ///< of a large Medium: the buffer that holds it

  /// The place of an answer to t, of m's kind, number of words and destination, with up to `most`
  /// bytes. It never waits. (drafts.cpp)
  static reply_place find(token_state& t, const outgoing& m, std::size_t most) noexcept;
  /// Gives the place back, unless a large Medium has taken it.
  void drop(engine& e, bool taken) noexcept;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
