#include "lib/base/page.hpp"

#include <unistd.h>

namespace penstock {

std::size_t page_bytes() noexcept {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace penstock
