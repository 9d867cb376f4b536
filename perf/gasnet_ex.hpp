// A job of gasnetex.h, whichever library's: what perf/compare and perf/programs do alike with it.
// Used by their programs over gasnetex.h alone, which are compiled once for each library.
#pragma once

#include <gasnetex.h>

#include <gasnet_coll.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <vector>

namespace penstock::gasnet_ex {

/// Ends the job if a call has failed.
inline void must(int rc, const char* what) {
  if (rc == GASNET_OK) [[likely]]
    return;
  std::fprintf(stderr, "%s: %s\n", what, gasnet_ErrorDesc(rc));
  gasnet_exit(1);
}

/// A word as two arguments of a message, and back.
inline gex_AM_Arg_t high(std::uint64_t w) noexcept { return static_cast<gex_AM_Arg_t>(w >> 32); }
inline gex_AM_Arg_t low(std::uint64_t w) noexcept { return static_cast<gex_AM_Arg_t>(w); }
inline std::uint64_t word_of(gex_AM_Arg_t above, gex_AM_Arg_t below) noexcept {
  return std::uint64_t{static_cast<std::uint32_t>(above)} << 32 | static_cast<std::uint32_t>(below);
}

/// A row of a job's table of handlers. index: from GEX_AM_INDEX_BASE on.
template <class... Parameters>
gex_AM_Entry_t row(gex_AM_Index_t index, gex_Flags_t flags, void (*handler)(Parameters...)) {
  constexpr std::size_t fixed = 1;  // the token
  const std::size_t payload = (flags & GEX_FLAG_AM_MEDLONG) != 0 ? 2 : 0;
  return {index,   reinterpret_cast<gex_AM_Fn_t>(handler),
          flags,   static_cast<unsigned>(sizeof...(Parameters) - fixed - payload),
          nullptr, nullptr};
}

/// One per process. It ends by gasnet_exit().
class job {
 public:
  /// Takes from the arguments what the launcher has added.
  job(int& argc, char**& argv) {
    gex_Client_t client;
    gex_EP_t ep;
    must(gex_Client_Init(&client, &ep, &tm_, "perf", &argc, &argv, 0), "gex_Client_Init");
  }
  job(const job&) = delete;
  job& operator=(const job&) = delete;

  [[nodiscard]] gex_TM_t tm() const noexcept { return tm_; }
  [[nodiscard]] gex_Rank_t rank() const noexcept { return gex_TM_QueryRank(tm_); }
  [[nodiscard]] gex_Rank_t size() const noexcept { return gex_TM_QuerySize(tm_); }

  /// Collective, once: from here on there are messages, and a segment of that many bytes, all 0.
  void start(std::span<gex_AM_Entry_t> handlers, std::size_t bytes) {
    if (!handlers.empty())
      must(gex_EP_RegisterHandlers(gex_TM_QueryEP(tm_), handlers.data(), handlers.size()),
           "gex_EP_RegisterHandlers");
    constexpr std::size_t page = GASNET_PAGESIZE;
    const std::size_t whole = (bytes / page + 1) * page;
    gex_Segment_t segment;
    must(gex_Segment_Attach(&segment, tm_, whole), "gex_Segment_Attach");
    std::memset(gex_Segment_QueryAddr(segment), 0, whole);
    for (gex_Rank_t r = 0; r < size(); ++r) {
      void* at = nullptr;
#if GEX_SPEC_VERSION_MAJOR == 0 && GEX_SPEC_VERSION_MINOR < 9  // GASNet-EX of 2019
      must(gex_Segment_QueryBound(tm_, r, &at, nullptr, nullptr), "gex_Segment_QueryBound");
#else
      gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm_, r, &at, nullptr, nullptr, 0));
#endif
      segments_.push_back(static_cast<std::byte*>(at));
    }
    barrier();
  }
  /// Where a rank's segment begins, in its address space.
  [[nodiscard]] std::byte* segment_of(gex_Rank_t r) const noexcept { return segments_[r]; }

  void barrier() { gex_Event_Wait(gex_Coll_BarrierNB(tm_, 0)); }
  std::uint64_t sum(std::uint64_t mine) {
    std::uint64_t all = 0;
    gex_Event_Wait(gex_Coll_ReduceToAllNB(tm_, &all, &mine, GEX_DT_U64, sizeof mine, 1, GEX_OP_ADD,
                                          nullptr, nullptr, 0));
    return all;
  }
  static void poll() { must(gasnet_AMPoll(), "gasnet_AMPoll"); }

 private:
  gex_TM_t tm_ = GEX_TM_INVALID;
  std::vector<std::byte*> segments_;
};

}  // namespace penstock::gasnet_ex
