#include "lib/conduit/peer/rank_table.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "lib/base/assert.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

int order(const nic::address& a, const nic::address& b) noexcept {
  if (const int c = std::memcmp(a.gid.raw, b.gid.raw, sizeof a.gid.raw); c != 0) return c;
  const auto rest = [](const nic::address& x) {
    return std::uint64_t{x.lid} << 32 | std::uint64_t{x.port} << 24 |
           std::uint64_t{x.gid_index} << 16 | std::uint64_t{x.is_global} << 8 | x.mtu;
  };
  return rest(a) < rest(b) ? -1 : rest(a) > rest(b) ? 1 : 0;
}

bool is_nowhere(const nic::address& a) noexcept { return order(a, nic::address()) == 0; }

}  // namespace

void rank_table::open(std::uint32_t ranks, std::span<const std::uint32_t> near) {
  ranks_ = ranks;
  near_ = near;
  rows_ = std::make_unique<row[]>(ranks);
  addresses_.resize(ranks);
}

std::size_t rank_table::place_of(std::uint32_t r) const noexcept {
  const auto at = std::lower_bound(near_.begin(), near_.end(), r);
  return at != near_.end() && *at == r ? static_cast<std::size_t>(at - near_.begin())
                                       : near_.size();
}

void rank_table::add(std::uint32_t r, const rank_facts& f) {
  PENSTOCK_ASSERT(r, <, ranks_);
  row& at = rows_[r];
  at.base = reinterpret_cast<std::uintptr_t>(f.segment_base);
  at.bytes.store(f.segment_bytes, std::memory_order_relaxed);
  at.rkey.store(f.segment_rkey, std::memory_order_relaxed);
  at.datagram_qp = f.datagram_qp;
  addresses_[r] = f.address;
  mapped_.add(r, ranks_, f.segment_mapped);
  wakes_reads_.add(r, ranks_, static_cast<std::uint16_t>((f.wakes ? 256u : 0u) | f.reads));
  const std::size_t place = place_of(r);
  if (place == near_.size()) return;
  if (near_addresses_.empty() && !is_nowhere(f.near_address)) near_addresses_.resize(near_.size());
  if (!near_addresses_.empty()) near_addresses_[place] = f.near_address;
  if (map_rkeys_.empty() && f.map_rkey != f.segment_rkey) {
    map_rkeys_.resize(near_.size());
    for (std::size_t i = 0; i < place; ++i)
      map_rkeys_[i] = rows_[near_[i]].rkey.load(std::memory_order_relaxed);
  }
  if (!map_rkeys_.empty()) map_rkeys_[place] = f.map_rkey;
}

void rank_table::shut() { share_addresses(); }

// Keeps each address once, where that takes less memory.
void rank_table::share_addresses() {
  std::vector<std::uint32_t> by_address(ranks_);
  std::iota(by_address.begin(), by_address.end(), 0u);
  std::sort(by_address.begin(), by_address.end(), [&](std::uint32_t a, std::uint32_t b) {
    return order(addresses_[a], addresses_[b]) < 0;
  });
  std::uint32_t different = 0;
  const auto is_new = [&](std::uint32_t i) {
    return i == 0 || order(addresses_[by_address[i - 1]], addresses_[by_address[i]]) != 0;
  };
  for (std::uint32_t i = 0; i < ranks_; ++i) different += is_new(i);
  constexpr std::size_t index = sizeof(std::uint32_t), whole = sizeof(nic::address);
  if (different * whole + ranks_ * index >= ranks_ * whole) return;
  std::vector<nic::address> each;
  each.reserve(different);
  std::vector<std::uint32_t> of(ranks_);
  for (std::uint32_t i = 0; i < ranks_; ++i) {
    if (is_new(i)) each.push_back(addresses_[by_address[i]]);
    of[by_address[i]] = static_cast<std::uint32_t>(each.size() - 1);
  }
  addresses_ = std::move(each);
  address_of_ = std::move(of);
}

rank_facts rank_table::of(std::uint32_t r) const noexcept {
  PENSTOCK_ASSERT(r, <, ranks_);
  const row& at = rows_[r];
  rank_facts f;
  f.address = addresses_[address_of_.empty() ? r : address_of_[r]];
  f.datagram_qp = at.datagram_qp;
  f.segment_base = reinterpret_cast<std::byte*>(at.base);
  f.segment_bytes = at.bytes.load(std::memory_order_relaxed);
  f.segment_mapped = mapped_[r];
  f.segment_rkey = at.rkey.load(std::memory_order_relaxed);
  f.wakes = wakes_reads_[r] >= 256;
  f.reads = static_cast<std::uint8_t>(wakes_reads_[r]);
  f.map_rkey = f.segment_rkey;
  const std::size_t place = place_of(r);
  if (place == near_.size()) return f;
  if (!near_addresses_.empty()) f.near_address = near_addresses_[place];
  if (!map_rkeys_.empty()) f.map_rkey = map_rkeys_[place];
  return f;
}

std::span<std::byte> rank_table::segment_of(std::uint32_t r) const noexcept {
  if (r >= ranks_) return {};
  return {reinterpret_cast<std::byte*>(rows_[r].base),
          static_cast<std::size_t>(rows_[r].bytes.load(std::memory_order_relaxed))};
}

void rank_table::rank_grew(std::uint32_t r, std::size_t bytes, std::uint32_t rkey) {
  row& at = rows_[r];
  if (map_rkeys_.empty() && rkey != at.rkey.load(std::memory_order_relaxed) &&
      place_of(r) != near_.size()) {
    map_rkeys_.reserve(near_.size());  // a mapping keeps its key
    for (const std::uint32_t n : near_)
      map_rkeys_.push_back(rows_[n].rkey.load(std::memory_order_relaxed));
  }
  PENSTOCK_ASSERT(bytes, >=, at.bytes.load(std::memory_order_relaxed));  // windows into it stay
  at.bytes.store(bytes, std::memory_order_relaxed);
  at.rkey.store(rkey, std::memory_order_relaxed);
}

std::size_t rank_table::bytes() const noexcept {
  return ranks_ * sizeof(row) + addresses_.capacity() * sizeof(nic::address) +
         address_of_.capacity() * sizeof(std::uint32_t) + mapped_.bytes() + wakes_reads_.bytes() +
         near_addresses_.capacity() * sizeof(nic::address) +
         map_rkeys_.capacity() * sizeof(std::uint32_t);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
