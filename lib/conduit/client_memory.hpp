// Memory of the client's that becomes a part of the segment without moving: its pages are replaced
// by pages of the segment's file that hold the same bytes. So the client finds its data at the
// addresses that it knows, and other processes find them in the segment. For lib/gasnet's
// gex_Segment_Create; segment_growth owns none of it.
//
// The memory is private (no mapping that the client shares), may be read and written, and is no
// stack. Whole pages are replaced. Where the client's memory begins or ends inside a page, the rest
// of that page belongs to others, such as malloc: then no other thread may run meanwhile, and a
// child of fork gets a copy of that page. All other pages a child shares, as it shares the segment.
#pragma once

#include <cstddef>

#include "lib/base/result.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// Whole pages that hold some bytes of the client's.
struct client_pages {
  std::byte* first = nullptr;
  std::size_t bytes = 0;
  bool shares_first = false, shares_last = false;  ///< a page that holds others' bytes, too

  static client_pages around(std::byte* at, std::size_t bytes) noexcept;
};

/// Replaces those pages by the pages of fd from offset on, which are mapped at `there` as well and
/// hold nothing that is needed. Nobody writes to them meanwhile. On an error nothing has changed.
result<void> take_pages(const client_pages& p, int fd, std::size_t offset, std::byte* there);
/// The other direction: private pages with the same bytes. fd's pages go back to the system.
result<void> give_pages_back(const client_pages& p, int fd, std::size_t offset, std::byte* there);

}  // namespace penstock::conduit::PENSTOCK_ABI
