// Posted receives of a QP or an SRQ: a ring of work requests with their scatter lists, in order.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <limits>

#include "lib/base/assert.hpp"
#include "nic/shm/lock.hpp"
#include "nic/shm/untouched.hpp"

namespace penstock::nic::shm {

/// A posted receive that a message has taken. Its scatter list is copied, since its place may be
/// posted to again.
struct receive_work {
  std::uint64_t wr_id = 0;
  std::uint32_t count = 0;
  std::uint64_t room = 0;  ///< sum of the lengths
};

class receive_queue {
 public:
  /// Room for `capacity` receives of `sges` pieces each.
  void size(std::uint32_t capacity, std::uint32_t sges) {
    capacity_ = capacity;
    sges_ = sges;
    const std::uint32_t places = std::bit_ceil(capacity);  // found without a division
    mask_ = places - 1;
    works_ = untouched_vector<receive_work>(places);
    lists_ = untouched_vector<ibv_sge>(std::size_t{places} * sges);
    reset();
  }
  /// As it was made: empty, and nothing is known of what will be posted.
  void reset() noexcept {
    head_ = tail_ = mark_ = 0;
    floor_ = later_ = std::numeric_limits<std::uint32_t>::max();
  }

  /// Makes room for `capacity` receives, those that are posted included. 0, or EINVAL (more are
  /// posted). Under lock.
  int resize(std::uint32_t capacity) {
    if (size() > capacity) return EINVAL;
    const std::uint32_t places = std::bit_ceil(capacity);
    untouched_vector<receive_work> works(places);
    untouched_vector<ibv_sge> lists(std::size_t{places} * sges_);
    for (std::uint64_t i = head_; i != tail_; ++i) {
      const receive_work& w = works[i & (places - 1)] = works_[i & mask_];
      std::copy_n(&lists_[(i & mask_) * sges_], w.count, &lists[(i & (places - 1)) * sges_]);
    }
    works_.swap(works);
    lists_.swap(lists);
    capacity_ = capacity;
    mask_ = places - 1;
    PENSTOCK_ASSERT(size(), <=, capacity_);
    return 0;
  }

  // Posting and taking are done under `lock`.
  spin_lock lock;

  /// Appends a receive. 0, EINVAL (too many pieces) or ENOMEM (full).
  int post(const ibv_recv_wr& wr) noexcept {
    if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > sges_) return EINVAL;
    if (size() == capacity_) return ENOMEM;
    receive_work& w = works_[tail_ & mask_];
    w = {wr.wr_id, static_cast<std::uint32_t>(wr.num_sge), 0};
    ibv_sge* list = &lists_[(tail_ & mask_) * sges_];
    for (int i = 0; i < wr.num_sge; ++i) {
      list[i] = wr.sg_list[i];
      w.room += list[i].length;
    }
    lower_floor(w.room);
    ++tail_;
    PENSTOCK_ASSERT(size(), <=, capacity_);
    PENSTOCK_ASSERT(floor_, <=, w.room);  // a message that fits the smallest fits this one
    PENSTOCK_ASSERT(floor_, <=, later_);
    return 0;
  }

  /// Takes the oldest receive; its list goes to `list` (room for sges()). False when there is none.
  bool take(receive_work& w, ibv_sge* list) noexcept {
    if (head_ == tail_) return false;
    w = works_[head_ & mask_];
    PENSTOCK_ASSERT(w.count, <=, sges_);
    const ibv_sge* from = &lists_[(head_ & mask_) * sges_];
    for (std::uint32_t i = 0; i < w.count; ++i) list[i] = from[i];
    ++head_;
    return true;
  }
  /// The oldest receive's only piece, or null: there is no receive, or it has another number of
  /// pieces. drop() takes the receive.
  [[nodiscard]] const ibv_sge* single() const noexcept {
    if (head_ == tail_ || works_[head_ & mask_].count != 1) return nullptr;
    return &lists_[(head_ & mask_) * sges_];
  }
  /// Takes the oldest receive, which is there; answers its wr_id.
  std::uint64_t drop() noexcept {
    PENSTOCK_ASSERT(head_, <, tail_);
    return works_[head_++ & mask_].wr_id;
  }
  void clear() noexcept { head_ = tail_; }
  /// Whether a posted receive names that key.
  [[nodiscard]] bool names(std::uint32_t lkey) const noexcept {
    for (std::uint64_t i = head_; i != tail_; ++i)
      for (std::uint32_t k = 0; k < works_[i & mask_].count; ++k)
        if (lists_[(i & mask_) * sges_ + k].lkey == lkey) return true;
    return false;
  }
  /// Makes floor() 0, since posted receives may no longer be valid: no message is certain to fit
  /// until they have been taken.
  void doubt() noexcept { floor_ = later_ = 0; }
  /// doubt() would change nothing: of what is posted by now nothing is certain.
  [[nodiscard]] bool doubted() const noexcept { return later_ == 0; }

  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(tail_ - head_);
  }
  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::uint32_t sges() const noexcept { return sges_; }
  [[nodiscard]] std::uint64_t posted() const noexcept { return tail_; }
  /// At most the size of the smallest receive that is posted now: a message that fits it fits each
  /// of them. Becomes larger when all that were posted up to some time have been taken.
  [[nodiscard]] std::uint32_t floor() const noexcept { return floor_; }

 private:
  /// Before a receive of that size is entered. Receives of equal size pay for two comparisons.
  void lower_floor(std::uint64_t room) noexcept {
    constexpr std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
    const auto now = static_cast<std::uint32_t>(room < most ? room : most);
    if (now < later_) later_ = now;
    if (now < floor_) {
      floor_ = now;
    } else if (now > floor_ && head_ >= mark_) [[unlikely]] {
      floor_ = later_;  // what was posted before the mark has been taken
      later_ = now;
      mark_ = tail_;
    }
  }

  std::uint32_t capacity_ = 0, sges_ = 0, mask_ = 0;
  std::uint64_t head_ = 0, tail_ = 0;
  std::uint32_t floor_ = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t later_ = floor_;  // of the receives from mark_ on, the smallest
  std::uint64_t mark_ = 0;
  untouched_vector<receive_work> works_;
  untouched_vector<ibv_sge> lists_;
};

}  // namespace penstock::nic::shm
