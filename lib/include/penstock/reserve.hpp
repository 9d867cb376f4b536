// Requests whose payload is written in place: where it will be sent from, or, for a Long to a
// process of the same host, where it will be read. So a program that puts a payload together piece
// by piece needs no buffer of its own, and no copy from it.
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

/// What reservations of all argument types have in common.
class [[nodiscard]] reserved {
 public:
  /// Move only: the other one becomes empty, and what this one held before is cancelled.
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
  /// Cancels the reservation if it was not committed.
  ~reserved() {
    if (draft_ != nullptr) cancel();
  }

  /// Where the program writes the payload: at least as many bytes as were asked for, at an address
  /// that is a multiple of 16, or for a Long perhaps at its destination. Empty when nothing is
  /// reserved.
  [[nodiscard]] std::span<std::byte> payload() const noexcept { return payload_; }
  /// True while something is reserved.
  [[nodiscard]] explicit operator bool() const noexcept { return draft_ != nullptr; }
  /// Why nothing was reserved; ok if something was.
  [[nodiscard]] status why() const noexcept { return why_; }
  /// Gives the place back and sends nothing. Any thread may call it, also when nothing is reserved.
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

struct reserve;

}  // namespace detail

/// Room for the payload of one request, which commit() sends. It is move only; its destruction
/// cancels it. It holds no credits and no queue: while it is held, other messages go, to the same
/// rank too, and polls run handlers. It must be gone before its endpoint is destroyed.
template <detail::argument... A>
class [[nodiscard]] reservation : public detail::reserved {
 public:
  /// Sends the request with the first `bytes` bytes of payload(), and with args for the handler. It
  /// waits, polling, as any request does. Only the thread that has reserved may call it, and not in
  /// a handler. ok: the payload has gone, and payload() is empty. Any other status sends nothing
  /// and leaves the reservation as it is: too_long (more bytes than were reserved) and
  /// bad_arguments (another thread's reservation, or none), which also log a line, or a failure of
  /// endpoint::request_medium or request_long.
  status commit(std::size_t bytes, std::type_identity_t<A>... args) noexcept {
    const detail::packed<A...> p(args...);
    return commit_raw(bytes, p.w.data(), true);
  }
  /// As commit(), but where that would wait it returns what it is short of (is_short).
  status try_commit(std::size_t bytes, std::type_identity_t<A>... args) noexcept {
    const detail::packed<A...> p(args...);
    return commit_raw(bytes, p.w.data(), false);
  }

 private:
  friend struct detail::reserve;  // clang 16 does not match friends that are constrained templates
  reservation(endpoint& ep, rank_id to, std::uint8_t handler, bool is_long, std::size_t least,
              std::size_t most, void* dest) noexcept
      : reserved(ep, to, handler, detail::total_words<A...>, is_long, least, most, dest) {}
};

namespace detail {

struct reserve {
  template <argument... A>
  static reservation<A...> of(endpoint& ep, rank_id to, payload_handler<A...> h, bool is_long,
                              std::size_t least, std::size_t most, void* dest) noexcept {
    return {ep, to, h.index, is_long, least, most, dest};
  }
};

}  // namespace detail

/// Reserves room for a Medium of at least `least` bytes, which is at most endpoint::max_medium(),
/// and of up to `most` bytes where that costs nothing more. It never waits; credits are taken when
/// the reservation is committed. why() of an empty reservation is bad_rank, bad_arguments (most <
/// least), too_long (least is above the maximum), in_handler or shut_down. Any thread may call it,
/// but not in a handler. Cost: two atomic read-modify-writes on a network device, or where `most`
/// is above 4,032 bytes; otherwise, among processes of a host, none.
template <detail::argument... A>
reservation<A...> reserve_medium(endpoint& ep, rank_id to, payload_handler<A...> h,
                                 std::size_t least, std::size_t most) noexcept {
  return detail::reserve::of(ep, to, h, false, least, most, nullptr);
}

/// The same for a Long that goes to dest, an address in the target's segment, in which at least
/// `least` bytes must follow (else out_of_segment). The payload may be written directly to dest:
/// from this call until the handler runs, and after a cancel, the bytes there are undefined.
template <detail::argument... A>
reservation<A...> reserve_long(endpoint& ep, rank_id to, payload_handler<A...> h, std::size_t least,
                               std::size_t most, void* dest) noexcept {
  return detail::reserve::of(ep, to, h, true, least, most, dest);
}

}  // namespace penstock::PENSTOCK_ABI
