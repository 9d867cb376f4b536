// Remote atomics that this process cannot carry out itself: the device does them, or a handler at
// the target, by the processor's atomics. Which of the two depends on a domain's type and
// operations and on what all devices can do, so all ranks decide alike.
#include "penstock/atomic.hpp"

#include <cstring>

#include "lib/conduit/engine.hpp"
#include "lib/conduit/one_sided/atomic_calls.hpp"
#include "lib/conduit/one_sided/remote_memory_inl.hpp"
#include "lib/conduit/one_sided/rma.hpp"

namespace penstock::PENSTOCK_ABI {
namespace {

using conduit::op_counter;
using detail::atomic_call;

// The arguments of the message, as 32-bit words.
struct request_args {
  std::uint32_t op, type;
  void* word;
  std::uint64_t a, b;
  op_counter* counter;
  void* old;
};
struct answer_args {
  op_counter* counter;
  void* old;
  std::uint64_t value;
  std::uint32_t size, unused;
};
static_assert(sizeof(request_args) == 48 && sizeof(answer_args) == 32);
template <class A>
constexpr std::uint8_t words = sizeof(A) / 4;

template <class A>
A read_args(const std::uint32_t* args) noexcept {
  A a;
  std::memcpy(&a, args, sizeof a);
  return a;
}

// Carries out a request in this process; false: the type has no such operation.
template <class T>
bool apply(const request_args& r, std::uint64_t& old) noexcept {
  using bits = detail::word_bits<T>;
  const T a = std::bit_cast<T>(static_cast<bits>(r.a)),
          b = std::bit_cast<T>(static_cast<bits>(r.b));
  const auto with = [&]<atomic_ops Op>() {
    old = std::bit_cast<bits>(detail::apply_here<Op>(static_cast<T*>(r.word), a, b));
    return true;
  };
  switch (static_cast<atomic_ops>(r.op)) {
    case atomic_ops::get:
      return with.template operator()<atomic_ops::get>();
    case atomic_ops::set:
      return with.template operator()<atomic_ops::set>();
    case atomic_ops::swap:
      return with.template operator()<atomic_ops::swap>();
    case atomic_ops::cas:
      return with.template operator()<atomic_ops::cas>();
    case atomic_ops::add:
      return with.template operator()<atomic_ops::add>();
    case atomic_ops::sub:
      return with.template operator()<atomic_ops::sub>();
    case atomic_ops::inc:
      return with.template operator()<atomic_ops::inc>();
    case atomic_ops::dec:
      return with.template operator()<atomic_ops::dec>();
    case atomic_ops::mult:
      return with.template operator()<atomic_ops::mult>();
    case atomic_ops::min:
      return with.template operator()<atomic_ops::min>();
    case atomic_ops::max:
      return with.template operator()<atomic_ops::max>();
    default:
      break;
  }
  if constexpr (std::integral<T>) switch (static_cast<atomic_ops>(r.op)) {
      case atomic_ops::bit_and:
        return with.template operator()<atomic_ops::bit_and>();
      case atomic_ops::bit_or:
        return with.template operator()<atomic_ops::bit_or>();
      case atomic_ops::bit_xor:
        return with.template operator()<atomic_ops::bit_xor>();
      default:
        break;
    }
  return false;
}

bool apply(const request_args& r, std::uint64_t& old) noexcept {
  switch (r.type) {
    case 0:
      return apply<std::int32_t>(r, old);
    case 1:
      return apply<std::uint32_t>(r, old);
    case 2:
      return apply<std::int64_t>(r, old);
    case 3:
      return apply<std::uint64_t>(r, old);
    case 4:
      return apply<float>(r, old);
    case 5:
      return apply<double>(r, old);
    default:
      return false;
  }
}

constexpr std::uint32_t size_of(std::uint32_t type) noexcept {
  return type < 2 || type == 4 ? 4 : 8;
}

// Runs at the target.
void on_atomic(void* self, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  auto& e = *static_cast<conduit::engine*>(self);
  const auto r = read_args<request_args>(args);
  const std::uint32_t size = size_of(r.type);
  const auto own = e.segment();
  const auto at =
      reinterpret_cast<std::uintptr_t>(r.word) - reinterpret_cast<std::uintptr_t>(own.data());
  answer_args a{r.counter, r.old, 0, size, 0};
  const bool inside = own.size() >= size && at <= own.size() - size;
  const bool aligned = reinterpret_cast<std::uintptr_t>(r.word) % size == 0;
  if ((!inside && !e.one_sided().everything()) || !aligned || !apply(r, a.value)) [[unlikely]]
    fatal(1, "rank %u asks for an atomic that makes no sense", conduit::running->source());
  std::uint32_t back[words<answer_args>];
  std::memcpy(back, &a, sizeof a);
  if (const status s = e.reply(*conduit::running, {.handler = conduit::rma_fetched,
                                                   .flags = conduit::wire::flag_system,
                                                   .nargs = words<answer_args>,
                                                   .args = back});
      s != status::ok)
    fatal(1, "the answer to an atomic: %s", describe(s));
}

// Runs at the requester.
void on_fetched(void*, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  const auto a = read_args<answer_args>(args);
  if (a.old != nullptr) std::memcpy(a.old, &a.value, a.size == 4 ? 4 : 8);
  // R1 complete  release counter  -> P1 (rma.hpp)
  a.counter->fetch_sub(1, std::memory_order_release);
}

status by_message(conduit::engine& e, const atomic_call& c, op_counter& count) noexcept {
  const request_args r{static_cast<std::uint32_t>(c.op), c.type, c.word, c.a, c.b, &count, c.old};
  std::uint32_t args[words<request_args>];
  std::memcpy(args, &r, sizeof r);
  // relaxed: the message carries the order to the thread that completes it
  count.fetch_add(1, std::memory_order_relaxed);
  const conduit::outgoing m{.handler = conduit::rma_atomic,
                            .flags = conduit::wire::flag_system,
                            .nargs = words<request_args>,
                            .args = args};
  const conduit::no_limit waits_on;  // as in put_by_message()
  const status s = c.at_once ? e.try_request(c.to, m) : e.request(c.to, m);
  if (s != status::ok) count.fetch_sub(1, std::memory_order_relaxed);
  return s;
}

status by_device(conduit::engine& e, const atomic_call& c, op_counter& count) noexcept {
  auto& t = e.one_sided();
  auto* const old = static_cast<std::uint64_t*>(c.old);
  if (c.at_once)
    if (const status s = t.room_for_one(c.to); s != status::ok) return s;
  using conduit::device_atomic;
  const auto add = [&](std::uint64_t v) {
    return t.atomic(c.to, device_atomic::fetch_add, c.word, v, 0, old, count);
  };
  switch (c.op) {
    case atomic_ops::get:
      return add(0);
    case atomic_ops::add:
      return add(c.a);
    case atomic_ops::sub:
      return add(0 - c.a);
    case atomic_ops::inc:
      return add(1);
    case atomic_ops::dec:
      return add(~std::uint64_t{0});
    case atomic_ops::cas:
      return t.atomic(c.to, device_atomic::compare_swap, c.word, c.a, c.b, old, count);
    default:
      return status::unsupported;
  }
}

// With segment everything: an atomic on a word outside segments, by the processor of its rank.
status anywhere(conduit::engine& e, const atomic_call& c, op_counter& count) noexcept {
  if (c.to != e.rank()) return by_message(e, c, count);
  const request_args r{
      static_cast<std::uint32_t>(c.op), c.type, c.word, c.a, c.b, nullptr, nullptr};
  std::uint64_t old = 0;
  (void)apply(r, old);
  if (c.old != nullptr) std::memcpy(c.old, &old, c.size);
  return status::ok;
}

status begin(conduit::engine& e, const atomic_call& c, op_counter& count) noexcept {
  if (c.op == atomic_ops{}) return status::unsupported;
  if (c.to >= e.size()) return status::bad_rank;
  if (conduit::running != nullptr) return status::in_handler;
  const auto at = reinterpret_cast<std::uintptr_t>(c.word);
  if (at % c.size != 0) return status::misaligned;
  const auto there = e.segment_of(c.to);
  const auto offset = at - reinterpret_cast<std::uintptr_t>(there.data());
  if (there.size() < c.size || offset > there.size() - c.size)
    return e.one_sided().everything() && at != 0 ? anywhere(e, c, count) : status::out_of_segment;
  if (c.device) return by_device(e, c, count);
  // The memory can be mapped, but is not yet; later calls find it mapped and do not come here.
  if (std::byte* const base = e.segment_here(c.to)) {
    request_args r{
        static_cast<std::uint32_t>(c.op), c.type, base + offset, c.a, c.b, nullptr, nullptr};
    std::uint64_t old = 0;
    (void)apply(r, old);
    if (c.old != nullptr) std::memcpy(c.old, &old, c.size);
    e.one_sided().note_mapped(c.to, base);
    return status::ok;
  }
  return by_message(e, c, count);
}

}  // namespace

bool detail::atomics_by_device(const conduit::engine& e, std::uint32_t type,
                               atomic_ops ops) noexcept {
  constexpr auto able =
      static_cast<std::uint32_t>(atomic_ops::get | atomic_ops::add | atomic_ops::sub |
                                 atomic_ops::inc | atomic_ops::dec | atomic_ops::cas);
  const bool word =
      type == atomic_type_number<std::int64_t> || type == atomic_type_number<std::uint64_t>;
  return word && (static_cast<std::uint32_t>(ops) & ~able) == 0 && e.one_sided().device_atomics();
}

status detail::run_atomic(conduit::engine& e, const atomic_call& c) noexcept {
  op_counter count{0};
  const status s = begin(e, c, count);
  e.one_sided().settle(count);
  return s;
}

operation remote_memory::start_atomic(const detail::atomic_call& c) noexcept {
  return start([&](op_counter& count) { return begin(*engine_, c, count); });
}

}  // namespace penstock::PENSTOCK_ABI

namespace penstock::conduit::PENSTOCK_ABI {

status begin_atomic(engine& e, const detail::atomic_call& call, op_counter& c) noexcept {
  return begin(e, call, c);
}

void add_atomic_handlers(engine& e) noexcept {
  using takes = handler_entry::takes;
  e.add_system_handler(rma_atomic, {&on_atomic, &e, words<request_args>, takes::nothing});
  e.add_system_handler(rma_fetched, {&on_fetched, nullptr, words<answer_args>, takes::nothing});
}

}  // namespace penstock::conduit::PENSTOCK_ABI
