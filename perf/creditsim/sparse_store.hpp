// Keeps a ledger's records for those peers alone that were touched, so that a hundred thousand
// ledgers fit into one process. The first touch finds the record as it was at the start of the job.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "credit/credit.hpp"

namespace penstock::creditsim {

/// A hash table from peer to record, for one thread. References stay valid.
template <class State>
class sparse_store {
 public:
  using init_function = void (*)(State&, std::uint32_t, const credit::config&);

  sparse_store(std::uint32_t, init_function init, const credit::config& c)
      : init_(init), config_(c) {}

  State& operator[](std::uint32_t peer) const {
    if (slots_.empty()) grow(8);
    std::size_t i = find(peer);
    if (slots_[i].record == nullptr) {
      if ((used_ + 1) * 4 > slots_.size() * 3) {
        grow(slots_.size() * 2);
        i = find(peer);
      }
      slots_[i].peer = peer;
      slots_[i].record = fresh();
      init_(*slots_[i].record, peer, config_);
      ++used_;
    }
    return *slots_[i].record;
  }

 private:
  struct slot {
    std::uint32_t peer = 0;
    State* record = nullptr;
  };

  [[nodiscard]] std::size_t find(std::uint32_t peer) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = (peer * 0x9e3779b1U >> 7) & mask;
    while (slots_[i].record != nullptr && slots_[i].peer != peer) i = (i + 1) & mask;
    return i;
  }
  void grow(std::size_t size) const {
    std::vector<slot> old(size);
    old.swap(slots_);
    for (const slot& s : old)
      if (s.record != nullptr) slots_[find(s.peer)] = s;
  }
  /// Records come in blocks that double, so that a node with six neighbours stays small.
  State* fresh() const {
    if (left_ == 0) {
      left_ = used_ < 8 ? 8 : used_;
      blocks_.push_back(std::unique_ptr<State[]>(new State[left_]));
      next_ = blocks_.back().get();
    }
    --left_;
    return next_++;
  }

  init_function init_;
  const credit::config& config_;
  mutable std::vector<slot> slots_;
  mutable std::vector<std::unique_ptr<State[]>> blocks_;
  mutable State* next_ = nullptr;
  mutable std::size_t used_ = 0, left_ = 0;
};

}  // namespace penstock::creditsim
