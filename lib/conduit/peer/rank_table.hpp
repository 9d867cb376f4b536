// What this process knows of every rank of its job before it talks to it: where its connector, its
// device and its segment are. The introductions at start fill the table in; a peer that begins is
// filled in from it (core::begin). A row takes 24 bytes; an address 4 bytes where ranks have it in
// common, and else 24; what is equal for all ranks is kept once. Threads: set-up fills the table
// in; later rank_grew() alone changes it. core::beginning_ guards all but segment_of().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nic/device.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// One number of each rank, kept once while all are equal.
template <class T>
class rank_column {
 public:
  /// The ranks come in ascending order, from 0 on; ranks: of the whole column.
  void add(std::uint32_t r, std::uint32_t ranks, T value) {
    if (r == 0) one_ = value;
    if (each_.empty() && value == one_) return;
    if (each_.empty()) each_.assign(ranks, one_);
    each_[r] = value;
  }
  [[nodiscard]] T operator[](std::uint32_t r) const noexcept {
    return each_.empty() ? one_ : each_[r];
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return each_.capacity() * sizeof(T); }

 private:
  T one_{};
  std::vector<T> each_;
};

/// What a rank has said of itself.
struct rank_facts {
  nic::address address, near_address;  ///< near_address: on the near device, if there is one
  std::uint32_t datagram_qp = 0;
  std::byte* segment_base = nullptr;  ///< in its own address space
  std::size_t segment_bytes = 0;
  std::size_t segment_mapped = 0;  ///< bytes of it that are or would be mapped: it may grow
  std::uint32_t segment_rkey = 0;
  std::uint32_t map_rkey = 0;  ///< the key by which it is mapped
  bool wakes = false;          ///< a thread of it sleeps until it is woken
  std::uint8_t reads = 1;      ///< reads and atomics that it takes at a time
};

class rank_table {
 public:
  /// Makes room. near: the ranks that share memory with this one, in ascending order; of them alone
  /// the near address and map_rkey are kept. The span must stay valid.
  void open(std::uint32_t ranks, std::span<const std::uint32_t> near);
  /// The ranks come in ascending order; after the last one, shut().
  void add(std::uint32_t r, const rank_facts& f);
  void shut();

  [[nodiscard]] std::uint32_t ranks() const noexcept { return ranks_; }
  [[nodiscard]] rank_facts of(std::uint32_t r) const noexcept;
  /// Empty before open(). Any thread, at any time.
  [[nodiscard]] std::span<std::byte> segment_of(std::uint32_t r) const noexcept;
  /// Rank r has made its segment longer.
  void rank_grew(std::uint32_t r, std::size_t bytes, std::uint32_t rkey);
  /// Bytes of memory that the table takes.
  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  struct row {
    std::uintptr_t base = 0;
    // relaxed: a rank's segment grows in a collective call, after which all know
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint32_t> rkey{0};
    std::uint32_t datagram_qp = 0;
  };
  [[nodiscard]] std::size_t place_of(std::uint32_t r) const noexcept;  // in near_, or its size
  void share_addresses();

  std::uint32_t ranks_ = 0;
  std::span<const std::uint32_t> near_;
  std::unique_ptr<row[]> rows_;
  std::vector<nic::address> addresses_;    // by rank; with address_of_, each once
  std::vector<std::uint32_t> address_of_;  // by rank: its index in addresses_
  rank_column<std::uint64_t> mapped_;
  rank_column<std::uint16_t> wakes_reads_;
  // By place in near_. map_rkeys_ is empty while they are the rows' keys.
  std::vector<nic::address> near_addresses_;
  std::vector<std::uint32_t> map_rkeys_;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
