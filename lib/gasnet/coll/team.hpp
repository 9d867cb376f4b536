// Teams: the members, a name that is the same on all of them, and the operations in flight over the
// team. There are two sequences of calls: those that every image of a process makes, and those that
// a process makes once (splits, plain team barriers, all of gasnetex.h). Each sequence is numbered
// on all members alike.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "lib/gasnet/coll/operation.hpp"
#include "lib/gasnet/coll/shared_area.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

class team {
 public:
  team(std::uint64_t id, std::vector<std::uint32_t> members, std::uint32_t own_rank);

  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(members_.size());
  }
  [[nodiscard]] std::uint32_t job_rank(std::uint32_t r) const noexcept { return members_[r]; }
  [[nodiscard]] bool find(std::uint32_t job_rank, std::uint32_t& r) const noexcept;
  /// True if all members are on one host.
  [[nodiscard]] bool one_host() const noexcept { return one_host_; }

  /// Gives it shared lines, as all members do before the next call over it.
  void share(std::unique_ptr<shared_hold> h) noexcept { shared_ = std::move(h); }
  /// Its shared lines, or null.
  [[nodiscard]] shared_lines* lines() const noexcept {
    return shared_ != nullptr ? &shared_->lines() : nullptr;
  }

  /// Sets the number of images of each member, which is one without this call.
  void set_images(const gasnet_image_t* counts);
  [[nodiscard]] std::uint32_t images_of(std::uint32_t r) const noexcept {
    return first_[r + 1] - first_[r];
  }
  [[nodiscard]] std::uint32_t first_image(std::uint32_t r) const noexcept { return first_[r]; }
  [[nodiscard]] std::uint32_t images() const noexcept { return first_.back(); }
  [[nodiscard]] std::uint32_t rank_of_image(std::uint32_t image) const noexcept;

  enum lane : std::uint32_t { by_image = 0, by_process = 1 };
  /// The operation of that number, which begins at 0 in each sequence; null: it is complete.
  operation* at(lane l, std::uint32_t number);
  /// The number of the next call of a local image (of the process: image 0).
  std::uint32_t next_number(lane l, std::uint32_t image) noexcept { return calls_[l][image]++; }
  /// The number of calls over it that are in another sequence, or are barriers of gasnet.h.
  [[nodiscard]] std::uint32_t calls_beside(lane l) const noexcept {
    // relaxed: only compared, long after
    return calls_[1 - l].front() + (id_ == 0 ? barriers.load(std::memory_order_relaxed) : 0);
  }
  /// Says that the call which has that number was complete at once. Only while idle.
  void skip(lane l) noexcept { ++oldest_[l]; }
  /// Forgets operations that are complete.
  void retire();
  [[nodiscard]] bool idle() const noexcept { return queue_[0].empty() && queue_[1].empty(); }

 private:
  const std::uint64_t id_;
  const std::vector<std::uint32_t> members_;
  const std::uint32_t rank_;
  bool one_host_ = true;
  std::unique_ptr<shared_hold> shared_;
  std::vector<std::uint32_t> first_;  // first image of each member, and the number of all images
  std::vector<std::uint32_t> calls_[2];
  std::uint32_t oldest_[2] = {};
  std::deque<std::unique_ptr<operation>> queue_[2];
  std::vector<std::unique_ptr<operation>> spare_[2];
};

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
