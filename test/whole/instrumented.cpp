// What the compiler calls for memory accesses and atomic operations where it instruments them for
// ThreadSanitizer. Here they are places where the scheduler may preempt a thread; plain accesses
// are nothing. The orders are as written, but one thread runs at a time, so all executions are
// sequentially consistent: test/model looks for what weaker orders permit.
#include <cstddef>
#include <cstdint>

#include "test/whole/scheduler.hpp"

using penstock::whole::preempt_at_atomic;

// Not exported: the library asks whether ThreadSanitizer is in the process.
#pragma GCC visibility push(hidden)

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_acquire(void*) {}
void __tsan_release(void*) {}
void __tsan_vptr_update(void*, void*) {}
void __tsan_vptr_read(void*) {}
void __tsan_read_range(void*, std::size_t) {}
void __tsan_write_range(void*, std::size_t) {}
#define PLAIN(n)                           \
  void __tsan_read##n(void*) {}            \
  void __tsan_write##n(void*) {}           \
  void __tsan_unaligned_read##n(void*) {}  \
  void __tsan_unaligned_write##n(void*) {} \
  void __tsan_volatile_read##n(void*) {}   \
  void __tsan_volatile_write##n(void*) {}
// clang-format off
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)
// clang-format on
#undef PLAIN

#define READ_MODIFY_WRITE(bits, what)                                                \
  std::uint##bits##_t __tsan_atomic##bits##_##what(volatile std::uint##bits##_t* at, \
                                                   std::uint##bits##_t v, int) {     \
    preempt_at_atomic();                                                             \
    return __atomic_##what(at, v, __ATOMIC_SEQ_CST);                                 \
  }
#define COMPARE_EXCHANGE(bits, how, weak)                                                          \
  int __tsan_atomic##bits##_compare_exchange_##how(volatile std::uint##bits##_t* at,               \
                                                   std::uint##bits##_t* expected,                  \
                                                   std::uint##bits##_t v, int, int) {              \
    preempt_at_atomic();                                                                           \
    return __atomic_compare_exchange_n(at, expected, v, weak, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
  }
#define ATOMIC(bits)                                                                               \
  std::uint##bits##_t __tsan_atomic##bits##_load(const volatile std::uint##bits##_t* at, int) {    \
    preempt_at_atomic();                                                                           \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                  \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile std::uint##bits##_t* at, std::uint##bits##_t v, int) { \
    preempt_at_atomic();                                                                           \
    __atomic_store_n(at, v, __ATOMIC_RELEASE);                                                     \
  }                                                                                                \
  std::uint##bits##_t __tsan_atomic##bits##_exchange(volatile std::uint##bits##_t* at,             \
                                                     std::uint##bits##_t v, int) {                 \
    preempt_at_atomic();                                                                           \
    return __atomic_exchange_n(at, v, __ATOMIC_SEQ_CST);                                           \
  }                                                                                                \
  READ_MODIFY_WRITE(bits, fetch_add)                                                               \
  READ_MODIFY_WRITE(bits, fetch_sub)                                                               \
  READ_MODIFY_WRITE(bits, fetch_and)                                                               \
  READ_MODIFY_WRITE(bits, fetch_or)                                                                \
  READ_MODIFY_WRITE(bits, fetch_xor)                                                               \
  COMPARE_EXCHANGE(bits, strong, false)                                                            \
  COMPARE_EXCHANGE(bits, weak, true)
// clang-format off
ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)
// clang-format on
#undef ATOMIC
#undef COMPARE_EXCHANGE
#undef READ_MODIFY_WRITE

void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

}  // extern "C"

#pragma GCC visibility pop
