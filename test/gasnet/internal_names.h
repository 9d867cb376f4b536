/* The names that no specification has but that clients take: handlers by gasnet_handler.h, whose
 * arguments hold pointers, and the library's test of itself. */
#include <string.h>

#include "job.h"

#include <gasnet_handler.h>
#include <gasnet_tools.h>

/* A client that makes its handlers' indexes by name. */
enum { _hidx_ask = 201, _hidx_asked_long, _hidx_answered, _hidx_plain, _hidx_filled };

static volatile int seen_answers, seen_plain, seen_fills;
static char* answered_at;

SHORT_HANDLER_DECL(answered, 2, 3);
SHORT_HANDLER_NOBITS_DECL(plain, 1);
MEDIUM_HANDLER_DECL(ask, 2, 4);
MEDIUM_HANDLER_NOBITS_DECL(filled, 1);
LONG_HANDLER_DECL(asked_long, 1, 2);

GASNETT_INLINE(answered_inner)
void answered_inner(gasnet_token_t token, gasnet_handlerarg_t code, void* where) {
  (void)token;
  CHECK(code == -7);
  answered_at = (char*)where;
  seen_answers = seen_answers + 1;
}
SHORT_HANDLER(answered, 2, 3, (token, a0, UNPACK(a1)), (token, a0, UNPACK2(a1, a2)));

GASNETT_INLINE(ask_inner)
void ask_inner(gasnet_token_t token, void* addr, size_t nbytes, void* first, void* second) {
  CHECK(nbytes == 5 && memcmp(addr, "words", 5) == 0);
  CHECK((char*)second == (char*)first + 1);
  MUST(SHORT_REP(2, 3, (token, gasneti_handleridx(answered), -7, PACK(first))));
}
MEDIUM_HANDLER(ask, 2, 4, (token, addr, nbytes, UNPACK(a0), UNPACK(a1)),
               (token, addr, nbytes, UNPACK2(a0, a1), UNPACK2(a2, a3)));

GASNETT_INLINE(asked_long_inner)
void asked_long_inner(gasnet_token_t token, void* addr, size_t nbytes, void* where) {
  CHECK(nbytes == 4 && memcmp(addr, "long", 4) == 0);
  MUST(MEDIUM_REP(1, 1, (token, gasneti_handleridx(filled), addr, nbytes, where == addr)));
}
LONG_HANDLER(asked_long, 1, 2, (token, addr, nbytes, UNPACK(a0)),
             (token, addr, nbytes, UNPACK2(a0, a1)));

void plain(gasnet_token_t token, gasnet_handlerarg_t a0) {
  (void)token;
  CHECK(a0 == 99);
  seen_plain = seen_plain + 1;
}
void filled(gasnet_token_t token, void* addr, size_t nbytes, gasnet_handlerarg_t a0) {
  (void)token;
  CHECK(a0 == 1 && nbytes == 4 && memcmp(addr, "long", 4) == 0);
  seen_fills = seen_fills + 1;
}

/* Lists with a leading comma: the handler's own parameters, and a call with them. */
static int sum3(int first ARGS3);
static int sum3(int first ARGS3) { return first + (int)(a0 + a1 + a2); }
static int sum_of(int first ARGS3) { return sum3(first ARGNAMES3); }

static void messages(gasnet_node_t to) {
  char here[2];
  MUST(MEDIUM_REQ(2, 4,
                  (to, gasneti_handleridx(ask), (void*)"words", 5, PACK(here), PACK(here + 1))));
  GASNET_BLOCKUNTIL(seen_answers == 1);
  CHECK(answered_at == here);
  MUST(SHORT_REQ(1, 1, (to, gasneti_handleridx(plain), 99)));
  GASNET_BLOCKUNTIL(seen_plain == 1); /* from the rank before this one */
  MUST(LONG_REQ(1, 2,
                (to, gasneti_handleridx(asked_long), (void*)"long", 4, area[to], PACK(area[to]))));
  GASNET_BLOCKUNTIL(seen_fills % 2 == 1);
  MUST(LONGASYNC_REQ(
      1, 2, (to, gasneti_handleridx(asked_long), (void*)"long", 4, area[to], PACK(area[to]))));
  GASNET_BLOCKUNTIL(seen_fills % 2 == 0);
  meet();
}

static void words(void) {
  const uint64_t value = 0x0123456789abcdefu;
  CHECK(GASNETI_HIWORD(value) == 0x01234567u && GASNETI_LOWORD(value) == 0x89abcdefu);
  CHECK(GASNETI_MAKEWORD(GASNETI_HIWORD(value), GASNETI_LOWORD(value)) == value);
  CHECK(GASNETI_MAKEWORD(1, -1) == 0x1ffffffffu); /* a low word of a negative argument */
  CHECK(sum_of(1, 2, 3, 4) == 10);
  CHECK(sizeof("" _STRINGIFY(GASNETE_THREAD_GET)) == 1);
  CHECK(gasneti_nodes == gasnet_nodes());
  CHECK(strcmp(gasneti_gethostname(), gasnett_gethostname()) == 0);
  if (gasneti_nodes == 0) gasneti_fatalerror("a job of %d nodes", 0);
}

static void handles(gasnet_node_t to) {
  gasnet_handle_t h = gasnet_put_nb_bulk(to, area[to] + 64, "0123456", 8);
  char back[8];
  while (gasnet_try_syncnb_nopoll(h) == GASNET_ERR_NOT_READY) gasnet_AMPoll();
  CHECK(gasnet_try_syncnb_nopoll(GASNET_INVALID_HANDLE) == GASNET_OK);
  gasnet_get(back, to, area[to] + 64, 8);
  CHECK(strcmp(back, "0123456") == 0);
  meet();
}

#if GASNET_SEQ /* clients make teams there only */
static void teams(void) {
  static gasnet_seginfo_t scratch;
  const gasnet_node_t half = (gasnet_nodes() + 1) / 2;
  const gasnet_node_t color = gasnet_mynode() / half, place = gasnet_mynode() % half;
  gasnet_team_handle_t team;
  scratch.addr = malloc(4096);
  scratch.size = 4096;
  gasnet_coll_init(NULL, 0, NULL, 0, 0);
  team = gasnete_coll_team_split(GASNET_TEAM_ALL, color, place, &scratch GASNETE_THREAD_GET);
  CHECK(gasnete_coll_team_size(team) == (color == 0 ? half : gasnet_nodes() - half));
  CHECK(gasnete_coll_team_rank2node(team, (int)place) == gasnet_mynode());
  CHECK(gasnete_coll_team_node2rank(team, gasnet_mynode()) == place);
}
#endif

/* All sections, one at a time and together, and none; with the arguments of both releases. */
static void diagnostics(void) {
  const gex_Rank_t to = (gasneti_mynode + 1) % gasneti_nodes;
  gex_TM_t tm;
  gex_AM_Entry_t* entries;
  int count;
  static const char* const sections[] = {NULL, "", "A", "B", "C", "CAB", "Z"};
  static gasnet_seginfo_t areas[most_nodes];
  gasnet_node_t n;
  unsigned i;
  for (n = 0; n < gasnet_nodes(); ++n) {
    areas[n].addr = area[n];
    areas[n].size = area_bytes;
  }
  for (i = 0; i < sizeof sections / sizeof *sections; ++i)
    CHECK(gasnett_run_diagnostics(40, 3, sections[i], areas) == 0);
  gasnet_QueryGexObjects(NULL, NULL, &tm, NULL);
  for (i = 0; i < sizeof sections / sizeof *sections; ++i)
    CHECK(gasnett_run_diagnostics(40, 3, sections[i], tm, area[gasneti_mynode], to, area[to],
                                  17u) == 0);
  gasnett_diagnostic_gethandlers(&entries, &count);
  for (i = 0; i < (unsigned)count; ++i) {
    CHECK(entries[i].gex_index >= GEX_AM_INDEX_BASE && entries[i].gex_fnptr != NULL);
    CHECK((entries[i].gex_flags & GEX_FLAG_AM_MEDIUM) != 0 && entries[i].gex_nargs >= 3);
  }
}

static int internal_names(int argc, char** argv) {
  gasnet_handlerentry_t table[16] = {
      AREA_HANDLER,
      gasneti_handler_tableentry_with_bits(ask),
      gasneti_handler_tableentry_with_bits(asked_long),
      gasneti_handler_tableentry_with_bits(answered),
      gasneti_handler_tableentry_no_bits(plain),
      gasneti_handler_tableentry_no_bits(filled),
  };
  gasnet_handlerentry_t* more;
  int count, i;
  MUST(gasnet_init(&argc, &argv));
  gasnett_diagnostic_gethandlers(&more, &count);
  CHECK(count > 0);
  for (i = 0; i < count; ++i) table[6 + i] = more[i];
  MUST(gasnet_attach(table, 6 + count, area_bytes, 0));
  share_areas();
  words();
  messages((gasnet_mynode() + 1) % gasnet_nodes());
  handles((gasnet_mynode() + 1) % gasnet_nodes());
#if GASNET_SEQ
  teams();
#endif
  diagnostics();
  finish();
  return 1;
}
