#include "lib/gasnet/vis/vis.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>
#include <vector>

#include "lib/base/log.hpp"
#include "lib/gasnet/reach.hpp"
#include "lib/gasnet/vis/packed.hpp"
#include "lib/gasnet/vis/pieces.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::vis {
namespace {

// The length below which runs are packed. A post of the shared-memory device takes some stores;
// that of a kernel device takes a system call, and a Medium of many runs costs only one of these.
std::size_t pack_limit() noexcept {
  constexpr std::size_t in_memory = 512;
  const std::size_t told = self.options.vis_pack_limit;
  const bool stores = self.engine->device().shared_memory;
  return std::min(told != 0 ? told : stores ? in_memory : longest_packed, longest_packed);
}

// The address at which a remote run is mapped here, or null.
std::byte* reach(gasnet_node_t node, const void* at, std::size_t bytes) {
  char* here = reach_here(node, at, bytes);
  if (here == nullptr) here = map_remote(node, at, bytes);
  return reinterpret_cast<std::byte*>(here);
}

// The runs of a call whose remote side is not mapped here. A call that must not wait packs none,
// since the Mediums would wait for the peer.
template <class Packer>
class far_runs {
 public:
  far_runs(const char* call, gasnet_node_t peer, flight& f)
      : call_(call),
        peer_(peer),
        flight_(f),
        limit_(f.at_once ? 0 : pack_limit()),
        asks_(f.at_once),
        packer_(call, peer, f.counter) {}
  far_runs(const far_runs&) = delete;
  far_runs& operator=(const far_runs&) = delete;
  ~far_runs() { packer_.flush(); }
  void start() noexcept { asks_ = false; }
  void operator()(std::byte* dst, const std::byte* src, std::size_t bytes) {
    if (bytes < limit_) return packer_.add(dst, src, bytes);
    if (!asks_) return began(call_, Packer::directly(peer_, dst, src, bytes, flight_.counter));
    flight_.refused = flight_.refused || is_short(Packer::may_go(peer_, dst, src, bytes));
  }
  void operator()(runs r) {
    if (r.bytes < limit_) return packer_.add(r);
    for (; r.count != 0; r.skip(1)) (*this)(r.to, r.from, r.bytes);
  }

 private:
  const char* const call_;
  const gasnet_node_t peer_;
  flight& flight_;
  const std::size_t limit_;
  bool asks_;  // the runs only ask for room
  Packer packer_;
};

// Starts all runs, which each() passes on; but if the call must not wait, none unless all find
// room.
template <class Packer, class Each>
void go_far(const char* call, gasnet_node_t peer, flight& f, Each&& each) {
  far_runs<Packer> out(call, peer, f);
  if (f.at_once) each(out), out.start();
  if (!f.refused) each(out);
}

// True if node's memory is mapped here, which `at` shows as well as any of it.
bool is_near(gasnet_node_t node, const void* at, std::size_t bytes) {
  return reach(node, at, bytes) != nullptr;
}

// ---- lists ----

template <class Pieces>
void check_pieces(const char* call, gasnet_node_t node, Pieces p) {
  for (; p.more(); p.advance(p.bytes())) check_remote(node, p.at(), p.bytes(), call);
}

// For clients compiled with GASNET_DEBUG: checks that no two pieces of the destination overlap.
template <class Pieces>
void check_overlaps(const char* call, Pieces p) {
  if (!self.checked) return;
  std::vector<std::span<std::byte>> all;
  for (; p.more(); p.advance(p.bytes())) all.emplace_back(p.at(), p.bytes());
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.data() < b.data(); });
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i - 1].data() + all[i - 1].size() > all[i].data())
      fatal(1, "%s: two pieces of the destination overlap, at %p", call,
            static_cast<void*>(all[i].data()));
}

template <class Pieces>
void put_pieces(const char* call, gasnet_node_t to, Pieces dst, Pieces src, flight& f) {
  check_remote(to, nullptr, 0, call);
  check_pieces(call, to, dst);
  check_overlaps(call, dst);
  if (!dst.more()) return;
  if (is_near(to, dst.at(), dst.bytes())) {
    match(dst, src, [to](std::byte* d, const std::byte* s, std::size_t n) {
      std::memcpy(reach(to, d, n), s, n);
    });
    std::atomic_thread_fence(std::memory_order_release);  // release: before later stores
  } else {
    go_far<put_packer>(call, to, f, [&](auto& go) { match(dst, src, go); });
  }
}

template <class Pieces>
void get_pieces(const char* call, Pieces dst, gasnet_node_t from, Pieces src, flight& f) {
  check_remote(from, nullptr, 0, call);
  check_pieces(call, from, src);
  check_overlaps(call, dst);
  if (!src.more()) return;
  if (is_near(from, src.at(), src.bytes())) {
    match(dst, src, [from](std::byte* d, const std::byte* s, std::size_t n) {
      std::memcpy(d, reach(from, s, n), n);
    });
    std::atomic_thread_fence(std::memory_order_acquire);  // acquire: before later loads
  } else {
    go_far<get_packer>(call, from, f, [&](auto& go) { match(dst, src, go); });
  }
}

void check_list(const char* call, const void* list, std::size_t count, const char* what) {
  if (count != 0 && list == nullptr) fatal(1, "%s: %zu %s without a list", call, count, what);
}

std::size_t total(const gasnet_memvec_t* list, std::size_t count) noexcept {
  std::size_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += list[i].len;
  return sum;
}

void check_totals(const char* call, std::size_t dst, std::size_t src) {
  if (dst != src)
    fatal(1, "%s: the destination's pieces are %zu bytes, the source's %zu", call, dst, src);
}

void check_lengths(const char* call, std::size_t dst_count, std::size_t dst_bytes,
                   std::size_t src_count, std::size_t src_bytes) {
  if (dst_bytes == 0 || src_bytes == 0)
    fatal(1, "%s: pieces of no bytes (destination %zu, source %zu)", call, dst_bytes, src_bytes);
  check_totals(call, dst_count * dst_bytes, src_count * src_bytes);
}

// ---- grids ----

// Checks the remote side of a grid. Returns the address at which its element 0 is mapped here, or
// null.
std::byte* grid_here(const char* call, gasnet_node_t node, std::byte* at, grid::extent e) {
  const std::size_t bytes = static_cast<std::size_t>(e.high) - static_cast<std::size_t>(e.low);
  const void* const lowest = reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(at) +
                                                           static_cast<std::uintptr_t>(e.low));
  check_remote(node, lowest, bytes, call);
  std::byte* const here = reach(node, lowest, bytes);
  return here == nullptr ? nullptr : here - e.low;
}

}  // namespace

void put_vector(const char* call, gasnet_node_t to, std::size_t dst_count,
                const gasnet_memvec_t* dst, std::size_t src_count, const gasnet_memvec_t* src,
                flight& f) {
  check_list(call, dst, dst_count, "pieces of the destination");
  check_list(call, src, src_count, "pieces of the source");
  check_totals(call, total(dst, dst_count), total(src, src_count));
  put_pieces(call, to, vector_pieces(dst, dst_count), vector_pieces(src, src_count), f);
}

void get_vector(const char* call, std::size_t dst_count, const gasnet_memvec_t* dst,
                gasnet_node_t from, std::size_t src_count, const gasnet_memvec_t* src, flight& f) {
  check_list(call, dst, dst_count, "pieces of the destination");
  check_list(call, src, src_count, "pieces of the source");
  check_totals(call, total(dst, dst_count), total(src, src_count));
  get_pieces(call, vector_pieces(dst, dst_count), from, vector_pieces(src, src_count), f);
}

void put_indexed(const char* call, gasnet_node_t to, std::size_t dst_count, void* const* dst,
                 std::size_t dst_bytes, std::size_t src_count, void* const* src,
                 std::size_t src_bytes, flight& f) {
  check_list(call, dst, dst_count, "pieces of the destination");
  check_list(call, src, src_count, "pieces of the source");
  check_lengths(call, dst_count, dst_bytes, src_count, src_bytes);
  put_pieces(call, to, indexed_pieces(dst, dst_count, dst_bytes),
             indexed_pieces(src, src_count, src_bytes), f);
}

void get_indexed(const char* call, std::size_t dst_count, void* const* dst, std::size_t dst_bytes,
                 gasnet_node_t from, std::size_t src_count, void* const* src, std::size_t src_bytes,
                 flight& f) {
  check_list(call, dst, dst_count, "pieces of the destination");
  check_list(call, src, src_count, "pieces of the source");
  check_lengths(call, dst_count, dst_bytes, src_count, src_bytes);
  get_pieces(call, indexed_pieces(dst, dst_count, dst_bytes), from,
             indexed_pieces(src, src_count, src_bytes), f);
}

void put_strided(const char* call, gasnet_node_t to, void* dst, const std::ptrdiff_t* dst_strides,
                 const void* src, const std::ptrdiff_t* src_strides, std::size_t elem,
                 const std::size_t* counts, std::size_t levels, flight& f) {
  check_remote(to, nullptr, 0, call);
  check_list(call, counts, levels, "levels");
  check_list(call, dst_strides, levels, "strides of the destination");
  check_list(call, src_strides, levels, "strides of the source");
  const grid g(elem, dst_strides, src_strides, counts, levels);
  if (g.empty()) return;
  auto* const d = static_cast<std::byte*>(dst);
  const auto* const s = static_cast<const std::byte*>(src);
  if (std::byte* const here = grid_here(call, to, d, g.dst_extent())) {
    g.each_row(here, s, copy_runs);
    std::atomic_thread_fence(std::memory_order_release);  // release: before later stores
    return;
  }
  go_far<put_packer>(call, to, f, [&](auto& go) { g.each_row(d, s, go); });
}

void get_strided(const char* call, void* dst, const std::ptrdiff_t* dst_strides, gasnet_node_t from,
                 const void* src, const std::ptrdiff_t* src_strides, std::size_t elem,
                 const std::size_t* counts, std::size_t levels, flight& f) {
  check_remote(from, nullptr, 0, call);
  check_list(call, counts, levels, "levels");
  check_list(call, dst_strides, levels, "strides of the destination");
  check_list(call, src_strides, levels, "strides of the source");
  const grid g(elem, dst_strides, src_strides, counts, levels);
  if (g.empty()) return;
  auto* const d = static_cast<std::byte*>(dst);
  auto* const s = const_cast<std::byte*>(static_cast<const std::byte*>(src));
  if (const std::byte* const here = grid_here(call, from, s, g.src_extent())) {
    g.each_row(d, here, copy_runs);
    std::atomic_thread_fence(std::memory_order_acquire);  // acquire: before later loads
    return;
  }
  go_far<get_packer>(call, from, f, [&](auto& go) { g.each_row(d, s, go); });
}

}  // namespace penstock::gasnet::PENSTOCK_ABI::vis
