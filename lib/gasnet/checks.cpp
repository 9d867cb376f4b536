// Further checks for clients compiled with GASNET_DEBUG, which cost only these: of the arguments
// that handlers are called with, and of puts and gets, which the client's own code does by copies
// where memory is mapped. The library is the same, so that objects with and without GASNET_DEBUG
// may meet in one program; gasnet_init decides whether handlers are checked.
#include <atomic>
#include <iterator>

#include "lib/base/log.hpp"
#include "lib/gasnet/messages.hpp"
#include "lib/gasnet/process.hpp"
#include "lib/gasnet/reach.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

// What the first message to each handler was like: a function has one list of parameters, so all
// other messages must have as many arguments, and all or none of them a payload. The word has
// seen_bit, whether there is a payload, the number of arguments, and the sender. relaxed: nothing
// else is read because of it.
constexpr std::uint32_t seen_bit = 1, payload_bit = 2;
constexpr unsigned nargs_shift = 2, sender_shift = 8;
std::atomic<std::uint32_t> first_use[conduit::user_handlers];

const char* kind_of(std::uint32_t use) {
  return (use & payload_bit) != 0 ? "a payload" : "no payload";
}
unsigned arguments_of(std::uint32_t use) { return use >> nargs_shift & 31; }

void check_use(conduit::token_state& t) {
  const unsigned index = t.header.handler;
  const std::uint32_t payload = t.header.kind() == conduit::wire::kind::short_ ? 0 : payload_bit;
  const std::uint32_t now =
      seen_bit | payload | t.nargs() << nargs_shift | t.source() << sender_shift;
  std::uint32_t before = 0;
  if (first_use[index].compare_exchange_strong(before, now, std::memory_order_relaxed)) return;
  constexpr std::uint32_t signature = (1u << sender_shift) - 1;
  if ((before & signature) == (now & signature)) return;
  fatal(1,
        "AM handler %s is called by rank %u with %u arguments and %s, and was called by rank "
        "%u with %u and %s: a function takes only one of these",
        self.engine->names().numbered(index).c_str(), t.source(), arguments_of(now), kind_of(now),
        before >> sender_shift, arguments_of(before), kind_of(before));
}

}  // namespace

void run_checked_handler(void* context, token& t, const std::uint32_t* args, std::byte* payload,
                         std::size_t bytes) {
  // Handlers of further endpoints are registered with the messages that they take.
  if (endpoints_of(*conduit::running).to == 0) check_use(*conduit::running);
  run_client_handler(context, t, args, payload, bytes);
}

}  // namespace penstock::gasnet::PENSTOCK_ABI

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
