/* Several endpoints of a process, as Realm uses them for memory that is registered beside the first
 * segment: each has a segment of its own, in the client's memory or the library's, and gex_TM_Pair
 * names it by its index (specification 0.19). */
#define _GNU_SOURCE
#define GASNETC_CONDUIT_AS_IBV 1 /* GASNET_MAXEPS says more than 1 then */
#include <gasnet_vis.h>
#include <gasnetex.h>
#include <sys/mman.h>

#include "ex_job.h"

enum { own_bytes = 300000, made_bytes = 40000 };
static gex_EP_t by_client, by_library, shared;
static char* own;

static char* memory_of(gex_EP_t local, gex_Rank_t rank, gex_EP_Index_t index, uintptr_t bytes) {
  void *owner = NULL, *here = NULL;
  uintptr_t size = 0;
  gex_Event_Wait(
      gex_EP_QueryBoundSegmentNB(gex_TM_Pair(local, index), rank, &owner, &here, &size, 0));
  CHECK(owner != NULL && size == bytes);
  CHECK(rank != me || here == owner);
  return (char*)owner;
}

static void create(void) {
  gex_Segment_t s = GEX_SEGMENT_INVALID;
  gex_EP_t none = GEX_EP_INVALID;
  MUST(gex_EP_Create(&by_client, client, GEX_EP_CAPABILITY_RMA, 0));
  MUST(gex_EP_Create(&by_library, client, GEX_EP_CAPABILITY_RMA, 0));
  MUST(gex_EP_Create(&shared, client, GEX_EP_CAPABILITY_RMA, 0));
  CHECK(gex_EP_QueryIndex(ep) == 0 && gex_EP_QuerySegment(by_client) == GEX_SEGMENT_INVALID);
  CHECK(gex_EP_QueryIndex(by_client) != gex_EP_QueryIndex(by_library));
  CHECK(gex_EP_QueryIndex(by_client) != 0 && gex_EP_QueryClient(by_client) == client);
  gex_EP_SetCData(by_client, &own);
  CHECK(gex_EP_QueryCData(by_client) == (void*)&own && gex_EP_QueryCData(by_library) == NULL);
  own = (char*)mmap(NULL, own_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(own, (int)me + 1, own_bytes);
  MUST(gex_Segment_Create(&s, client, own, own_bytes, GEX_MK_HOST, 0));
  MUST(gex_EP_BindSegment(by_client, s, 0));
  CHECK(gex_EP_QuerySegment(by_client) == s);
  MUST(gex_Segment_Create(&s, client, NULL, made_bytes, GEX_MK_HOST, 0));
  MUST(gex_EP_BindSegment(by_library, s, 0));
  MUST(gex_EP_BindSegment(shared, segment, 0)); /* one segment, two endpoints */
  gex_System_SetVerboseErrors(0);
  CHECK(gex_EP_BindSegment(by_library, segment, 0) == GASNET_ERR_BAD_ARG);
  CHECK(gex_EP_Create(&none, client, (gex_EP_Capabilities_t)1 << 30, 0) == GASNET_ERR_BAD_ARG);
  CHECK(gex_EP_Create(&none, client, 0, 0) == GASNET_ERR_BAD_ARG);
  CHECK(gex_EP_PublishBoundSegment(tm, &none, 1, 0) == GASNET_ERR_BAD_ARG);
  gex_System_SetVerboseErrors(1);
}

static void publish(void) {
  gex_EP_t list[3];
  list[0] = by_client, list[1] = by_library, list[2] = shared;
  /* The numbers may differ, and a segment may be published again. */
  if (me % 2 == 0) {
    MUST(gex_EP_PublishBoundSegment(tm, list, 3, 0));
    MUST(gex_EP_PublishBoundSegment(tm, NULL, 0, 0));
  } else {
    MUST(gex_EP_PublishBoundSegment(tm, list, 1, 0));
    MUST(gex_EP_PublishBoundSegment(tm, list, 3, 0));
  }
}

static void transfer(gex_EP_t local, gex_EP_t remote, gex_Rank_t to, uintptr_t bytes, char* mine) {
  static char back[own_bytes];
  const gex_TM_t pair = gex_TM_Pair(local, gex_EP_QueryIndex(remote));
  char* const there = memory_of(local, to, gex_EP_QueryIndex(remote), bytes);
  static const size_t sizes[] = {1, 8, 300, 5000, made_bytes / 2};
  const ptrdiff_t strides[1] = {64};
  const size_t count[1] = {5};
  unsigned s;
  CHECK(pair != tm && pair == gex_TM_Pair(local, gex_EP_QueryIndex(remote)));
  for (s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
    const size_t n = sizes[s];
    memset(mine, (int)(s + 10 * me + 3), n);
    CHECK(gex_RMA_PutBlocking(pair, to, there, mine, n, 0) == 0);
    memset(back, 0, n);
    CHECK(gex_RMA_GetBlocking(pair, back, to, there, n, 0) == 0);
    CHECK(memcmp(back, mine, n) == 0);
    gex_Event_Wait(gex_RMA_PutNB(pair, to, there + bytes - n, mine, n, GEX_EVENT_DEFER, 0));
    gex_Event_Wait(gex_RMA_GetNB(pair, mine, to, there + bytes - n, n, 0));
    CHECK(memcmp(back, mine, n) == 0);
  }
  gex_RMA_PutBlockingVal(pair, to, there + 16, 0x1234567890abcdefu, 8, 0);
  CHECK(gex_RMA_GetBlockingVal(pair, to, there + 16, 8, 0) == 0x1234567890abcdefu);
  gex_VIS_StridedPutBlocking(pair, to, there, strides, mine, strides, 8, count, 1, 0);
  gex_VIS_StridedGetBlocking(pair, back, strides, to, there, strides, 8, count, 1, 0);
  for (s = 0; s < 5; ++s) CHECK(memcmp(back + 64 * s, mine + 64 * s, 8) == 0);
}

int main(void) {
  static char heap[own_bytes];
  gex_EP_t others[3];
  int i, k, made = 3;
  join_job("endpoints", 0);
  make_segments();
  create();
  publish();
  others[0] = ep, others[1] = by_client, others[2] = by_library;
  CHECK(memory_of(ep, me, gex_EP_QueryIndex(by_client), own_bytes) == own);
  CHECK(memory_of(ep, next_rank, gex_EP_QueryIndex(shared), segment_bytes) == area[next_rank]);
  CHECK(memory_of(ep, next_rank, 0, segment_bytes) == area[next_rank]);
  /* In turn, since all write to their neighbour's memory. */
  for (i = 0; i < 3; ++i) {
    transfer(others[i], by_client, next_rank, own_bytes, heap);
    transfer(others[i], by_library, next_rank, made_bytes, heap);
    meet();
    transfer(others[i], by_client, me, own_bytes, heap);
    transfer(others[i], ep, next_rank, segment_bytes, own + own_bytes / 2);
    meet();
  }
  gex_System_SetVerboseErrors(0);
  while (gex_EP_Create(&others[0], client, GEX_EP_CAPABILITY_RMA, 0) == GASNET_OK) {
    ++made;
    /* Messages may be had by the first of them only. */
    if (made > 8) CHECK(gex_EP_Create(&others[1], client, GEX_EP_CAPABILITY_AM, 0) != GASNET_OK);
  }
  gex_System_SetVerboseErrors(1);
  CHECK(made == GASNET_MAXEPS - 1);
  for (k = 0; k < own_bytes / 2; ++k) CHECK(own[k] != 0); /* what stood there, or came */
  finish();
  return 0;
}
