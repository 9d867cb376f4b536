/* Messages, cell by cell: Shorts, Mediums and Longs, requests and replies, fixed and negotiated,
 * with every lc_opt that they take and with GEX_FLAG_IMMEDIATE (specification 0.19, "Active
 * Messages"). A source is written over as soon as its local completion is known; with IMMEDIATE
 * nothing may have been sent, and then all is as it was. The table in lib/gasnet/README.md names
 * these ways. */
#include <gasnetex.h>
#include <time.h>

#include "ex_job.h"

enum way {
  fixed_now,
  fixed_event,
  fixed_group, /* of requests only */
  fixed_immediate,
  own_buffer, /* negotiated: the library's buffer */
  client_now,
  client_event,
  client_group, /* of requests only */
  immediate,    /* Prepare and Commit, the client's buffer */
  own_immediate,
  own_open,  /* the library's buffer for more bytes than are sent; a Long's place is said by Commit
              */
  own_empty, /* the same, of which nothing is sent */
  cancelled, /* and then fixed_now */
  ways
};
enum { ask_medium = 140, ask_long, back_medium, back_long, ask_short, back_short, most = 60000 };

/* The library's own buffers are aligned for any type, wherever a Long is to go. */
static volatile enum way reply_way = fixed_now;
static size_t odd(void) { return reply_way == own_immediate ? 1 : 0; }
static char* place_of_requests(gex_Rank_t r) { return area[r] + odd(); }
static char* place_of_replies(gex_Rank_t r) { return area[r] + segment_bytes / 2 + odd(); }
/* Where another rank's segment is mapped here, or NULL. A Long to it that is prepared without a
 * buffer is written at its destination. */
static char* mapped[most_nodes];
static int is_at(gex_AM_SrcDesc_t sd, gex_Rank_t r, const char* place) {
  return mapped[r] == NULL || gex_AM_SrcDescAddr(sd) == (void*)(mapped[r] + (place - area[r]));
}
static unsigned char byte_at(gex_AM_Arg_t seed, size_t i) {
  return (unsigned char)(seed * 31 + i * 7);
}
static void fill(unsigned char* at, size_t n, gex_AM_Arg_t seed) {
  size_t i;
  for (i = 0; i < n; ++i) at[i] = byte_at(seed, i);
}
static int filled(const void* at, size_t n, gex_AM_Arg_t seed) {
  size_t i;
  for (i = 0; i < n; ++i)
    if (((const unsigned char*)at)[i] != byte_at(seed, i)) return 0;
  return 1;
}
static void spoil(unsigned char* at, size_t n) { memset(at, 0xee, n); }

/* ---- one message. FIXED(flags, lc), PREPARE(buffer, flags, lc), and COMMIT(sd, flags) are the
 * calls of its kind: they name upto, is_open and now ---- */
#define SEND(FIXED, PREPARE, COMMIT, CANCEL, is_request)                                       \
  do {                                                                                         \
    gex_Event_t lc = GEX_EVENT_NO_OP;                                                          \
    gex_AM_SrcDesc_t sd = GEX_AM_SRCDESC_NO_OP;                                                \
    int rc = 0;                                                                                \
    const int is_open = how == own_open || how == own_empty;                                   \
    const size_t upto = is_open ? bytes + 3000 : bytes;                                        \
    const size_t now = how == own_empty ? 0 : bytes; /* what Commit sends */                   \
    fill(source, bytes, seed);                                                                 \
    switch (how) {                                                                             \
      case fixed_event:                                                                        \
        rc = FIXED(0, &lc);                                                                    \
        break;                                                                                 \
      case fixed_group:                                                                        \
        rc = FIXED(0, is_request ? GEX_EVENT_GROUP : GEX_EVENT_NOW);                           \
        break;                                                                                 \
      case fixed_immediate: /* may be refused as often as one likes */                         \
        if (FIXED(GEX_FLAG_IMMEDIATE, GEX_EVENT_NOW) != 0) {                                   \
          CHECK(filled(source, bytes, seed));                                                  \
          rc = FIXED(0, GEX_EVENT_NOW);                                                        \
        }                                                                                      \
        break;                                                                                 \
      case own_buffer:                                                                         \
      case own_immediate:                                                                      \
      case own_open:                                                                           \
      case own_empty:                                                                          \
        if (how == own_immediate) sd = PREPARE(NULL, GEX_FLAG_IMMEDIATE, NULL);                \
        if (sd == GEX_AM_SRCDESC_NO_OP) sd = PREPARE(NULL, 0, NULL);                           \
        CHECK(gex_AM_SrcDescSize(sd) >= bytes && gex_AM_SrcDescSize(sd) <= upto);              \
        CHECK((uintptr_t)gex_AM_SrcDescAddr(sd) % 16 == 0);                                    \
        if (how == own_buffer) CHECK(IN_PLACE(sd));                                            \
        memcpy(gex_AM_SrcDescAddr(sd), source, bytes);                                         \
        spoil(source, bytes);                                                                  \
        if (how != own_immediate || COMMIT(sd, GEX_FLAG_IMMEDIATE) != 0) rc = COMMIT(sd, 0);   \
        break;                                                                                 \
      case client_now:                                                                         \
      case client_event:                                                                       \
      case client_group:                                                                       \
        sd = PREPARE(source, 0,                                                                \
                     how == client_event                 ? &lc                                 \
                     : how == client_group && is_request ? GEX_EVENT_GROUP                     \
                                                         : GEX_EVENT_NOW);                     \
        CHECK(gex_AM_SrcDescAddr(sd) == (void*)source && gex_AM_SrcDescSize(sd) >= bytes);     \
        rc = COMMIT(sd, 0);                                                                    \
        break;                                                                                 \
      case immediate:                                                                          \
        sd = PREPARE(source, GEX_FLAG_IMMEDIATE, GEX_EVENT_NOW);                               \
        if (sd == GEX_AM_SRCDESC_NO_OP) sd = PREPARE(source, 0, GEX_EVENT_NOW);                \
        if (COMMIT(sd, GEX_FLAG_IMMEDIATE) != 0) {                                             \
          CHECK(gex_AM_SrcDescAddr(sd) == (void*)source);                                      \
          rc = COMMIT(sd, 0);                                                                  \
        }                                                                                      \
        break;                                                                                 \
      case cancelled:                                                                          \
        CHECK(CANCEL(PREPARE(NULL, 0, NULL)) == 0);                                            \
        CHECK(CANCEL(PREPARE(source, 0, &lc)) == 0);                                           \
        rc = FIXED(0, GEX_EVENT_NOW);                                                          \
        break;                                                                                 \
      default:                                                                                 \
        rc = FIXED(0, GEX_EVENT_NOW);                                                          \
    }                                                                                          \
    CHECK(rc == 0);                                                                            \
    if (is_request && (how == fixed_event || how == client_event)) {                           \
      CHECK(lc != GEX_EVENT_NO_OP);                                                            \
      gex_Event_Wait(lc);                                                                      \
    }                                                                                          \
    if (is_request && (how == fixed_group || how == client_group)) gex_NBI_Wait(GEX_EC_AM, 0); \
    if (!is_request && (how == fixed_event || how == client_event))                            \
      CHECK(gex_Event_Test(lc) == GASNET_OK || pending_replies(lc));                           \
    else                                                                                       \
      spoil(source, bytes);                                                                    \
  } while (0)

/* Events of replies are synchronized outside of handlers. */
static gex_Event_t of_replies[8];
static volatile int replies_pending = 0;
static int pending_replies(gex_Event_t lc) {
  if (replies_pending >= 8) return 0;
  of_replies[replies_pending] = lc;
  replies_pending = replies_pending + 1;
  return 1;
}

static unsigned char reply_sources[2][most];

/* What an empty message is answered with. */
static size_t answer_to(size_t bytes) { return bytes == 0 ? 48 : bytes; }

static void reply_medium(gex_Token_t token, size_t bytes, gex_AM_Arg_t seed) {
  unsigned char* const source = reply_sources[0];
  const enum way how = reply_way;
#define FIXED(flags, lc) gex_AM_ReplyMedium1(token, back_medium, source, bytes, lc, flags, seed)
#define PREPARE(buf, flags, lc) gex_AM_PrepareReplyMedium(token, buf, bytes, upto, lc, flags, 1)
#define COMMIT(sd, flags) gex_AM_CommitReplyMedium1_v2(sd, back_medium, now, flags, seed)
#define CANCEL(sd) gex_AM_CancelReplyMedium(sd, 0)
#define IN_PLACE(sd) 1
  SEND(FIXED, PREPARE, COMMIT, CANCEL, 0);
#undef FIXED
#undef PREPARE
#undef COMMIT
#undef CANCEL
#undef IN_PLACE
}
static void reply_long(gex_Token_t token, size_t bytes, gex_AM_Arg_t seed, gex_Rank_t to) {
  unsigned char* const source = reply_sources[1];
  const enum way how = reply_way;
  char* const there = place_of_replies(to);
#define FIXED(flags, lc) gex_AM_ReplyLong1(token, back_long, source, bytes, there, lc, flags, seed)
#define PREPARE(buf, flags, lc) \
  gex_AM_PrepareReplyLong(token, buf, bytes, upto, is_open ? NULL : there, lc, flags, 1)
#define COMMIT(sd, flags) gex_AM_CommitReplyLong1_v2(sd, back_long, now, there, flags, seed)
#define CANCEL(sd) gex_AM_CancelReplyLong(sd, 0)
#define IN_PLACE(sd) is_at(sd, to, there)
  SEND(FIXED, PREPARE, COMMIT, CANCEL, 0);
#undef FIXED
#undef PREPARE
#undef COMMIT
#undef CANCEL
#undef IN_PLACE
}

static void on_medium(gex_Token_t token, void* buf, size_t bytes, gex_AM_Arg_t seed) {
  CHECK(filled(buf, bytes, seed));
  CHECK((bytes == 0) == (reply_way == own_empty));
  reply_medium(token, answer_to(bytes), seed + 1);
}
static void on_long(gex_Token_t token, void* buf, size_t bytes, gex_AM_Arg_t seed) {
  gex_Token_Info_t info;
  gex_Token_Info(token, &info, GEX_TI_SRCRANK);
  CHECK(buf == (void*)place_of_requests(me) && filled(buf, bytes, seed));
  CHECK((bytes == 0) == (reply_way == own_empty));
  reply_long(token, answer_to(bytes), seed + 1, info.gex_srcrank);
}
static void on_medium_back(gex_Token_t token, void* buf, size_t bytes, gex_AM_Arg_t seed) {
  (void)token;
  CHECK(filled(buf, bytes, seed) && (bytes == 0) == (reply_way == own_empty));
  answers = answers + 1;
}
static void on_long_back(gex_Token_t token, void* buf, size_t bytes, gex_AM_Arg_t seed) {
  (void)token;
  CHECK(buf == (void*)place_of_replies(me) && filled(buf, bytes, seed));
  CHECK((bytes == 0) == (reply_way == own_empty));
  answers = answers + 1;
}

/* The reply is immediate, too: the handler has the room for it. */
static void on_short(gex_Token_t token, gex_AM_Arg_t seed) {
  const gex_Flags_t flags = reply_way == fixed_immediate ? GEX_FLAG_IMMEDIATE : 0;
  CHECK(gex_AM_ReplyShort1(token, back_short, flags, seed + 1) == 0);
}
static volatile gex_AM_Arg_t last_short = 0;
static void on_short_back(gex_Token_t token, gex_AM_Arg_t seed) {
  (void)token;
  last_short = seed;
  answers = answers + 1;
}
static void request_short(gex_Rank_t to, enum way how, gex_AM_Arg_t seed) {
  const gex_Flags_t flags = how == fixed_immediate ? GEX_FLAG_IMMEDIATE : 0;
  const time_t until = time(NULL) + 60;
  while (gex_AM_RequestShort1(tm, to, ask_short, flags, seed) != 0) {
    CHECK(flags != 0);
    MUST(time(NULL) < until ? GASNET_OK : GASNET_ERR_NOT_READY);
    gasnet_AMPoll();
  }
}

static void request_medium(gex_Rank_t to, enum way how, size_t bytes, gex_AM_Arg_t seed) {
  static unsigned char source[most];
#define FIXED(flags, lc) gex_AM_RequestMedium1(tm, to, ask_medium, source, bytes, lc, flags, seed)
#define PREPARE(buf, flags, lc) gex_AM_PrepareRequestMedium(tm, to, buf, bytes, upto, lc, flags, 1)
#define COMMIT(sd, flags) gex_AM_CommitRequestMedium1_v2(sd, ask_medium, now, flags, seed)
#define CANCEL(sd) gex_AM_CancelRequestMedium(sd, 0)
#define IN_PLACE(sd) 1
  SEND(FIXED, PREPARE, COMMIT, CANCEL, 1);
#undef FIXED
#undef PREPARE
#undef COMMIT
#undef CANCEL
#undef IN_PLACE
}
static void request_long(gex_Rank_t to, enum way how, size_t bytes, gex_AM_Arg_t seed) {
  static unsigned char source[most];
  char* const there = place_of_requests(to);
#define FIXED(flags, lc) \
  gex_AM_RequestLong1(tm, to, ask_long, source, bytes, there, lc, flags, seed)
#define PREPARE(buf, flags, lc) \
  gex_AM_PrepareRequestLong(tm, to, buf, bytes, upto, is_open ? NULL : there, lc, flags, 1)
#define COMMIT(sd, flags) gex_AM_CommitRequestLong1_v2(sd, ask_long, now, there, flags, seed)
#define CANCEL(sd) gex_AM_CancelRequestLong(sd, 0)
#define IN_PLACE(sd) is_at(sd, to, there)
  SEND(FIXED, PREPARE, COMMIT, CANCEL, 1);
#undef FIXED
#undef PREPARE
#undef COMMIT
#undef CANCEL
#undef IN_PLACE
}

int main(void) {
  static const size_t sizes[] = {1, 48, 500, 4032, 4096, most};
  gex_AM_Entry_t table[] = {
      {ask_medium, HANDLER(&on_medium), GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 1, NULL, "ask"},
      {ask_long, HANDLER(&on_long), GEX_FLAG_AM_LONG | GEX_FLAG_AM_REQUEST, 1, NULL, "ask long"},
      {back_medium, HANDLER(&on_medium_back), GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 1, NULL,
       "back"},
      {back_long, HANDLER(&on_long_back), GEX_FLAG_AM_LONG | GEX_FLAG_AM_REPLY, 1, NULL,
       "back long"},
      {ask_short, HANDLER(&on_short), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, NULL,
       "ask short"},
      {back_short, HANDLER(&on_short_back), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 1, NULL,
       "back short"}};
  gex_Rank_t to;
  unsigned s, target;
  int way, wanted = 0;
  join_job("cells", 0);
  MUST(gex_EP_RegisterHandlers(ep, table, 6));
  make_segments();
  for (to = 0; to < nodes; ++to) {
    void* here = NULL;
    gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, to, NULL, &here, NULL, 0));
    mapped[to] = to != me ? (char*)here : NULL;
  }
  for (way = 0; way < ways; ++way) {
    reply_way = (enum way)way;
    meet();
    for (target = 0; target < 2; ++target) {
      to = target == 0 ? me : next_rank;
      request_short(to, (enum way)way, way);
      ++wanted;
      GASNET_BLOCKUNTIL(answers == wanted);
      CHECK(last_short == way + 1);
      for (s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
        request_medium(to, (enum way)way, sizes[s], way * 16 + (int)s);
        ++wanted;
        GASNET_BLOCKUNTIL(answers == wanted);
        request_long(to, (enum way)way, sizes[s], way * 16 + (int)s + 2);
        ++wanted;
        GASNET_BLOCKUNTIL(answers == wanted);
        while (replies_pending != 0) {
          replies_pending = replies_pending - 1;
          gex_Event_Wait(of_replies[replies_pending]);
        }
      }
      meet();
    }
  }
  finish();
  return 1;
}
