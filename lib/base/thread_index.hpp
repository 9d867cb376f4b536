// Small dense numbers for threads, so that per-thread state can live in arrays. A number is free
// again when its thread has ended; the next holder sees everything the previous one wrote.
#pragma once

#include <cstdint>

namespace penstock {

inline constexpr std::uint32_t max_threads = 1024;

/// From now on at most n threads may have a number at a time, and max_threads where n is more
/// (the setting MAX_THREADS).
void limit_threads(std::uint32_t n) noexcept;

/// Takes a free number; fatal when more threads are alive than may have one.
std::uint32_t claim_thread_index() noexcept;

/// Takes the highest free number, for a thread of the library's own, so that the client's threads
/// have dense numbers. To be called before that thread's first thread_tag().
void claim_last_thread_index() noexcept;

/// The number of the client's threads that have a number. Costs a few loads.
std::uint32_t client_threads() noexcept;

/// This thread's number plus one; zero until claimed.
extern thread_local constinit std::uint32_t thread_tag_ __attribute__((tls_model("initial-exec")));

/// This thread's number plus one: 1 … max_threads. Takes about a nanosecond after the first call.
inline std::uint32_t thread_tag() noexcept {
  if (thread_tag_ == 0) [[unlikely]]
    thread_tag_ = claim_thread_index() + 1;
  return thread_tag_;
}

}  // namespace penstock
