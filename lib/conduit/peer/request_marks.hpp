// How many requests to a peer are unanswered at most, told from its credits. A reply gives back the
// credits of all requests up to its own, and their number is not on the wire. But a peer by rings
// handles requests in the order in which they were sent, except for a few that are answered later
// (most_relieved, ring_path_inl.hpp), for which the caller sets room aside. So a mark (the credits
// spent and the requests sent at some moment) tells: once as many credits have come back as were
// spent at the mark, each request before it has been answered, but for those few. Two marks
// suffice: the last that has been reached, and one ahead of it. The number told lags behind by what
// is under way, so it is at most twice the true one, and those sent between two leases.
#pragma once

#include <algorithm>
#include <cstdint>

namespace penstock::conduit {

class request_marks {
 public:
  /// The ledger has lent `n` credits to the channel, or has them back unspent.
  void took(std::uint32_t n) noexcept { taken_ += n; }
  void gave_back(std::uint32_t n) noexcept { taken_ -= n; }

  /// The most requests that are unanswered now. in_use: the ledger's credits in use; lease: those
  /// of them that are not spent; sent: all requests so far. Counts may wrap.
  [[nodiscard]] std::uint32_t unanswered(std::uint32_t in_use, std::uint32_t lease,
                                         std::uint32_t sent) noexcept {
    const std::uint32_t returned = taken_ - in_use;
    if (static_cast<std::int32_t>(returned - ahead_.spent) >= 0) {
      reached_ = ahead_;
      ahead_ = {taken_ - lease, sent};
    }
    const std::uint32_t spent = in_use - std::min(in_use, lease);  // each costs one at least
    return std::min(spent, sent - reached_.sent);
  }

 private:
  struct mark {
    std::uint32_t spent, sent;
  };
  std::uint32_t taken_ = 0;  // by the channel, from the ledger
  mark reached_{0, 0}, ahead_{0, 0};
};

}  // namespace penstock::conduit
