/* Active messages: every family with 0 to 16 arguments, to this node and to the next, and the forms
 * that take the number of arguments; payloads from nothing to the maximum. Each request's handler
 * checks what came and replies in kind; each reply's handler checks and counts. */
#include <string.h>

#include "am_arguments.h"
#include "job.h"

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
  CHECK((const char*)p == area[gasnet_mynode()] + offset); /* of no bytes too */
  CHECK(bytes_are_right(p, bytes, n));
}
static char* reply_place(gasnet_token_t token) {
  gasnet_node_t from = 0;
  gasnet_AMGetMsgSource(token, &from);
  return area[from] + long_room;
}

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

/* Without payload the source's address is not looked at, whatever it is; nor is a reply's. A Long's
 * handler has its dest_addr all the same. */
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
  CHECK(nbytes == 0);
  CHECK((char*)buf == area[gasnet_mynode()] + (i < 3 ? 0 : long_room));
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

/* Requests of more bytes than a reply can have in every build; each byte is checked there. */
enum { large_l = 239, large_done = 240 };
static void large_long(gasnet_token_t token, void* buf, size_t nbytes, gasnet_handlerarg_t i) {
  CHECK((char*)buf == area[gasnet_mynode()] + 1);
  CHECK(nbytes == (size_t)longs_most && bytes_are_right(buf, nbytes, i));
  MUST(gasnet_AMReplyShort0(token, large_done));
}
static void large_long_done(gasnet_token_t token) {
  (void)token;
  answers = answers + 1;
}
static void large(gasnet_node_t to) {
  int i;
  for (i = 0; i < 4; ++i) {
    fill(longs_most, i);
    if (i % 2 == 0)
      AND_WAIT(gasnet_AMRequestLong1(to, large_l, source, longs_most, area[to] + 1, i));
    else
      AND_WAIT(gasnet_AMRequestLongAsync1(to, large_l, source, longs_most, area[to] + 1, i));
  }
}

static void errors(void) {
  CHECK(gasnet_AMRequestShort0(gasnet_nodes(), short_q) == GASNET_ERR_BAD_ARG);
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
      {large_l, HANDLER(&large_long)},
      {large_done, HANDLER(&large_long_done)},
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
  CHECK(gasnet_AMMaxLongRequest() >= 1 << 30 && gasnet_AMMaxLongReply() >= 60000);
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
      large(to);
      meet();
    }
  }
  flood_next(next);
  errors();
  finish();
  return 0;
}
