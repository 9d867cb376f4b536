// The tables of addresses, lengths, counts and strides that clients give to gasnet_vis.h's calls:
// the bytes that are moved are those that a walk byte by byte names, and the extents that are
// checked have them all. Rows that are packed for a peer name the same bytes; those that a peer has
// sent are taken if no byte of theirs lies outside the parts of the segment.
#include <gasnet.h>

#include <limits>
#include <memory>
#include <vector>

#include "lib/gasnet/vis/packed.hpp"
#include "lib/gasnet/vis/pieces.hpp"
#include "test/fuzz/target.hpp"

using namespace penstock::gasnet;

namespace {

constexpr std::size_t room = 4096;
std::byte from[room], to[room], wanted[room];

void begin() {
  for (std::size_t i = 0; i < room; ++i) {
    from[i] = std::byte{static_cast<unsigned char>(i * 7 + i / 256)};
    to[i] = wanted[i] = std::byte{0};
  }
}

void move(std::byte* d, const std::byte* s, std::size_t n) {
  FUZZ_CHECK(d >= to && d + n <= to + room && s >= from && s + n <= from + room && n != 0);
  std::memcpy(d, s, n);
}

// Bytes of a list, in order; no two of the destination's lie at one place in what clients may give.
template <class Pieces>
std::vector<std::byte*> each_byte(Pieces p) {
  std::vector<std::byte*> all;
  for (; p.more(); p.advance(p.bytes()))
    for (std::size_t i = 0; i < p.bytes(); ++i) all.push_back(p.at() + i);
  return all;
}

std::vector<gasnet_memvec_t> vector_of(fuzz::input& in, std::byte* base, bool apart) {
  std::vector<gasnet_memvec_t> list(in.byte() % 12u);
  std::size_t at = 0;
  for (gasnet_memvec_t& m : list) {
    m.len = in.byte() % 40u;
    if (apart)
      at += in.byte() % 32u;
    else
      at = in.take<std::uint16_t>() % (room - 40);
    m.addr = base + at;
    at += m.len;
  }
  return list;
}

template <class Pieces>
void lists(Pieces dst, Pieces src) {
  const auto d = each_byte(dst), s = each_byte(src);
  for (std::size_t i = 0; i < std::min(d.size(), s.size()); ++i) wanted[d[i] - to] = *s[i];
  vis::match(dst, src, move);
  FUZZ_CHECK(std::memcmp(to, wanted, room) == 0);
}

void two_lists(fuzz::input& in) {
  const auto d = vector_of(in, to, true), s = vector_of(in, from, false);
  lists(vis::vector_pieces(d.data(), d.size()), vis::vector_pieces(s.data(), s.size()));
  begin();
  std::vector<void*> apart;
  const std::size_t each = in.byte() % 24u, n = in.byte() % 20u;
  for (std::size_t i = 0; i < n; ++i) apart.push_back(to + i * (each + in.byte() % 3u * 8));
  std::sort(apart.begin(), apart.end());
  for (std::size_t i = 1; i < n; ++i)
    apart[i] =
        std::max(static_cast<std::byte*>(apart[i]), static_cast<std::byte*>(apart[i - 1]) + each);
  // The sources have pieces of another length, where there is one.
  const std::size_t half = each % 2 == 0 ? each / 2 : each;
  std::vector<void*> halves;
  for (std::size_t i = 0; half != 0 && i < n * (each / half); ++i)
    halves.push_back(from + in.take<std::uint16_t>() % (room - 24));
  lists(vis::indexed_pieces(apart.data(), n, each),
        vis::indexed_pieces(halves.data(), halves.size(), half));
}

__extension__ typedef __int128 wide;

struct shape {
  std::size_t elem;
  std::vector<std::size_t> counts;
  std::vector<std::ptrdiff_t> dst, src;
};

shape shape_of(fuzz::input& in, bool small) {
  shape s;
  s.elem = small ? in.byte() % 10u : in.take<std::uint64_t>() >> in.byte() % 64;
  for (std::size_t i = in.byte() % 5u; i != 0; --i) {
    const std::uint8_t how = in.byte();
    const std::size_t full =
        s.counts.empty() ? s.elem : s.counts.back() * static_cast<std::size_t>(s.dst.back());
    s.counts.push_back(small ? how % 5u : in.take<std::uint64_t>() >> (2 + in.byte() % 62));
    for (auto* strides : {&s.dst, &s.src})
      strides->push_back((how & 128) != 0 ? static_cast<std::ptrdiff_t>(full)
                         : small          ? in.take<std::int8_t>()
                                          : static_cast<std::ptrdiff_t>(in.take<std::uint64_t>()) >>
                                       in.byte() % 64);
  }
  return s;
}

// The lowest byte and one past the highest, as offsets; false: no byte is moved.
bool extent_of(const shape& s, const std::vector<std::ptrdiff_t>& strides, wide& low, wide& high) {
  low = 0, high = static_cast<wide>(s.elem);
  for (std::size_t i = 0; i < s.counts.size(); ++i) {
    if (s.counts[i] == 0) return false;
    const wide span = static_cast<wide>(strides[i]) * static_cast<wide>(s.counts[i] - 1);
    (span < 0 ? low : high) += span;
  }
  return s.elem != 0;
}

void same_extent(const vis::grid::extent& e, wide low, wide high) {
  constexpr wide least = std::numeric_limits<std::ptrdiff_t>::min(),
                 most = std::numeric_limits<std::ptrdiff_t>::max();
  FUZZ_CHECK(e.low == (low < least ? least : low));
  FUZZ_CHECK(e.high == (high > most ? most : high));
}

void strided(fuzz::input& in, bool small) {
  const shape s = shape_of(in, small);
  const std::size_t levels = s.counts.size();
  const vis::grid g(s.elem, s.dst.data(), s.src.data(), s.counts.data(), levels);
  wide dlow, dhigh, slow, shigh;
  const bool some = extent_of(s, s.dst, dlow, dhigh) && extent_of(s, s.src, slow, shigh);
  FUZZ_CHECK(g.empty() == !some);
  if (!some) return;
  same_extent(g.dst_extent(), dlow, dhigh);
  same_extent(g.src_extent(), slow, shigh);
  if (!small || dhigh - dlow > wide{room} || shigh - slow > wide{room}) return;
  std::byte* const d0 = to - static_cast<std::ptrdiff_t>(dlow);
  const std::byte* const s0 = from - static_cast<std::ptrdiff_t>(slow);
  // Where elements of the destination overlap, either may be there in the end.
  std::vector<std::vector<std::byte>> may(room);
  std::vector<std::size_t> at(levels);
  for (std::size_t i = 0; i < levels || levels == 0;) {
    std::ptrdiff_t d = d0 - to, f = s0 - from;
    for (std::size_t k = 0; k < levels; ++k) {
      d += s.dst[k] * static_cast<std::ptrdiff_t>(at[k]);
      f += s.src[k] * static_cast<std::ptrdiff_t>(at[k]);
    }
    for (std::size_t b = 0; b < s.elem; ++b)
      may[static_cast<std::size_t>(d) + b].push_back(from[static_cast<std::size_t>(f) + b]);
    for (i = 0; i < levels && ++at[i] == s.counts[i]; ++i) at[i] = 0;
    if (levels == 0) break;
  }
  // The runs, and the same as rows for a peer.
  auto rows = std::make_unique<vis::rows>();
  std::size_t total = 0;
  bool fits = true;
  g.each_row(d0, s0, [&](const vis::runs& r) {
    total += r.bytes * r.count;
    for (vis::runs one = r; one.count != 0; one.skip(1)) move(one.to, one.from, one.bytes);
    fits = fits && rows->add(r.to, r.to_stride, r.bytes, r.count);
  });
  std::size_t elements = s.elem;
  for (const std::size_t n : s.counts) elements *= n;
  FUZZ_CHECK(total == elements);
  std::size_t packed = 0;
  std::vector<bool> named(room);
  for (std::uint32_t i = 0; fits && i < rows->count(); ++i) {
    const vis::row& r = rows->data()[i];
    packed += std::size_t{r.bytes} * r.count;
    for (std::int64_t k = 0; k < r.count; ++k)
      for (std::uint32_t b = 0; b < r.bytes; ++b)
        named[static_cast<std::size_t>(reinterpret_cast<std::byte*>(r.at) + r.stride * k + b -
                                       to)] = true;
  }
  if (fits) FUZZ_CHECK(packed == elements);
  for (std::size_t i = 0; i < room; ++i) {
    FUZZ_CHECK(may[i].empty() ? to[i] == std::byte{0}
                              : std::find(may[i].begin(), may[i].end(), to[i]) != may[i].end());
    if (fits) FUZZ_CHECK(named[i] == !may[i].empty());
  }
}

// A row of a peer's, and two parts with something else between them.
void foreign_row(fuzz::input& in) {
  struct part {
    wide begin, end;
  } parts[2];
  const auto base = static_cast<wide>(reinterpret_cast<std::uint64_t>(to));
  wide at = base;
  for (part& p : parts) {
    p.begin = at + in.byte();
    p.end = at = p.begin + in.byte();
  }
  const auto has = [&](wide first, wide bytes) {
    for (const part& p : parts)
      if (first >= p.begin && first + bytes <= p.end) return true;
    return false;
  };
  const bool small = in.byte() % 4 != 0;
  vis::row r{};
  r.at = small ? static_cast<std::uint64_t>(base) + in.take<std::uint16_t>() % 1024
               : in.take<std::uint64_t>();
  r.stride = small ? in.take<std::int16_t>() % 512 : in.take<std::int64_t>();
  r.bytes = small ? 1 + in.byte() % 32u : 1 + in.take<std::uint32_t>() % 0xffffffff;
  r.count = 1 + in.byte() % 8u;
  bool inside = true;
  for (std::uint32_t i = 0; i < r.count; ++i)
    inside = inside && has(wide{r.at} + wide{r.stride} * i, r.bytes);
  FUZZ_CHECK(vis::each_in(r, has) == inside);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  fuzz::input in(data, bytes);
  begin();
  switch (in.byte() % 4) {
    case 0:
      two_lists(in);
      break;
    case 1:
      strided(in, true);
      break;
    case 2:
      strided(in, false);
      break;
    default:
      foreign_row(in);
  }
  return 0;
}
