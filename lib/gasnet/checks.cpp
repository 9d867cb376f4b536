// Further checks for clients compiled with GASNET_DEBUG, and for all with the setting CHECKS, which
// cost only these: of events, and of puts and gets, which the client's own code does by copies
// where memory is mapped. The library is the same, so that objects with and without GASNET_DEBUG
// may meet in one program.
#include <iterator>

#include "lib/base/log.hpp"
#include "lib/gasnet/process.hpp"
#include "lib/gasnet/reach.hpp"

using namespace penstock::gasnet;

extern "C" {

int GASNETC_(init_checked)(int* argc, char*** argv) {
  self.checked = true;
  return GASNETC_(init)(argc, argv);
}

void GASNETC_(check_transfer)(gasnet_node_t node, const void* addr, size_t nbytes) {
  if (nbytes != 0) check_remote(node, addr, nbytes, "a put or get");
}

void GASNETC_(mistake)(enum gasnetc_mistake what, const char* call, gasnet_node_t rank,
                       uintptr_t number) {
  using penstock::fatal;
  const auto n = static_cast<std::size_t>(number);
  switch (what) {
    case gasnetc_no_domain:
      if (rank == GEX_RANK_INVALID) fatal(1, "%s: GEX_AD_INVALID is no domain", call);
      fatal(1, "%s to rank %u: GEX_AD_INVALID is no domain", call, rank);
    case gasnetc_value_bytes:
      fatal(1, "%s: a value of %zu bytes at rank %u; values have 1 to 8", call, n, rank);
    case gasnetc_bad_lc_opt:
      break;
  }
  constexpr const char* names[] = {"NULL", "GEX_EVENT_NOW", "GEX_EVENT_DEFER", "GEX_EVENT_GROUP"};
  fatal(1, "%s to rank %u: lc_opt is %s, which this call does not take", call, rank,
        n < std::size(names) ? names[n] : "the place of an event");
}

}  // extern "C"
