// Counting of zero bytes and a quick checksum, for clients that compress or verify data.
#include <gasnet_tools.h>

#include <cstring>

namespace {

// Sets the topmost bit of each byte where the byte of x is 0. The result is exact: no carry leaves
// a byte, because the low seven bits are added apart from the eighth.
constexpr uint64_t zero_marks(uint64_t x) {
  constexpr uint64_t low7 = 0x7F7F7F7F7F7F7F7Fu;
  return ~(((x & low7) + low7) | x | low7);
}
static_assert(zero_marks(0) == 0x8080808080808080u && zero_marks(~uint64_t{0}) == 0);
static_assert(zero_marks(0x0100'8001'007F'FF00u) == 0x0080'0000'8000'0080u);

int zeros(uint64_t x) { return __builtin_popcountll(zero_marks(x)); }

template <bool Copy>
size_t zeros_of(unsigned char* dst, const unsigned char* src, size_t bytes) {
  size_t n = 0;
  size_t i = 0;
  for (; i + sizeof(uint64_t) <= bytes; i += sizeof(uint64_t)) {
    uint64_t x;
    std::memcpy(&x, src + i, sizeof x);
    n += static_cast<size_t>(zeros(x));
    if constexpr (Copy) std::memcpy(dst + i, &x, sizeof x);
  }
  for (; i < bytes; ++i) {
    n += src[i] == 0;
    if constexpr (Copy) dst[i] = src[i];
  }
  return n;
}

}  // namespace

extern "C" {

int gasnett_count0s_uint64_t(uint64_t x) { return zeros(x); }
// The upper half of the word is filled with bytes that are not 0.
int gasnett_count0s_uint32_t(uint32_t x) { return zeros(x | 0xFFFFFFFF'00000000u); }
int gasnett_count0s_uintptr_t(uintptr_t x) {
  return sizeof x == sizeof(uint64_t) ? gasnett_count0s_uint64_t(x)
                                      : gasnett_count0s_uint32_t(static_cast<uint32_t>(x));
}

size_t gasnett_count0s(const void* p, size_t bytes) {
  return zeros_of<false>(nullptr, static_cast<const unsigned char*>(p), bytes);
}
size_t gasnett_count0s_copy(void* GASNETT_RESTRICT dst, const void* GASNETT_RESTRICT src,
                            size_t bytes) {
  return zeros_of<true>(static_cast<unsigned char*>(dst), static_cast<const unsigned char*>(src),
                        bytes);
}

uint64_t gasnett_checksum(const void* p, int bytes) {
  // Multiply and fold: by the product every bit of a word reaches every bit above it, and by the
  // rotation the bits below.
  constexpr uint64_t odd = 0x9E3779B97F4A7C15u;
  const auto* src = static_cast<const unsigned char*>(p);
  const auto size = static_cast<size_t>(bytes < 0 ? 0 : bytes);
  uint64_t sum = odd ^ size;
  for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
    uint64_t x = 0;
    std::memcpy(&x, src + i, size - i < sizeof x ? size - i : sizeof x);
    sum = (sum ^ x) * odd;
    sum = (sum << 31) | (sum >> 33);
  }
  return sum;
}

}  // extern "C"
