// Annotations for ThreadSanitizer, which sees this process alone, about orders that another process
// carries: a buffer may be written again because the peer has answered, not because a thread of
// this process has said so. In other builds they do nothing.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define PENSTOCK_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PENSTOCK_TSAN 1
#endif
#endif
#ifdef PENSTOCK_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace penstock {

/// A release: the peer's next answer comes after all that this thread has done so far with the
/// buffer that begins at `at` (or, where `at` is a peer, with what came from it). No mutex or
/// atomic begins at `at` that other threads release meanwhile: that takes back what was told.
inline void tsan_tell_peer([[maybe_unused]] const void* at) noexcept {
#ifdef PENSTOCK_TSAN
  __tsan_release(const_cast<void*>(at));
#endif
}

/// The acquire for it: the peer's answer has come, so all that was done before tsan_tell_peer(at)
/// is over. within: it was told of an address in [at, at + within) that is a multiple of 4.
inline void tsan_hear_peer([[maybe_unused]] const void* at,
                           [[maybe_unused]] unsigned within = 1) noexcept {
#ifdef PENSTOCK_TSAN
  for (unsigned i = 0; i < within; i += 4)
    __tsan_acquire(static_cast<char*>(const_cast<void*>(at)) + i);
#endif
}

}  // namespace penstock
