// The arguments of vector, indexed and strided transfers as text, for traces and error messages.
#include <gasnet_tools.h>

#include <cstdio>
#include <cstring>

namespace {

constexpr size_t per_item = 48;  // "(0x" 16 digits "," 20 digits "), " and some
constexpr size_t per_head = 256;

// Appends to a buffer that is known to be large enough; it stays inside the buffer in any case.
class line {
 public:
  line(char* buf, size_t size) : p_(buf), left_(size) { *buf = '\0'; }
  template <class... A>
  void add(const char* format, A... a) {
    const int n = std::snprintf(p_, left_, format, a...);
    const size_t used = n < 0                            ? 0
                        : static_cast<size_t>(n) < left_ ? static_cast<size_t>(n)
                                                         : left_ - 1;
    p_ += used;
    left_ -= used;
  }
  void add(const char* text) { add("%s", text); }

 private:
  char* p_;
  size_t left_;
};

// The lowest and the highest byte of a set of pieces.
struct extent {
  char* low = nullptr;
  char* high = nullptr;
  void include(void* addr, size_t len) {
    if (len == 0) return;
    char* const first = static_cast<char*>(addr);
    char* const last = first + len - 1;
    if (low == nullptr || first < low) low = first;
    if (high == nullptr || last > high) high = last;
  }
};

template <class Item>
void add_list(line& out, const char* name, const char* format, const Item* list, size_t count) {
  out.add("%s=[", name);
  for (size_t i = 0; i < count; ++i) {
    if (i != 0) out.add(", ");
    out.add(format, list[i]);
  }
  out.add("]");
}

}  // namespace

extern "C" {

size_t gasnett_format_memveclist_bufsz(size_t count) { return per_head + count * per_item; }

gasneti_memveclist_stats_t gasnett_format_memveclist(char* buf, size_t count,
                                                     gasnet_memvec_t const* list) {
  extent e;
  size_t total = 0;
  size_t smallest = count == 0 ? 0 : list[0].len;
  size_t largest = 0;
  for (size_t i = 0; i < count; ++i) {
    e.include(list[i].addr, list[i].len);
    total += list[i].len;
    if (list[i].len < smallest) smallest = list[i].len;
    if (list[i].len > largest) largest = list[i].len;
  }
  line out(buf, gasnett_format_memveclist_bufsz(count));
  out.add("%zu entries, totalsz=%zu, bounds=[%p...%p]; list=[", count, total,
          static_cast<void*>(e.low), static_cast<void*>(e.high));
  for (size_t i = 0; i < count; ++i)
    out.add("%s(%p,%zu)", i == 0 ? "" : ", ", list[i].addr, list[i].len);
  out.add("]");
  return {smallest, largest, total, e.low, e.high};
}

size_t gasnett_format_addrlist_bufsz(size_t count) { return per_head + count * per_item; }

gasneti_addrlist_stats_t gasnett_format_addrlist(char* buf, size_t count, void* const* list,
                                                 size_t len) {
  extent e;
  for (size_t i = 0; i < count; ++i) e.include(list[i], len);
  line out(buf, gasnett_format_addrlist_bufsz(count));
  out.add("%zu entries of %zu bytes, totalsz=%zu, bounds=[%p...%p]; list=[", count, len,
          count * len, static_cast<void*>(e.low), static_cast<void*>(e.high));
  for (size_t i = 0; i < count; ++i) out.add("%s%p", i == 0 ? "" : ", ", list[i]);
  out.add("]");
  return {e.low, e.high};
}

size_t gasnett_format_putsgets_bufsz(size_t stridelevels) {
  return 2 * per_head + 3 * (stridelevels + 1) * per_item;
}

size_t(gasnett_format_putsgets)(char* buf, void* pstats, uint32_t node, void* dstaddr,
                                const size_t dststrides[], void* srcaddr, const size_t srcstrides[],
                                const size_t count[], size_t stridelevels) {
  return gasneti_format_strided(
      buf, pstats, node, dstaddr, reinterpret_cast<const ptrdiff_t*>(dststrides), srcaddr,
      reinterpret_cast<const ptrdiff_t*>(srcstrides), count[0], count + 1, stridelevels);
}

size_t gasneti_format_strided(char* buf, void*, uint32_t rank, void* dstaddr,
                              const ptrdiff_t dststrides[], void* srcaddr,
                              const ptrdiff_t srcstrides[], size_t elemsz, const size_t count[],
                              size_t stridelevels) {
  size_t total = elemsz;
  for (size_t i = 0; i < stridelevels; ++i) total *= count[i];
  line out(buf, gasnett_format_putsgets_bufsz(stridelevels));
  out.add("(%zu data bytes) node=%u dst=%p src=%p stridelevels=%zu elemsz=%zu ", total,
          static_cast<unsigned>(rank), dstaddr, srcaddr, stridelevels, elemsz);
  add_list(out, "count", "%zu", count, stridelevels);
  out.add(" ");
  add_list(out, "dststrides", "%td", dststrides, stridelevels);
  out.add(" ");
  add_list(out, "srcstrides", "%td", srcstrides, stridelevels);
  return total;
}

}  // extern "C"
