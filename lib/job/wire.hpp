// The protocol between penrun and the processes that it starts: frames over a stream socket, and a
// page of memory that penrun writes and the processes map read-only. lib/job and tools/penrun
// include it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/job/job.hpp"

namespace penstock::job {

/// Kinds of frames. Up: from a process to penrun; down: the other way.
enum class frame_kind : std::uint32_t {
  exchange = 1,  ///< up: this rank's bytes; down: for each rank its length (u32) and bytes
  fence,         ///< up and down: empty
  finalize,      ///< up: exit code (i32)
  abort,         ///< up: abort_word
  over,          ///< down: the collective that is waited for can never complete
  too_long,      ///< down: all contributions together are longer than max_exchange
  left,          ///< up: empty: this rank leaves without the others
};

/// Precedes every frame's body.
struct frame_header {
  frame_kind kind;
  std::uint32_t bytes;
};

/// The body of an abort. Where two processes abort before penrun has read either frame, the earlier
/// one is the cause.
struct abort_word {
  std::uint64_t when_ns;  ///< now_ns() of that process
  std::int32_t code;
  std::uint32_t ordered = 0;  ///< 1: by job::end()
};

/// The largest body that either side accepts, and so the most that a process may contribute to an
/// exchange.
inline constexpr std::uint32_t max_contribution = 16u << 20;

/// The most that the answer of an exchange may have: lengths and contributions of all processes.
inline constexpr std::uint32_t max_exchange = 1u << 30;

/// Adds the next rank's contribution to the answer of an exchange, as processes read it.
inline void add_contribution(std::vector<std::byte>& answer, std::span<const std::byte> his) {
  const auto n = static_cast<std::uint32_t>(his.size());
  const auto length = std::as_bytes(std::span(&n, 1));
  answer.insert(answer.end(), length.begin(), length.end());
  answer.insert(answer.end(), his.begin(), his.end());
}

/// The shared pages: a word that is 0 until the job is over, and a bit for each rank, set once it
/// has left without the others. relaxed: nothing else is read because of a bit.
struct board {
  std::atomic<std::uint64_t> ended;

  static constexpr std::size_t bytes(std::uint32_t ranks) noexcept {
    return sizeof(board) + (ranks + 63) / 64 * sizeof(std::uint64_t);
  }
  void note_left(std::uint32_t rank) noexcept {
    reinterpret_cast<std::atomic<std::uint64_t>*>(this + 1)[rank / 64].fetch_or(
        std::uint64_t{1} << rank % 64, std::memory_order_relaxed);
  }
  [[nodiscard]] bool has_left(std::uint32_t rank) const noexcept {
    const auto* words = reinterpret_cast<const std::atomic<std::uint64_t>*>(this + 1);
    return (words[rank / 64].load(std::memory_order_relaxed) >> rank % 64 & 1) != 0;
  }
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// Bit 63: the job is over; 62: ordered; 32 to 61: the rank, or all ones; 0 to 31: code or signal.
constexpr std::uint64_t pack(death d) noexcept {
  return std::uint64_t{1} << 63 | static_cast<std::uint64_t>(d.ordered) << 62 |
         static_cast<std::uint64_t>(static_cast<std::uint32_t>(d.rank) & 0x3fffffffu) << 32 |
         static_cast<std::uint32_t>(d.code_or_signal);
}
constexpr std::optional<death> unpack(std::uint64_t word) noexcept {
  if (word == 0) return std::nullopt;
  const auto rank = static_cast<std::uint32_t>(word >> 32) & 0x3fffffffu;
  return death{rank == 0x3fffffffu ? -1 : static_cast<int>(rank),
               static_cast<int>(static_cast<std::uint32_t>(word)), (word >> 62 & 1) != 0};
}

/// What penrun tells a process in its environment (PENSTOCK_LAUNCH).
struct launch_ticket {
  int socket;  ///< for frames
  int board;   ///< the page's descriptor, read-only
  int bell;    ///< eventfd, readable once the job is over
  std::uint32_t rank, size;
  std::uint32_t host_first, host_size;  ///< the ranks on this host follow each other
  std::string name;

  [[nodiscard]] std::string text() const;
  /// Reads a text that text() has written; nothing: it is another text.
  static std::optional<launch_ticket> parse(std::string_view text);
};

inline constexpr char hex_digits[] = "0123456789abcdef";
/// The number of hex digits in the job's name.
inline constexpr std::size_t name_digits = 32;
/// That many hex digits from the kernel's random source.
std::string random_name();

}  // namespace penstock::job
