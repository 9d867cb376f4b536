/* Active messages of gasnetex.h: every family with 0 to 16 arguments, to this rank and to the next,
 * with fixed and with negotiated payload; the forms that count their arguments. Each request's
 * handler checks what came and replies in kind, the same way as it was asked; each reply's handler
 * checks and counts. */
#include "ex_job.h"
/* after ex_job.h */
#include "am_arguments.h"

static unsigned char byte_at(size_t i, int n) {
  return (unsigned char)(i * 7 + (size_t)n + i / 251);
}
static int bytes_are_right(const void* p, size_t bytes, int n) {
  const unsigned char* b = (const unsigned char*)p;
  size_t i;
  for (i = 0; i < bytes; ++i)
    if (b[i] != byte_at(i, n)) return 0;
  return 1;
}
static void fill(void* p, size_t bytes, int n) {
  size_t i;
  for (i = 0; i < bytes; ++i) ((unsigned char*)p)[i] = byte_at(i, n);
}

enum { long_room = segment_bytes / 2, longs_most = 200000 };
static size_t expected_bytes = 0; /* of the message in flight */
static gex_Rank_t expected_from = 0;

/* What a handler may know of its message. */
static void check_token(gex_Token_t token, int is_req, int is_long, unsigned nargs) {
  gex_Token_Info_t info;
  const gex_TI_t known = gex_Token_Info(token, &info, GEX_TI_ALL);
  CHECK((known & GEX_TI_SRCRANK) && (known & GEX_TI_EP) && info.gex_ep == ep);
  CHECK(info.gex_srcrank < nodes && (is_req || info.gex_srcrank == expected_from));
  CHECK((known & GEX_TI_IS_REQ) && !info.gex_is_req == !is_req);
  CHECK((known & GEX_TI_IS_LONG) && !info.gex_is_long == !is_long);
  CHECK((known & GEX_TI_ENTRY) && info.gex_entry->gex_nargs == nargs);
  CHECK(info.gex_entry->gex_cdata == (const void*)&answers);
}
static gex_Rank_t source_of(gex_Token_t token) {
  gex_Token_Info_t info;
  CHECK(gex_Token_Info(token, &info, GEX_TI_SRCRANK) & GEX_TI_SRCRANK);
  return info.gex_srcrank;
}
static void check_medium(const void* p, size_t bytes, int n) {
  CHECK(bytes == 0 || (uintptr_t)p % 16 == 0);
  CHECK(bytes_are_right(p, bytes, n));
}
static void check_long(const void* p, size_t bytes, int n, size_t offset) {
  CHECK((const char*)p == area[me] + offset); /* of no bytes, too */
  CHECK(bytes_are_right(p, bytes, n));
}

/* Replies are negotiated if this is set. */
static volatile int negotiated = 0;

/* A payload for a reply: the request's own, or a copy in the library's buffer. */
static gex_AM_SrcDesc_t copy_of(gex_AM_SrcDesc_t sd, const void* buf, size_t nbytes) {
  CHECK(sd != GEX_AM_SRCDESC_NO_OP && gex_AM_SrcDescSize(sd) >= nbytes);
  memcpy(gex_AM_SrcDescAddr(sd), buf, nbytes);
  return sd;
}

enum { short_q = 128, medium_q = 145, long_q = 162, short_r = 179, medium_r = 196, long_r = 213 };

#define HANDLERS(n)                                                                                \
  static void on_short##n(gex_Token_t token PARAMS##n) {                                           \
    check_token(token, 1, 0, n);                                                                   \
    CHECK(RIGHT##n);                                                                               \
    if (negotiated)                                                                                \
      MUST(gex_AM_ReplyShort(token, short_r + n, 0 GIVEN##n));                                     \
    else                                                                                           \
      MUST(gex_AM_ReplyShort##n(token, short_r + n, 0 GIVEN##n));                                  \
  }                                                                                                \
  static void on_medium##n(gex_Token_t token, void* buf, size_t nbytes PARAMS##n) {                \
    check_token(token, 1, 0, n);                                                                   \
    CHECK(RIGHT##n);                                                                               \
    check_medium(buf, nbytes, n);                                                                  \
    if (negotiated == 1) {                                                                         \
      const gex_AM_SrcDesc_t sd = copy_of(                                                         \
          gex_AM_PrepareReplyMedium(token, NULL, nbytes, nbytes, NULL, 0, n), buf, nbytes);        \
      if (nbytes % 2)                                                                              \
        gex_AM_CommitReplyMedium##n(sd, medium_r + n, nbytes GIVEN##n);                            \
      else                                                                                         \
        gex_AM_CommitReplyMedium(sd, medium_r + n, nbytes GIVEN##n);                               \
    } else if (negotiated == 2) {                                                                  \
      const gex_AM_SrcDesc_t sd =                                                                  \
          gex_AM_PrepareReplyMedium(token, buf, nbytes, nbytes, GEX_EVENT_NOW, 0, n);              \
      MUST(gex_AM_CommitReplyMedium_v2(sd, medium_r + n, nbytes, 0 GIVEN##n));                     \
    } else if (negotiated == 3) {                                                                  \
      MUST(gex_AM_ReplyMedium(token, medium_r + n, buf, nbytes, GEX_EVENT_NOW, 0 GIVEN##n));       \
    } else {                                                                                       \
      MUST(gex_AM_ReplyMedium##n(token, medium_r + n, buf, nbytes, GEX_EVENT_NOW, 0 GIVEN##n));    \
    }                                                                                              \
  }                                                                                                \
  static void on_long##n(gex_Token_t token, void* buf, size_t nbytes PARAMS##n) {                  \
    char* const place = area[source_of(token)] + long_room;                                        \
    check_token(token, 1, 1, n);                                                                   \
    CHECK(RIGHT##n);                                                                               \
    check_long(buf, nbytes, n, 0);                                                                 \
    if (negotiated == 1) {                                                                         \
      const gex_AM_SrcDesc_t sd =                                                                  \
          gex_AM_PrepareReplyLong(token, buf, nbytes, nbytes, place, GEX_EVENT_NOW, 0, n);         \
      if (nbytes % 2)                                                                              \
        gex_AM_CommitReplyLong##n(sd, long_r + n, nbytes, place GIVEN##n);                         \
      else                                                                                         \
        gex_AM_CommitReplyLong(sd, long_r + n, nbytes, place GIVEN##n);                            \
    } else if (negotiated == 2) {                                                                  \
      const gex_AM_SrcDesc_t sd =                                                                  \
          gex_AM_PrepareReplyLong(token, buf, nbytes, nbytes + 1, NULL, GEX_EVENT_NOW, 0, n);      \
      if (nbytes % 2)                                                                              \
        MUST(gex_AM_CommitReplyLong##n##_v2(sd, long_r + n, nbytes, place, 0 GIVEN##n));           \
      else                                                                                         \
        MUST(gex_AM_CommitReplyLong_v2(sd, long_r + n, nbytes, place, 0 GIVEN##n));                \
    } else if (negotiated == 3) {                                                                  \
      MUST(gex_AM_ReplyLong(token, long_r + n, buf, nbytes, place, GEX_EVENT_NOW, 0 GIVEN##n));    \
    } else {                                                                                       \
      MUST(gex_AM_ReplyLong##n(token, long_r + n, buf, nbytes, place, GEX_EVENT_NOW, 0 GIVEN##n)); \
    }                                                                                              \
  }                                                                                                \
  static void back_short##n(gex_Token_t token PARAMS##n) {                                         \
    check_token(token, 0, 0, n);                                                                   \
    CHECK(RIGHT##n);                                                                               \
    answers = answers + 1;                                                                         \
  }                                                                                                \
  static void back_medium##n(gex_Token_t token, void* buf, size_t nbytes PARAMS##n) {              \
    check_token(token, 0, 0, n);                                                                   \
    CHECK(RIGHT##n);                                                                               \
    CHECK(nbytes == expected_bytes);                                                               \
    check_medium(buf, nbytes, n);                                                                  \
    answers = answers + 1;                                                                         \
  }                                                                                                \
  static void back_long##n(gex_Token_t token, void* buf, size_t nbytes PARAMS##n) {                \
    check_token(token, 0, 1, n);                                                                   \
    CHECK(RIGHT##n);                                                                               \
    CHECK(nbytes == expected_bytes);                                                               \
    check_long(buf, nbytes, n, long_room);                                                         \
    answers = answers + 1;                                                                         \
  }

static unsigned char source[longs_most];

/* Each rank writes to the front of the next one's area, so that only one Long is on its way to it.
 */
#define AND_WAIT(call)                   \
  do {                                   \
    const int before = answers;          \
    call;                                \
    GASNET_BLOCKUNTIL(answers > before); \
    CHECK(answers == before + 1);        \
  } while (0)

/* Local completion by an event, which is waited for. */
static gex_Event_t local;
#define AND_LOCAL(call)              \
  do {                               \
    local = GEX_EVENT_NO_OP;         \
    AND_WAIT(MUST(call));            \
    CHECK(local != GEX_EVENT_NO_OP); \
    gex_Event_Wait(local);           \
  } while (0)
/* With GEX_FLAG_IMMEDIATE it may take a few tries, with polls between. */
#define AT_ONCE(call) AND_WAIT(while ((call) != 0) gasnet_AMPoll())

#define MEDIUM_ARGS(n, bytes, lc, flags) tm, to, medium_q + n, source, bytes, lc, flags FRESH##n
#define LONG_ARGS(n, bytes, lc, flags) \
  tm, to, long_q + n, source, bytes, area[to], lc, flags FRESH##n

#define EXCHANGE(n)                                                                                \
  static void fixed##n(gex_Rank_t to, size_t medium, size_t bytes) {                               \
    AND_WAIT(MUST(gex_AM_RequestShort##n(tm, to, short_q + n, 0 FRESH##n)));                       \
    AND_WAIT(MUST(gex_AM_RequestShort(tm, to, short_q + n, 0 FRESH##n)));                          \
    AT_ONCE(gex_AM_RequestShort##n(tm, to, short_q + n, GEX_FLAG_IMMEDIATE FRESH##n));             \
    fill(source, expected_bytes = medium, n);                                                      \
    AND_WAIT(MUST(gex_AM_RequestMedium##n(MEDIUM_ARGS(n, medium, GEX_EVENT_NOW, 0))));             \
    AND_LOCAL(gex_AM_RequestMedium(MEDIUM_ARGS(n, medium, &local, 0)));                            \
    AND_WAIT(MUST(gex_AM_RequestMedium##n(MEDIUM_ARGS(n, medium, GEX_EVENT_GROUP, 0))));           \
    AT_ONCE(gex_AM_RequestMedium##n(MEDIUM_ARGS(n, medium, GEX_EVENT_NOW, GEX_FLAG_IMMEDIATE)));   \
    fill(source, expected_bytes = bytes, n);                                                       \
    AND_WAIT(MUST(gex_AM_RequestLong##n(LONG_ARGS(n, bytes, GEX_EVENT_NOW, 0))));                  \
    AND_LOCAL(gex_AM_RequestLong(LONG_ARGS(n, bytes, &local, 0)));                                 \
    AND_WAIT(MUST(gex_AM_RequestLong##n(LONG_ARGS(n, bytes, GEX_EVENT_GROUP, 0))));                \
    AT_ONCE(gex_AM_RequestLong##n(LONG_ARGS(n, bytes, GEX_EVENT_NOW, GEX_FLAG_IMMEDIATE)));        \
    gex_NBI_Wait(GEX_EC_AM | GEX_EC_LC, 0);                                                        \
  }                                                                                                \
  static void negotiated##n(gex_Rank_t to, size_t medium, size_t bytes) {                          \
    gex_AM_SrcDesc_t sd;                                                                           \
    expected_bytes = medium;                                                                       \
    sd = gex_AM_PrepareRequestMedium(tm, to, NULL, medium, medium, NULL, 0, n);                    \
    CHECK(gex_AM_SrcDescSize(sd) == medium && (uintptr_t)gex_AM_SrcDescAddr(sd) % 16 == 0);        \
    fill(gex_AM_SrcDescAddr(sd), medium, n);                                                       \
    AND_WAIT(gex_AM_CommitRequestMedium##n(sd, medium_q + n, medium FRESH##n));                    \
    fill(source, medium, n);                                                                       \
    sd = gex_AM_PrepareRequestMedium(tm, to, source, medium, longs_most, &local, 0, n);            \
    CHECK(gex_AM_SrcDescAddr(sd) == source && gex_AM_SrcDescSize(sd) >= medium);                   \
    CHECK(gex_AM_SrcDescSize(sd) <= longs_most);                                                   \
    AND_WAIT(gex_AM_CommitRequestMedium(sd, medium_q + n, medium FRESH##n));                       \
    gex_Event_Wait(local);                                                                         \
    sd = gex_AM_PrepareRequestMedium(tm, to, NULL, medium, medium, NULL, GEX_FLAG_IMMEDIATE, n);   \
    if (sd != GEX_AM_SRCDESC_NO_OP) CHECK(gex_AM_CancelRequestMedium(sd, 0) == 0);                 \
    sd = gex_AM_PrepareRequestMedium(tm, to, source, medium, medium, GEX_EVENT_NOW, 0, n);         \
    AT_ONCE(gex_AM_CommitRequestMedium##n##_v2(sd, medium_q + n, medium,                           \
                                               GEX_FLAG_IMMEDIATE FRESH##n));                      \
    sd = gex_AM_PrepareRequestMedium(tm, to, source, medium, medium, GEX_EVENT_GROUP, 0, n);       \
    AND_WAIT(MUST(gex_AM_CommitRequestMedium_v2(sd, medium_q + n, medium, 0 FRESH##n)));           \
    expected_bytes = bytes;                                                                        \
    sd = gex_AM_PrepareRequestLong(tm, to, NULL, bytes, bytes, area[to], NULL, 0, n);              \
    fill(gex_AM_SrcDescAddr(sd), bytes, n);                                                        \
    AND_WAIT(gex_AM_CommitRequestLong##n(sd, long_q + n, bytes, area[to] FRESH##n));               \
    fill(source, bytes, n);                                                                        \
    sd = gex_AM_PrepareRequestLong(tm, to, source, bytes, longs_most, NULL, &local, 0, n);         \
    AND_WAIT(gex_AM_CommitRequestLong(sd, long_q + n, bytes, area[to] FRESH##n));                  \
    gex_Event_Wait(local);                                                                         \
    sd = gex_AM_PrepareRequestLong(tm, to, source, bytes, bytes, area[to], GEX_EVENT_GROUP, 0, n); \
    AND_WAIT(MUST(gex_AM_CommitRequestLong_v2(sd, long_q + n, bytes, area[to], 0 FRESH##n)));      \
    sd = gex_AM_PrepareRequestLong(tm, to, source, bytes, bytes, area[to], GEX_EVENT_NOW, 0, n);   \
    CHECK(gex_AM_CancelRequestLong(sd, 0) == 0);                                                   \
  }
#define FOR_ALL(do_it)                                                                      \
  do_it(0) do_it(1) do_it(2) do_it(3) do_it(4) do_it(5) do_it(6) do_it(7) do_it(8) do_it(9) \
      do_it(10) do_it(11) do_it(12) do_it(13) do_it(14) do_it(15) do_it(16)
FOR_ALL(HANDLERS)
FOR_ALL(EXCHANGE)

#define ENTRY(index, f, kind, way, n)                                              \
  {(gex_AM_Index_t)(index), HANDLER(f), GEX_FLAG_AM_##kind | GEX_FLAG_AM_##way, n, \
   (void*)&answers,         #f},
#define ENTRIES(n)                                        \
  ENTRY(short_q + n, &on_short##n, SHORT, REQUEST, n)     \
  ENTRY(medium_q + n, &on_medium##n, MEDIUM, REQREP, n)   \
  ENTRY(long_q + n, &on_long##n, LONG, REQUEST, n)        \
  ENTRY(short_r + n, &back_short##n, SHORT, REPLY, n)     \
  ENTRY(medium_r + n, &back_medium##n, MEDLONG, REPLY, n) \
  ENTRY(long_r + n, &back_long##n, LONG, REPLY, n)

typedef void (*exchange_fn)(gex_Rank_t, size_t, size_t);
#define FIXED(n) &fixed##n,
#define NEGOTIATED(n) &negotiated##n,

static void limits(void) {
  const gex_Event_t* some = &local;
  unsigned n;
  CHECK(gex_AM_MaxArgs() >= 16);
  CHECK(gex_AM_LUBRequestMedium() >= 512 && gex_AM_LUBReplyMedium() >= 512);
  CHECK(gex_AM_LUBRequestLong() >= 512 && gex_AM_LUBReplyLong() >= 512);
  for (n = 0; n <= 16; ++n) {
    const size_t all = gex_AM_MaxRequestMedium(tm, GEX_RANK_INVALID, GEX_EVENT_NOW, 0, n);
    CHECK(all >= gex_AM_LUBRequestMedium());
    CHECK(gex_AM_MaxRequestMedium(tm, next_rank, some, 0, n) >= gex_AM_LUBRequestMedium());
    CHECK(gex_AM_MaxReplyMedium(tm, next_rank, NULL, 0, n) >= gex_AM_LUBReplyMedium());
    CHECK(gex_AM_MaxRequestLong(tm, me, GEX_EVENT_GROUP, 0, n) >= gex_AM_LUBRequestLong());
    CHECK(gex_AM_MaxReplyLong(tm, me, GEX_EVENT_NOW, 0, n) >= gex_AM_LUBReplyLong());
    CHECK(gex_AM_MaxRequestMedium(tm, me, NULL, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, n) >= 512);
    CHECK(gex_AM_MaxRequestLong(tm, me, NULL, GEX_FLAG_AM_PREPARE_LEAST_ALLOC, n) >= 512);
    CHECK(gex_AM_MaxRequestLong(tm, me, some, GEX_FLAG_AM_PREPARE_LEAST_CLIENT, n) >= 512);
  }
}

/* In a handler of its own: the limits of a token, and replies that are given up. */
static void on_token(gex_Token_t token) {
  CHECK(gex_Token_MaxReplyMedium(token, GEX_EVENT_NOW, 0, 1) >= gex_AM_LUBReplyMedium());
  CHECK(gex_Token_MaxReplyLong(token, GEX_EVENT_NOW, 0, 1) >= gex_AM_LUBReplyLong());
  CHECK(gex_AM_CancelReplyMedium(gex_AM_PrepareReplyMedium(token, NULL, 8, 8, NULL, 0, 1), 0) == 0);
  CHECK(gex_AM_CancelReplyLong(gex_AM_PrepareReplyLong(token, NULL, 8, 8, area[me], NULL, 0, 1),
                               0) == 0);
  answers = answers + 1;
}

static void run(void) {
  static const exchange_fn fixed[] = {FOR_ALL(FIXED)}, negotiate[] = {FOR_ALL(NEGOTIATED)};
  const size_t mediums[] = {1, 8, 300, gex_AM_LUBRequestMedium()};
  const size_t longs[] = {1, 0, 4096, longs_most};
  const gex_Rank_t to[2] = {me, next_rank};
  int n, way, size, t;
  for (t = 0; t < 2; ++t) {
    expected_from = to[t];
    for (way = 0; way < 4; ++way) {
      meet();
      negotiated = way;
      meet();
      for (n = 0; n <= 16; ++n)
        for (size = 0; size < 4; ++size)
          if (way == 0 || way == 3)
            fixed[n](to[t], size == 0 ? 0 : mediums[size], longs[size]);
          else
            negotiate[n](to[t], mediums[size],
                         size == 1             ? 1
                         : longs[size] < 65536 ? longs[size]
                                               : 65536);
    }
  }
}

static int ex_am_names(void) {
  gex_AM_Entry_t table[] = {FOR_ALL(ENTRIES) ENTRY(0, &on_token, SHORT, REQUEST, 0)};
  const size_t count = sizeof table / sizeof table[0];
  join_job("messages", 0);
  MUST(gex_EP_RegisterHandlers(ep, table, count));
  CHECK(table[count - 1].gex_index == 255);
  make_segments();
  limits();
  run();
  meet();
  answers = 0;
  meet();
  MUST(gex_AM_RequestShort0(tm, next_rank, table[count - 1].gex_index, 0));
  GASNET_BLOCKUNTIL(answers == 1);
  finish();
  return 1;
}
