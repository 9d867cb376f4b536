// A message whose payload its sender writes in place: where, and how many bytes may be written. The
// sender's path finds the place (reserve) and takes it back (cancel); a message that names its
// draft (outgoing::written) is the commit. Knows no device; engine::reserve (reserve.cpp) makes
// drafts.
//
// A draft holds no credit, and no end of a queue: whoever keeps one for long keeps nobody waiting.
// Where a path has no place, the draft has one of its own, from which a commit copies as any
// request does: so reserving waits for nothing.
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

  // What will be sent, as far as it is known.
  rank_id to = 0;
  wire::kind kind = wire::kind::medium;
  std::uint8_t nargs = 0;
  void* dest = nullptr;   ///< a Long's address in the target's segment; null: the commit says it
  std::uint32_t tag = 0;  ///< of the thread that may commit

  // Where it is written.
  std::byte* payload = nullptr;
  std::size_t most = 0;            ///< bytes that may be written there
  std::uint16_t chunk = no_chunk;  ///< the path's, by queue pairs
  std::uint16_t buffer = 0xffff;   ///< a large Medium's

  /// Takes a place of its own, for at least `least` bytes. False: there is no memory.
  bool use_own(std::size_t least, std::size_t limit) noexcept {
    payload = block;
    if (least > sizeof block) {
      large.reset(new (std::nothrow) std::byte[least]);
      payload = large.get();
    }
    most = std::min(limit, std::max(least, sizeof block));
    return payload != nullptr;
  }

  /// A draft without a place: one that this thread has let go, or a new one. Null: no memory.
  [[nodiscard]] static draft* take() noexcept;
  /// The end of d, which has given its place back.
  static void let_go(draft& d) noexcept;

 private:
  std::unique_ptr<std::byte[]> large;
  alignas(64) std::byte block[max_eager];
};

}  // namespace penstock::conduit::PENSTOCK_ABI
