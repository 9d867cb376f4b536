// Handlers of gasnetex.h's messages: their registration, and what a token tells its handler.
#include "lib/base/log.hpp"
#include "lib/gasnet/ex/objects.hpp"
#include "lib/gasnet/messages.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

// Why an entry cannot be registered, or null.
const char* wrong_with(const gex_AM_Entry_t& e, unsigned endpoint) noexcept {
  constexpr gex_Flags_t kinds = GEX_FLAG_AM_SHORT | GEX_FLAG_AM_MEDLONG;
  if (e.gex_fnptr == nullptr) return "it has no function";
  if (e.gex_index != 0 && e.gex_index < GEX_AM_INDEX_BASE) return "its index is the library's";
  if (e.gex_index != 0 && !client_handler_free(e.gex_index, endpoint)) return "its index is taken";
  if (e.gex_nargs > gex_AM_MaxArgs()) return "it has more than 16 arguments";
  if ((e.gex_flags & ~(kinds | GEX_FLAG_AM_REQREP)) != 0) return "its flags are unknown";
  if ((e.gex_flags & kinds) == 0) return "its flags name no kind of message";
  if ((e.gex_flags & GEX_FLAG_AM_SHORT) != 0 && (e.gex_flags & GEX_FLAG_AM_MEDLONG) != 0)
    return "it cannot take both Shorts and messages with a payload";
  if ((e.gex_flags & GEX_FLAG_AM_REQREP) == 0) return "its flags name neither requests nor replies";
  return nullptr;
}

int wrong_entry(const gex_AM_Entry_t& e, size_t i, const char* why) {
  return refused(GASNET_ERR_BAD_ARG, "gex_EP_RegisterHandlers: entry %zu (index %u, %s): %s", i,
                 e.gex_index, e.gex_name != nullptr ? e.gex_name : "no name", why);
}

}  // namespace
}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock;
using namespace penstock::gasnet;

extern "C" {

int GASNETC_(register_handlers)(gex_EP_t ep, gex_AM_Entry_t* table, size_t count) {
  if (ep == GEX_EP_INVALID || own_endpoint(ep->index) != ep || (count != 0 && table == nullptr))
    return refused(GASNET_ERR_BAD_ARG, "gex_EP_RegisterHandlers: no endpoint, or no table");
  if ((ep->capabilities & GEX_EP_CAPABILITY_AM) == 0)
    return refused(GASNET_ERR_BAD_ARG,
                   "gex_EP_RegisterHandlers: endpoint %u was created without GEX_EP_CAPABILITY_AM",
                   ep->index);
  for (size_t i = 0; i < count; ++i) {
    if (const char* const why = wrong_with(table[i], ep->index))
      return wrong_entry(table[i], i, why);
    if (table[i].gex_index != 0) (void)set_client_handler(table[i], ep->index);
  }
  unsigned highest = conduit::user_handlers - 1;
  for (size_t i = 0; i < count; ++i) {
    if (table[i].gex_index != 0) continue;
    while (highest >= GEX_AM_INDEX_BASE &&
           !client_handler_free(static_cast<std::uint8_t>(highest), ep->index))
      --highest;
    if (highest < GEX_AM_INDEX_BASE) return wrong_entry(table[i], i, "all indexes are taken");
    table[i].gex_index = static_cast<gex_AM_Index_t>(highest);
    (void)set_client_handler(table[i], ep->index);
  }
  return GASNET_OK;
}

gex_TI_t GASNETC_(token_info)(gex_Token_t token, gex_Token_Info_t* info, gex_TI_t) {
  if (token == nullptr || info == nullptr) fatal(1, "gex_Token_Info: no token, or no place");
  const conduit::token_state& t = state_of(token);
  info->gex_srcrank = t.source();
  info->gex_ep = own_endpoint(endpoints_of(t).to);
  info->gex_entry = running_entry(t);
  info->gex_is_req = t.request ? 1 : 0;
  info->gex_is_long = running_long(t) ? 1 : 0;
  return GEX_TI_SRCRANK | GEX_TI_EP | GEX_TI_ENTRY | GEX_TI_IS_REQ | GEX_TI_IS_LONG;
}

}  // extern "C"
