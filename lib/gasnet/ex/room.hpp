// The bytes of a range that are free, as extents: taken at the lowest place where they fit, given
// back in any order. Extents that touch each other are one. For the reserve behind the segment
// (segments.cpp). One thread at a time calls it; it allocates.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>
#include <optional>

namespace penstock::gasnet {

class room {
 public:
  explicit room(std::uint64_t bytes) {
    if (bytes != 0) free_[0] = bytes;
  }

  /// The lowest place of so many bytes; nothing: no extent is that long. bytes is not 0.
  std::optional<std::uint64_t> take(std::uint64_t bytes) {
    for (auto e = free_.begin(); e != free_.end(); ++e) {
      const auto [at, long_] = *e;
      if (long_ < bytes) continue;
      free_.erase(e);
      if (long_ != bytes) free_[at + bytes] = long_ - bytes;
      return at;
    }
    return std::nullopt;
  }
  /// Gives back what take() has returned.
  void give(std::uint64_t at, std::uint64_t bytes) {
    const auto after = free_.lower_bound(at);
    std::uint64_t end = at + bytes;
    if (after != free_.end() && after->first == end) end += after->second;
    if (after != free_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == at) at = before->first;
    }
    free_.erase(free_.lower_bound(at), free_.lower_bound(end));
    free_[at] = end - at;
  }
  /// The longest extent.
  [[nodiscard]] std::uint64_t largest() const noexcept {
    std::uint64_t most = 0;
    for (const auto& e : free_)
      if (e.second > most) most = e.second;
    return most;
  }

 private:
  std::map<std::uint64_t, std::uint64_t> free_;  // bytes by place
};

}  // namespace penstock::gasnet
