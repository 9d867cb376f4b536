// What lib/job calls of PMIx's library, as libpmix.so.2: its answers are bytes that the fuzz target
// gives.
#include <pmix.h>

#include <cstdlib>
#include <cstring>

#include "test/fuzz/pmix_library.hpp"

namespace {

fuzz::input says(nullptr, 0);
int inside = 0;

// Statuses, most of them good.
pmix_status_t status() {
  switch (says.byte() % 16) {
    case 0:
      return PMIX_ERROR;
    case 1:
      return PMIX_ERR_NOT_FOUND;
    default:
      return PMIX_SUCCESS;
  }
}

}  // namespace

void fuzz::pmix_says(const fuzz::input& in) { says = in; }
int fuzz::pmix_users() { return inside; }

extern "C" {

pmix_status_t PMIx_Init(pmix_proc_t* me, pmix_info_t*, std::size_t) {
  const pmix_status_t s = status();
  std::memset(me, 0, sizeof *me);
  me->rank = says.byte() % 4 == 0 ? says.take<std::uint32_t>() : says.byte() % 4u;
  if (s == PMIX_SUCCESS) ++inside;
  return s;
}
pmix_status_t PMIx_Finalize(const pmix_info_t*, std::size_t) {
  --inside;
  return PMIX_SUCCESS;
}
pmix_status_t PMIx_Put(pmix_scope_t, const char*, pmix_value_t*) { return status(); }
pmix_status_t PMIx_Commit() { return status(); }
pmix_status_t PMIx_Fence(const pmix_proc_t*, std::size_t, const pmix_info_t*, std::size_t) {
  return status();
}
pmix_status_t PMIx_Fence_nb(const pmix_proc_t*, std::size_t, const pmix_info_t*, std::size_t,
                            pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}
pmix_status_t PMIx_Get(const pmix_proc_t*, const char* key, const pmix_info_t*, std::size_t,
                       pmix_value_t** to) {
  const pmix_status_t s = status();
  if (s != PMIX_SUCCESS) return s;
  const std::uint8_t how = says.byte();
  if (how % 16 == 0) {
    *to = nullptr;
    return s;
  }
  auto* const v = static_cast<pmix_value_t*>(std::calloc(1, sizeof(pmix_value_t)));
  static constexpr pmix_data_type_t types[] = {PMIX_UINT32, PMIX_STRING, PMIX_BYTE_OBJECT,
                                               PMIX_UINT64, PMIX_BOOL,   PMIX_UNDEF};
  const bool number = std::strcmp(key, PMIX_JOB_SIZE) == 0;
  const bool list = std::strcmp(key, PMIX_LOCAL_PEERS) == 0;
  const unsigned fits = number ? 0 : list ? 1 : 2;
  v->type = types[how % 16 == 1 ? says.byte() % 6u : fits];
  const std::uint8_t length = says.byte();
  const std::size_t n = length < 200 ? 32 : length % 40u;
  if (v->type == PMIX_UINT32) {
    v->data.uint32 = how >= 240 ? says.take<std::uint32_t>() : says.byte() % 5u;
  } else if (v->type == PMIX_STRING && how < 250) {
    v->data.string = static_cast<char*>(std::malloc(n + 1));
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint8_t c = says.byte();
      v->data.string[i] = c < 128 ? "0123,"[c % 6] : static_cast<char>(c);
    }
    v->data.string[n] = '\0';
  } else if (v->type == PMIX_BYTE_OBJECT && how < 250) {
    v->data.bo.bytes = static_cast<char*>(std::malloc(n + 1));
    v->data.bo.size = n;
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint8_t c = says.byte();
      v->data.bo.bytes[i] = c < 224 ? "0123456789abcdef"[c % 16] : static_cast<char>(c);
    }
  } else if (v->type == PMIX_UINT64) {
    v->data.uint64 = says.take<std::uint64_t>();
  }
  *to = v;
  return s;
}
pmix_status_t PMIx_Abort(int, const char*, pmix_proc_t*, std::size_t) { return PMIX_SUCCESS; }
const char* PMIx_Error_string(pmix_status_t) { return "an error"; }
pmix_status_t PMIx_Register_event_handler(pmix_status_t*, std::size_t, pmix_info_t*, std::size_t,
                                          pmix_notification_fn_t, pmix_hdlr_reg_cbfunc_t, void*) {
  return PMIX_SUCCESS;
}

}  // extern "C"
