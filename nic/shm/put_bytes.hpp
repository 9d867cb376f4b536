// How the bytes of a WRITE get into memory of the target that is mapped here.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "nic/shm/page_guard.hpp"

namespace penstock::nic::shm {

/// Puts a WRITE's bytes into mapped memory of the target. Its program may poll a word there that
/// tells of what was written before: such a word arrives whole, and last. False: this process has
/// unmapped some of the bytes.
[[nodiscard]] inline bool put_bytes(std::byte* to, const std::byte* from,
                                    std::size_t bytes) noexcept {
  const auto put_word = [&]<class Word>(Word v) {
    if (sizeof v == 8 ? !guarded_copy_8(&v, from) : !guarded_copy(&v, from, sizeof v)) [[unlikely]]
      return false;
    // PW1 word  release the target's word, behind the WRITEs before; its program acquires it
    std::atomic_ref(*reinterpret_cast<Word*>(to)).store(v, std::memory_order_release);
    return true;
  };
  const auto at = reinterpret_cast<std::uintptr_t>(to);
  if (bytes == 8 && at % 8 == 0) return put_word(std::uint64_t{});
  if (bytes == 4 && at % 4 == 0) return put_word(std::uint32_t{});
  return guarded_copy(to, from, bytes);
}

}  // namespace penstock::nic::shm
