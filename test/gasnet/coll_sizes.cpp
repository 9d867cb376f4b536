// Job program: collectives by messages give each block of memory back by the size that it was asked
// for with, or by none, as an allocator that trusts the size needs it.
#include <gasnet_coll.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <vector>

// Before each block stands its size.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  auto* const block = static_cast<std::max_align_t*>(std::malloc(sizeof(std::max_align_t) + bytes));
  if (block == nullptr) return nullptr;
  *reinterpret_cast<std::size_t*>(block) = bytes;
  return block + 1;
}
void* operator new(std::size_t bytes) {
  void* const p = ::operator new(bytes, std::nothrow);
  if (p == nullptr) std::abort();
  return p;
}
void operator delete(void* p) noexcept {
  if (p != nullptr) std::free(static_cast<std::max_align_t*>(p) - 1);
}
void operator delete(void* p, std::size_t bytes) noexcept {
  if (p == nullptr) return;
  const auto asked =
      *reinterpret_cast<const std::size_t*>(static_cast<const std::max_align_t*>(p) - 1);
  if (asked != bytes) {
    std::fprintf(stderr, "%zu bytes are given back as %zu\n", asked, bytes);
    std::abort();
  }
  ::operator delete(p);
}

int main(int argc, char** argv) {
  gex_Client_t client;
  gex_EP_t ep;
  gex_TM_t tm;
  gex_Segment_t segment;
  if (gex_Client_Init(&client, &ep, &tm, "coll_sizes", &argc, &argv, 0) != GASNET_OK ||
      gex_Segment_Attach(&segment, tm, GASNET_PAGESIZE) != GASNET_OK)
    return 1;
  for (std::size_t bytes = 8; bytes <= 65'536; bytes *= 2) {
    std::vector<char> from(bytes, static_cast<char>(gex_TM_QueryRank(tm))), to(bytes);
    for (gex_Rank_t root = 0; root < gex_TM_QuerySize(tm); ++root) {
      gex_Event_Wait(gex_Coll_BroadcastNB(tm, root, to.data(), from.data(), bytes, 0));
      if (to.back() != static_cast<char>(root)) gasnet_exit(1);
    }
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, to.data(), from.data(), GEX_DT_U64, 8, bytes / 8,
                                          GEX_OP_ADD, nullptr, nullptr, 0));
  }
  gasnet_exit(0);
}
