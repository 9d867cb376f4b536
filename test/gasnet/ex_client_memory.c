/* Segments of the client's own memory (gex_Segment_Create with an address): pages of mmap, a part
 * of a block of malloc that begins and ends inside pages, a static array. The ranks use different
 * ones. What stood there stays, and every operation reaches it by the client's own addresses.
 * Memory that cannot become a segment is refused, and stays as it was; what is destroyed is private
 * again. */
#define _GNU_SOURCE
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnet_vis.h>
#include <gasnetex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ex_job.h"

/* Behind those bytes each rank reads what its neighbour has written. */
enum { mine = segment_bytes, whole = 3 * segment_bytes + 40, large = 400000 };
enum { on_ping_index = 140, on_pong_index };
/* The pages in which the segment begins and ends hold nothing else that the library needs. */
static char statics[whole + 3 * 65536];
static char* base;
static char* there; /* the neighbour's */
static char image[whole];

static char byte_at(gex_Rank_t rank, size_t i) { return (char)(i * 7 + i / 4096 + rank * 13 + 1); }
static void fill(char* p, size_t n) {
  size_t i;
  for (i = 0; i < n; ++i) p[i] = byte_at(me, i);
}
static int holds(const char* p, gex_Rank_t rank, size_t from, size_t n) {
  size_t i;
  for (i = 0; i < n; ++i)
    if (p[i] != byte_at(rank, from + i)) return 0;
  return 1;
}

static char* fresh_pages(size_t bytes, int rights, int flags) {
  void* const p = mmap(NULL, bytes, rights, flags | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
  return (char*)p;
}

/* ---- what is refused, and what is destroyed ---- */

static void refused(char* at, size_t bytes) {
  gex_Segment_t s = GEX_SEGMENT_INVALID;
  CHECK(gex_Segment_Create(&s, client, at, bytes, GEX_MK_HOST, 0) == GASNET_ERR_RESOURCE);
  CHECK(s == GEX_SEGMENT_INVALID);
}
static void refusals(void) {
  char* const p = fresh_pages(65536, PROT_READ, MAP_PRIVATE);
  char* const q = fresh_pages(65536, PROT_READ | PROT_WRITE, MAP_SHARED);
  refused(p, 65536);
  CHECK(mprotect(p, 32768, PROT_READ | PROT_WRITE) == 0);
  p[0] = 5;
  refused(p, 65536);
  CHECK(p[0] == 5);
  p[1] = 6;
  q[0] = 7;
  refused(q, 65536);
  CHECK(munmap(q, 65536) == 0);
  refused(q, 65536);
  refused((char*)__builtin_frame_address(0), 100); /* a local array a sanitizer may put elsewhere */
  refused(p, ~(uintptr_t)0 - 65536);
  CHECK(munmap(p, 65536) == 0);
}

/* A child's stores to p, which it is not to share with this process. */
static void private_to_children(char* p) {
  const char before = *p;
  const pid_t child = fork();
  int status = -1;
  CHECK(child >= 0);
  if (child == 0) {
    *p = (char)(before + 1);
    _exit(*p == (char)(before + 1) ? 0 : 1);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0 && *p == before);
}

static void destroyed(char* at, size_t bytes) {
  gex_Segment_t s = GEX_SEGMENT_INVALID;
  char* const seen = at + bytes / 2;
  fill(at, bytes);
  MUST(gex_Segment_Create(&s, client, at, bytes, GEX_MK_HOST, 0));
  CHECK(gex_Segment_QueryAddr(s) == at && gex_Segment_QuerySize(s) == bytes);
  CHECK(gex_Segment_QueryClient(s) == client && gex_Segment_QueryCData(s) == NULL);
  CHECK(holds(at, me, 0, bytes));
  at[0] = byte_at(me, 0);
  gex_Segment_Destroy(s, 0);
  CHECK(holds(at, me, 0, bytes));
  private_to_children(seen);
}

/* ---- operations on the neighbour's segment ---- */

static void on_ping(gex_Token_t token, void* buf, size_t nbytes, gex_AM_Arg_t high,
                    gex_AM_Arg_t low) {
  char* const back = (char*)(uintptr_t)((uint64_t)(uint32_t)high << 32 | (uint32_t)low);
  const int ours = (char*)buf >= base && (char*)buf + nbytes <= base + whole;
  CHECK(ours);
  CHECK(gex_AM_ReplyLong2(token, on_pong_index, buf, nbytes > 500 ? 500 : nbytes, back,
                          GEX_EVENT_NOW, 0, high, ours) == 0);
}
static void on_pong(gex_Token_t token, void* buf, size_t nbytes, gex_AM_Arg_t high,
                    gex_AM_Arg_t was_ours) {
  (void)token;
  (void)high;
  CHECK(was_ours && (char*)buf >= base && (char*)buf + nbytes <= base + whole);
  ++answers;
}
static gex_AM_Entry_t handlers[] = {
    {on_ping_index, HANDLER(on_ping), GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 2, NULL, "ping"},
    {on_pong_index, HANDLER(on_pong), GEX_FLAG_AM_LONG | GEX_FLAG_AM_REPLY, 2, NULL, "pong"}};

#define HIGH(p) (gex_AM_Arg_t)((uint64_t)(uintptr_t)(p) >> 32)
#define LOW(p) (gex_AM_Arg_t)(uint32_t)(uintptr_t)(p)

static void puts_and_gets(const char* from) {
  static const size_t sizes[] = {1, 8, 13, 64, 4000, 65536, large};
  gex_Event_t lc = GEX_EVENT_INVALID, e;
  size_t i;
  for (i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    const size_t n = sizes[i];
    char* const to = there + mine + 3 + i;
    CHECK(gex_RMA_PutBlocking(tm, next_rank, to, from, n, 0) == 0);
    memset(image, 0, n);
    CHECK(gex_RMA_GetBlocking(tm, image, next_rank, to, n, 0) == 0);
    CHECK(memcmp(image, from, n) == 0);
    e = gex_RMA_PutNB(tm, next_rank, to + n, from, n, &lc, 0);
    gex_Event_Wait(lc);
    gex_Event_Wait(e);
    CHECK(gex_RMA_GetNBI(tm, image, next_rank, to + n, n, 0) == 0);
    gex_NBI_Wait(GEX_EC_GET, 0);
    CHECK(memcmp(image, from, n) == 0);
  }
  /* What stood there before it was a segment, and both sides in segments. */
  CHECK(gex_RMA_GetBlocking(tm, base + 2 * mine, next_rank, there, mine, 0) == 0);
  CHECK(holds(base + 2 * mine, next_rank, 0, mine));
  CHECK(gex_RMA_PutBlockingVal(tm, next_rank, there + whole - 8, 0x0102030405060708, 8, 0) == 0);
  CHECK(gex_RMA_GetBlockingVal(tm, next_rank, there + whole - 8, 8, 0) == 0x0102030405060708);
  gasnet_memset(next_rank, there + mine, 9, 999);
  CHECK(gasnet_get_val(next_rank, there + mine + 998, 1) == 9);
}

static void messages(const char* from) {
  static const size_t sizes[] = {0, 1, 500, 5000, large};
  char* const back = base + mine + segment_bytes / 2;
  size_t i;
  for (i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    const int before = answers;
    const size_t n = sizes[i], returned = n > 500 ? 500 : n;
    memset(back, 0, 501);
    CHECK(gex_AM_RequestLong2(tm, next_rank, on_ping_index, from, n, there + mine + 5,
                              GEX_EVENT_NOW, 0, HIGH(back), LOW(back)) == 0);
    GASNET_BLOCKUNTIL(answers != before);
    CHECK(memcmp(back, from, returned) == 0 && back[returned] == 0);
    meet();
  }
  {
    const int before = answers;
    const gex_AM_SrcDesc_t sd =
        gex_AM_PrepareRequestLong(tm, next_rank, NULL, 300, 300, there + mine + 5, NULL, 0, 2);
    memcpy(gex_AM_SrcDescAddr(sd), from + 1, 300);
    gex_AM_CommitRequestLong2(sd, on_ping_index, 300, there + mine + 5, HIGH(back), LOW(back));
    GASNET_BLOCKUNTIL(answers != before);
    CHECK(memcmp(back, from + 1, 300) == 0);
  }
}

static void pieces_and_atomics(const char* from) {
  const ptrdiff_t stride[1] = {128};
  const size_t count[1] = {100};
  uint64_t old = 0;
  uint64_t* const word = (uint64_t*)(((uintptr_t)there + mine + 7) & ~(uintptr_t)7);
  gex_AD_t ad;
  gex_Event_t e;
  size_t i;
  memset(image, 0, 12800);
  CHECK(gex_VIS_StridedPutBlocking(tm, next_rank, there + mine, stride, (void*)from, stride, 64,
                                   count, 1, 0) == 0);
  CHECK(gex_VIS_StridedGetBlocking(tm, image, stride, next_rank, there + mine, stride, 64, count, 1,
                                   0) == 0);
  for (i = 0; i < 100; ++i) CHECK(memcmp(image + 128 * i, from + 128 * i, 64) == 0);
  meet();
  gex_AD_Create(&ad, tm, GEX_DT_U64, GEX_OP_FADD | GEX_OP_SET | GEX_OP_MULT | GEX_OP_GET, 0);
  gex_Event_Wait(gex_AD_OpNB_U64(ad, NULL, next_rank, word, GEX_OP_SET, 6, 0, 0));
  e = gex_AD_OpNB_U64(ad, &old, next_rank, word, GEX_OP_FADD, 2, 0, 0);
  gex_Event_Wait(e);
  CHECK(old == 6);
  gex_Event_Wait(gex_AD_OpNB_U64(ad, NULL, next_rank, word, GEX_OP_MULT, 5, 0, 0));
  gex_Event_Wait(gex_AD_OpNB_U64(ad, &old, next_rank, word, GEX_OP_GET, 0, 0, 0));
  CHECK(old == 40);
  meet();
  gex_AD_Destroy(ad);
}

static void collectives(void) {
  gex_Rank_t r;
  size_t i;
  meet();
  for (r = 0; r < nodes; ++r) {
    memset(base + mine, 0, mine);
    gex_Event_Wait(gex_Coll_BroadcastNB(tm, r, base + mine, base, mine, 0));
    CHECK(holds(base + mine, r, 0, mine));
  }
  for (i = 0; i < 1000; ++i) ((int32_t*)image)[i] = (int32_t)(me + i);
  gex_Event_Wait(gex_Coll_ReduceToAllNB(tm, base + mine, image, GEX_DT_I32, 4, 1000, GEX_OP_MAX,
                                        NULL, NULL, 0));
  for (i = 0; i < 1000; ++i) {
    int32_t most;
    memcpy(&most, base + mine + 4 * i, 4);
    CHECK(most == (int32_t)(nodes - 1 + i));
  }
  meet();
}

/* Two segments at a time, the older one destroyed first, as often as one likes: each takes more
 * than a third of the room, and their memory, which nobody touches, is not touched by the library.
 */
static void windows_of_two(void) {
  const uintptr_t room = gasnet_getMaxLocalSegmentSize() / 5 * 2, most = (uintptr_t)1 << 30;
  const uintptr_t size = (room < most ? room : most) / GASNET_PAGESIZE * GASNET_PAGESIZE;
  const int rounds = room < most ? 10 : (int)(gasnet_getMaxLocalSegmentSize() / size) + 10;
  gex_Segment_t older = GEX_SEGMENT_INVALID, newer;
  char *old_pages = NULL, *pages;
  struct rusage before, after;
  int i;
  CHECK(getrusage(RUSAGE_SELF, &before) == 0);
  for (i = 0; i < rounds; ++i) {
    pages = fresh_pages(size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE);
    MUST(gex_Segment_Create(&newer, client, pages, size, GEX_MK_HOST, 0));
    if (older != GEX_SEGMENT_INVALID) {
      gex_Segment_Destroy(older, 0);
      munmap(old_pages, size);
    }
    older = newer, old_pages = pages;
  }
  gex_Segment_Destroy(older, 0);
  munmap(old_pages, size);
  CHECK(getrusage(RUSAGE_SELF, &after) == 0);
  CHECK((uintptr_t)(after.ru_minflt - before.ru_minflt) < size / GASNET_PAGESIZE * 2);
}

int main(int argc, char** argv) {
  gex_Segment_t other = GEX_SEGMENT_INVALID;
  gex_TM_t reversed = GEX_TM_INVALID;
  gasnet_seginfo_t info[most_nodes];
  char* const block = (char*)malloc(whole + 4096);
  char* far = NULL;
  void *owner = NULL, *here = NULL;
  uintptr_t size = 0;
  gex_Rank_t r;
  join_job(argc > 1 ? argv[1] : "segments", GEX_FLAG_USES_GASNET1);
  MUST(gex_EP_RegisterHandlers(ep, handlers, 2));
  gex_System_SetVerboseErrors(0);
  refusals();
  gex_System_SetVerboseErrors(1);
  windows_of_two();
  destroyed(fresh_pages(5 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE), 5 << 20);
  destroyed(block + 24, 10000);
  destroyed(block + 24, 10);
  destroyed(statics + 65536 + 8, whole);

  base = me % 3 == 0   ? block + 16
         : me % 3 == 1 ? fresh_pages(whole, PROT_READ | PROT_WRITE, MAP_PRIVATE)
                       : statics + 65536 + 8;
  base[-16 * (me % 3 == 0)] = 1;
  fill(base, whole);
  MUST(gex_Segment_Create(&other, client, NULL, 5000, GEX_MK_HOST, 0));
  MUST(gex_Segment_Create(&segment, client, base, whole, GEX_MK_HOST, 0));
  MUST(gex_EP_PublishBoundSegment(tm, &ep, 1, 0)); /* nothing yet */
  CHECK(gex_Segment_QueryBound(tm, me, NULL, NULL, NULL) != 0);
  MUST(gex_EP_BindSegment(ep, segment, 0));
  gex_System_SetVerboseErrors(0);
  CHECK(gex_EP_BindSegment(ep, other, 0) == GASNET_ERR_BAD_ARG);
  gex_System_SetVerboseErrors(1);
  gex_Segment_Destroy(other, 0);
  CHECK(gex_EP_QuerySegment(ep) == segment);
  CHECK(gex_Segment_QueryBound(tm, me, &owner, &here, &size) == 0);
  CHECK(owner == base && here == base && size == whole);
  gex_TM_Split(&reversed, tm, 0, (int)(nodes - me), NULL, 0, GEX_FLAG_TM_NO_SCRATCH);
  MUST(gex_EP_PublishBoundSegment(reversed, &ep, me % 2, 0));
  MUST(gex_EP_PublishBoundSegment(reversed, &ep, 1 - me % 2, 0));
  gex_TM_Destroy(reversed, NULL, 0);
  for (r = 0; r < nodes; ++r) {
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, r, &owner, &here, &size, 0));
    CHECK(owner != NULL && size == whole);
    CHECK(here == NULL || memcmp((char*)here, (char*)here, 1) == 0);
    CHECK(here == NULL || holds((char*)here, r, 0, mine));
    area[r] = (char*)owner;
  }
  CHECK(area[me] == base && holds(base, me, 0, whole));
  MUST(gasnet_getSegmentInfo(info, most_nodes));
  CHECK(info[next_rank].addr == area[next_rank] && info[next_rank].size == whole);
  there = area[next_rank];
  meet();

  far = (char*)malloc(large);
  fill(far, large);
  puts_and_gets(far);
  meet();
  puts_and_gets(base); /* the local side lies in the segment, too */
  meet();
  messages(far);
  meet();
  messages(base);
  meet();
  pieces_and_atomics(far);
  collectives();
  CHECK(holds(base, me, 0, mine));
  /* The rest of a page belongs to malloc, which a child does not share with its parent. */
  if (me % 3 == 0) private_to_children(block + 8);
  for (r = 0; r < 100; ++r) free(malloc(100 * r)), free(malloc(r));
  meet();
  finish();
  return 0;
}
