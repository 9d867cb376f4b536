// penstock.h: put, get and atomics.
#include <new>
#include <variant>

#include "lib/c/c.hpp"

namespace {

using namespace penstock;

using domain = std::variant<atomic_domain<std::int32_t>, atomic_domain<std::uint32_t>,
                            atomic_domain<std::int64_t>, atomic_domain<std::uint64_t>,
                            atomic_domain<float>, atomic_domain<double>>;

std::span<const std::byte> bytes_at(const void* p, size_t n) {
  return {static_cast<const std::byte*>(p), n};
}
std::span<std::byte> bytes_at(void* p, size_t n) { return {static_cast<std::byte*>(p), n}; }

// An operation lives in the caller's structure. One that is complete needs no destructor.
static_assert(sizeof(operation) <= sizeof(penstock_operation));
static_assert(alignof(operation) <= alignof(penstock_operation));
penstock_status keep(operation&& started, penstock_operation* op) {
  auto* const kept = new (op->inside) operation(std::move(started));
  return c::in_c(kept->in_flight() ? status::pending : kept->wait());
}
operation& kept_in(penstock_operation* op) {
  return *std::launder(reinterpret_cast<operation*>(op->inside));
}

// Runs f on the endpoint's memory, which is there once it has been started.
template <class F>
penstock_status with_memory(penstock_endpoint* ep, F&& f) {
  return c::given(ep).memory ? f(*ep->memory) : PENSTOCK_SHUT_DOWN;
}
// The same for a transfer of `bytes` bytes from or to local memory.
template <class F>
penstock_status transfer(penstock_endpoint* ep, const void* local, std::size_t bytes, F&& f) {
  if (local == nullptr && bytes != 0) return PENSTOCK_BAD_ARGUMENTS;
  return with_memory(ep, f);
}
// The same where f begins an operation, which op keeps; one that was refused is complete.
template <class F>
penstock_status begin(penstock_endpoint* ep, const void* local, std::size_t bytes,
                      penstock_operation* op, F&& f) {
  (void)keep({}, op);
  return transfer(ep, local, bytes, [&](auto& m) { return keep(f(m), op); });
}

constexpr std::uint32_t bit_ops = PENSTOCK_AND | PENSTOCK_OR | PENSTOCK_XOR;
constexpr std::uint32_t all_ops = PENSTOCK_XOR * 2 - 1;
// of_op() casts one to the other.
constexpr bool same(atomic_ops a, penstock_atomic_op b) {
  return static_cast<std::uint32_t>(a) == static_cast<std::uint32_t>(b);
}
static_assert(same(atomic_ops::get, PENSTOCK_GET) && same(atomic_ops::set, PENSTOCK_SET) &&
              same(atomic_ops::swap, PENSTOCK_SWAP) && same(atomic_ops::cas, PENSTOCK_CAS) &&
              same(atomic_ops::add, PENSTOCK_ADD) && same(atomic_ops::sub, PENSTOCK_SUB) &&
              same(atomic_ops::inc, PENSTOCK_INC) && same(atomic_ops::dec, PENSTOCK_DEC) &&
              same(atomic_ops::mult, PENSTOCK_MULT) && same(atomic_ops::min, PENSTOCK_MIN) &&
              same(atomic_ops::max, PENSTOCK_MAX) && same(atomic_ops::bit_and, PENSTOCK_AND) &&
              same(atomic_ops::bit_or, PENSTOCK_OR) && same(atomic_ops::bit_xor, PENSTOCK_XOR));

// Calls f.template operator()<Op>() for the operation of that number.
template <unsigned Bit = 0, class F>
penstock_status of_op(std::uint32_t op, F&& f) {
  if constexpr ((1u << Bit) > all_ops) {
    return PENSTOCK_UNSUPPORTED;
  } else {
    if (op == 1u << Bit) return f.template operator()<static_cast<atomic_ops>(1u << Bit)>();
    return of_op<Bit + 1>(op, f);
  }
}

}  // namespace

struct penstock_atomics {
  domain words;
};

extern "C" {

penstock_status penstock_put(penstock_endpoint* ep, uint32_t to, void* dest, const void* src,
                             size_t bytes) {
  return transfer(ep, src, bytes,
                  [&](auto& m) { return c::in_c(m.put(to, dest, bytes_at(src, bytes))); });
}
penstock_status penstock_get(penstock_endpoint* ep, void* dest, uint32_t from, const void* src,
                             size_t bytes) {
  return transfer(ep, dest, bytes,
                  [&](auto& m) { return c::in_c(m.get(bytes_at(dest, bytes), from, src)); });
}
penstock_status penstock_set(penstock_endpoint* ep, uint32_t to, void* dest, int value,
                             size_t bytes) {
  return with_memory(
      ep, [&](auto& m) { return c::in_c(m.set(to, dest, static_cast<std::byte>(value), bytes)); });
}

penstock_status penstock_put_nb(penstock_endpoint* ep, uint32_t to, void* dest, const void* src,
                                size_t bytes, penstock_operation* op) {
  return begin(ep, src, bytes, op,
               [&](auto& m) { return m.put_nb(to, dest, bytes_at(src, bytes)); });
}
penstock_status penstock_get_nb(penstock_endpoint* ep, void* dest, uint32_t from, const void* src,
                                size_t bytes, penstock_operation* op) {
  return begin(ep, dest, bytes, op,
               [&](auto& m) { return m.get_nb(bytes_at(dest, bytes), from, src); });
}
penstock_status penstock_finish(penstock_operation* op) { return c::in_c(kept_in(op).wait()); }
penstock_status penstock_finish_for(penstock_operation* op, uint64_t timeout_ns) {
  const time_limit limit(c::time(timeout_ns));
  return penstock_finish(op);
}
penstock_status penstock_try_finish(penstock_operation* op) {
  return c::in_c(kept_in(op).try_wait());
}

penstock_status penstock_put_nbi(penstock_endpoint* ep, uint32_t to, void* dest, const void* src,
                                 size_t bytes) {
  return transfer(ep, src, bytes,
                  [&](auto& m) { return c::in_c(m.put_nbi(to, dest, bytes_at(src, bytes))); });
}
penstock_status penstock_get_nbi(penstock_endpoint* ep, void* dest, uint32_t from, const void* src,
                                 size_t bytes) {
  return transfer(ep, dest, bytes,
                  [&](auto& m) { return c::in_c(m.get_nbi(bytes_at(dest, bytes), from, src)); });
}
penstock_status penstock_finish_all(penstock_endpoint* ep) {
  return with_memory(ep, [&](auto& m) { return c::in_c(m.wait_implicit()); });
}

penstock_atomics* penstock_atomics_make(penstock_endpoint* ep, penstock_type type, uint32_t ops,
                                        penstock_atomic_path path) {
  penstock_atomics* made = nullptr;
  c::set_up("making a set of atomics", [&]() -> result<void> {
    if (!c::given(ep).memory)
      return failure{"the endpoint has not been started", 0, "call penstock_start() first"};
    const bool integers = type >= PENSTOCK_INT32 && type <= PENSTOCK_UINT64;
    if (!integers && type != PENSTOCK_FLOAT && type != PENSTOCK_DOUBLE)
      return failure{"atomics of a type that there is not", 0, "take one of enum penstock_type"};
    if ((ops & ~all_ops) != 0 || (!integers && (ops & bit_ops) != 0))
      return failure{"atomics that there are not for that type", 0,
                     "PENSTOCK_AND, _OR and _XOR are for integers"};
    const auto by = path == PENSTOCK_PROCESSOR ? atomic_path::processor : atomic_path::automatic;
    const auto of = [&]<class T>() {
      return new penstock_atomics{
          domain(std::in_place_type<atomic_domain<T>>, *ep->memory, atomic_ops{ops}, by)};
    };
    made = type == PENSTOCK_INT32    ? of.operator()<std::int32_t>()
           : type == PENSTOCK_UINT32 ? of.operator()<std::uint32_t>()
           : type == PENSTOCK_INT64  ? of.operator()<std::int64_t>()
           : type == PENSTOCK_UINT64 ? of.operator()<std::uint64_t>()
           : type == PENSTOCK_FLOAT  ? of.operator()<float>()
                                     : of.operator()<double>();
    return {};
  });
  return made;
}
void penstock_atomics_free(penstock_atomics* a) { delete a; }
int penstock_atomics_by_device(const penstock_atomics* a) {
  return std::visit([](const auto& d) { return d.by_device() ? 1 : 0; }, a->words);
}

penstock_status penstock_atomic(penstock_atomics* set, uint32_t r, void* word,
                                penstock_atomic_op op, const void* a, const void* b, void* old) {
  const bool no_operand = op == PENSTOCK_GET || op == PENSTOCK_INC || op == PENSTOCK_DEC;
  if ((!no_operand && a == nullptr) || (op == PENSTOCK_CAS && b == nullptr))
    return PENSTOCK_BAD_ARGUMENTS;
  return std::visit(
      [&]<class T>(atomic_domain<T>& d) {
        T first{}, second{};
        if (!no_operand) std::memcpy(&first, a, sizeof first);
        if (op == PENSTOCK_CAS) std::memcpy(&second, b, sizeof second);
        return of_op(op, [&]<atomic_ops Op>() {
          return c::in_c(
              d.template start<Op>(r, static_cast<T*>(word), first, second, static_cast<T*>(old))
                  .wait());
        });
      },
      set->words);
}

}  // extern "C"
