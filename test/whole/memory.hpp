// A lack of memory, by the seed.
#pragma once

#include <cstdint>

namespace penstock::whole {

/// From here on the k-th C++ allocation by threads of that rank fails; 0: none.
void fail_allocation(std::uint32_t of_rank, std::uint64_t kth) noexcept;

/// While one of these lives, the calling thread's allocations succeed.
class spared {
 public:
  spared() noexcept;
  ~spared();
  spared(const spared&) = delete;
  spared& operator=(const spared&) = delete;
};

}  // namespace penstock::whole
