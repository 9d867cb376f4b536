// Constants of gasnetex.h as text, for traces and messages of clients.
#include <gasnet_fwd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace {

struct named {
  std::uint32_t bit;
  const char* name;
};
#define PENSTOCK_NAMED(name) \
  { name, #name }
constexpr named types[] = {PENSTOCK_NAMED(GEX_DT_I32), PENSTOCK_NAMED(GEX_DT_U32),
                           PENSTOCK_NAMED(GEX_DT_I64), PENSTOCK_NAMED(GEX_DT_U64),
                           PENSTOCK_NAMED(GEX_DT_FLT), PENSTOCK_NAMED(GEX_DT_DBL),
                           PENSTOCK_NAMED(GEX_DT_USER)};
constexpr named operations[] = {
    PENSTOCK_NAMED(GEX_OP_AND),  PENSTOCK_NAMED(GEX_OP_OR),   PENSTOCK_NAMED(GEX_OP_XOR),
    PENSTOCK_NAMED(GEX_OP_ADD),  PENSTOCK_NAMED(GEX_OP_SUB),  PENSTOCK_NAMED(GEX_OP_MULT),
    PENSTOCK_NAMED(GEX_OP_MIN),  PENSTOCK_NAMED(GEX_OP_MAX),  PENSTOCK_NAMED(GEX_OP_INC),
    PENSTOCK_NAMED(GEX_OP_DEC),  PENSTOCK_NAMED(GEX_OP_SET),  PENSTOCK_NAMED(GEX_OP_CAS),
    PENSTOCK_NAMED(GEX_OP_FAND), PENSTOCK_NAMED(GEX_OP_FOR),  PENSTOCK_NAMED(GEX_OP_FXOR),
    PENSTOCK_NAMED(GEX_OP_FADD), PENSTOCK_NAMED(GEX_OP_FSUB), PENSTOCK_NAMED(GEX_OP_FMULT),
    PENSTOCK_NAMED(GEX_OP_FMIN), PENSTOCK_NAMED(GEX_OP_FMAX), PENSTOCK_NAMED(GEX_OP_FINC),
    PENSTOCK_NAMED(GEX_OP_FDEC), PENSTOCK_NAMED(GEX_OP_SWAP), PENSTOCK_NAMED(GEX_OP_FCAS),
    PENSTOCK_NAMED(GEX_OP_GET),  PENSTOCK_NAMED(GEX_OP_USER), PENSTOCK_NAMED(GEX_OP_USER_NC)};
constexpr named answers[] = {PENSTOCK_NAMED(GEX_TI_SRCRANK), PENSTOCK_NAMED(GEX_TI_EP),
                             PENSTOCK_NAMED(GEX_TI_ENTRY), PENSTOCK_NAMED(GEX_TI_IS_REQ),
                             PENSTOCK_NAMED(GEX_TI_IS_LONG)};
#undef PENSTOCK_NAMED

// Writes the names of value's bits to buf, unless it is null. Returns the bytes that it takes, the
// 0 at the end included.
std::size_t format(char* buf, std::uint32_t value, std::span<const named> names) {
  std::string text;
  const auto add = [&text](const std::string& name) {
    if (!text.empty()) text += '|';
    text += name;
  };
  for (const named& n : names) {
    if ((value & n.bit) == 0) continue;
    add(n.name);
    value &= ~n.bit;
  }
  if (value != 0 || text.empty()) add(std::to_string(value));
  if (buf != nullptr) std::memcpy(buf, text.c_str(), text.size() + 1);
  return text.size() + 1;
}

}  // namespace

extern "C" {

std::size_t gasnett_format_dt(char* buf, gex_DT_t dt) { return format(buf, dt, types); }
std::size_t gasnett_format_op(char* buf, gex_OP_t op) { return format(buf, op, operations); }
std::size_t gasnett_format_ti(char* buf, gex_TI_t ti) { return format(buf, ti, answers); }

}  // extern "C"
