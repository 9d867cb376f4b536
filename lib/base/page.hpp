// The size of the kernel's pages: 4 KiB here, 16 or 64 KiB on some kernels of other processors. No
// size of a page is known when the library is compiled, but for the one that gasnet.h has to
// promise.
#pragma once

#include <cstddef>

namespace penstock {

/// Bytes of a base page; a power of two, at most widest_page. Asked of the kernel once.
std::size_t page_bytes() noexcept;

/// No kernel of today has wider ones: what begins and ends at multiples of it begins and ends with
/// a page.
inline constexpr std::size_t widest_page = 64 * 1024;

}  // namespace penstock
