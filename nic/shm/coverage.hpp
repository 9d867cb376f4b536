// How many users each page of an address range has: a map of the places where the number changes.
// It has no lock; its owner supplies one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace penstock::nic::shm {

class coverage {
 public:
  /// Counts one more user of [first, last).
  void add(std::uint64_t first, std::uint64_t last) {
    for (auto at = cut(first), end = cut(last); at != end; ++at) ++at->second;
  }
  /// Counts one user less of a range that was added.
  void remove(std::uint64_t first, std::uint64_t last) {
    const auto end = cut(last);
    for (auto at = cut(first); at != end; ++at)
      if (at->second != 0) --at->second;
    join(first, last);
  }
  /// True if a page of [first, last) has a user.
  [[nodiscard]] bool any(std::uint64_t first, std::uint64_t last) const noexcept {
    bool found = false;
    each(first, last,
         [&](std::uint64_t, std::uint64_t, std::uint32_t users) { found |= users != 0; });
    return found;
  }
  /// Calls f(begin, end, users) for the pieces of [first, last), in order.
  template <class F>
  void each(std::uint64_t first, std::uint64_t last, F f) const {
    auto at = users_.upper_bound(first);
    std::uint32_t users = at == users_.begin() ? 0 : std::prev(at)->second;
    while (first < last) {
      const std::uint64_t end = at == users_.end() || at->first > last ? last : at->first;
      f(first, end, users);
      if (at != users_.end()) users = (at++)->second;
      first = end;
    }
  }
  void clear() noexcept { users_.clear(); }
  /// The number of addresses at which the number of users changes.
  [[nodiscard]] std::size_t edges() const noexcept { return users_.size(); }

 private:
  // The map's entry at that address, made if need be with the number of users that holds there.
  std::map<std::uint64_t, std::uint32_t>::iterator cut(std::uint64_t address) {
    const auto after = users_.upper_bound(address);
    const std::uint32_t users = after == users_.begin() ? 0 : std::prev(after)->second;
    return users_.try_emplace(address, users).first;
  }
  // Removes entries at which the number of users does not change.
  void join(std::uint64_t first, std::uint64_t last) {
    auto at = users_.lower_bound(first);
    std::uint32_t before = at == users_.begin() ? 0 : std::prev(at)->second;
    while (at != users_.end() && at->first <= last) {
      const std::uint32_t users = at->second;
      at = users == before ? users_.erase(at) : std::next(at);
      before = users;
    }
  }

  std::map<std::uint64_t, std::uint32_t> users_;
};

}  // namespace penstock::nic::shm
