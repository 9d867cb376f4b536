// Handlers of gasnetex.h's messages: their registration, and what a token tells its handler.
#include "lib/base/log.hpp"
#include "lib/gasnet/ex/handler_places.hpp"
#include "lib/gasnet/ex/objects.hpp"
#include "lib/gasnet/messages.hpp"

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
  taken_indexes taken;
  for (unsigned i = GEX_AM_INDEX_BASE; i < conduit::user_handlers; ++i)
    taken[i] = !client_handler_free(static_cast<std::uint8_t>(i), ep->index);
  if (const auto wrong = place_entries({table, count}, taken)) {
    const gex_AM_Entry_t& e = table[wrong->at];
    return refused(GASNET_ERR_BAD_ARG, "gex_EP_RegisterHandlers: entry %zu (index %u, %s): %s",
                   wrong->at, e.gex_index, e.gex_name != nullptr ? e.gex_name : "no name",
                   wrong->why);
  }
  for (size_t i = 0; i < count; ++i) (void)set_client_handler(table[i], ep->index);
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
