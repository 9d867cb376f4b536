// Segments and endpoints of gasnetex.h. The engine has reserved address space behind the library's
// pages for the largest segment that is possible. Attaching gives the client the front of it, in
// all processes at once; creating takes a part of it, which other processes know when it is
// published.
#include <cerrno>
#include <cstring>

#include "lib/base/log.hpp"
#include "lib/gasnet/ex/objects.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

constexpr std::uintptr_t page = GASNET_PAGESIZE;

// The bytes of the reserve that are taken. One thread at a time calls these functions, as all of
// set-up.
std::uintptr_t reserve_taken = 0;

// A barrier: between two of these calls all processes are inside, and no barrier is passing.
bool meet(const char* call) {
  const status s = self.engine->barrier();
  if (s != status::ok) refused(GASNET_ERR_RESOURCE, "%s: %s", call, describe(s));
  return s == status::ok;
}

// The address and size of a process's segment, and the bytes of the reserve that it takes.
struct place {
  std::uint64_t base = 0, bytes = 0;
};

// Collective. Tells all processes where this one's part lies (0 bytes: it has none), and learns of
// theirs.
int spread(std::byte* base, std::uintptr_t bytes, bool bad, const char* call) {
  if (!meet(call)) return GASNET_ERR_RESOURCE;
  const std::byte* const front = self.engine->segment().data();
  const std::uint64_t upto =
      bytes == 0 ? front_bytes : static_cast<std::uint64_t>(base - front) + bytes;
  if (auto r = self.engine->extend_segment(upto, bad); !r) {
    if (r.error().code == ECANCELED) leave_after_another();
    return bad ? GASNET_ERR_BAD_ARG : report(r.error());
  }
  const place mine{reinterpret_cast<std::uintptr_t>(base), bytes};
  auto all = self.membership->exchange(std::as_bytes(std::span(&mine, 1)));
  if (!all) {
    if (all.error().code == ECANCELED) leave_after_another();
    return report(all.error());
  }
  for (std::uint32_t r = 0; r < GASNETC_(nodes); ++r) {
    place his;
    std::memcpy(&his, (*all)[r].data(), std::min(sizeof his, (*all)[r].size()));
    if (his.bytes != 0)
      know_segment(r,
                   {reinterpret_cast<std::byte*>(his.base), static_cast<std::size_t>(his.bytes)});
  }
  return meet(call) ? GASNET_OK : GASNET_ERR_RESOURCE;
}

std::uintptr_t reserve_left() noexcept { return self.local_max - reserve_taken; }
std::byte* take_reserve(std::uintptr_t bytes) noexcept {
  std::byte* const at = self.engine->segment().data() + front_bytes + reserve_taken;
  reserve_taken += bytes;
  return at;
}

}  // namespace
}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock;
using namespace penstock::gasnet;

extern "C" {

int GASNETC_(segment_attach)(gex_Segment_t* segment_p, gex_TM_t tm, uintptr_t size) {
  ex_objects& o = objects();
  if (tm != &o.world || !self.attached)
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
  std::byte* const base = bad ? nullptr : take_reserve(size);
  if (const int rc = spread(base, bad ? 0 : size, bad, "gex_Segment_Attach"); rc != GASNET_OK)
    return rc;
  o.attached = {.base = base, .bytes = size, .bound = true, .data = nullptr};
  o.ep.segment = &o.attached;
  *segment_p = &o.attached;
  if (GASNETC_(attach_hook) != nullptr) GASNETC_(attach_hook)(base, size);
  return GASNET_OK;
}

int GASNETC_(segment_create)(gex_Segment_t* segment_p, gex_Client_t client, gex_Addr_t address,
                             uintptr_t length, gex_MK_t kind, gex_Flags_t flags) {
  if (segment_p == nullptr || client == GEX_CLIENT_INVALID || length == 0 || flags != 0)
    return refused(GASNET_ERR_BAD_ARG,
                   "gex_Segment_Create: it takes a place, a client, a length, and no flags");
  if (kind != GEX_MK_HOST)
    return refused(GASNET_ERR_BAD_ARG, "gex_Segment_Create: there is host memory only");
  if (address != nullptr)
    return refused(GASNET_ERR_RESOURCE,
                   "gex_Segment_Create: segments of the client's own memory are not supported; let "
                   "the library allocate (address NULL)");
  const std::uintptr_t whole = (length + page - 1) / page * page;
  if (self.everything || whole < length || whole > reserve_left())
    return refused(GASNET_ERR_RESOURCE,
                   "gex_Segment_Create: %zu bytes; %zu are left of those by %s",
                   static_cast<std::size_t>(length), static_cast<std::size_t>(reserve_left()),
                   self.segment_limit.binding.c_str());
  *segment_p = new gasnetc_segment{
      .base = take_reserve(whole), .bytes = length, .bound = false, .data = nullptr};
  return GASNET_OK;
}

void GASNETC_(segment_destroy)(gex_Segment_t segment, gex_Flags_t) {
  if (segment == GEX_SEGMENT_INVALID) fatal(1, "gex_Segment_Destroy: GEX_SEGMENT_INVALID");
  if (segment->bound) fatal(1, "gex_Segment_Destroy: the segment is bound to an endpoint");
  // The segment that was made last gives its part of the reserve back.
  const std::uintptr_t whole = (segment->bytes + page - 1) / page * page;
  if (segment->base + whole == self.engine->segment().data() + front_bytes + reserve_taken)
    reserve_taken -= whole;
  delete segment;
}

void* GASNETC_(segment_addr)(gex_Segment_t segment) { return segment->base; }
uintptr_t GASNETC_(segment_size)(gex_Segment_t segment) { return segment->bytes; }
gex_Client_t GASNETC_(client_of_segment)(gex_Segment_t) { return &objects().client; }
const void** GASNETC_(segment_data)(gex_Segment_t segment) { return &segment->data; }

int GASNETC_(ep_create)(gex_EP_t* ep_p, gex_Client_t client, gex_EP_Capabilities_t caps,
                        gex_Flags_t flags) {
  if (ep_p == nullptr || client == GEX_CLIENT_INVALID || caps == 0 ||
      (caps & ~GEX_EP_CAPABILITY_ALL) != 0 || (flags & ~GEX_FLAG_HINT_ACCEL_ALL) != 0)
    return refused(GASNET_ERR_BAD_ARG, "gex_EP_Create: capabilities %#x, flags %#x", caps, flags);
  return refused(GASNET_ERR_RESOURCE, "gex_EP_Create: a client has %d endpoint (GASNET_MAXEPS)",
                 GASNET_MAXEPS);
}

int GASNETC_(ep_bind)(gex_EP_t ep, gex_Segment_t segment, gex_Flags_t flags) {
  if (ep == GEX_EP_INVALID || segment == GEX_SEGMENT_INVALID || flags != 0)
    return refused(GASNET_ERR_BAD_ARG,
                   "gex_EP_BindSegment: it takes an endpoint, a segment, and no flags");
  if (ep->segment != nullptr || segment->bound)
    return refused(GASNET_ERR_BAD_ARG, "gex_EP_BindSegment: bound already");
  ep->segment = segment;
  segment->bound = true;
  return GASNET_OK;
}

int GASNETC_(ep_publish)(gex_TM_t tm, gex_EP_t* eps, size_t count, gex_Flags_t flags) {
  ex_objects& o = objects();
  bool bad = flags != 0 || (count != 0 && eps == nullptr);
  if (tm != &o.world || self.everything)
    return refused(GASNET_ERR_RESOURCE,
                   "gex_EP_PublishBoundSegment: segments are published over the team of all");
  bool publish = false;
  for (size_t i = 0; i < count && !bad; ++i) {
    bad = eps[i] != &o.ep;
    publish = publish || (eps[i] == &o.ep && o.ep.segment != nullptr);
  }
  if (bad) refused(GASNET_ERR_BAD_ARG, "gex_EP_PublishBoundSegment: no such endpoint");
  // A segment that has been published before stays known.
  const gasnetc_segment none{};
  const bool known = !client_segment(GASNETC_(mynode)).empty();
  const gasnetc_segment& s = publish || known ? *o.ep.segment : none;
  return spread(s.base, s.bytes, bad, "gex_EP_PublishBoundSegment");
}

int GASNETC_(bound_segment)(gex_TM_t tm, gex_Rank_t rank, void** owneraddr, void** localaddr,
                            uintptr_t* size, gex_Flags_t flags) {
  const gex_Rank_t node = jobrank_of(tm, rank);
  if (node >= GASNETC_(nodes))
    fatal(1, "gex_EP_QueryBoundSegmentNB: rank %u of %u", node, GASNETC_(nodes));
  // This process's own segment is known as soon as it is bound.
  const gasnetc_segment* const own = objects().ep.segment;
  auto part = client_segment(node);
  if (node == GASNETC_(mynode) && own != nullptr) part = {own->base, own->bytes};
  if (part.empty()) return GASNET_ERR_RESOURCE;
  if (localaddr != nullptr) {
    const struct gasnetc_window& w = self.windows[node];
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
