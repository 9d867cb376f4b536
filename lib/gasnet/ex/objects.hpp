// The objects of gasnetex.h: one client, endpoints, segments, teams. A program gets pointers to
// them. This folder uses them, and so does startup.cpp, which makes them also for a job that
// gasnet.h has begun.
#pragma once

#include <gasnetex.h>

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "lib/base/log.hpp"
#include "lib/base/mode.hpp"
#include "lib/gasnet/coll/collective.hpp"
#include "lib/gasnet/process.hpp"

struct gasnetc_client {
  std::string name;
  gex_Flags_t flags = 0;
  const void* data = nullptr;
};

struct gasnetc_segment {
  std::byte* base = nullptr;  ///< as the client knows it
  std::uintptr_t bytes = 0;
  std::byte* known_as = nullptr;  ///< as the engine knows it: other than base if of_client
  std::byte* part = nullptr;      ///< the pages of the reserve that it takes
  std::uintptr_t taken = 0;
  bool of_client = false;  ///< the client's own memory
  const void* data = nullptr;
};

struct gasnetc_ep {
  gex_EP_Index_t index = 0;
  gex_EP_Capabilities_t capabilities = GEX_EP_CAPABILITY_ALL;
  gasnetc_segment* segment = nullptr;
  bool was_bound = false;  ///< to a segment that was destroyed
  const void* data = nullptr;
};

/// A team's members by job rank, and by the index of their endpoints. The team of all has no lists,
/// and where all members are first endpoints there is no list of indexes.
struct gasnetc_tm {
  penstock::gasnet::coll::team* collective = nullptr;
  std::vector<gex_Rank_t> members;
  std::vector<gex_EP_Index_t> endpoints;
  gex_Rank_t rank = 0, size = 0;
  gex_Flags_t flags = 0;
  gex_Memvec_t scratch{};
  const void* data = nullptr;
};

namespace penstock::gasnet::PENSTOCK_ABI {

/// This process's client and endpoints: never destroyed, like the team of all (GASNETC_(world)).
struct ex_objects {
  gasnetc_client client;
  gasnetc_ep ep;  // the first one
  // The others, by index - 1, without a gap: never taken away. Each is written before its endpoint
  // may have messages, so that their handlers may read it. Readers are many and never wait for a
  // thread that makes one; RCU would add nothing, since nothing is freed.
  std::array<std::atomic<gasnetc_ep*>, more_endpoints> more{};
  std::mutex making;  // held while one is added
  gasnetc_segment attached;
};
ex_objects& objects() noexcept;
/// A segment that takes `taken` bytes of the reserve, or of what was attached, at base.
inline gasnetc_segment own_segment(std::byte* base, std::uintptr_t bytes,
                                   std::uintptr_t taken) noexcept {
  gasnetc_segment s;
  s.base = s.known_as = s.part = base;
  s.bytes = bytes;
  s.taken = taken;
  return s;
}

/// Fills in the objects when the job has begun. name: null if gasnet.h has begun it.
void describe_objects(const char* name, gex_Flags_t flags);

/// Ends the job where a client passes no object to a call.
template <class T>
T& checked_object(T* object, const char* call) {
  if (object == nullptr) [[unlikely]]
    fatal(1, "%s: an invalid object", call);
  return *object;
}
/// The team behind tm; ends the job if tm is invalid or a pair.
gasnetc_tm& checked_team(gex_TM_t tm, const char* call);
/// The object that carries out the collectives of such a team.
coll::team& collective_of(gex_TM_t tm, const char* call);
/// True if there is a job, and thus a team of all.
inline bool is_begun() noexcept { return GASNETC_(world)->size != 0; }
/// True if gex_TM_Pair() has made tm.
inline bool is_pair(gex_TM_t tm) noexcept {
  return (reinterpret_cast<std::uintptr_t>(tm) & 1) != 0;
}
/// A pair's two endpoints, by index.
struct endpoint_pair {
  gex_EP_Index_t local, remote;
};
inline endpoint_pair pair_of(gex_TM_t tm) noexcept {
  const auto bits = reinterpret_cast<std::uintptr_t>(tm);
  return {static_cast<gex_EP_Index_t>(bits >> 17), static_cast<gex_EP_Index_t>(bits >> 1)};
}
/// The endpoint of that index of this process, or null. Any thread.
gasnetc_ep* own_endpoint(std::size_t index) noexcept;
/// This process's endpoint in tm, and the index of the endpoint that (tm, rank) names. tm is valid,
/// and has that rank.
gasnetc_ep& local_endpoint(gex_TM_t tm) noexcept;
gex_EP_Index_t endpoint_index(gex_TM_t tm, gex_Rank_t rank) noexcept;
/// The job rank of a team's member.
inline gex_Rank_t jobrank_of(gex_TM_t tm, gex_Rank_t rank, const char* call) noexcept {
  return gasnetc_jobrank(tm, rank, call);
}

/// For a call that returns an error: logs the reason, unless the client has turned such lines off,
/// and returns code.
[[gnu::format(printf, 2, 3)]] int refused(int code, const char* format, ...);

}  // namespace penstock::gasnet::PENSTOCK_ABI
