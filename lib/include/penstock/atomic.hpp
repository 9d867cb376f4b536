// Remote atomics of the C++ interface: indivisible operations on single words in segments. A
// domain's type and operations decide once, and alike on all ranks, what carries them out: this
// process itself where the segment is mapped, the device, or the target's processor by active
// message. It is never two that do not exclude each other on one word.
//
//   atomic_domain<std::uint64_t> counters(mem, atomic_ops::add | atomic_ops::get);
//   std::uint64_t old;
//   counters.fetch_add(1, word_of_rank_1, 5, old);
#pragma once

#include <atomic>
#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "penstock/rma.hpp"

namespace penstock::PENSTOCK_ABI {

/// The operations, a bit each. inc and dec are add and sub of 1; bit_and, bit_or and bit_xor are
/// for integers only.
enum class atomic_ops : std::uint32_t {
  get = 1u << 0,
  set = 1u << 1,
  swap = 1u << 2,
  cas = 1u << 3,
  add = 1u << 4,
  sub = 1u << 5,
  inc = 1u << 6,
  dec = 1u << 7,
  mult = 1u << 8,
  min = 1u << 9,
  max = 1u << 10,
  bit_and = 1u << 11,
  bit_or = 1u << 12,
  bit_xor = 1u << 13,
};
constexpr atomic_ops operator|(atomic_ops a, atomic_ops b) noexcept {
  return static_cast<atomic_ops>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}

template <class T>
concept atomic_type = std::same_as<T, std::int32_t> || std::same_as<T, std::uint32_t> ||
    std::same_as<T, std::int64_t> || std::same_as<T, std::uint64_t> || std::same_as<T, float> ||
    std::same_as<T, double>;

/// What may carry out a domain's operations.
enum class atomic_path : std::uint8_t {
  automatic,  ///< the device if it can; then nothing but the domain may touch the words meanwhile
  processor,  ///< never the device; the target's program may use std::atomic_ref on the words, too
};

namespace detail {

/// The types' numbers on the wire.
template <atomic_type T>
inline constexpr std::uint32_t atomic_type_number = std::same_as<T, std::int32_t>    ? 0
                                                    : std::same_as<T, std::uint32_t> ? 1
                                                    : std::same_as<T, std::int64_t>  ? 2
                                                    : std::same_as<T, std::uint64_t> ? 3
                                                    : std::same_as<T, float>         ? 4
                                                                                     : 5;

template <atomic_type T>
using word_bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// The new value that Op makes of the old one and v; not for cas. Integers wrap around.
template <atomic_ops Op, atomic_type T>
constexpr T combine(T old, T v) noexcept {
  if constexpr (std::integral<T>) {
    using u = std::make_unsigned_t<T>;
    const u a = static_cast<u>(old), b = static_cast<u>(v);
    switch (Op) {
      case atomic_ops::add:
        return static_cast<T>(static_cast<u>(a + b));
      case atomic_ops::sub:
        return static_cast<T>(static_cast<u>(a - b));
      case atomic_ops::inc:
        return static_cast<T>(static_cast<u>(a + 1u));
      case atomic_ops::dec:
        return static_cast<T>(static_cast<u>(a - 1u));
      case atomic_ops::mult:
        return static_cast<T>(static_cast<u>(a * b));
      case atomic_ops::bit_and:
        return static_cast<T>(a & b);
      case atomic_ops::bit_or:
        return static_cast<T>(a | b);
      case atomic_ops::bit_xor:
        return static_cast<T>(a ^ b);
      default:
        break;
    }
  } else {
    switch (Op) {
      case atomic_ops::add:
        return old + v;
      case atomic_ops::sub:
        return old - v;
      case atomic_ops::inc:
        return old + T{1};
      case atomic_ops::dec:
        return old - T{1};
      case atomic_ops::mult:
        return old * v;
      default:
        break;
    }
  }
  if constexpr (Op == atomic_ops::min) return v < old ? v : old;
  if constexpr (Op == atomic_ops::max) return old < v ? v : old;
  return v;  // set and swap
}

/// Carries out Op on a word by the processor, and returns the former value. cas compares the word
/// with a, bit by bit, and stores b.
template <atomic_ops Op, atomic_type T>
T apply_here(T* at, T a, [[maybe_unused]] T b) noexcept {
  using bits = word_bits<T>;
  constexpr auto order = std::memory_order_acq_rel;  // Orders: they publish, as a device does
  // Through integers of the same size, since compare-and-swap compares bits.
  std::atomic_ref<bits> word(*reinterpret_cast<bits*>(at));
  if constexpr (Op == atomic_ops::get) {
    return std::bit_cast<T>(word.load(std::memory_order_acquire));
  } else if constexpr (Op == atomic_ops::set) {
    word.store(std::bit_cast<bits>(a), std::memory_order_release);
    return T{};
  } else if constexpr (Op == atomic_ops::swap) {
    return std::bit_cast<T>(word.exchange(std::bit_cast<bits>(a), order));
  } else if constexpr (Op == atomic_ops::cas) {
    bits expected = std::bit_cast<bits>(a);
    word.compare_exchange_strong(expected, std::bit_cast<bits>(b), order,
                                 std::memory_order_acquire);
    return std::bit_cast<T>(expected);
  } else if constexpr (std::integral<T> && Op == atomic_ops::add) {
    return static_cast<T>(word.fetch_add(static_cast<bits>(a), order));
  } else if constexpr (std::integral<T> && Op == atomic_ops::sub) {
    return static_cast<T>(word.fetch_sub(static_cast<bits>(a), order));
  } else if constexpr (std::integral<T> && Op == atomic_ops::inc) {
    return static_cast<T>(word.fetch_add(1, order));
  } else if constexpr (std::integral<T> && Op == atomic_ops::dec) {
    return static_cast<T>(word.fetch_sub(1, order));
  } else if constexpr (std::integral<T> && Op == atomic_ops::bit_and) {
    return static_cast<T>(word.fetch_and(static_cast<bits>(a), order));
  } else if constexpr (std::integral<T> && Op == atomic_ops::bit_or) {
    return static_cast<T>(word.fetch_or(static_cast<bits>(a), order));
  } else if constexpr (std::integral<T> && Op == atomic_ops::bit_xor) {
    return static_cast<T>(word.fetch_xor(static_cast<bits>(a), order));
  } else {
    bits now = word.load(std::memory_order_relaxed);
    while (!word.compare_exchange_weak(now,
                                       std::bit_cast<bits>(combine<Op>(std::bit_cast<T>(now), a)),
                                       order, std::memory_order_relaxed)) {
    }
    return std::bit_cast<T>(now);
  }
}

/// The library's side of a domain.
struct atomic_call {
  atomic_ops op;
  std::uint32_t type = 0;
  std::uint32_t size = 8;
  bool device = false;
  bool at_once = false;  ///< never waits; the status says what it is short of
  rank_id to = 0;
  void* word = nullptr;
  std::uint64_t a = 0, b = 0;
  void* old = nullptr;  ///< size bytes, or null
};
/// True if the device does these operations on that type, for all ranks alike.
bool atomics_by_device(const conduit::engine& e, std::uint32_t type, atomic_ops ops) noexcept;
/// Carries out an atomic, and returns when it is complete.
status run_atomic(conduit::engine& e, const atomic_call& c) noexcept;

}  // namespace detail

/// A set of operations on words of one type. Every rank that uses the words makes a domain with the
/// same type, operations and path; that takes no communication. All access to a word that may be
/// concurrent must go through such domains. Words lie in segments, aligned to their size.
///
/// An operation is complete at the target when the call returns, and is ordered for the caller with
/// what comes before and after it. Failures are those of remote_memory, misaligned, and unsupported
/// (the operation is not in the domain). Thread rules are those of endpoint. Cost: one locked
/// instruction on a mapped word, otherwise a round trip of the device or of a message.
template <class T>
class atomic_domain {
  static_assert(atomic_type<T>, "32- and 64-bit integers, float and double");

 public:
  /// mem is of the endpoint whose segments hold the words, and is copied. ops has every operation
  /// that will be used. path says what may carry them out.
  atomic_domain(remote_memory& mem, atomic_ops ops,
                atomic_path path = atomic_path::automatic) noexcept
      : mem_(mem),
        ops_(static_cast<std::uint32_t>(ops)),
        device_(path == atomic_path::automatic &&
                detail::atomics_by_device(mem.internals(), detail::atomic_type_number<T>, ops)) {}

  /// True if the device carries the operations out.
  [[nodiscard]] bool by_device() const noexcept { return device_; }

  /// Reads the word at rank r into value.
  status get(rank_id r, const T* word, T& value) noexcept {
    return run<atomic_ops::get>(r, const_cast<T*>(word), T{}, T{}, &value);
  }
  /// Stores v in the word at rank r.
  status set(rank_id r, T* word, T v) noexcept { return run<atomic_ops::set>(r, word, v); }
  /// Stores v, and writes the former value to old.
  status swap(rank_id r, T* word, T v, T& old) noexcept {
    return run<atomic_ops::swap>(r, word, v, T{}, &old);
  }
  /// Stores desired if the word equals expected bit by bit, and writes the former value to old.
  status cas(rank_id r, T* word, T expected, T desired, T& old) noexcept {
    return run<atomic_ops::cas>(r, word, expected, desired, &old);
  }
  /// The same without the former value.
  status cas(rank_id r, T* word, T expected, T desired) noexcept {
    return run<atomic_ops::cas>(r, word, expected, desired);
  }
  /// Change the word at rank r by v, or by 1 (inc, dec), without returning its value. Integers wrap
  /// around.
  ///@{
  /// Adds v.
  status add(rank_id r, T* word, T v) noexcept { return run<atomic_ops::add>(r, word, v); }
  /// Subtracts v.
  status sub(rank_id r, T* word, T v) noexcept { return run<atomic_ops::sub>(r, word, v); }
  /// Adds 1.
  status inc(rank_id r, T* word) noexcept { return run<atomic_ops::inc>(r, word, T{}); }
  /// Subtracts 1.
  status dec(rank_id r, T* word) noexcept { return run<atomic_ops::dec>(r, word, T{}); }
  /// Multiplies by v.
  status mult(rank_id r, T* word, T v) noexcept { return run<atomic_ops::mult>(r, word, v); }
  /// Stores v if it is less.
  status min(rank_id r, T* word, T v) noexcept { return run<atomic_ops::min>(r, word, v); }
  /// Stores v if it is greater.
  status max(rank_id r, T* word, T v) noexcept { return run<atomic_ops::max>(r, word, v); }
  /// Keeps the bits of v.
  status bit_and(rank_id r, T* word, T v) noexcept requires std::integral<T> {
    return run<atomic_ops::bit_and>(r, word, v);
  }
  /// Sets the bits of v.
  status bit_or(rank_id r, T* word, T v) noexcept requires std::integral<T> {
    return run<atomic_ops::bit_or>(r, word, v);
  }
  /// Inverts the bits of v.
  status bit_xor(rank_id r, T* word, T v) noexcept requires std::integral<T> {
    return run<atomic_ops::bit_xor>(r, word, v);
  }
  ///@}
  /// The same, and write the former value to old.
  ///@{
  /// As add().
  status fetch_add(rank_id r, T* word, T v, T& old) noexcept {
    return run<atomic_ops::add>(r, word, v, T{}, &old);
  }
  /// As sub().
  status fetch_sub(rank_id r, T* word, T v, T& old) noexcept {
    return run<atomic_ops::sub>(r, word, v, T{}, &old);
  }
  /// As inc().
  status fetch_inc(rank_id r, T* word, T& old) noexcept {
    return run<atomic_ops::inc>(r, word, T{}, T{}, &old);
  }
  /// As dec().
  status fetch_dec(rank_id r, T* word, T& old) noexcept {
    return run<atomic_ops::dec>(r, word, T{}, T{}, &old);
  }
  /// As mult().
  status fetch_mult(rank_id r, T* word, T v, T& old) noexcept {
    return run<atomic_ops::mult>(r, word, v, T{}, &old);
  }
  /// As min().
  status fetch_min(rank_id r, T* word, T v, T& old) noexcept {
    return run<atomic_ops::min>(r, word, v, T{}, &old);
  }
  /// As max().
  status fetch_max(rank_id r, T* word, T v, T& old) noexcept {
    return run<atomic_ops::max>(r, word, v, T{}, &old);
  }
  /// As bit_and().
  status fetch_and(rank_id r, T* word, T v, T& old) noexcept requires std::integral<T> {
    return run<atomic_ops::bit_and>(r, word, v, T{}, &old);
  }
  /// As bit_or().
  status fetch_or(rank_id r, T* word, T v, T& old) noexcept requires std::integral<T> {
    return run<atomic_ops::bit_or>(r, word, v, T{}, &old);
  }
  /// As bit_xor().
  status fetch_xor(rank_id r, T* word, T v, T& old) noexcept requires std::integral<T> {
    return run<atomic_ops::bit_xor>(r, word, v, T{}, &old);
  }
  ///@}

  /// Any of the above with an explicit handle. a and b are the operands as above (of cas: expected
  /// and desired). old may be null; it is written before the operation is complete, and must live
  /// until then.
  template <atomic_ops Op>
  operation start(rank_id r, T* word, T a, T b = T{}, T* old = nullptr) noexcept {
    if (T* const here = reach<Op>(r, word)) [[likely]] {
      const T was = detail::apply_here<Op>(here, a, b);
      if (old != nullptr) *old = was;
      return {};
    }
    return mem_.start_atomic(call<Op>(r, word, a, b, old));
  }

 private:
  template <atomic_ops Op>
  status run(rank_id r, T* word, T a, T b = T{}, T* old = nullptr) noexcept {
    if (T* const here = reach<Op>(r, word)) [[likely]] {
      const T was = detail::apply_here<Op>(here, a, b);
      if (old != nullptr) *old = was;
      return status::ok;
    }
    return detail::run_atomic(mem_.internals(), call<Op>(r, word, a, b, old));
  }
  // The word's address in this process, if this process carries the operation out itself; else
  // null.
  template <atomic_ops Op>
  T* reach(rank_id r, T* word) const noexcept {
    if (device_ || (ops_ & static_cast<std::uint32_t>(Op)) == 0 ||
        reinterpret_cast<std::uintptr_t>(word) % sizeof(T) != 0) [[unlikely]]
      return nullptr;
    return reinterpret_cast<T*>(mem_.reach(r, word, sizeof(T)));
  }
  template <atomic_ops Op>
  detail::atomic_call call(rank_id r, T* word, T a, T b, T* old) const noexcept {
    using bits = detail::word_bits<T>;
    detail::atomic_call c;
    c.op = (ops_ & static_cast<std::uint32_t>(Op)) != 0 ? Op : atomic_ops{};
    c.type = detail::atomic_type_number<T>;
    c.size = sizeof(T);
    c.device = device_;
    c.to = r;
    c.word = word;
    c.a = std::bit_cast<bits>(a);
    c.b = std::bit_cast<bits>(b);
    c.old = old;
    return c;
  }

  remote_memory mem_;
  std::uint32_t ops_;
  bool device_;
};

}  // namespace penstock::PENSTOCK_ABI
