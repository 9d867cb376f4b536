// Buffers of Mediums that go by rendezvous: large ones, and smaller ones whose sender is short of
// credits (offers). The payload does not travel with the header. It is copied into a buffer, so
// that its source is the caller's again at once, and a message of one credit says where it stands.
// By rings the target has mapped the memory, and runs the handler there; by queue pairs it fetches
// the payload. Each endpoint has one pool, of constant size. Senders and targets that fetch use it;
// it knows nothing of messages.
//
// The target gives a buffer back by writing the number of the use into the buffer's first line, by
// a store or an RDMA write; the owner looks there when it needs a buffer. So giving back takes no
// message and no poll of the owner's, and a target waits for neither.
//
//   buffer:  done word, 64 bytes | payload: 64 KB, or of an offer the largest eager Medium; all in
//            address space, which takes pages when it is used, but for the first offers
//   use_[i]: who has the buffer (buffer_use.hpp)                 in this process alone
//
// Who with whom: any threads. take() makes a buffer its caller's by compare-and-swap, and so does
// the look for uses that have ended; only the thread that took a buffer calls give(). The word has
// the number of the last use that has ended. The target writes it once, after its message has come;
// where no message was sent, the owner writes it. A word that is neither the number of the use nor
// the one before it ends the job, with a line that names the rank (B2). A thread that is stalled
// holds up no other one. When all buffers are in use, or the rank has its share, take() answers
// none. When a rank dies, the
// buffers of messages that were sent to it come back as soon as it is known to be gone; those that
// a thread or a draft still holds are given back by these.
//
// A rank has its share of a use's buffers when it has as many as are free: so a rank that does not
// take its messages leaves half of what it found to the others (claim 24 of credit/DEADLOCK.md).
// Threads that take at the same moment may each take one more.
//
// Replies have most_handlers buffers beyond the most_replies that may be out: a thread takes
// requests only while fewer than most_replies are out, and then each handler that runs finds a
// buffer (claim 21). This costs address space and little memory: take() finds the lowest free
// buffer, so the resident ones are the most that were in use at one time, beside the first offers.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "credit/credit.hpp"
#include "lib/base/limits.hpp"
#include "lib/conduit/message/wire.hpp"
#include "lib/conduit/peer/buffer_use.hpp"
#include "memreg/memreg.hpp"
#include "penstock/penstock.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class core;

class large_buffers {
 public:
  static constexpr std::uint16_t none = 0xffff;
  /// What a buffer is for. Each use has buffers of its own, so that none waits for another's.
  enum class use : std::uint8_t {
    request,
    fetched_request,
    fetched_reply,
    reply,
    offer,
    fetched_offer
  };
  static constexpr unsigned a_block = 8;                  ///< registered at once
  static constexpr unsigned most_requests = 2 * a_block;  ///< a stream to one rank has half of them
  static constexpr unsigned most_fetched = 2 * a_block;   ///< of requests, and of replies
  static constexpr unsigned most_drafts = a_block / 2;
  static constexpr unsigned most_replies = 64, most_replies_to_one = 2;
  static constexpr unsigned most_handlers = 64;  ///< handlers that surely find a buffer
  static constexpr std::size_t stride = 64 + limits::max_medium;
  static constexpr std::size_t offer_stride = 64 + (limits::max_eager + 63) / 64 * 64;
  /// Buffers of offers that have memory from start.
  static constexpr unsigned ready_ahead = offer_stride > 8192 ? 1 : 4;

  explicit large_buffers(core& c) noexcept;
  ~large_buffers();

  /// Makes the memory for a job in which Mediums may be offered, so that the first offer need not;
  /// verbs: registers the first offers' buffers, too. Without it memory is made when needed.
  void prepare(bool verbs) noexcept;
  /// Bytes that have memory after that, registered with the engine's device if `verbs`.
  [[nodiscard]] static constexpr std::size_t prepared(bool verbs) noexcept {
    return (verbs ? 2 * a_block : ready_ahead) * offer_stride;
  }
  /// Maps the pages of the first offers' buffers in the pool at `base`, this process's or a peer's,
  /// and takes memory for them.
  static void ready_offers(std::byte* base) noexcept;
  /// Writes where all buffers stand for ranks that map them, once they have been made.
  void where(std::uint64_t& base, std::uint32_t& key) const noexcept;
  /// Takes a buffer for a message to or from rank `with`. none: all are in use, the rank has its
  /// share, or there is no memory, which has been logged.
  [[nodiscard]] std::uint16_t take(use u, rank_id with) noexcept;
  /// Says that a message has told of this use of buffer i, which has that number.
  void sent(std::uint16_t i, std::uint16_t number) noexcept;
  /// Gives a buffer back: one that no message has told of, or one that a payload was fetched into.
  void give(std::uint16_t i) noexcept;
  /// The buffer's payload, and its first line.
  [[nodiscard]] std::byte* at(std::uint16_t i) const noexcept { return line(i) + 64; }
  [[nodiscard]] std::byte* line(std::uint16_t i) const noexcept {
    return memory_.base() + offset(i);
  }
  /// Where a buffer's first line is in the pool of any rank.
  [[nodiscard]] static constexpr std::size_t offset(std::size_t i) noexcept {
    return i < offers ? i * stride : offers * stride + (i - offers) * offer_stride;
  }
  /// True if a message may say that n bytes stand in buffer i.
  [[nodiscard]] static constexpr bool holds(std::size_t i, std::size_t n) noexcept {
    return i < count && n <= (i < offers ? limits::max_medium : limits::max_eager);
  }
  /// True if the buffer is one of the small ones.
  [[nodiscard]] static constexpr bool is_offer(std::size_t i) noexcept { return i >= offers; }
  /// Writes to out where the payload stands, for a message to a rank that maps the memory, or that
  /// fetches from it. For the latter the memory is registered at the first call; false: it cannot
  /// be, which has been logged.
  bool name(std::uint16_t i, bool mapped, wire::large_block& out) noexcept;
  /// The key by which the device writes into the buffer; 0: the memory cannot be registered.
  [[nodiscard]] std::uint32_t local_key(std::uint16_t i) noexcept;

  /// False once there was no memory for buffers: messages that can do without them then do so.
  [[nodiscard]] bool may_offer() const noexcept {
    return !refused_.load(std::memory_order_relaxed);
  }
  /// True if an offer to that rank would find a buffer. Cost: a look at each of them, where all are
  /// in use.
  [[nodiscard]] bool has_offer(rank_id to) noexcept;

  /// Replies that their targets have not taken, as of the last look.
  [[nodiscard]] std::uint32_t replies_out() const noexcept {
    return replies_out_.load(std::memory_order_relaxed);
  }
  /// True if a request of rank `to` may be taken: its reply finds a buffer even if it is large, and
  /// the rank holds fewer than most_replies_to_one.
  [[nodiscard]] bool may_reply(rank_id to) noexcept;
  /// The same for any rank, without the limit for each rank.
  [[nodiscard]] bool may_reply() noexcept;
  /// True if so many replies are out that by queue pairs, too, each rank gets only its share.
  [[nodiscard]] bool crowded() const noexcept { return replies_out() >= most_replies / 4; }
  /// Logs that a payload of that rank is lost, since the rank has left; once for each rank.
  [[gnu::cold]] void lost(rank_id of) noexcept;
  /// Address space of the pool, which a target maps as a whole.
  [[nodiscard]] static constexpr std::size_t bytes() noexcept { return offset(count); }
  static constexpr unsigned replies = most_requests + 2 * most_fetched;       ///< the first one
  static constexpr unsigned offers = replies + most_replies + most_handlers;  ///< the first one
  static constexpr unsigned count = offers + credit::most_offers + credit::most_fetched_offers;
  static_assert(offers % a_block == 0 && count % a_block == 0);
  std::atomic<std::uint32_t> drafts{0};  ///< buffers of requests that clients write in place

 private:
  struct numbers {
    unsigned first, end;
  };
  static constexpr numbers numbers_of(use u) noexcept {
    constexpr unsigned fetched = offers + credit::most_offers;
    switch (u) {
      case use::request:
        return {0, most_requests};
      case use::fetched_request:
        return {most_requests, most_requests + most_fetched};
      case use::fetched_reply:
        return {most_requests + most_fetched, replies};
      case use::reply:
        return {replies, offers};
      case use::offer:
        return {offers, fetched};
      case use::fetched_offer:
        break;
    }
    return {fetched, count};
  }
  /// True if the target of a message tells when the buffer is free again, by its word.
  static constexpr bool told(use u) noexcept {
    return u == use::request || u == use::reply || u == use::offer;
  }
  [[nodiscard]] std::atomic_ref<std::uint32_t> word(unsigned i) const noexcept {
    return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(line(static_cast<std::uint16_t>(i))));
  }
  [[gnu::cold]] bool make() noexcept;
  [[gnu::cold]] void refuse(const char* what, const failure& why) noexcept;
  bool is_done(unsigned i, std::uint64_t s) noexcept;
  [[nodiscard]] bool has_share_left(use u, rank_id with) noexcept;
  bool fewer_replies() noexcept;
  const memreg::registration* keys_of(unsigned block) noexcept;

  core& c_;
  std::atomic<bool> made_{false}, refused_{false};
  std::atomic<std::uint32_t> replies_out_{0};
  std::array<buffer_use, count> use_{};
  std::atomic<std::uint32_t> lost_of_{~0u};  // the last rank that lost() has logged
  std::mutex making_;
  memreg::segment memory_;
  std::uint32_t map_key_ = 0;
  void* mapped_ = nullptr;  // an ibv_mr: the registration with the device of rings
  struct block_keys {
    std::atomic<bool> known{false};
    memreg::registration keys;
  };
  std::array<block_keys, count / a_block> blocks_;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
