// Segments and endpoints of gasnetex.h. The engine has reserved address space behind the library's
// pages for the largest segment that is possible. Attaching gives the client the front of it, in
// all processes at once; creating takes a part of it, which other processes know when it is
// published. Memory of the client's own becomes such a part where it lies
// (lib/conduit/client_memory.hpp): the client knows it by its own addresses, and the engine by
// those of the reserve (engine_address).
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

#include "lib/base/assert.hpp"
#include "lib/base/log.hpp"
#include "lib/conduit/segment_growth.hpp"
#include "lib/gasnet/ex/objects.hpp"
#include "lib/gasnet/ex/room.hpp"
#include "lib/gasnet/messages.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

using conduit::segment_growth;

constexpr std::uintptr_t page = GASNET_PAGESIZE;
constexpr std::uintptr_t whole_pages(std::uintptr_t bytes) noexcept {
  return (bytes + page - 1) / page * page;
}

// What is free of the reserve. One thread at a time calls these functions, as all of set-up. It is
// never destroyed, since other threads may still call while exit() runs.
room& reserve() {
  static room* const all = new room(self.reserve);
  return *all;
}
std::uintptr_t reserve_left() noexcept { return reserve().largest(); }
// The place of that many bytes; null: there is no room.
std::byte* take_reserve(std::uintptr_t bytes) {
  const auto at = reserve().take(bytes);
  return at ? self.engine->segment().data() + front_bytes + *at : nullptr;
}
void give_reserve(const std::byte* part, std::uintptr_t bytes) {
  reserve().give(static_cast<std::uint64_t>(part - self.engine->segment().data()) - front_bytes,
                 bytes);
}

int no_room(const char* call, std::uintptr_t bytes) {
  return refused(GASNET_ERR_RESOURCE, "%s: %zu bytes; %zu are left of those by %s", call,
                 static_cast<std::size_t>(bytes), static_cast<std::size_t>(reserve_left()),
                 self.segment_limit.binding.c_str());
}

// What a process tells the others of an endpoint's segment (without bytes: it has none to tell of),
// and, in the first of these, of all its memory.
struct told {
  std::uint64_t base = 0, bytes = 0, shift = 0, index = 0;
  segment_growth::news news;
};
struct bound {
  std::size_t index;
  const gasnetc_segment* segment;
};

// Calls of team's members with as many bytes each, in the order of their ranks.
template <class T>
std::vector<T> all_of(coll::team& team, const std::vector<T>& mine) {
  std::vector<T> all(coll::size(team) * mine.size());
  coll::op_counter done{0};
  coll::gather_all(team, all.data(), mine.data(), mine.size() * sizeof(T), coll::own_buffers, done);
  coll::wait(done);
  return all;
}

// Collective over tm. Tells its members where these segments of this process lie, and learns of
// theirs. bad: the arguments were wrong, so the call fails everywhere.
int spread(gex_TM_t tm, std::span<const bound> list, bool bad, const char* call) {
  coll::team& team = collective_of(tm, call);
  const std::vector<std::uint32_t> counts =
      all_of(team, std::vector{static_cast<std::uint32_t>(list.size())});
  std::vector<told> mine(std::max(1u, *std::max_element(counts.begin(), counts.end())));
  int rc = bad ? GASNET_ERR_BAD_ARG : GASNET_OK;
  const std::byte* const front = self.engine->segment().data();
  const std::byte* end = front + front_bytes;
  for (const bound& b : list)
    end = std::max(end, static_cast<const std::byte*>(b.segment->part + b.segment->taken));
  if (auto r = segment_growth::extend(*self.engine, static_cast<std::size_t>(end - front)); r)
    mine[0].news = *r;
  else
    rc = report(r.error());
  mine[0].news.failed = rc != GASNET_OK;
  for (std::size_t i = 0; i < list.size() && rc == GASNET_OK; ++i) {
    const gasnetc_segment& s = *list[i].segment;
    mine[i].index = list[i].index;
    mine[i].base = reinterpret_cast<std::uintptr_t>(s.base);
    mine[i].bytes = s.bytes;
    mine[i].shift = reinterpret_cast<std::uintptr_t>(s.known_as) - mine[i].base;
  }
  const std::vector<told> all = all_of(team, mine);
  for (std::size_t i = 0; i < all.size(); i += mine.size())
    if (all[i].news.failed != 0 && rc == GASNET_OK)
      rc = refused(GASNET_ERR_RESOURCE, "%s: it failed at rank %u, whose own message says why",
                   call, coll::job_rank(team, static_cast<std::uint32_t>(i / mine.size())));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint32_t rank = coll::job_rank(team, static_cast<std::uint32_t>(i / mine.size()));
    const told& his = all[i];
    if (his.news.bytes != 0) segment_growth::learn(*self.engine, rank, his.news);
    if (his.bytes == 0 || rc != GASNET_OK) continue;
    const client_part part{reinterpret_cast<std::byte*>(his.base),
                           static_cast<std::size_t>(his.bytes), his.shift};
    if (his.index == 0)
      know_segment(rank, part);
    else
      know_more(rank, his.index, part);
  }
  // No member goes on, and sends, before all know.
  coll::op_counter done{0};
  coll::barrier(team, done);
  coll::wait(done);
  return rc;
}

int create_from_client(gasnetc_segment& s, const char* call) {
  const std::uintptr_t taken = whole_pages(segment_growth::pages_around(s.base, s.bytes));
  std::byte* const part = taken < s.bytes ? nullptr : take_reserve(taken);
  if (part == nullptr) return no_room(call, s.bytes);
  auto known_as = segment_growth::adopt(*self.engine, s.base, s.bytes, part);
  if (!known_as) {
    give_reserve(part, taken);
    return refused(GASNET_ERR_RESOURCE, "%s: %zu bytes of the client's memory at %p: %s", call,
                   static_cast<std::size_t>(s.bytes), static_cast<void*>(s.base),
                   known_as.error().message().c_str());
  }
  s.known_as = *known_as;
  s.part = part;
  s.taken = taken;
  s.of_client = true;
  return GASNET_OK;
}

}  // namespace
}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock;
using namespace penstock::gasnet;

extern "C" {

int GASNETC_(segment_attach)(gex_Segment_t* segment_p, gex_TM_t tm, uintptr_t size) {
  ex_objects& o = objects();
  if (tm != GASNETC_(world) || !self.attached)
    return refused(GASNET_ERR_BAD_ARG, "gex_Segment_Attach: not the team of all processes");
  if (self.everything) {
    if (segment_p != nullptr) *segment_p = GEX_SEGMENT_INVALID;
    return self.engine->barrier() == status::ok ? GASNET_OK : GASNET_ERR_RESOURCE;
  }
  if (o.ep.segment != nullptr)
    return refused(GASNET_ERR_NOT_INIT, "gex_Segment_Attach: this endpoint has a segment");
  const bool bad = segment_p == nullptr || size == 0 || size % page != 0 || size > reserve_left();
  if (bad)
    refused(GASNET_ERR_BAD_ARG,
            "gex_Segment_Attach: a segment of %zu bytes; allowed are multiples of %zu up to %zu by "
            "%s: %s",
            static_cast<std::size_t>(size), static_cast<std::size_t>(page),
            static_cast<std::size_t>(reserve_left()), self.segment_limit.binding.c_str(),
            self.segment_limit.hint.c_str());
  gasnetc_segment made;
  if (!bad) made = own_segment(take_reserve(size), size, size);
  const bound first{0, &made};
  if (const int rc = spread(tm, std::span(&first, bad ? 0 : 1), bad, "gex_Segment_Attach");
      rc != GASNET_OK)
    return rc;
  PENSTOCK_ASSERT(bad, ==, false);  // spread() fails for all members if it is bad for one
  o.attached = made;
  o.ep.segment = &o.attached;
  *segment_p = &o.attached;
  if (GASNETC_(attach_hook) != nullptr) GASNETC_(attach_hook)(made.base, size);
  return GASNET_OK;
}

int GASNETC_(segment_create)(gex_Segment_t* segment_p, gex_Client_t client, gex_Addr_t address,
                             uintptr_t length, gex_MK_t memory, gex_Flags_t flags) {
  if (segment_p == nullptr || client == GEX_CLIENT_INVALID || length == 0 || flags != 0)
    return refused(GASNET_ERR_BAD_ARG,
                   "gex_Segment_Create: it takes a place, a client, a length, and no flags");
  if (memory != GEX_MK_HOST)
    return refused(GASNET_ERR_BAD_ARG, "gex_Segment_Create: there is host memory only");
  if (self.everything)
    return refused(GASNET_ERR_RESOURCE, "gex_Segment_Create: all memory is the segment already");
  if (address != nullptr) {
    gasnetc_segment s;
    s.base = static_cast<std::byte*>(address);
    s.bytes = length;
    if (const int rc = create_from_client(s, "gex_Segment_Create"); rc != GASNET_OK) return rc;
    *segment_p = new gasnetc_segment(s);
    return GASNET_OK;
  }
  const std::uintptr_t whole = whole_pages(length);
  std::byte* const part = whole < length ? nullptr : take_reserve(whole);
  if (part == nullptr) return no_room("gex_Segment_Create", length);
  *segment_p = new gasnetc_segment(own_segment(part, length, whole));
  return GASNET_OK;
}

void GASNETC_(segment_destroy)(gex_Segment_t segment, gex_Flags_t) {
  if (segment == GEX_SEGMENT_INVALID) fatal(1, "gex_Segment_Destroy: GEX_SEGMENT_INVALID");
  ex_objects& o = objects();
  if (segment == &o.attached)
    fatal(1, "gex_Segment_Destroy: the segment of gex_Segment_Attach stays");
  if (segment == o.ep.segment && segment->of_client)
    fatal(1, "gex_Segment_Destroy: the first endpoint is bound to this memory of the client's");
  std::size_t i = 0;
  for (gasnetc_ep* ep; (ep = own_endpoint(i)) != nullptr; ++i)
    if (ep->segment == segment) {
      ep->segment = nullptr;
      ep->was_bound = true;
      if (i != 0) forget_more(GASNETC_(mynode), i);
    }
  if (segment->of_client)
    if (auto r =
            segment_growth::give_back(*self.engine, segment->base, segment->bytes, segment->part);
        !r)
      fatal(1, "gex_Segment_Destroy: %zu bytes of the client's memory at %p: %s",
            static_cast<std::size_t>(segment->bytes), static_cast<void*>(segment->base),
            r.error().message().c_str());
  give_reserve(segment->part, segment->taken);
  delete segment;
}

void* GASNETC_(segment_addr)(gex_Segment_t segment) {
  return checked_object(segment, "gex_Segment_QueryAddr").base;
}
uintptr_t GASNETC_(segment_size)(gex_Segment_t segment) {
  return checked_object(segment, "gex_Segment_QuerySize").bytes;
}
gex_Client_t GASNETC_(client_of_segment)(gex_Segment_t segment) {
  (void)checked_object(segment, "gex_Segment_QueryClient");
  return &objects().client;
}
const void** GASNETC_(segment_data)(gex_Segment_t segment) {
  return &checked_object(segment, "gex_Segment_SetCData or gex_Segment_QueryCData").data;
}

int GASNETC_(ep_create)(gex_EP_t* ep_p, gex_Client_t client, gex_EP_Capabilities_t caps,
                        gex_Flags_t flags, size_t most) {
  if (ep_p == nullptr || client == GEX_CLIENT_INVALID || caps == 0 ||
      (caps & ~GEX_EP_CAPABILITY_ALL) != 0 || (flags & ~GEX_FLAG_HINT_ACCEL_ALL) != 0)
    return refused(GASNET_ERR_BAD_ARG, "gex_EP_Create: capabilities %#x, flags %#x", caps, flags);
  ex_objects& o = objects();
  const std::lock_guard alone(o.making);
  std::size_t index = 1;
  while (own_endpoint(index) != nullptr) ++index;
  const bool messages = (caps & GEX_EP_CAPABILITY_AM) != 0;
  if (index >= most || self.everything || (messages && index >= message_endpoints))
    return refused(
        GASNET_ERR_RESOURCE,
        "gex_EP_Create: endpoint %zu, capabilities %#x; there are %zu (GASNET_MAXEPS), and "
        "those of index 1 to %u may have messages%s",
        index, caps, most, message_endpoints - 1,
        self.everything ? ", and none with GASNET_SEGMENT_EVERYTHING" : "");
  *ep_p = new gasnetc_ep{.index = static_cast<gex_EP_Index_t>(index), .capabilities = caps};
  if (messages) make_handlers(static_cast<unsigned>(index));
  // EP1 make  release o.more  -> EP2 (client.cpp): the endpoint and its table of handlers are there
  o.more[index - 1].store(*ep_p, std::memory_order_release);
  return GASNET_OK;
}

int GASNETC_(ep_bind)(gex_EP_t ep, gex_Segment_t segment, gex_Flags_t flags) {
  if (ep == GEX_EP_INVALID || segment == GEX_SEGMENT_INVALID || flags != 0)
    return refused(GASNET_ERR_BAD_ARG,
                   "gex_EP_BindSegment: it takes an endpoint, a segment, and no flags");
  if (ep->segment != nullptr || ep->was_bound)
    return refused(GASNET_ERR_BAD_ARG, "gex_EP_BindSegment: this endpoint has a segment");
  ep->segment = segment;
  return GASNET_OK;
}

int GASNETC_(ep_publish)(gex_TM_t tm, gex_EP_t* eps, size_t count, gex_Flags_t flags) {
  (void)checked_team(tm, "gex_EP_PublishBoundSegment");
  if (self.everything)
    return self.engine->barrier() == status::ok ? GASNET_OK : GASNET_ERR_RESOURCE;
  bool bad = flags != 0 || (count != 0 && eps == nullptr) || count > more_endpoints + 1;
  std::vector<bound> list;
  for (size_t i = 0; i < count && !bad; ++i) {
    bad = eps[i] == GEX_EP_INVALID || own_endpoint(eps[i]->index) != eps[i];
    if (!bad && eps[i]->segment != nullptr) list.push_back({eps[i]->index, eps[i]->segment});
  }
  if (bad) {
    list.clear();
    refused(GASNET_ERR_BAD_ARG, "gex_EP_PublishBoundSegment: flags %#x, or no such endpoint",
            flags);
  }
  return spread(tm, list, bad, "gex_EP_PublishBoundSegment");
}

int GASNETC_(bound_segment)(gex_TM_t tm, gex_Rank_t rank, void** owneraddr, void** localaddr,
                            uintptr_t* size, gex_Flags_t flags) {
  constexpr const char* call = "gex_EP_QueryBoundSegmentNB or gex_Segment_QueryBound";
  const gex_Rank_t node = jobrank_of(tm, rank, call);
  if (node >= GASNETC_(nodes)) fatal(1, "%s: rank %u of %u", call, node, GASNETC_(nodes));
  const std::size_t index = endpoint_index(tm, rank);
  // This process's own segment is known as soon as it is bound.
  const gasnetc_ep* const ep = node == GASNETC_(mynode) ? own_endpoint(index) : nullptr;
  auto part = client_segment(node);
  if (index != 0) {
    part = {};
    if (!self.more_parts.empty()) {
      const client_part& p = self.more_parts[node * more_endpoints + index - 1];
      part = {p.base, p.bytes};
    }
  }
  if (ep != nullptr && ep->segment != nullptr) part = {ep->segment->base, ep->segment->bytes};
  if (part.empty()) return GASNET_ERR_RESOURCE;
  if (localaddr != nullptr && index != 0) {
    *localaddr = ep != nullptr ? part.data() : nullptr;  // others' are not mapped for the client
  } else if (localaddr != nullptr) {
    const struct gasnetc_window& w = self.windows[node];
    // acquire: w.here, which is written before base
    const bool mapped = __atomic_load_n(&w.base, __ATOMIC_ACQUIRE) != GASNETC_NOWHERE;
    if (node == GASNETC_(mynode))
      *localaddr = part.data();
    else if (mapped)
      *localaddr = reinterpret_cast<void*>(w.here);
    else if ((flags & GEX_FLAG_IMMEDIATE) != 0 && self.engine->maps(node))
      return GASNET_ERR_NOT_READY;
    else
      *localaddr = map_segment(node);
  }
  if (owneraddr != nullptr) *owneraddr = part.data();
  if (size != nullptr) *size = part.size();
  return GASNET_OK;
}

}  // extern "C"
