// A peer that has not begun is memory that reads as zero, in which no constructor has run; and what
// the table of ranks says of each rank is what was put there, however it is kept.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <new>
#include <utility>

#include "lib/conduit/message/handed_over.hpp"
#include "lib/conduit/peer/domain.hpp"
#include "lib/conduit/peer/peer.hpp"
#include "lib/conduit/peer/rank_table.hpp"

using namespace penstock;
using namespace penstock::conduit;

TEST_CASE("the state of a peer in which all bytes are zero is its default state") {
  alignas(peer) static std::array<std::byte, sizeof(peer)> memory{};
  auto* const p = new (memory.data()) peer;
  // The offset of the first byte that a default wrote.
  const auto at =
      std::find_if(memory.begin(), memory.end(), [](std::byte b) { return b != std::byte{}; });
  CHECK(at - memory.begin() == std::ssize(memory));
  p->~peer();
}

// Cache lines of what there is one of for each peer, each domain, and each message that is being
// handled: whoever adds one says in the commit what is got for it.
static_assert(sizeof(peer) <= 28 * cache_line && sizeof(domain) <= 8 * cache_line);
static_assert(sizeof(token_state) <= cache_line);

namespace {

rank_facts facts_of(std::uint32_t r, bool alike) {
  rank_facts f;
  f.address.lid = static_cast<std::uint16_t>(alike ? r / 16 : r);
  f.datagram_qp = 100 + r;
  f.segment_base = reinterpret_cast<std::byte*>(std::uintptr_t{r + 1} << 32);
  f.segment_bytes = 4096;
  f.segment_mapped = alike ? 8192 : 8192 * (r % 3 + 1);
  f.segment_rkey = 7 * r;
  f.map_rkey = f.segment_rkey;
  f.wakes = !alike && r % 5 == 0;
  f.reads = static_cast<std::uint8_t>(alike ? 16 : 1 + r % 7);
  return f;
}

void check_equal(const rank_facts& a, const rank_facts& b) {
  CHECK(a.address.lid == b.address.lid);
  CHECK(a.near_address.lid == b.near_address.lid);
  CHECK(a.datagram_qp == b.datagram_qp);
  CHECK(a.segment_base == b.segment_base);
  CHECK(a.segment_bytes == b.segment_bytes);
  CHECK(a.segment_mapped == b.segment_mapped);
  CHECK(a.segment_rkey == b.segment_rkey);
  CHECK(a.map_rkey == b.map_rkey);
  CHECK(a.wakes == b.wakes);
  CHECK(a.reads == b.reads);
}

constexpr std::uint32_t ranks = 1000;
constexpr std::uint32_t near_ranks[] = {5, 6, 700, 999};

}  // namespace

TEST_CASE("the table says of each rank what it was told") {
  for (const bool alike : {true, false})
    for (const bool near_device : {false, true}) {
      CAPTURE(alike);
      CAPTURE(near_device);
      const auto facts = [&](std::uint32_t r) {
        rank_facts f = facts_of(r, alike);
        if (!near_device ||
            std::find(std::begin(near_ranks), std::end(near_ranks), r) == std::end(near_ranks))
          return f;
        f.near_address.lid = static_cast<std::uint16_t>(r + 1);
        f.map_rkey = r + 3;
        return f;
      };
      rank_table t;
      CHECK(t.segment_of(0).empty());
      t.open(ranks, near_ranks);
      for (std::uint32_t r = 0; r < ranks; ++r) t.add(r, facts(r));
      t.shut();
      for (std::uint32_t r = 0; r < ranks; ++r) {
        check_equal(t.of(r), facts(r));
        CHECK(t.segment_of(r).data() == facts(r).segment_base);
        CHECK(t.segment_of(r).size() == 4096);
      }
      CHECK(t.segment_of(ranks).empty());
      if (alike) CHECK(t.bytes() < 32 * ranks);
    }
}

TEST_CASE("a segment that grows keeps the key by which it is mapped") {
  rank_table t;
  t.open(ranks, near_ranks);
  for (std::uint32_t r = 0; r < ranks; ++r) t.add(r, facts_of(r, true));
  t.shut();
  for (const std::uint32_t r : {6u, 8u}) {
    t.rank_grew(r, 1 << 20, 12345);
    CHECK(t.segment_of(r).size() == 1 << 20);
    CHECK(t.of(r).segment_rkey == 12345);
  }
  CHECK(t.of(6).map_rkey == 42);
  check_equal(t.of(5), facts_of(5, true));
  check_equal(t.of(999), facts_of(999, true));
}

TEST_CASE("a rank whose requests stay handed over has half of the places that are left") {
  std::atomic<std::uint32_t> count{0};
  handed_over to[3];
  outgoing m;
  m.kind = wire::kind::short_;
  unsigned kept[3] = {};
  for (unsigned i = 0; i < 3; ++i)
    while (to[i].accept(m, count)) ++kept[i];
  CHECK(kept[0] == 128);
  CHECK(kept[1] == 64);
  CHECK(kept[2] == 32);
  CHECK(count.load() == 128 + 64 + 32);
  // What has gone makes room for all.
  to[0].send_all(count, [](pending&) { return true; });
  CHECK(to[2].accept(m, count));
}

TEST_CASE("a Long that is handed over is sent by who waits for no put") {
  std::atomic<std::uint32_t> count{0};
  const std::array<std::byte, 64> payload{};
  for (const auto& [given, kept] : {std::pair(payload_way::best, payload_way::beside_header),
                                    std::pair(payload_way::ahead, payload_way::ahead)}) {
    handed_over to;
    outgoing m;
    m.kind = wire::kind::long_;
    m.payload = payload.data();
    m.bytes = payload.size();
    m.by = given;
    REQUIRE(to.accept(m, count));
    payload_way sent = payload_way::best;
    to.send_all(count, [&](const pending& r) { return sent = r.m.by, true; });
    CHECK(sent == kept);
  }
}
