// Buffers of large Mediums, those that do not travel with their header: the payload is copied into
// one (its source is the caller's again at once), a message of one credit says where it stands, and
// the target runs the handler there (rings: the memory is mapped) or fetches it (queue pairs). One
// pool for each endpoint, of constant size. Who sends and who fetches use it; it knows no message.
//
// The target gives a buffer back by writing the number of its use into the buffer's first line, by
// a store or an RDMA write: its owner looks there when it needs a buffer. So no message and no poll
// of the owner is needed, and a target waits for none.
//
//   buffer:  done word, 64 bytes | payload, 64 KB         in address space that takes no page
//   use_[i]: busy | rank that has it | number of the use  in this process alone
//
// Who with whom: any threads. take() makes a use its caller's by compare-and-swap, and so does
// whoever finds that one is done; give() is its taker's. The word has the number of the last use
// that has ended: the target writes it once after its message has come, the owner where there was
// no message. Any other number than these two ends the job with a line that names the rank (B2). A
// stalled thread holds up nobody. Full: take() answers none. A participant dies: its buffers come
// back when it is known to be gone.
//
// Replies have more buffers than they may use (most_replies): a thread takes requests only while
// fewer are out, and then each handler that runs finds one (claim 21). That costs address space:
// the lowest that is free is taken, so what is resident is what was in use at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "lib/base/limits.hpp"
#include "lib/conduit/message/wire.hpp"
#include "memreg/memreg.hpp"
#include "penstock/penstock.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class core;

class large_buffers {
 public:
  static constexpr std::uint16_t none = 0xffff;
  /// What one is for; each has numbers of its own, so that none waits for another's.
  enum class use : std::uint8_t { request, fetched_request, fetched_reply, reply };
  static constexpr unsigned a_block = 8;  ///< of a use, but for replies; registered at a time
  static constexpr unsigned most_drafts = a_block / 2;
  static constexpr unsigned most_replies = 64, most_replies_to_one = 2;
  static constexpr unsigned most_handlers = 64;  ///< that run at a time
  static constexpr std::size_t stride = 64 + limits::max_medium;

  explicit large_buffers(core& c) noexcept;
  ~large_buffers();

  /// Takes one for a message to or from that rank. none: all are in use, or there is no memory.
  [[nodiscard]] std::uint16_t take(use u, rank_id with) noexcept;
  /// The end of a use that no message has told of, or that was fetched into.
  void give(std::uint16_t i) noexcept;
  /// Its payload, and its first line.
  [[nodiscard]] std::byte* at(std::uint16_t i) const noexcept { return line(i) + 64; }
  [[nodiscard]] std::byte* line(std::uint16_t i) const noexcept {
    return memory_.base() + std::size_t{i} * stride;
  }
  /// Where its payload stands, for a message to a rank that maps it, or that fetches it. The second
  /// registers it, if that has not been done: false if that cannot be.
  bool name(std::uint16_t i, bool mapped, wire::large_block& out) noexcept;
  /// The key by which the device writes there; 0: it cannot be registered.
  [[nodiscard]] std::uint32_t local_key(std::uint16_t i) noexcept;

  /// Replies that are out, as far as is known.
  [[nodiscard]] std::uint32_t replies_out() const noexcept {
    return replies_out_.load(std::memory_order_relaxed);
  }
  /// True if a request of that rank may be taken: whatever the replies, each finds a buffer.
  [[nodiscard]] bool may_reply(rank_id to) noexcept;
  /// The same of any rank's, but for a rank's own share.
  [[nodiscard]] bool may_reply() noexcept;
  /// A payload of that rank cannot be had any more: it has left. Said once for each that does.
  [[gnu::cold]] void lost(rank_id of) noexcept;
  /// Address space; for the target, which maps it whole.
  [[nodiscard]] static constexpr std::size_t bytes() noexcept { return count * stride; }
  static constexpr unsigned count = 3 * a_block + most_replies + most_handlers;
  static_assert(count % a_block == 0);
  std::atomic<std::uint32_t> drafts{0};  ///< buffers of requests that clients write in place

 private:
  struct numbers {
    unsigned first, end;
  };
  static constexpr numbers numbers_of(use u) noexcept {
    const auto k = static_cast<unsigned>(u);
    return {k * a_block, u == use::reply ? count : (k + 1) * a_block};
  }
  static constexpr std::uint64_t busy = std::uint64_t{1} << 63;
  static constexpr rank_id rank_of(std::uint64_t s) noexcept {
    return static_cast<rank_id>(s >> 16);
  }
  [[nodiscard]] std::atomic_ref<std::uint32_t> word(unsigned i) const noexcept {
    return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(line(static_cast<std::uint16_t>(i))));
  }
  [[gnu::cold]] bool make() noexcept;
  bool is_done(unsigned i, std::uint64_t s) noexcept;
  static constexpr std::uint32_t number_of(std::uint64_t s) noexcept {
    return static_cast<std::uint32_t>(s & 0xffff);
  }
  // Of the next use of a buffer; 0 is that of none.
  static constexpr std::uint32_t next(std::uint32_t number) noexcept {
    return number == 0xffff ? 1 : number + 1;
  }
  bool fewer_replies() noexcept;
  const memreg::registration* keys_of(unsigned block) noexcept;

  core& c_;
  std::atomic<bool> made_{false};
  std::atomic<std::uint32_t> replies_out_{0};
  std::array<std::atomic<std::uint64_t>, count> use_{};  // number of the last use in the low half
  std::atomic<std::uint32_t> lost_of_{~0u};              // the last rank of which that was said
  std::mutex making_;
  memreg::segment memory_;
  std::uint32_t map_key_ = 0;
  void* mapped_ = nullptr;  // the registration with the device of rings: an ibv_mr
  struct block_keys {
    std::atomic<bool> known{false};
    memreg::registration keys;
  };
  std::array<block_keys, count / a_block> blocks_;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
