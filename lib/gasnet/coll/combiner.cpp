#include "lib/gasnet/coll/combiner.hpp"

#include <algorithm>
#include <cstring>

#include "lib/gasnet/coll/messages.hpp"
#include "lib/gasnet/reach.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{64} << 10;

// acquire: the bytes are there, as for operation::advance() (operation.cpp). Mostly a completion is
// the next thing that comes, and a poll of all queues may give the core away before.
bool has_come(const op_counter& c) noexcept {
  return c.load(std::memory_order_acquire) == 0 ||
         (self.engine->one_sided().look() && c.load(std::memory_order_acquire) == 0);
}

// True if the function leaves what has come as it is: its result is wanted where it writes it, or
// the two sides may change places.
bool only_reads(const step& s, const reduction& how) noexcept {
  return how.commutative || (s.what == act::receive_right) == how.result_in_right;
}

// Combines n bytes that have come with those at `offset` of s. Unless only_reads(), `came` is
// overwritten.
void merge(const step& s, const reduction& how, std::byte* came, std::size_t offset,
           std::size_t n) {
  std::byte* const to = s.to + offset;
  // A result on the right is written over the right side, so that is where `to` goes if it can.
  const bool came_left = only_reads(s, how) ? how.result_in_right : s.what == act::receive_right;
  how.combine(how, came_left ? came : to, came_left ? to : came, n / how.element_bytes);
  if (came_left != how.result_in_right) std::memcpy(to, came, n);
}

}  // namespace

void combiner::deliver(const step& s, std::unique_ptr<arrival> a, std::uint32_t from) {
  const auto p =
      std::find_if(parts_.begin(), parts_.end(), [&](const part& q) { return q.what == &s; });
  if (a->type == arrival::type::offer && !reachable(from, a->address, a->bytes)) {
    p->sent = std::make_unique<chunk>();
    want(from, *a, p->sent->with_room(s.bytes), s.bytes, p->sent->coming);
  }
  p->message = std::move(a);
}

std::byte* combiner::chunk::with_room(std::size_t n) {
  if (room < n) {
    bytes.reset(new std::byte[n]);
    room = n;
  }
  return bytes.get();
}

bool combiner::combine(part& p, const reduction& how, std::uint32_t from) {
  if (p.message == nullptr) return false;
  arrival& a = *p.message;
  const step& s = *p.what;
  if (p.sent != nullptr) {
    if (!has_come(p.sent->coming)) return false;
    merge(s, how, p.sent->bytes.get(), 0, s.bytes);
    p.sent.reset();
    return true;
  }
  if (a.type == arrival::type::data) {
    if (s.bytes != 0) merge(s, how, a.payload(), 0, s.bytes);
    return true;
  }
  if (only_reads(s, how) && asked_ == 0) {
    const auto* const there = reinterpret_cast<const void*>(a.address);
    char* here = reach_here(from, there, s.bytes);
    if (here == nullptr) here = map_remote(from, there, s.bytes);
    if (here != nullptr) {
      merge(s, how, reinterpret_cast<std::byte*>(here), 0, s.bytes);
      send_thanks(from, a.loan);
      return true;
    }
  }
  if (!combine_in_chunks(s, a, how, from)) return false;
  asked_ = combined_ = 0;
  send_thanks(from, a.loan);
  return true;
}

bool combiner::combine_in_chunks(const step& s, const arrival& a, const reduction& how,
                                 std::uint32_t from) {
  const std::size_t each =
      std::max(chunk_bytes / how.element_bytes, std::size_t{1}) * how.element_bytes;
  const auto chunk_at = [&](std::size_t at) -> chunk& { return chunks_[at / each % 2]; };
  while (combined_ != s.bytes) {
    while (asked_ != s.bytes && asked_ - combined_ < 2 * each) {
      const std::size_t n = std::min(each, s.bytes - asked_);
      chunk& c = chunk_at(asked_);
      fetch(from, c.with_room(n), a.address + asked_, n, c.coming);
      asked_ += n;
    }
    chunk& c = chunk_at(combined_);
    if (!has_come(c.coming)) return false;
    const std::size_t n = std::min(each, s.bytes - combined_);
    merge(s, how, c.bytes.get(), combined_, n);
    combined_ += n;
  }
  return true;
}

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
