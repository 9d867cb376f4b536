// Teams of gasnetex.h, and the calls that tell about ranks. coll/ does all communication between
// members; the client's scratch memory is only kept, and given back.
#include <algorithm>

#include "lib/base/assert.hpp"
#include "lib/base/log.hpp"
#include "lib/gasnet/coll/collective.hpp"
#include "lib/gasnet/ex/objects.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {

gasnetc_tm& checked_team(gex_TM_t tm, const char* call) {
  if (tm == GEX_TM_INVALID) [[unlikely]]
    fatal(1, "%s: GEX_TM_INVALID is no team", call);
  if (is_pair(tm)) [[unlikely]]
    fatal(1, "%s: a pair of endpoints (gex_TM_Pair) is no team", call);
  return *tm;
}

coll::team& collective_of(gex_TM_t tm, const char* call) {
  gasnetc_tm& t = checked_team(tm, call);
  if (!self.attached) fatal(1, "%s: gasnet_attach has not been called", call);
  if (t.collective == nullptr) t.collective = &coll::world();
  return *t.collective;
}

gasnetc_ep& local_endpoint(gex_TM_t tm) noexcept {
  if (is_pair(tm)) return *own_endpoint(pair_of(tm).local);
  return *own_endpoint(tm->endpoints.empty() ? 0 : tm->endpoints[tm->rank]);
}
gex_EP_Index_t endpoint_index(gex_TM_t tm, gex_Rank_t rank) noexcept {
  if (is_pair(tm)) return pair_of(tm).remote;
  return tm->endpoints.empty() ? gex_EP_Index_t{0} : tm->endpoints[rank];
}

namespace {

// The answer when a client asks how much scratch memory a team wants. It is not 0, as a client may
// rely on getting its memory back.
constexpr std::size_t scratch_wanted = 64;
constexpr gex_Flags_t size_query =
    GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED | GEX_FLAG_TM_SCRATCH_SIZE_MIN;

// Collective over parent; null for a member that does not join.
gasnetc_tm* make_team(gex_TM_t parent, bool joins, std::uint32_t color, std::uint32_t key,
                      const char* call) {
  coll::team* const made = coll::split(collective_of(parent, call), joins, color, key);
  if (made == nullptr) return nullptr;
  auto* const t = new gasnetc_tm;
  t->collective = made;
  t->rank = coll::rank(*made);
  t->size = coll::size(*made);
  t->members.resize(t->size);
  for (gex_Rank_t r = 0; r < t->size; ++r) t->members[r] = coll::job_rank(*made, r);
  return t;
}

// Maps signed numbers to unsigned ones in the same order.
std::uint32_t in_order(int key) noexcept { return static_cast<std::uint32_t>(key) ^ 0x80000000u; }

}  // namespace
}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock;
using namespace penstock::gasnet;

extern "C" {

gex_Rank_t GASNETC_(jobrank)(gex_TM_t tm, gex_Rank_t rank, const char* call) {
  if (!is_begun())
    fatal(1, "%s to rank %u: neither gasnet_attach nor gex_Client_Init was called", call, rank);
  if (tm == GEX_TM_INVALID) fatal(1, "%s to rank %u: GEX_TM_INVALID is no team", call, rank);
  if (is_pair(tm)) {
    const endpoint_pair p = pair_of(tm);
    if (p.remote >= GASNETC_MOST_ENDPOINTS)
      fatal(1, "%s to rank %u: endpoint %u of %d", call, rank, p.remote, GASNETC_MOST_ENDPOINTS);
    if (rank >= GASNETC_(nodes)) fatal(1, "%s: rank %u of %u", call, rank, GASNETC_(nodes));
    return rank;
  }
  const gasnetc_tm& t = *tm;
  if (rank >= t.size) fatal(1, "%s: rank %u of a team of %u", call, rank, t.size);
  return t.members.empty() ? rank : t.members[rank];
}

gex_Rank_t GASNETC_(rank_of_jobrank)(gex_TM_t tm, gex_Rank_t jobrank) {
  const gasnetc_tm& t = checked_team(tm, "gex_TM_TranslateJobrankToRank");
  if (t.members.empty()) return jobrank < t.size ? jobrank : GEX_RANK_INVALID;
  for (gex_Rank_t r = 0; r < t.size; ++r)
    if (t.members[r] == jobrank) return r;
  return GEX_RANK_INVALID;
}

gex_Rank_t GASNETC_(ex_team_rank)(gex_TM_t tm) { return checked_team(tm, "gex_TM_QueryRank").rank; }
gex_Rank_t GASNETC_(ex_team_size)(gex_TM_t tm) { return checked_team(tm, "gex_TM_QuerySize").size; }
gex_EP_t GASNETC_(ep_of_team)(gex_TM_t tm) {
  (void)checked_team(tm, "gex_TM_QueryEP");
  return &local_endpoint(tm);
}
gex_EP_Index_t GASNETC_(ep_index_of_rank)(gex_TM_t tm, gex_Rank_t rank) {
  return endpoint_index(tm, rank);
}
gex_Flags_t GASNETC_(ex_team_flags)(gex_TM_t tm) {
  return checked_team(tm, "gex_TM_QueryFlags").flags;
}
const void** GASNETC_(ex_team_data)(gex_TM_t tm) {
  return &checked_team(tm, "gex_TM_SetCData or gex_TM_QueryCData").data;
}

size_t GASNETC_(ex_team_split)(gex_TM_t* new_p, gex_TM_t parent, int color, int key,
                               void* scratch_addr, size_t scratch_size, gex_Flags_t flags) {
  if ((flags & size_query) != 0) return new_p != nullptr ? scratch_wanted : 0;
  if (new_p != nullptr && color < 0) fatal(1, "gex_TM_Split: color %d is negative", color);
  gasnetc_tm* const t = make_team(parent, new_p != nullptr, static_cast<std::uint32_t>(color),
                                  in_order(key), "gex_TM_Split");
  if (t == nullptr) return 0;
  PENSTOCK_ASSERT(new_p != nullptr, ==, true);  // the caller joins
  if ((flags & GEX_FLAG_TM_NO_SCRATCH) == 0) t->scratch = {scratch_addr, scratch_size};
  if (!parent->endpoints.empty())
    for (const gex_Rank_t member : t->members)
      t->endpoints.push_back(parent->endpoints[GASNETC_(rank_of_jobrank)(parent, member)]);
  *new_p = t;
  return 0;
}

// All members pass the same list, and lists do not overlap, so the first member's rank serves as
// the color.
size_t GASNETC_(ex_team_create)(gex_TM_t* new_tms, size_t new_count, gex_TM_t parent,
                                gex_EP_Location_t* members, size_t member_count,
                                gex_Addr_t* scratch, size_t scratch_size, gex_Flags_t flags) {
  if ((flags & size_query) != 0) return member_count != 0 ? scratch_wanted : 0;
  const bool by_job = (flags & GEX_FLAG_RANK_IS_JOBRANK) != 0;
  const auto rank_of = [&](size_t i) {
    if (members[i].gex_ep_index >= GASNETC_MOST_ENDPOINTS)
      fatal(1, "gex_TM_Create: member %zu is endpoint %u of %d", i, members[i].gex_ep_index,
            GASNETC_MOST_ENDPOINTS);
    const gex_Rank_t most = by_job ? GASNETC_(nodes) : checked_team(parent, "gex_TM_Create").size;
    if (members[i].gex_rank >= most)
      fatal(1, "gex_TM_Create: member %zu is rank %u of %u", i, members[i].gex_rank, most);
    return by_job ? members[i].gex_rank : jobrank_of(parent, members[i].gex_rank, "gex_TM_Create");
  };
  if (member_count != 0 && members == nullptr)
    fatal(1, "gex_TM_Create: %zu members without a list", member_count);
  size_t own = member_count;
  for (size_t i = 0; i < member_count; ++i) {
    if (rank_of(i) != GASNETC_(mynode)) continue;
    if (own != member_count)
      fatal(1, "gex_TM_Create: members %zu and %zu are endpoints of rank %u; a process has one",
            own, i, GASNETC_(mynode));
    if (own_endpoint(members[i].gex_ep_index) == nullptr)
      fatal(1, "gex_TM_Create: member %zu is endpoint %u of this process, which has not made it", i,
            members[i].gex_ep_index);
    own = i;
  }
  if (member_count != 0 && (own == member_count || new_count != 1 || new_tms == nullptr))
    fatal(1, "gex_TM_Create: the caller is one member, and makes %zu teams of %zu members",
          new_count, member_count);
  gasnetc_tm* const t = make_team(parent, member_count != 0, member_count != 0 ? rank_of(0) : 0,
                                  static_cast<std::uint32_t>(own), "gex_TM_Create");
  if (t == nullptr) return 0;
  if (t->size != member_count)
    fatal(1, "gex_TM_Create: %zu members were named, and %u called", member_count, t->size);
  if ((flags & GEX_FLAG_TM_NO_SCRATCH) == 0 && scratch != nullptr)
    t->scratch = {scratch[(flags & GEX_FLAG_TM_GLOBAL_SCRATCH) != 0 ? own : 0], scratch_size};
  const auto first_one = [](const gex_EP_Location_t& m) { return m.gex_ep_index == 0; };
  if (!std::all_of(members, members + member_count, first_one))
    for (size_t i = 0; i < member_count; ++i) t->endpoints.push_back(members[i].gex_ep_index);
  *new_tms = t;
  return 0;
}

int GASNETC_(ex_team_destroy)(gex_TM_t tm, gex_Memvec_t* scratch_p, gex_Flags_t flags) {
  coll::team& team = collective_of(tm, "gex_TM_Destroy");
  if (tm == GASNETC_(world)) fatal(1, "gex_TM_Destroy: the team of all processes stays");
  if ((flags & GEX_FLAG_GLOBALLY_QUIESCED) == 0) {
    coll::op_counter done{0};
    coll::barrier(team, done);
    coll::wait(done);
  }
  const bool had = tm->scratch.gex_addr != nullptr && scratch_p != nullptr;
  if (had) *scratch_p = tm->scratch;
  coll::destroy(&team);
  delete tm;
  return had ? 1 : 0;
}

// A pair is an odd number, which no pointer to a team is.
gex_TM_t GASNETC_(ex_team_pair)(gex_EP_t local, gex_EP_Index_t remote_index) {
  if (local == GEX_EP_INVALID || own_endpoint(local->index) != local)
    fatal(1, "gex_TM_Pair: not an endpoint of this process");
  return reinterpret_cast<gex_TM_t>(std::uintptr_t{local->index} << 17 |
                                    std::uintptr_t{remote_index} << 1 | 1);
}

}  // extern "C"
