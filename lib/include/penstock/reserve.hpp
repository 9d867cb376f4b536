// Requests whose payload is written in place: where it will be sent from, or, for a Long to a
// process of the same host, where it will be read. So a payload that is put together piece by piece
// is not put together in a buffer first, and copied then.
//
//   auto m = penstock::reserve_medium(ep, to, handler, 100, 4096);  // 100 bytes or more
//   std::size_t n = put_together(m.payload());                      // at most m.payload().size()
//   m.commit(n, 42);                                                // sends n bytes; 42 to handler
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

#include "penstock/penstock.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
struct draft;
}  // namespace penstock::conduit::PENSTOCK_ABI

namespace penstock::PENSTOCK_ABI {

namespace detail {

/// A reservation but for its arguments' types.
class [[nodiscard]] reserved {
 public:
  /// Move only: the other becomes empty; what this one held before is cancelled.
  ///@{
  reserved(reserved&& o) noexcept
      : engine_(o.engine_),
        draft_(std::exchange(o.draft_, nullptr)),
        payload_(std::exchange(o.payload_, {})),
        why_(o.why_),
        handler_(o.handler_) {}
  reserved& operator=(reserved&& o) noexcept {
    if (this != &o) {
      cancel();
      engine_ = o.engine_;
      draft_ = std::exchange(o.draft_, nullptr);
      payload_ = std::exchange(o.payload_, {});
      why_ = o.why_;
      handler_ = o.handler_;
    }
    return *this;
  }
  ///@}
  /// Cancels what was not committed.
  ~reserved() {
    if (draft_ != nullptr) cancel();
  }

  /// Where to write: at least the bytes that were asked for, at an address that is a multiple of 16
  /// (a Long's may be the place where it goes). Empty when nothing is reserved.
  [[nodiscard]] std::span<std::byte> payload() const noexcept { return payload_; }
  /// True while something is reserved.
  [[nodiscard]] explicit operator bool() const noexcept { return draft_ != nullptr; }
  /// Why nothing was reserved; ok if it was.
  [[nodiscard]] status why() const noexcept { return why_; }
  /// Gives the place back; nothing is sent. Any thread. Does nothing when nothing is reserved.
  void cancel() noexcept;

 protected:
  /// The library's own use.
  ///@{
  reserved(endpoint& ep, rank_id to, std::uint8_t handler, unsigned nargs, bool is_long,
           std::size_t least, std::size_t most, void* dest) noexcept;
  status commit_raw(std::size_t bytes, const std::uint32_t* args, bool wait) noexcept;
  ///@}

 private:
  conduit::engine* engine_;
  conduit::draft* draft_ = nullptr;
  std::span<std::byte> payload_;
  status why_ = status::ok;
  std::uint8_t handler_;
};

}  // namespace detail

/// Room for the payload of one request that is sent by commit(). Move only; destruction cancels. It
/// holds no credits and no queue: other messages go, to the same rank too, and polls run handlers,
/// while it is held. Must be gone before its endpoint is destroyed.
template <detail::argument... A>
class [[nodiscard]] reservation : public detail::reserved {
 public:
  /// Sends the first `bytes` of payload(), and args to the handler; waits, polling, as any request
  /// does. By the thread that has reserved, and not from a handler. ok: the payload is gone, and
  /// payload() empty. Anything else sends nothing, and leaves the reservation as it is: too_long
  /// (more bytes than reserved) and bad_arguments (by another thread, or nothing is reserved) also
  /// log a line that says so; otherwise as endpoint::request_medium and request_long.
  status commit(std::size_t bytes, std::type_identity_t<A>... args) noexcept {
    const detail::packed<A...> p(args...);
    return commit_raw(bytes, p.w.data(), true);
  }
  /// As commit(), but answers what it is short of (is_short) instead of waiting.
  status try_commit(std::size_t bytes, std::type_identity_t<A>... args) noexcept {
    const detail::packed<A...> p(args...);
    return commit_raw(bytes, p.w.data(), false);
  }

 private:
  template <detail::argument... B>
  friend reservation<B...> reserve_medium(endpoint& ep, rank_id to, payload_handler<B...> h,
                                          std::size_t least, std::size_t most) noexcept;
  template <detail::argument... B>
  friend reservation<B...> reserve_long(endpoint& ep, rank_id to, payload_handler<B...> h,
                                        std::size_t least, std::size_t most, void* dest) noexcept;
  using detail::reserved::reserved;
};

/// Reserves room for a Medium of at least `least` bytes (at most endpoint::max_medium()), and up to
/// `most` where that costs nothing more. Never waits, whatever is short: credits are asked for when
/// it is committed. An empty reservation says why(): bad_rank, bad_arguments (most < least),
/// too_long (least above the maximum), in_handler, shut_down. Any thread; not from a handler. Cost:
/// two RMWs on a network device, none among processes of a host.
template <detail::argument... A>
reservation<A...> reserve_medium(endpoint& ep, rank_id to, payload_handler<A...> h,
                                 std::size_t least, std::size_t most) noexcept {
  return {ep, to, h.index, detail::total_words<A...>, false, least, most, nullptr};
}

/// The same of a Long that goes to dest, an address in the target's segment, of which at least
/// `least` bytes must be left (out_of_segment). What is written may lie at dest at once: from now
/// until the handler runs, and after a cancel, the bytes there are undefined.
template <detail::argument... A>
reservation<A...> reserve_long(endpoint& ep, rank_id to, payload_handler<A...> h, std::size_t least,
                               std::size_t most, void* dest) noexcept {
  return {ep, to, h.index, detail::total_words<A...>, true, least, most, dest};
}

}  // namespace penstock::PENSTOCK_ABI
