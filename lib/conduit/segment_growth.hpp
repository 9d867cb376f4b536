// How a segment grows after start: by its reserve, and by memory of the client's. For
// lib/gasnet, whose clients attach or create segments when the engine runs already. One thread
// calls these functions, while nobody uses the memory that they are about.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/result.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class engine;

struct segment_growth {
  /// What another process has to know of a segment that has grown.
  struct news {
    std::uint64_t bytes = 0;
    std::uint32_t rkey = 0, failed = 0;
  };

  /// Extends this process's segment to `bytes`, at the same base.
  static result<news> extend(engine& e, std::size_t bytes);
  /// Learns of r's, which may be this process.
  static void learn(engine& e, std::uint32_t r, const news& n) noexcept;

  /// Makes the `bytes` bytes at `at` a part of the segment (client_memory.hpp): its reserve from
  /// `part` on takes their whole pages. The result is where in the segment the byte at `at` lies.
  static result<std::byte*> adopt(engine& e, std::byte* at, std::size_t bytes, std::byte* part);
  /// Undoes it.
  static result<void> give_back(engine& e, std::byte* at, std::size_t bytes, std::byte* part);
  /// The bytes of reserve that adopting that memory takes.
  static std::size_t pages_around(std::byte* at, std::size_t bytes) noexcept;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
