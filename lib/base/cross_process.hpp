// Orders that another process carries, told to ThreadSanitizer, which sees this process alone: a
// buffer may be written again because the peer has answered, not because a thread here has said so.
// Nothing in other builds.
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

/// What this thread has done so far with the buffer that begins at `at` (or, for a peer, with what
/// came from it) that process may answer.
inline void tsan_tell_peer([[maybe_unused]] const void* at) noexcept {
#ifdef PENSTOCK_TSAN
  __tsan_release(const_cast<void*>(at));
#endif
}

/// The peer's answer has come: what was done before tsan_tell_peer(at) is over.
inline void tsan_hear_peer([[maybe_unused]] const void* at) noexcept {
#ifdef PENSTOCK_TSAN
  __tsan_acquire(const_cast<void*>(at));
#endif
}

}  // namespace penstock
