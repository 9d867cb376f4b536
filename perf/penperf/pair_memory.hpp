// Memory that the two measured processes share outside the library: the probe's line, the bare
// rings, and room for payload placed by copy.
#pragma once

#include <cstddef>

#include "penstock/penstock.hpp"

namespace penstock::penperf {

/// A mapping of the same anonymous file in ranks 0 and 1, or in more. Move only; unmaps.
class pair_memory {
 public:
  pair_memory() = default;
  pair_memory(pair_memory&& o) noexcept;
  pair_memory& operator=(pair_memory&& o) noexcept;
  ~pair_memory();

  /// Collective over the job, also for ranks that get none: those from `ranks` on. Empty at all
  /// ranks when the others cannot share memory (two hosts, or /proc forbidden). The bytes are zero
  /// and touched.
  static pair_memory share(world& w, std::size_t bytes, rank_id ranks = 2);

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] explicit operator bool() const noexcept { return data_ != nullptr; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace penstock::penperf
