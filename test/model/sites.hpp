// The places of memory orders in the text, which number_orders has numbered, and the one of them
// that this run weakens: PENSTOCK_MUTANT=number:order, or number:none for a fence on all threads.
#pragma once

#include <atomic>
#include <string>

namespace penstock::model {

/// An order as written, or as this run weakens it; notes the site as reached.
struct ordered {
  std::memory_order order;
  unsigned site;  // 0: it has none
};
[[nodiscard]] ordered at_site(std::memory_order o) noexcept;
/// "file:line text" of a site, for a trace.
[[nodiscard]] std::string site_text(unsigned site);

}  // namespace penstock::model
