// The rights of a thread that is inside an owner (lib/base/owner.hpp), as types. What is touched
// inside one owner only is `guarded` by it, and can be reached with an `inside` of that owner
// alone, which entering returns. A function that needs its caller to be inside takes the right as a
// parameter. Rights are empty: they cost no instruction and no register.
//
//   if (const auto in = p.reply_in.try_enter(tag)) {
//     p.credits.returned[*in] += n;
//     p.reply_in.leave(tag);
//   }
//
// A type tells the owners of a peer apart, not the peers; that the right is of this peer and of
// this thread, debug builds ask at inside_owner() and leave().
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "lib/base/assert.hpp"
#include "lib/base/build_mode.hpp"
#include "lib/base/owner.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

using queue_owner = owner<build_mode>;

/// The owners: the ends of the queues of a peer, the thread that polls for transfers, and the one
/// that connects.
namespace end_of {
struct request_out;   ///< sends requests
struct reply_out;     ///< by queue pairs: sends replies and messages of credits
struct request_in;    ///< takes requests; by rings it sends the replies, too
struct reply_in;      ///< takes replies
struct transfer_out;  ///< posts one-sided transfers
struct reaping;       ///< polls for the completions of a domain's transfers
struct connecting;    ///< the connector's thread, from its start to its end
}  // namespace end_of

template <class End>
class end_owner;
template <class End>
class thread_owner;

/// The caller is inside the owner End.
template <class End>
class inside {
 public:
  /// For set-up and the end, when no other thread has the object.
  static constexpr inside alone() noexcept { return {}; }

 private:
  friend class end_owner<End>;
  friend class thread_owner<End>;
  constexpr inside() noexcept = default;
};

/// An owner whose entries return the right. Its functions are those of owner.
template <class End>
class end_owner : public queue_owner {
 public:
  using right = inside<End>;
  [[nodiscard]] std::optional<right> try_enter(std::uint32_t tag) noexcept {
    return queue_owner::try_enter(tag) ? std::optional(right{}) : std::nullopt;
  }
  [[nodiscard]] std::optional<right> try_enter_biased(std::uint32_t tag) noexcept {
    return queue_owner::try_enter_biased(tag) ? std::optional(right{}) : std::nullopt;
  }
  /// The right of a thread that has entered in another function, or whose handler runs inside.
  [[nodiscard]] right inside_owner([[maybe_unused]] std::uint32_t tag) const noexcept {
    PENSTOCK_ASSERT(held_by(tag), ==, true);
    return {};
  }
  void leave(std::uint32_t tag) noexcept {
    PENSTOCK_ASSERT(held_by(tag), ==, true);
    queue_owner::leave(tag);
  }
};

/// For what one thread alone touches as long as it runs.
template <class End>
class thread_owner {
 public:
  /// By that thread when it begins, once.
  [[nodiscard]] inside<End> begin() noexcept {
    PENSTOCK_ASSERT(std::exchange(begun_, true), ==, false);
    return {};
  }

 private:
  bool begun_ = false;
};

/// A T that a thread inside End alone touches.
template <class End, class T>
class guarded {
 public:
  [[nodiscard]] constexpr T& operator[](inside<End>) noexcept { return value_; }
  [[nodiscard]] constexpr const T& operator[](inside<End>) const noexcept { return value_; }

 protected:
  T value_{};
};

/// A T that a thread inside End alone changes, and any thread may look at in a way that T permits.
template <class End, class T>
class shown : public guarded<End, T> {
 public:
  [[nodiscard]] constexpr const T& seen() const noexcept { return this->value_; }
};

}  // namespace penstock::conduit::PENSTOCK_ABI
