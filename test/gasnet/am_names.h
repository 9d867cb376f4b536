/* Active messages: every family with 0 to 16 arguments, to this node and to the next, and the forms
 * that take the number of arguments; payloads from nothing to the maximum. Each request's handler
 * checks what came and replies in kind; each reply's handler checks and counts. */
#include <string.h>

#include "job.h"

/* Argument i of a message with n arguments. */
static gasnet_handlerarg_t argument(int n, int i) {
  return (i % 2 ? -1 : 1) * (gasnet_handlerarg_t)(100003 * (n + 1) + i);
}
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

/* Where Longs go in the receiver's area: requests to the front, replies to the back. */
enum { long_room = area_bytes / 2, longs_most = 200000 };
static size_t expected_bytes = 0; /* of the message in flight */
static gasnet_node_t expected_from = 0;

static void check_source(gasnet_token_t token) {
  gasnet_node_t from = (gasnet_node_t)-1;
  CHECK(gasnet_AMGetMsgSource(token, &from) == GASNET_OK);
  CHECK(from < gasnet_nodes());
}
/* A Medium's buffer is aligned for any type. */
static void check_medium(const void* p, size_t bytes, int n) {
  CHECK(bytes == 0 || (uintptr_t)p % 16 == 0);
  CHECK(bytes_are_right(p, bytes, n));
}
static void check_long(const void* p, size_t bytes, int n, size_t offset) {
  CHECK(bytes == 0 || (const char*)p == area[gasnet_mynode()] + offset);
  CHECK(bytes_are_right(p, bytes, n));
}
static char* reply_place(gasnet_token_t token) {
  gasnet_node_t from = 0;
  gasnet_AMGetMsgSource(token, &from);
  return area[from] + long_room;
}

#define PARAMS0
#define GIVEN0
#define FRESH0
#define RIGHT0 (1)
#define PARAMS1 , gasnet_handlerarg_t a0
#define GIVEN1 , a0
#define FRESH1 , argument(1, 0)
#define RIGHT1 (1 && a0 == argument(1, 0))
#define PARAMS2 , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1
#define GIVEN2 , a0, a1
#define FRESH2 , argument(2, 0), argument(2, 1)
#define RIGHT2 (1 && a0 == argument(2, 0) && a1 == argument(2, 1))
#define PARAMS3 , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2
#define GIVEN3 , a0, a1, a2
#define FRESH3 , argument(3, 0), argument(3, 1), argument(3, 2)
#define RIGHT3 (1 && a0 == argument(3, 0) && a1 == argument(3, 1) && a2 == argument(3, 2))
#define PARAMS4 \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2, gasnet_handlerarg_t a3
#define GIVEN4 , a0, a1, a2, a3
#define FRESH4 , argument(4, 0), argument(4, 1), argument(4, 2), argument(4, 3)
#define RIGHT4                                                                  \
  (1 && a0 == argument(4, 0) && a1 == argument(4, 1) && a2 == argument(4, 2) && \
   a3 == argument(4, 3))
#define PARAMS5                                                             \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2, \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4
#define GIVEN5 , a0, a1, a2, a3, a4
#define FRESH5 , argument(5, 0), argument(5, 1), argument(5, 2), argument(5, 3), argument(5, 4)
#define RIGHT5                                                                  \
  (1 && a0 == argument(5, 0) && a1 == argument(5, 1) && a2 == argument(5, 2) && \
   a3 == argument(5, 3) && a4 == argument(5, 4))
#define PARAMS6                                                             \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2, \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5
#define GIVEN6 , a0, a1, a2, a3, a4, a5
#define FRESH6 \
  , argument(6, 0), argument(6, 1), argument(6, 2), argument(6, 3), argument(6, 4), argument(6, 5)
#define RIGHT6                                                                  \
  (1 && a0 == argument(6, 0) && a1 == argument(6, 1) && a2 == argument(6, 2) && \
   a3 == argument(6, 3) && a4 == argument(6, 4) && a5 == argument(6, 5))
#define PARAMS7                                                               \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2,   \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5, \
      gasnet_handlerarg_t a6
#define GIVEN7 , a0, a1, a2, a3, a4, a5, a6
#define FRESH7                                                                      \
  , argument(7, 0), argument(7, 1), argument(7, 2), argument(7, 3), argument(7, 4), \
      argument(7, 5), argument(7, 6)
#define RIGHT7                                                                  \
  (1 && a0 == argument(7, 0) && a1 == argument(7, 1) && a2 == argument(7, 2) && \
   a3 == argument(7, 3) && a4 == argument(7, 4) && a5 == argument(7, 5) && a6 == argument(7, 6))
#define PARAMS8                                                               \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2,   \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5, \
      gasnet_handlerarg_t a6, gasnet_handlerarg_t a7
#define GIVEN8 , a0, a1, a2, a3, a4, a5, a6, a7
#define FRESH8                                                                      \
  , argument(8, 0), argument(8, 1), argument(8, 2), argument(8, 3), argument(8, 4), \
      argument(8, 5), argument(8, 6), argument(8, 7)
#define RIGHT8                                                                                     \
  (1 && a0 == argument(8, 0) && a1 == argument(8, 1) && a2 == argument(8, 2) &&                    \
   a3 == argument(8, 3) && a4 == argument(8, 4) && a5 == argument(8, 5) && a6 == argument(8, 6) && \
   a7 == argument(8, 7))
#define PARAMS9                                                               \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2,   \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5, \
      gasnet_handlerarg_t a6, gasnet_handlerarg_t a7, gasnet_handlerarg_t a8
#define GIVEN9 , a0, a1, a2, a3, a4, a5, a6, a7, a8
#define FRESH9                                                                      \
  , argument(9, 0), argument(9, 1), argument(9, 2), argument(9, 3), argument(9, 4), \
      argument(9, 5), argument(9, 6), argument(9, 7), argument(9, 8)
#define RIGHT9                                                                                     \
  (1 && a0 == argument(9, 0) && a1 == argument(9, 1) && a2 == argument(9, 2) &&                    \
   a3 == argument(9, 3) && a4 == argument(9, 4) && a5 == argument(9, 5) && a6 == argument(9, 6) && \
   a7 == argument(9, 7) && a8 == argument(9, 8))
#define PARAMS10                                                              \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2,   \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5, \
      gasnet_handlerarg_t a6, gasnet_handlerarg_t a7, gasnet_handlerarg_t a8, \
      gasnet_handlerarg_t a9
#define GIVEN10 , a0, a1, a2, a3, a4, a5, a6, a7, a8, a9
#define FRESH10                                                                          \
  , argument(10, 0), argument(10, 1), argument(10, 2), argument(10, 3), argument(10, 4), \
      argument(10, 5), argument(10, 6), argument(10, 7), argument(10, 8), argument(10, 9)
#define RIGHT10                                                                    \
  (1 && a0 == argument(10, 0) && a1 == argument(10, 1) && a2 == argument(10, 2) && \
   a3 == argument(10, 3) && a4 == argument(10, 4) && a5 == argument(10, 5) &&      \
   a6 == argument(10, 6) && a7 == argument(10, 7) && a8 == argument(10, 8) &&      \
   a9 == argument(10, 9))
#define PARAMS11                                                              \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2,   \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5, \
      gasnet_handlerarg_t a6, gasnet_handlerarg_t a7, gasnet_handlerarg_t a8, \
      gasnet_handlerarg_t a9, gasnet_handlerarg_t a10
#define GIVEN11 , a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10
#define FRESH11                                                                            \
  , argument(11, 0), argument(11, 1), argument(11, 2), argument(11, 3), argument(11, 4),   \
      argument(11, 5), argument(11, 6), argument(11, 7), argument(11, 8), argument(11, 9), \
      argument(11, 10)
#define RIGHT11                                                                    \
  (1 && a0 == argument(11, 0) && a1 == argument(11, 1) && a2 == argument(11, 2) && \
   a3 == argument(11, 3) && a4 == argument(11, 4) && a5 == argument(11, 5) &&      \
   a6 == argument(11, 6) && a7 == argument(11, 7) && a8 == argument(11, 8) &&      \
   a9 == argument(11, 9) && a10 == argument(11, 10))
#define PARAMS12                                                              \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2,   \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5, \
      gasnet_handlerarg_t a6, gasnet_handlerarg_t a7, gasnet_handlerarg_t a8, \
      gasnet_handlerarg_t a9, gasnet_handlerarg_t a10, gasnet_handlerarg_t a11
#define GIVEN12 , a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11
#define FRESH12                                                                            \
  , argument(12, 0), argument(12, 1), argument(12, 2), argument(12, 3), argument(12, 4),   \
      argument(12, 5), argument(12, 6), argument(12, 7), argument(12, 8), argument(12, 9), \
      argument(12, 10), argument(12, 11)
#define RIGHT12                                                                    \
  (1 && a0 == argument(12, 0) && a1 == argument(12, 1) && a2 == argument(12, 2) && \
   a3 == argument(12, 3) && a4 == argument(12, 4) && a5 == argument(12, 5) &&      \
   a6 == argument(12, 6) && a7 == argument(12, 7) && a8 == argument(12, 8) &&      \
   a9 == argument(12, 9) && a10 == argument(12, 10) && a11 == argument(12, 11))
#define PARAMS13                                                                \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2,     \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5,   \
      gasnet_handlerarg_t a6, gasnet_handlerarg_t a7, gasnet_handlerarg_t a8,   \
      gasnet_handlerarg_t a9, gasnet_handlerarg_t a10, gasnet_handlerarg_t a11, \
      gasnet_handlerarg_t a12
#define GIVEN13 , a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12
#define FRESH13                                                                            \
  , argument(13, 0), argument(13, 1), argument(13, 2), argument(13, 3), argument(13, 4),   \
      argument(13, 5), argument(13, 6), argument(13, 7), argument(13, 8), argument(13, 9), \
      argument(13, 10), argument(13, 11), argument(13, 12)
#define RIGHT13                                                                    \
  (1 && a0 == argument(13, 0) && a1 == argument(13, 1) && a2 == argument(13, 2) && \
   a3 == argument(13, 3) && a4 == argument(13, 4) && a5 == argument(13, 5) &&      \
   a6 == argument(13, 6) && a7 == argument(13, 7) && a8 == argument(13, 8) &&      \
   a9 == argument(13, 9) && a10 == argument(13, 10) && a11 == argument(13, 11) &&  \
   a12 == argument(13, 12))
#define PARAMS14                                                                \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2,     \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5,   \
      gasnet_handlerarg_t a6, gasnet_handlerarg_t a7, gasnet_handlerarg_t a8,   \
      gasnet_handlerarg_t a9, gasnet_handlerarg_t a10, gasnet_handlerarg_t a11, \
      gasnet_handlerarg_t a12, gasnet_handlerarg_t a13
#define GIVEN14 , a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13
#define FRESH14                                                                            \
  , argument(14, 0), argument(14, 1), argument(14, 2), argument(14, 3), argument(14, 4),   \
      argument(14, 5), argument(14, 6), argument(14, 7), argument(14, 8), argument(14, 9), \
      argument(14, 10), argument(14, 11), argument(14, 12), argument(14, 13)
#define RIGHT14                                                                    \
  (1 && a0 == argument(14, 0) && a1 == argument(14, 1) && a2 == argument(14, 2) && \
   a3 == argument(14, 3) && a4 == argument(14, 4) && a5 == argument(14, 5) &&      \
   a6 == argument(14, 6) && a7 == argument(14, 7) && a8 == argument(14, 8) &&      \
   a9 == argument(14, 9) && a10 == argument(14, 10) && a11 == argument(14, 11) &&  \
   a12 == argument(14, 12) && a13 == argument(14, 13))
#define PARAMS15                                                                \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2,     \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5,   \
      gasnet_handlerarg_t a6, gasnet_handlerarg_t a7, gasnet_handlerarg_t a8,   \
      gasnet_handlerarg_t a9, gasnet_handlerarg_t a10, gasnet_handlerarg_t a11, \
      gasnet_handlerarg_t a12, gasnet_handlerarg_t a13, gasnet_handlerarg_t a14
#define GIVEN15 , a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14
#define FRESH15                                                                            \
  , argument(15, 0), argument(15, 1), argument(15, 2), argument(15, 3), argument(15, 4),   \
      argument(15, 5), argument(15, 6), argument(15, 7), argument(15, 8), argument(15, 9), \
      argument(15, 10), argument(15, 11), argument(15, 12), argument(15, 13), argument(15, 14)
#define RIGHT15                                                                    \
  (1 && a0 == argument(15, 0) && a1 == argument(15, 1) && a2 == argument(15, 2) && \
   a3 == argument(15, 3) && a4 == argument(15, 4) && a5 == argument(15, 5) &&      \
   a6 == argument(15, 6) && a7 == argument(15, 7) && a8 == argument(15, 8) &&      \
   a9 == argument(15, 9) && a10 == argument(15, 10) && a11 == argument(15, 11) &&  \
   a12 == argument(15, 12) && a13 == argument(15, 13) && a14 == argument(15, 14))
#define PARAMS16                                                                 \
  , gasnet_handlerarg_t a0, gasnet_handlerarg_t a1, gasnet_handlerarg_t a2,      \
      gasnet_handlerarg_t a3, gasnet_handlerarg_t a4, gasnet_handlerarg_t a5,    \
      gasnet_handlerarg_t a6, gasnet_handlerarg_t a7, gasnet_handlerarg_t a8,    \
      gasnet_handlerarg_t a9, gasnet_handlerarg_t a10, gasnet_handlerarg_t a11,  \
      gasnet_handlerarg_t a12, gasnet_handlerarg_t a13, gasnet_handlerarg_t a14, \
      gasnet_handlerarg_t a15
#define GIVEN16 , a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15
#define FRESH16                                                                                 \
  , argument(16, 0), argument(16, 1), argument(16, 2), argument(16, 3), argument(16, 4),        \
      argument(16, 5), argument(16, 6), argument(16, 7), argument(16, 8), argument(16, 9),      \
      argument(16, 10), argument(16, 11), argument(16, 12), argument(16, 13), argument(16, 14), \
      argument(16, 15)
#define RIGHT16                                                                     \
  (1 && a0 == argument(16, 0) && a1 == argument(16, 1) && a2 == argument(16, 2) &&  \
   a3 == argument(16, 3) && a4 == argument(16, 4) && a5 == argument(16, 5) &&       \
   a6 == argument(16, 6) && a7 == argument(16, 7) && a8 == argument(16, 8) &&       \
   a9 == argument(16, 9) && a10 == argument(16, 10) && a11 == argument(16, 11) &&   \
   a12 == argument(16, 12) && a13 == argument(16, 13) && a14 == argument(16, 14) && \
   a15 == argument(16, 15))

enum { short_q = 128, medium_q = 145, long_q = 162, short_r = 179, medium_r = 196, long_r = 213 };

#define HANDLERS(n)                                                                           \
  static void on_short##n(gasnet_token_t token PARAMS##n) {                                   \
    check_source(token);                                                                      \
    CHECK(RIGHT##n);                                                                          \
    MUST(gasnet_AMReplyShort##n(token, short_r + n GIVEN##n));                                \
  }                                                                                           \
  static void on_medium##n(gasnet_token_t token, void* buf, size_t nbytes PARAMS##n) {        \
    check_source(token);                                                                      \
    CHECK(RIGHT##n);                                                                          \
    check_medium(buf, nbytes, n);                                                             \
    MUST(gasnet_AMReplyMedium##n(token, medium_r + n, buf, nbytes GIVEN##n));                 \
  }                                                                                           \
  static void on_long##n(gasnet_token_t token, void* buf, size_t nbytes PARAMS##n) {          \
    CHECK(RIGHT##n);                                                                          \
    check_long(buf, nbytes, n, 0);                                                            \
    MUST(gasnet_AMReplyLong##n(token, long_r + n, buf, nbytes, reply_place(token) GIVEN##n)); \
  }                                                                                           \
  static void back_short##n(gasnet_token_t token PARAMS##n) {                                 \
    gasnet_node_t from = 0;                                                                   \
    CHECK(RIGHT##n);                                                                          \
    CHECK(gasnet_AMGetMsgSource(token, &from) == GASNET_OK && from == expected_from);         \
    answers = answers + 1;                                                                    \
  }                                                                                           \
  static void back_medium##n(gasnet_token_t token, void* buf, size_t nbytes PARAMS##n) {      \
    (void)token;                                                                              \
    CHECK(RIGHT##n);                                                                          \
    CHECK(nbytes == expected_bytes);                                                          \
    check_medium(buf, nbytes, n);                                                             \
    answers = answers + 1;                                                                    \
  }                                                                                           \
  static void back_long##n(gasnet_token_t token, void* buf, size_t nbytes PARAMS##n) {        \
    (void)token;                                                                              \
    CHECK(RIGHT##n);                                                                          \
    CHECK(nbytes == expected_bytes);                                                          \
    check_long(buf, nbytes, n, long_room);                                                    \
    answers = answers + 1;                                                                    \
  }
HANDLERS(0)
HANDLERS(1)
HANDLERS(2)
HANDLERS(3)
HANDLERS(4)
HANDLERS(5)
HANDLERS(6)
HANDLERS(7)
HANDLERS(8)
HANDLERS(9)
HANDLERS(10)
HANDLERS(11)
HANDLERS(12)
HANDLERS(13)
HANDLERS(14)
HANDLERS(15)
HANDLERS(16)

static unsigned char source[longs_most];
static void fill(size_t bytes, int n) {
  size_t i;
  for (i = 0; i < bytes; ++i) source[i] = byte_at(i, n);
  expected_bytes = bytes;
}
/* Each node writes to the front of the next one's area, so that only one Long is on its way to it.
 */
#define AND_WAIT(call)                   \
  do {                                   \
    const int before = answers;          \
    MUST(call);                          \
    GASNET_BLOCKUNTIL(answers > before); \
    CHECK(answers == before + 1);        \
  } while (0)

#define EXCHANGE(n)                                                                                \
  static void exchange##n(gasnet_node_t to, const size_t* mediums, const size_t* longs,            \
                          int sizes) {                                                             \
    int i;                                                                                         \
    expected_from = to;                                                                            \
    AND_WAIT(gasnet_AMRequestShort##n(to, short_q + n FRESH##n));                                  \
    AND_WAIT(gasnet_AMRequestShort(to, short_q + n, n FRESH##n));                                  \
    for (i = 0; i < sizes; ++i) {                                                                  \
      fill(mediums[i], n);                                                                         \
      AND_WAIT(gasnet_AMRequestMedium##n(to, medium_q + n, source, mediums[i] FRESH##n));          \
      AND_WAIT(gasnet_AMRequestMedium(to, medium_q + n, source, mediums[i], n FRESH##n));          \
      fill(longs[i], n);                                                                           \
      AND_WAIT(gasnet_AMRequestLong##n(to, long_q + n, source, longs[i], area[to] FRESH##n));      \
      AND_WAIT(gasnet_AMRequestLong(to, long_q + n, source, longs[i], area[to], n FRESH##n));      \
      AND_WAIT(gasnet_AMRequestLongAsync##n(to, long_q + n, source, longs[i], area[to] FRESH##n)); \
      AND_WAIT(gasnet_AMRequestLongAsync(to, long_q + n, source, longs[i], area[to], n FRESH##n)); \
    }                                                                                              \
  }
EXCHANGE(0)
EXCHANGE(1)
EXCHANGE(2)
EXCHANGE(3)
EXCHANGE(4)
EXCHANGE(5)
EXCHANGE(6)
EXCHANGE(7)
EXCHANGE(8)
EXCHANGE(9)
EXCHANGE(10)
EXCHANGE(11)
EXCHANGE(12)
EXCHANGE(13)
EXCHANGE(14)
EXCHANGE(15)
EXCHANGE(16)

#define ENTRIES(n)                                                                \
  {short_q + n, HANDLER(&on_short##n)}, {medium_q + n, HANDLER(&on_medium##n)},   \
      {long_q + n, HANDLER(&on_long##n)}, {short_r + n, HANDLER(&back_short##n)}, \
      {medium_r + n, HANDLER(&back_medium##n)}, {long_r + n, HANDLER(&back_long##n)},

/* The forms of replies that take the number of arguments, with arguments of other integer types. */
enum {
  forms_q = 230,
  forms_m = 231,
  forms_l = 232,
  forms_rs = 233,
  forms_rm = 234,
  forms_rl = 235
};
static void forms_short(gasnet_token_t token) { MUST(gasnet_AMReplyShort(token, forms_rs, 0)); }
static void forms_medium(gasnet_token_t token, void* buf, size_t nbytes, gasnet_handlerarg_t a) {
  MUST(gasnet_AMReplyMedium(token, forms_rm, buf, nbytes, 2, (unsigned short)a, (uint64_t)9));
}
static void forms_long(gasnet_token_t token, void* buf, size_t nbytes) {
  MUST(gasnet_AMReplyLong(token, forms_rl, buf, nbytes, reply_place(token), 1, 'x'));
}
static void forms_short_back(gasnet_token_t token) {
  (void)token;
  answers = answers + 1;
}
static void forms_medium_back(gasnet_token_t token, void* buf, size_t nbytes, gasnet_handlerarg_t a,
                              gasnet_handlerarg_t b) {
  (void)token;
  CHECK(a == 65535 && b == 9 && nbytes == 3 && memcmp(buf, "abc", 3) == 0);
  answers = answers + 1;
}
static void forms_long_back(gasnet_token_t token, void* buf, size_t nbytes, gasnet_handlerarg_t a) {
  (void)token;
  CHECK(a == 'x' && nbytes == 3 && memcmp(buf, "abc", 3) == 0);
  CHECK(buf == area[gasnet_mynode()] + long_room);
  answers = answers + 1;
}
static void forms(gasnet_node_t to) {
  char text[] = "abc";
  AND_WAIT(gasnet_AMRequestShort(to, forms_q, 0));
  AND_WAIT(gasnet_AMRequestMedium(to, forms_m, text, 3, 1, -1L));
  AND_WAIT(gasnet_AMRequestLong(to, forms_l, text, 3, area[to], 0));
}

/* Many at once: as many as the credits allow and more, in both directions. No replies are asked
 * for: what brings credits back is the library's own. */
enum { flood_index = 236, flood = 5000 };
static volatile int flooded = 0;
static void on_flood(gasnet_token_t token, void* buf, size_t nbytes, gasnet_handlerarg_t i) {
  (void)token;
  CHECK(nbytes == (size_t)(i % 600) && bytes_are_right(buf, nbytes, 0));
  flooded = flooded + 1;
}
static void flood_next(gasnet_node_t to) {
  int i;
  fill(600, 0);
  for (i = 0; i < flood; ++i)
    MUST(gasnet_AMRequestMedium1(to, flood_index, source, (size_t)(i % 600), i));
  GASNET_BLOCKUNTIL(flooded == flood);
}

/* Without payload the source's address is not looked at, whatever it is; nor is a reply's. */
enum { empty_m = 237, empty_l = 238 };
static char* const nowhere[3] = {NULL, (char*)1, (char*)~(uintptr_t)0};
static void empty_medium(gasnet_token_t token, void* buf, size_t nbytes, gasnet_handlerarg_t i) {
  (void)buf;
  CHECK(nbytes == 0);
  if (i < 3)
    MUST(gasnet_AMReplyMedium1(token, empty_m, nowhere[i], 0, 3));
  else
    answers = answers + 1;
}
static void empty_long(gasnet_token_t token, void* buf, size_t nbytes, gasnet_handlerarg_t i) {
  (void)buf;
  CHECK(nbytes == 0);
  if (i < 3)
    MUST(gasnet_AMReplyLong1(token, empty_l, nowhere[i], 0, reply_place(token), 3));
  else
    answers = answers + 1;
}
static void empty(gasnet_node_t to) {
  int i;
  for (i = 0; i < 3; ++i) {
    AND_WAIT(gasnet_AMRequestMedium1(to, empty_m, nowhere[i], 0, i));
    AND_WAIT(gasnet_AMRequestLong1(to, empty_l, nowhere[i], 0, area[to], i));
    AND_WAIT(gasnet_AMRequestLongAsync1(to, empty_l, nowhere[i], 0, area[to], i));
  }
}

static void errors(void) {
  CHECK(gasnet_AMRequestShort0(gasnet_nodes(), short_q) == GASNET_ERR_BAD_ARG);
  CHECK(gasnet_AMRequestMedium0(0, medium_q, source, gasnet_AMMaxMedium() + 1) ==
        GASNET_ERR_BAD_ARG);
}

int main(int argc, char** argv) {
  gasnet_handlerentry_t table[] = {
      ENTRIES(0) ENTRIES(1) ENTRIES(2) ENTRIES(3) ENTRIES(4) ENTRIES(5) ENTRIES(6) ENTRIES(7)
          ENTRIES(8) ENTRIES(9) ENTRIES(10) ENTRIES(11) ENTRIES(12) ENTRIES(13) ENTRIES(14)
              ENTRIES(15) ENTRIES(16){forms_q, HANDLER(&forms_short)},
      {forms_m, HANDLER(&forms_medium)},
      {forms_l, HANDLER(&forms_long)},
      {forms_rs, HANDLER(&forms_short_back)},
      {forms_rm, HANDLER(&forms_medium_back)},
      {forms_rl, HANDLER(&forms_long_back)},
      {flood_index, HANDLER(&on_flood)},
      {empty_m, HANDLER(&empty_medium)},
      {empty_l, HANDLER(&empty_long)},
      AREA_HANDLER};
  gasnet_node_t next;
  size_t mediums[6] = {0, 1, 8, 57, 1000, 0}, longs[6] = {0, 3, 64, 600, 5000, 0};
  int s;
  MUST(gasnet_init(&argc, &argv));
  MUST(gasnet_attach(table, (int)(sizeof table / sizeof *table), area_bytes, 0));
  share_areas();
  next = (gasnet_mynode() + 1) % gasnet_nodes();
  CHECK(gasnet_AMMaxArgs() >= 16 && gasnet_AMMaxMedium() >= 512);
  CHECK(gasnet_AMMaxLongRequest() >= 512 && gasnet_AMMaxLongReply() >= 512);
  mediums[5] = gasnet_AMMaxMedium();
  longs[5] = longs_most;
  if (longs[5] > gasnet_AMMaxLongReply()) longs[5] = gasnet_AMMaxLongReply();
  for (s = 0; s < 5; ++s)
    if (longs[s] > longs[5]) longs[s] = longs[5];
  {
    const gasnet_node_t targets[2] = {gasnet_mynode(), next};
    int t;
    for (t = 0; t < 2; ++t) {
      const gasnet_node_t to = targets[t];
      exchange0(to, mediums, longs, 6);
      exchange1(to, mediums, longs, 6);
      exchange2(to, mediums, longs, 6);
      exchange3(to, mediums, longs, 6);
      exchange4(to, mediums, longs, 6);
      exchange5(to, mediums, longs, 6);
      exchange6(to, mediums, longs, 6);
      exchange7(to, mediums, longs, 6);
      exchange8(to, mediums, longs, 6);
      exchange9(to, mediums, longs, 6);
      exchange10(to, mediums, longs, 6);
      exchange11(to, mediums, longs, 6);
      exchange12(to, mediums, longs, 6);
      exchange13(to, mediums, longs, 6);
      exchange14(to, mediums, longs, 6);
      exchange15(to, mediums, longs, 6);
      exchange16(to, mediums, longs, 6);
      forms(to);
      empty(to);
      meet();
    }
  }
  flood_next(next);
  errors();
  finish();
  return 0;
}
