// The size of the kernel's pages: 4 KiB on x86-64, 16 or 64 KiB on some kernels of other
// processors. The library does not know it when it is compiled, but gasnet.h has to promise a size.
#pragma once

#include <cstddef>

namespace penstock {

/// Bytes of a base page; a power of two, at most widest_page. Asked of the kernel once.
std::size_t page_bytes() noexcept;

/// The widest pages of today's kernels: memory that begins and ends at multiples of it begins and
/// ends with a page on all of them.
inline constexpr std::size_t widest_page = 64 * 1024;

}  // namespace penstock
