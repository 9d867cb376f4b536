// gasnetex.h's way into the job: gex_Client_Init, the calls on clients and endpoints, and those
// that tell about the job.
#include <cerrno>
#include <cstdio>

#include "lib/base/immortal.hpp"
#include "lib/base/log.hpp"
#include "lib/gasnet/ex/objects.hpp"
#include "lib/gasnet/messages.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

// Ranks that share something with this process, as tables of gasnetex.h.
struct neighbours {
  std::vector<std::remove_const_t<gex_RankInfo_t>> table;
  gex_Rank_t own = 0;
  gex_Rank_t groups = 0, group = 0;  // the number of groups, and this one's

  void tell(gex_RankInfo_t** info, gex_Rank_t* count, gex_Rank_t* index) const {
    if (info != nullptr) *info = const_cast<gex_RankInfo_t*>(table.data());
    if (count != nullptr) *count = static_cast<gex_Rank_t>(table.size());
    if (index != nullptr) *index = own;
  }
};

// The ranks r whose number(r) is this process's own. The table is never freed, as other threads may
// still ask while exit() runs.
template <class Number>
const neighbours& made_of(Number&& number) {
  auto* const n = new neighbours;
  const gasnet_node_t here = number(GASNETC_(mynode));
  for (gex_Rank_t r = 0; r < self.nodes.size(); ++r) {
    n->groups = std::max(n->groups, number(r) + 1);
    if (number(r) != here) continue;
    if (r == GASNETC_(mynode)) n->own = static_cast<gex_Rank_t>(n->table.size());
    n->table.push_back({r});
  }
  n->group = here;
  return *n;
}

void must_know_ranks(const char* call) {
  if (self.nodes.empty()) fatal(1, "%s: neither gasnet_init nor gex_Client_Init was called", call);
}

const neighbours& on_host(const char* call) {
  must_know_ranks(call);
  static const neighbours& all = made_of([](gex_Rank_t r) { return self.nodes[r].host; });
  return all;
}

// The ranks that share memory with this process: its supernode, which is certain once the engine
// has started.
const neighbours& in_neighbourhood(const char* call) {
  must_know_ranks(call);
  const auto number = [](gex_Rank_t r) { return self.nodes[r].supernode; };
  if (!self.attached) {
    static const neighbours& by_settings = made_of(number);
    return by_settings;
  }
  static const neighbours& near = made_of(number);
  return near;
}

immortal<gasnetc_tm> all;  // other threads may still use it while exit() runs

}  // namespace

ex_objects& objects() noexcept {
  static immortal<ex_objects> one;  // other threads may still ask while exit() runs
  return one.value;
}

gasnetc_ep* own_endpoint(std::size_t index) noexcept {
  ex_objects& o = objects();
  if (index == 0) return &o.ep;
  if (index > o.more.size()) return nullptr;
  // EP2 find  acquire o.more  <- EP1 (segments.cpp); null: not made yet
  return o.more[index - 1].load(std::memory_order_acquire);
}

void describe_objects(const char* name, gex_Flags_t flags) {
  ex_objects& o = objects();
  o.client.name = name != nullptr ? name : "GASNET1";
  o.client.flags = flags;
  GASNETC_(world)->rank = GASNETC_(mynode);
  GASNETC_(world)->size = GASNETC_(nodes);
  if (!self.attached || self.everything) return;
  const auto part = client_segment(GASNETC_(mynode));
  if (part.empty()) return;
  o.attached = own_segment(part.data(), part.size(), part.size());
  o.ep.segment = &o.attached;
}

int refused(int code, const char* format, ...) {
  if (GASNETC_(verbose_errors) == 0) return code;
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  log(log_level::error, "%s", text);
  return code;
}

}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock;
using namespace penstock::gasnet;

extern "C" {

gex_TM_t const GASNETC_(world) = &all.value;
int GASNETC_(verbose_errors) = 1;

int GASNETC_(client_init)(gex_Client_t* client_p, gex_EP_t* ep_p, gex_TM_t* tm_p, const char* name,
                          int* argc, char*** argv, gex_Flags_t flags, int how) {
  if (name == nullptr || *name == '\0')
    return refused(GASNET_ERR_BAD_ARG, "gex_Client_Init: a client has a name");
  if ((flags & ~(GEX_FLAG_USES_GASNET1 | GEX_FLAG_DEFER_THREADS)) != 0)
    return refused(GASNET_ERR_BAD_ARG, "gex_Client_Init: unknown flags %#x", flags);
  if (self.membership != nullptr)
    return refused(GASNET_ERR_NOT_INIT, "gex_Client_Init: this process has joined its job before");
  self.checked = (how & GASNETC_CHECKS) != 0;
  if (const int rc = GASNETC_(init)(argc, argv); rc != GASNET_OK) return rc;
  self.everything = (how & ~GASNETC_CHECKS) != 0;
  // Messages and collectives may be used before there is a segment, so the engine starts now.
  self.reserve = self.everything ? 0 : self.local_max;
  if (auto r = start_engine(0, self.reserve); !r) {
    if (r.error().code == ECANCELED) leave_after_another();
    return report(r.error());
  }
  describe_objects(name, flags);
  GASNETC_(query_objects)(client_p, ep_p, tm_p, nullptr);
  return GASNET_OK;
}

void GASNETC_(query_objects)(gex_Client_t* client, gex_EP_t* ep, gex_TM_t* tm,
                             gex_Segment_t* segment) {
  ex_objects& o = objects();
  const bool begun = is_begun();
  if (client != nullptr) *client = begun ? &o.client : GEX_CLIENT_INVALID;
  if (ep != nullptr) *ep = begun ? &o.ep : GEX_EP_INVALID;
  if (tm != nullptr) *tm = begun ? GASNETC_(world) : GEX_TM_INVALID;
  if (segment != nullptr) *segment = o.ep.segment;
}

const char* GASNETC_(client_name)(gex_Client_t client) {
  return checked_object(client, "gex_Client_QueryName").name.c_str();
}
gex_Flags_t GASNETC_(client_flags)(gex_Client_t client) {
  return checked_object(client, "gex_Client_QueryFlags").flags;
}
const void** GASNETC_(client_data)(gex_Client_t client) {
  return &checked_object(client, "gex_Client_SetCData or gex_Client_QueryCData").data;
}
gex_Client_t GASNETC_(client_of_ep)(gex_EP_t ep) {
  (void)checked_object(ep, "gex_EP_QueryClient");
  return &objects().client;
}
gex_EP_Index_t GASNETC_(ep_index)(gex_EP_t ep) {
  return checked_object(ep, "gex_EP_QueryIndex").index;
}
gex_Segment_t GASNETC_(segment_of_ep)(gex_EP_t ep) {
  return checked_object(ep, "gex_EP_QuerySegment").segment;
}
const void** GASNETC_(ep_data)(gex_EP_t ep) {
  return &checked_object(ep, "gex_EP_SetCData or gex_EP_QueryCData").data;
}

void GASNETC_(nbrhd)(gex_RankInfo_t** info, gex_Rank_t* count, gex_Rank_t* my_index) {
  in_neighbourhood("gex_System_QueryNbrhdInfo").tell(info, count, my_index);
}
void GASNETC_(host)(gex_RankInfo_t** info, gex_Rank_t* count, gex_Rank_t* my_index) {
  on_host("gex_System_QueryHostInfo").tell(info, count, my_index);
}
void GASNETC_(position)(gex_Rank_t* nbrhds, gex_Rank_t* my_nbrhd, gex_Rank_t* hosts,
                        gex_Rank_t* my_host) {
  constexpr const char* call = "gex_System_QueryMyPosition";
  const neighbours &n = in_neighbourhood(call), &h = on_host(call);
  if (nbrhds != nullptr) *nbrhds = n.groups;
  if (my_nbrhd != nullptr) *my_nbrhd = n.group;
  if (hosts != nullptr) *hosts = h.groups;
  if (my_host != nullptr) *my_host = h.group;
}

int GASNETC_(hidden_concurrency)(void) {
  return concurrent(build_mode) && self.options.progress_thread ? 1 : 0;
}

// There are no progress threads that a client could run instead of the library.
int GASNETC_(progress_threads)(gex_Client_t client, unsigned int* count,
                               const gex_ProgressThreadInfo_t** info, gex_Flags_t flags) {
  if (client == GEX_CLIENT_INVALID || count == nullptr || info == nullptr || flags != 0)
    return refused(GASNET_ERR_BAD_ARG,
                   "gex_System_QueryProgressThreads: it takes a client, two places, and no flags");
  if ((client->flags & GEX_FLAG_DEFER_THREADS) == 0)
    return refused(GASNET_ERR_RESOURCE,
                   "gex_System_QueryProgressThreads: the client did not defer its threads");
  *count = 0;
  *info = nullptr;
  return GASNET_OK;
}

}  // extern "C"
