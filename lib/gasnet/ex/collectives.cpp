// The collectives of gasnetex.h over coll/: their events, and the built-in operations of
// reductions.
#include <gasnet_coll.h>

#include <algorithm>
#include <bit>
#include <type_traits>

#include "lib/base/log.hpp"
#include "lib/gasnet/coll/call_word.hpp"
#include "lib/gasnet/ex/objects.hpp"
#include "lib/gasnet/operations.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

using combine_fn = void (*)(const coll::reduction&, void*, void*, std::size_t);

template <class T, gex_OP_t Op>
T combined(T a, T b) noexcept {
  if constexpr (Op == GEX_OP_MIN) return std::min(a, b);
  if constexpr (Op == GEX_OP_MAX) return std::max(a, b);
  if constexpr (std::is_integral_v<T>) {
    using u = std::make_unsigned_t<T>;  // sums and products wrap around
    const u x = static_cast<u>(a), y = static_cast<u>(b);
    if constexpr (Op == GEX_OP_ADD) return static_cast<T>(x + y);
    if constexpr (Op == GEX_OP_MULT) return static_cast<T>(x * y);
    if constexpr (Op == GEX_OP_AND) return static_cast<T>(x & y);
    if constexpr (Op == GEX_OP_OR) return static_cast<T>(x | y);
    if constexpr (Op == GEX_OP_XOR) return static_cast<T>(x ^ y);
  } else {
    if constexpr (Op == GEX_OP_ADD) return a + b;
    if constexpr (Op == GEX_OP_MULT) return a * b;
  }
}

template <class T, gex_OP_t Op>
void combine(const coll::reduction&, void* left, void* right, std::size_t count) {
  const T* const l = static_cast<const T*>(left);
  T* const r = static_cast<T*>(right);
  for (std::size_t i = 0; i < count; ++i) r[i] = combined<T, Op>(l[i], r[i]);
}

void combine_by_client(const coll::reduction& how, void* left, void* right, std::size_t count) {
  reinterpret_cast<gex_Coll_ReduceFn_t>(how.function)(left, right, count, how.context);
}

template <class T>
combine_fn built_in(gex_OP_t op) noexcept {
  switch (op) {
    case GEX_OP_ADD:
      return &combine<T, GEX_OP_ADD>;
    case GEX_OP_MULT:
      return &combine<T, GEX_OP_MULT>;
    case GEX_OP_MIN:
      return &combine<T, GEX_OP_MIN>;
    case GEX_OP_MAX:
      return &combine<T, GEX_OP_MAX>;
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) switch (op) {
      case GEX_OP_AND:
        return &combine<T, GEX_OP_AND>;
      case GEX_OP_OR:
        return &combine<T, GEX_OP_OR>;
      case GEX_OP_XOR:
        return &combine<T, GEX_OP_XOR>;
      default:
        break;
    }
  return nullptr;
}

// The function of a built-in operation, and the size of its type; null: there is none.
combine_fn built_in(gex_DT_t dt, gex_OP_t op, std::size_t& size) noexcept {
  size = dt == GEX_DT_I32 || dt == GEX_DT_U32 || dt == GEX_DT_FLT ? 4 : 8;
  switch (dt) {
    case GEX_DT_I32:
      return built_in<std::int32_t>(op);
    case GEX_DT_U32:
      return built_in<std::uint32_t>(op);
    case GEX_DT_I64:
      return built_in<std::int64_t>(op);
    case GEX_DT_U64:
      return built_in<std::uint64_t>(op);
    case GEX_DT_FLT:
      return built_in<float>(op);
    case GEX_DT_DBL:
      return built_in<double>(op);
    default:
      return nullptr;
  }
}

std::uint8_t code_of(gex_DT_t dt, gex_OP_t op) noexcept {
  const auto type = static_cast<unsigned>(std::countr_zero(dt));
  const unsigned operation = op == GEX_OP_USER      ? coll::ex_operations - 2
                             : op == GEX_OP_USER_NC ? coll::ex_operations - 1
                                                    : static_cast<unsigned>(std::countr_zero(op));
  return coll::ex_code(std::min(type, coll::ex_types - 1),
                       std::min(operation, coll::ex_operations - 1));
}

coll::reduction reduction_of(gex_DT_t dt, std::size_t dt_sz, std::size_t dt_cnt, gex_OP_t op,
                             gex_Coll_ReduceFn_t fn, void* cdata, const char* call) {
  coll::reduction how{.combine = &combine_by_client,
                      .element_bytes = dt_sz,
                      .result_in_right = true,
                      .commutative = op != GEX_OP_USER_NC,
                      .code = code_of(dt, op)};
  if (dt_sz == 0 || dt_cnt == 0) fatal(1, "%s: %zu elements of %zu bytes", call, dt_cnt, dt_sz);
  if (op == GEX_OP_USER || op == GEX_OP_USER_NC) {
    if (fn == nullptr) fatal(1, "%s: an operation of the user's without a function", call);
    how.function = reinterpret_cast<void (*)()>(fn);
    how.context = cdata;
    return how;
  }
  std::size_t size = 0;
  how.combine = built_in(dt, op, size);
  if (how.combine == nullptr)
    fatal(1, "%s: no operation %#x on elements of type %#x", call, op, dt);
  if (size != dt_sz)
    fatal(1, "%s: elements of type %#x have %zu bytes, not %zu", call, dt, size, dt_sz);
  return how;
}

template <class Start>
gex_Event_t with_event(Start&& start) {
  operation& op = my_operations().take();
  op.collective = true;
  start(op.pending);
  return event_or_done(op);
}

void check_root(gex_TM_t tm, gex_Rank_t root, const char* call) {
  if (root >= tm->size) fatal(1, "%s: root %u of a team of %u", call, root, tm->size);
}

}  // namespace
}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock::gasnet;

extern "C" {

gex_Event_t GASNETC_(ex_barrier)(gex_TM_t tm) {
  coll::team& t = collective_of(tm, "gex_Coll_BarrierNB");
  return with_event([&](coll::op_counter& done) { coll::barrier(t, done); });
}

gex_Event_t GASNETC_(ex_broadcast)(gex_TM_t tm, gex_Rank_t root, void* dst, const void* src,
                                   size_t nbytes) {
  coll::team& t = collective_of(tm, "gex_Coll_BroadcastNB");
  check_root(tm, root, "gex_Coll_BroadcastNB");
  return with_event([&](coll::op_counter& done) {
    coll::broadcast(t, root, dst, src, nbytes, coll::own_buffers, done);
  });
}

gex_Event_t GASNETC_(ex_reduce)(gex_TM_t tm, gex_Rank_t root, void* dst, const void* src,
                                gex_DT_t dt, size_t dt_sz, size_t dt_cnt, gex_OP_t op,
                                gex_Coll_ReduceFn_t fn, void* cdata, int to_one) {
  const char* const call = to_one != 0 ? "gex_Coll_ReduceToOneNB" : "gex_Coll_ReduceToAllNB";
  coll::team& t = collective_of(tm, call);
  check_root(tm, root, call);
  const coll::reduction how = reduction_of(dt, dt_sz, dt_cnt, op, fn, cdata, call);
  return with_event([&](coll::op_counter& done) {
    if (to_one != 0)
      coll::reduce(t, root, dst, src, dt_cnt, how, coll::own_buffers, done);
    else
      coll::reduce_all(t, dst, src, dt_cnt, how, coll::own_buffers, done);
  });
}

}  // extern "C"
