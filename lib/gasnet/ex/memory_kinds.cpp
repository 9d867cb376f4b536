// Kinds of memory. The only one is the host's, which has an object from the start; no call makes
// another.
#include <gasnet_mk.h>

#include "lib/base/log.hpp"
#include "lib/gasnet/ex/objects.hpp"

using namespace penstock;
using namespace penstock::gasnet;

namespace {

const void* host_data = nullptr;

void must_be_host(gex_MK_t mk, const char* call) {
  if (mk != GEX_MK_HOST) fatal(1, "%s: the only kind of memory is GEX_MK_HOST", call);
}

}  // namespace

extern "C" {

int GASNETC_(mk_create)(int kind_class, uint64_t class_flags, gex_MK_t* mk_p, gex_Client_t client,
                        gex_Flags_t flags) {
  if (mk_p == nullptr || client == GEX_CLIENT_INVALID || class_flags != 0 || flags != 0)
    return refused(GASNET_ERR_BAD_ARG, "gex_MK_Create: it takes a place, a client, and no flags");
  if (kind_class == GEX_MK_CLASS_HOST)
    return refused(GASNET_ERR_BAD_ARG, "gex_MK_Create: host memory is GEX_MK_HOST, and not made");
  return refused(GASNET_ERR_RESOURCE, "gex_MK_Create: no memory of class %d here; host memory only",
                 kind_class);
}
void GASNETC_(mk_destroy)(gex_MK_t mk) {
  must_be_host(mk, "gex_MK_Destroy");
  fatal(1, "gex_MK_Destroy: GEX_MK_HOST is not destroyed");
}
const void** GASNETC_(mk_data)(gex_MK_t mk) {
  must_be_host(mk, "gex_MK_SetCData or gex_MK_QueryCData");
  return &host_data;
}
gex_Client_t GASNETC_(mk_client)(gex_MK_t mk) {
  must_be_host(mk, "gex_MK_QueryClient");
  return &objects().client;
}

}  // extern "C"
