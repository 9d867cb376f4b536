// The thread mode: SEQ, PARSYNC and PAR are one source with a mode parameter.
// This is the one platform header: the only place that looks at the build's macros.
#pragma once

#include <atomic>
#include <cstdint>

namespace penstock {

/// How many threads of the client may be inside the library at once.
enum class thread_mode : std::uint8_t {
  seq,      ///< one thread only
  parsync,  ///< many threads, one at a time
  par,      ///< many threads at once
};

/// True if words shared by threads need read-modify-write instructions.
constexpr bool concurrent(thread_mode m) noexcept { return m == thread_mode::par; }

/// Bytes of a cache line: the distance that keeps the words of two writers apart.
inline constexpr std::size_t cache_line = 64;

/// Asks for a line in a state that can be written. GCC's __builtin_prefetch would fetch it for
/// reading only, unless the compiler was told of the instruction.
inline void prefetch_for_writing(const void* at) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(at)));
#else
  __builtin_prefetch(at, 1);
#endif
}

/// A word that several threads change in PAR, and one in SEQ. In SEQ the read-modify-write
/// operations are plain loads and stores (no lock prefix). Tests pass a type for Atomic that
/// schedules interleavings.
template <thread_mode M, class T, template <class> class Atomic = std::atomic>
class word {
 public:
  constexpr word(T v = T{}) noexcept : v_(v) {}  // NOLINT: a word starts as its value
  [[nodiscard]] T load(std::memory_order o) const noexcept { return v_.load(o); }
  void store(T x, std::memory_order o) noexcept { v_.store(x, o); }
  T fetch_add(T x, std::memory_order o) noexcept {
    if constexpr (concurrent(M)) return v_.fetch_add(x, o);
    return replace([x](T old) { return static_cast<T>(old + x); });
  }
  T fetch_sub(T x, std::memory_order o) noexcept {
    if constexpr (concurrent(M)) return v_.fetch_sub(x, o);
    return replace([x](T old) { return static_cast<T>(old - x); });
  }
  T exchange(T x, std::memory_order o) noexcept {
    if constexpr (concurrent(M)) return v_.exchange(x, o);
    return replace([x](T) { return x; });
  }
  bool compare_exchange_weak(T& expected, T x, std::memory_order ok,
                             std::memory_order fail) noexcept {
    if constexpr (concurrent(M)) return v_.compare_exchange_weak(expected, x, ok, fail);
    const T now = v_.load(std::memory_order_relaxed);
    if (now != expected) {
      expected = now;
      return false;
    }
    v_.store(x, std::memory_order_relaxed);
    return true;
  }

 private:
  template <class F>
  T replace(F f) noexcept {
    const T old = v_.load(std::memory_order_relaxed);
    v_.store(f(old), std::memory_order_relaxed);
    return old;
  }
  Atomic<T> v_;
};

}  // namespace penstock
