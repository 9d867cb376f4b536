// The callers' and the functions' sides of penstock/rpc.hpp, which includes this header: values,
// calls, requests and responders. Header only.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "penstock/penstock.hpp"

namespace penstock::PENSTOCK_ABI {

class rpc;
class rpc_request;

/// A function's number, the same on all ranks.
using rpc_method = std::uint32_t;

/// A value, or a gather list: what is sent is all parts one behind the other. Those of a request
/// are copied once, to where the message is sent from, and those of a response twice, since a reply
/// takes its payload in one piece. It is an argument only: it does not own the bytes.
class rpc_value {
 public:
  /// Of one part, or of several.
  ///@{
  rpc_value(std::span<const std::byte> one) noexcept : one_(one) {}
  rpc_value(std::span<std::byte> one) noexcept : one_(one) {}
  rpc_value(const std::vector<std::byte>& one) noexcept : one_(one) {}
  rpc_value(std::initializer_list<std::span<const std::byte>> parts) noexcept
      : parts_(parts.begin(), parts.size()) {}
  rpc_value(std::span<const std::span<const std::byte>> parts) noexcept : parts_(parts) {}

  ///@}
  /// Of all parts together.
  [[nodiscard]] std::size_t bytes() const noexcept {
    std::size_t n = one_.size();
    for (const auto& p : parts_) n += p.size();
    return n;
  }
  /// True if several parts have to be copied to lie in a row.
  [[nodiscard]] bool is_list() const noexcept { return parts_.size() > 1; }
  /// All parts in a row; they are copied to `room`, which is empty, if there are several.
  [[nodiscard]] std::span<const std::byte> in_a_row(std::vector<std::byte>& room) const {
    if (!is_list()) return parts_.empty() ? one_ : parts_[0];
    append_to(room);
    return room;
  }
  /// Copies them to the end of room.
  void append_to(std::vector<std::byte>& room) const {
    room.reserve(bytes());
    room.insert(room.end(), one_.begin(), one_.end());
    for (const auto& p : parts_) room.insert(room.end(), p.begin(), p.end());
  }
  /// Writes bytes() bytes to `at`.
  void write_to(std::byte* at) const noexcept {
    if (!one_.empty()) at = std::copy(one_.begin(), one_.end(), at);
    for (const auto& p : parts_) at = std::copy(p.begin(), p.end(), at);
  }

 private:
  std::span<const std::byte> one_;
  std::span<const std::span<const std::byte>> parts_;
};

/// A caller's side of one call at a time. It is neither moved nor copied while one is under way;
/// its destruction cancels that.
class rpc_call {
 public:
  rpc_call() = default;
  rpc_call(const rpc_call&) = delete;
  rpc_call& operator=(const rpc_call&) = delete;
  inline ~rpc_call();

  /// True when there is a response, or none will come. Any thread.
  [[nodiscard]] bool done() const noexcept {
    // D2 done  acquire done_  <- D1: the response
    return done_.load(std::memory_order_acquire);
  }
  /// ok, or why there is no response: bad_handler (the rank has no such function), no_space (it
  /// keeps as many requests as it may, or has no block for the value), too_long (the response is
  /// longer than `room`), shut_down (the request was dropped), peer_dead, or a failure of the
  /// messages. pending: it is under way. Before the first call: bad_arguments.
  [[nodiscard]] status result() const noexcept { return done() ? result_ : status::pending; }
  /// The number that the function has answered with; 0 without one.
  [[nodiscard]] std::uint32_t code() const noexcept { return code_; }
  /// The response's bytes, until the next call begins. They may be changed.
  [[nodiscard]] std::span<std::byte> response() noexcept { return response_; }

 private:
  friend class rpc;
  rpc* of_ = nullptr;
  std::vector<std::byte> body_, kept_;  // the response; a large request that waits for its block
  std::span<std::byte> response_;
  std::byte* block_ = nullptr;  // of the segment, in which the response lies
  std::atomic<bool> done_{true};
  status result_ = status::bad_arguments;
  std::uint32_t code_ = 0, slot_ = 0;
  rpc_method method_ = 0;
  std::size_t room_ = 0;
  rank_id to_ = 0;
};

namespace detail {

/// How a response finds its call.
struct rpc_return {
  std::uint32_t slot = 0, generation = 0;
  rpc_method method = 0;
  rank_id origin = 0;
  std::uint64_t dest = 0, room = 0;  ///< in the origin's segment; 0: a Medium's length is the limit
};

}  // namespace detail

/// A request that is answered later. It is move only, may go to any thread, and must be gone before
/// the endpoint is. If it is destroyed unanswered, the caller gets shut_down.
class rpc_responder {
 public:
  rpc_responder() = default;
  /// The other one becomes empty, or the two change places.
  ///@{
  rpc_responder(rpc_responder&& o) noexcept
      : of_(std::exchange(o.of_, nullptr)),
        to_(o.to_),
        body_(std::move(o.body_)),
        block_(std::exchange(o.block_, {})) {}
  rpc_responder& operator=(rpc_responder&& o) noexcept {
    std::swap(of_, o.of_);
    std::swap(to_, o.to_);
    std::swap(body_, o.body_);
    std::swap(block_, o.block_);
    return *this;
  }
  ///@}
  inline ~rpc_responder();

  /// False if it was made by default, moved from, or has answered or forwarded.
  explicit operator bool() const noexcept { return of_ != nullptr; }
  /// The rank that called.
  [[nodiscard]] rank_id source() const noexcept { return to_.origin; }
  /// The request's bytes.
  [[nodiscard]] std::span<const std::byte> body() const noexcept {
    return block_.empty() ? std::span<const std::byte>(body_) : block_;
  }
  /// As rpc_request::answer and forward. They may be called anywhere, also in a handler.
  ///@{
  inline status answer(rpc_value v, std::uint32_t code = 0);
  inline status forward(rank_id to, rpc_method m);
  ///@}

 private:
  friend class rpc;
  friend class rpc_request;
  rpc* of_ = nullptr;
  detail::rpc_return to_;
  std::vector<std::byte> body_;
  std::span<std::byte> block_;  // of the segment, where a large request lies
};

/// A function's view of its request, valid while the function runs. A function that does none of
/// the three things sends an empty answer with code 0.
class rpc_request {
 public:
  /// The rank that called, which may have been forwarded by another one.
  [[nodiscard]] rank_id source() const noexcept { return to_.origin; }
  /// The request's bytes.
  [[nodiscard]] std::span<const std::byte> body() const noexcept { return body_; }
  /// Sends the response, once. ok: it is on its way. too_long: it is longer than a Medium and than
  /// the room that the caller has named, which is what the caller gets, too. replied_twice: the
  /// request is no longer this function's.
  inline status answer(rpc_value v, std::uint32_t code = 0);
  /// Takes the request along, to be answered later; its bytes are copied, but for a large one's.
  /// The responder is empty, and the caller gets no_space, if the rank keeps too many already.
  inline rpc_responder later();
  /// Has the function m of rank `to` answer instead, straight to the caller; that rank sees the
  /// caller as the source. too_long: the request is longer than a Medium; no_space: too many are
  /// queued. The caller gets the same. If that rank leaves the job before it answers, the caller is
  /// not told, and needs a time_limit.
  inline status forward(rank_id to, rpc_method m);

 private:
  friend class rpc;
  rpc_request(rpc& of, token* t, const detail::rpc_return& to, std::span<std::byte> body,
              bool in_block) noexcept
      : of_(of), t_(t), to_(to), body_(body), in_block_(in_block) {}
  rpc& of_;
  token* const t_;  // null: another rank has forwarded the request
  detail::rpc_return to_;
  std::span<std::byte> body_;
  bool in_block_;
  bool mine_ = true;  // neither answered nor gone along
};

}  // namespace penstock::PENSTOCK_ABI
