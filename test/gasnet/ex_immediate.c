/* GEX_FLAG_IMMEDIATE on every call that takes it (specification 0.19, "Flags for point-to-point
 * communication initiation"), to a process that is stopped: each call comes back, started or not.
 * What was started is done once the other process goes on, and what was not has done nothing. Each
 * try has a place of its own, which tells. Then each call is made once more, until it is started.
 * Where the other's memory is mapped, puts, gets and atomics are done at once. */
#define _GNU_SOURCE
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <gasnet_vis.h>
#include <signal.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "ex_job.h"

/* The calls, as the specification lists them. */
enum form {
  put_blocking,
  put_nb_now,
  put_nb_defer,
  put_nb_event,
  put_nbi_now,
  put_nbi_defer,
  put_nbi_group,
  put_blocking_val,
  put_nb_val,
  put_nbi_val,
  get_blocking,
  get_nb,
  get_nbi,
  ad_nb,
  ad_nb_fetch,
  ad_nbi,
  ad_nbi_set,
  ad_nbi_get,
  vector_put_nb,
  vector_put_nbi,
  indexed_put_nb,
  indexed_put_nbi,
  strided_put_nb,
  strided_put_nbi,
  vector_get_nb,
  vector_get_nbi,
  indexed_get_nb,
  indexed_get_nbi,
  strided_get_nb,
  strided_get_nbi,
  am_short,
  am_medium,
  am_long,
  am_prepared_medium,
  am_prepared_long,
  am_committed, /* the Prepare without the flag, which waits for nothing here; the Commit with it */
  vector_put_blocking,
  indexed_put_blocking,
  strided_put_blocking,
  vector_get_blocking,
  indexed_get_blocking,
  strided_get_blocking,
  get_blocking_val, /* it has no way to refuse, and waits */
  forms,
  while_stopped = get_blocking_val
};
enum { tries = 300, words = 4, on_told = 150, on_told_long };
typedef struct {
  uint64_t at[words];
} slot;

static slot mine[forms][tries], got[forms][tries];
static gex_Event_t events[forms][tries], locals[forms][tries];
static unsigned char started[forms][tries];
static volatile unsigned char told[forms][tries];
static gex_AD_t ad;
static slot* theirs; /* of rank 1: [forms][tries] */

static slot value_of(int form, int i) {
  slot s;
  int w;
  for (w = 0; w < words; ++w) s.at[w] = (uint64_t)(1 + form * 10000 + i * 8 + w);
  return s;
}
static int is_get(int form) {
  return (form >= get_blocking && form <= get_nbi) || form == ad_nb_fetch || form == ad_nbi_get ||
         (form >= vector_get_nb && form <= strided_get_nbi) || form >= vector_get_blocking;
}
/* How much of a slot a call moves. */
static size_t bytes_of(int form) {
  return form < put_blocking_val || (form >= get_blocking && form <= get_nbi) ||
                 (form >= vector_put_nb && form != get_blocking_val)
             ? sizeof(slot)
             : 8;
}

static void mark(gex_AM_Arg_t form, gex_AM_Arg_t i) {
  CHECK(form >= 0 && form < forms && i >= 0 && i < tries);
  told[form][i] = (unsigned char)(told[form][i] + 1);
  answers = answers + 1;
}
static void told_short(gex_Token_t token, gex_AM_Arg_t form, gex_AM_Arg_t i) {
  (void)token;
  mark(form, i);
}
static void told_bytes(gex_Token_t token, void* at, size_t n, gex_AM_Arg_t form, gex_AM_Arg_t i) {
  const slot wanted = value_of(form, i);
  (void)token;
  CHECK(n == sizeof wanted && memcmp(at, &wanted, sizeof wanted) == 0);
  mark(form, i);
}

/* The two halves of a slot as pieces, the second one first, so that they are not one piece. */
static void halves(gex_Memvec_t list[2], void* addrs[2], void* at) {
  int k;
  for (k = 0; k < 2; ++k) {
    addrs[k] = (char*)at + (1 - k) * (sizeof(slot) / 2);
    list[k].gex_addr = addrs[k];
    list[k].gex_len = sizeof(slot) / 2;
  }
}

/* A negotiated message. commit: the flags of the Commit. Not 0 if it was sent. */
static int negotiated(int form, int i, gex_Flags_t prepare, gex_Flags_t commit) {
  const int is_long = form == am_prepared_long;
  const gex_AM_SrcDesc_t sd =
      is_long
          ? gex_AM_PrepareRequestLong(tm, 1, NULL, sizeof(slot), sizeof(slot),
                                      &theirs[form * tries + i], NULL, prepare, 2)
          : gex_AM_PrepareRequestMedium(tm, 1, NULL, sizeof(slot), sizeof(slot), NULL, prepare, 2);
  if (sd == GEX_AM_SRCDESC_NO_OP) {
    CHECK((prepare & GEX_FLAG_IMMEDIATE) != 0);
    return 0;
  }
  memcpy(gex_AM_SrcDescAddr(sd), &mine[form][i], sizeof(slot));
  if (is_long) {
    if (gex_AM_CommitRequestLong2_v2(sd, on_told_long, sizeof(slot), &theirs[form * tries + i],
                                     commit, form, i) == 0)
      return 1;
    CHECK((commit & GEX_FLAG_IMMEDIATE) != 0);
    CHECK(gex_AM_CancelRequestLong(sd, 0) == 0);
    return 0;
  }
  if (gex_AM_CommitRequestMedium2_v2(sd, on_told_long, sizeof(slot), commit, form, i) == 0)
    return 1;
  CHECK((commit & GEX_FLAG_IMMEDIATE) != 0);
  CHECK(gex_AM_CancelRequestMedium(sd, 0) == 0);
  return 0;
}

/* Makes call number i of a form. Not 0 if it was started. */
static int start(int form, int i, gex_Flags_t flags) {
  slot* const there = &theirs[form * tries + i];
  slot *const from = &mine[form][i], *const to = &got[form][i];
  const gex_RMA_Value_t value = from->at[0];
  const ptrdiff_t stride[1] = {-(ptrdiff_t)(sizeof(slot) / 2)};
  const size_t half = sizeof(slot) / 2, two[1] = {2};
  gex_Event_t ev = GEX_EVENT_INVALID;
  gex_Memvec_t near[2], far[2];
  void *near_at[2], *far_at[2];
  int rc = 0;
  halves(near, near_at, is_get(form) ? to : from);
  halves(far, far_at, there);
  locals[form][i] = GEX_EVENT_INVALID;
  switch (form) {
    case put_blocking:
      rc = gex_RMA_PutBlocking(tm, 1, there, from, sizeof *from, flags);
      break;
    case put_nb_now:
      ev = gex_RMA_PutNB(tm, 1, there, from, sizeof *from, GEX_EVENT_NOW, flags);
      if (ev != GEX_EVENT_NO_OP) memset(from, 0xaa, sizeof *from);
      break;
    case put_nb_defer:
      ev = gex_RMA_PutNB(tm, 1, there, from, sizeof *from, GEX_EVENT_DEFER, flags);
      break;
    case put_nb_event:
      ev = gex_RMA_PutNB(tm, 1, there, from, sizeof *from, &locals[form][i], flags);
      break;
    case put_nbi_now:
      rc = gex_RMA_PutNBI(tm, 1, there, from, sizeof *from, GEX_EVENT_NOW, flags);
      if (rc == 0) memset(from, 0xaa, sizeof *from);
      break;
    case put_nbi_defer:
      rc = gex_RMA_PutNBI(tm, 1, there, from, sizeof *from, GEX_EVENT_DEFER, flags);
      break;
    case put_nbi_group:
      rc = gex_RMA_PutNBI(tm, 1, there, from, sizeof *from, GEX_EVENT_GROUP, flags);
      break;
    case put_blocking_val:
      rc = gex_RMA_PutBlockingVal(tm, 1, there, value, 8, flags);
      break;
    case put_nb_val:
      ev = gex_RMA_PutNBVal(tm, 1, there, value, 8, flags);
      break;
    case put_nbi_val:
      rc = gex_RMA_PutNBIVal(tm, 1, there, value, 8, flags);
      break;
    case get_blocking:
      rc = gex_RMA_GetBlocking(tm, to, 1, there, sizeof *to, flags);
      break;
    case get_nb:
      ev = gex_RMA_GetNB(tm, to, 1, there, sizeof *to, flags);
      break;
    case get_nbi:
      rc = gex_RMA_GetNBI(tm, to, 1, there, sizeof *to, flags);
      break;
    case get_blocking_val:
      to->at[0] = gex_RMA_GetBlockingVal(tm, 1, there, 8, flags);
      break;
    case ad_nb:
      ev = gex_AD_OpNB_U64(ad, NULL, 1, there, GEX_OP_ADD, value, 0, flags);
      break;
    case ad_nb_fetch:
      ev = gex_AD_OpNB_U64(ad, &to->at[0], 1, there, GEX_OP_FMULT, 1, 0, flags);
      break;
    case ad_nbi:
      rc = gex_AD_OpNBI_U64(ad, NULL, 1, there, GEX_OP_ADD, value, 0, flags);
      break;
    case ad_nbi_set:
      rc = gex_AD_OpNBI_U64(ad, NULL, 1, there, GEX_OP_SET, value, 0, flags);
      break;
    case ad_nbi_get:
      rc = gex_AD_OpNBI_U64(ad, &to->at[0], 1, there, GEX_OP_GET, 0, 0, flags);
      break;
    case vector_put_nb:
      ev = gex_VIS_VectorPutNB(tm, 1, 2, far, 2, near, flags);
      break;
    case vector_put_nbi:
      rc = gex_VIS_VectorPutNBI(tm, 1, 2, far, 2, near, flags);
      break;
    case vector_put_blocking:
      rc = gex_VIS_VectorPutBlocking(tm, 1, 2, far, 2, near, flags);
      break;
    case indexed_put_nb:
      ev = gex_VIS_IndexedPutNB(tm, 1, 2, far_at, half, 2, near_at, half, flags);
      break;
    case indexed_put_nbi:
      rc = gex_VIS_IndexedPutNBI(tm, 1, 2, far_at, half, 2, near_at, half, flags);
      break;
    case indexed_put_blocking:
      rc = gex_VIS_IndexedPutBlocking(tm, 1, 2, far_at, half, 2, near_at, half, flags);
      break;
    case strided_put_nb:
      ev = gex_VIS_StridedPutNB(tm, 1, far_at[0], stride, near_at[0], stride, half, two, 1, flags);
      break;
    case strided_put_nbi:
      rc = gex_VIS_StridedPutNBI(tm, 1, far_at[0], stride, near_at[0], stride, half, two, 1, flags);
      break;
    case strided_put_blocking:
      rc = gex_VIS_StridedPutBlocking(tm, 1, far_at[0], stride, near_at[0], stride, half, two, 1,
                                      flags);
      break;
    case vector_get_nb:
      ev = gex_VIS_VectorGetNB(tm, 2, near, 1, 2, far, flags);
      break;
    case vector_get_nbi:
      rc = gex_VIS_VectorGetNBI(tm, 2, near, 1, 2, far, flags);
      break;
    case vector_get_blocking:
      rc = gex_VIS_VectorGetBlocking(tm, 2, near, 1, 2, far, flags);
      break;
    case indexed_get_nb:
      ev = gex_VIS_IndexedGetNB(tm, 2, near_at, half, 1, 2, far_at, half, flags);
      break;
    case indexed_get_nbi:
      rc = gex_VIS_IndexedGetNBI(tm, 2, near_at, half, 1, 2, far_at, half, flags);
      break;
    case indexed_get_blocking:
      rc = gex_VIS_IndexedGetBlocking(tm, 2, near_at, half, 1, 2, far_at, half, flags);
      break;
    case strided_get_nb:
      ev = gex_VIS_StridedGetNB(tm, near_at[0], stride, 1, far_at[0], stride, half, two, 1, flags);
      break;
    case strided_get_nbi:
      rc = gex_VIS_StridedGetNBI(tm, near_at[0], stride, 1, far_at[0], stride, half, two, 1, flags);
      break;
    case strided_get_blocking:
      rc = gex_VIS_StridedGetBlocking(tm, near_at[0], stride, 1, far_at[0], stride, half, two, 1,
                                      flags);
      break;
    case am_short:
      rc = gex_AM_RequestShort2(tm, 1, on_told, flags, form, i);
      break;
    case am_medium:
      rc = gex_AM_RequestMedium2(tm, 1, on_told_long, from, sizeof *from, GEX_EVENT_NOW, flags,
                                 form, i);
      break;
    case am_long:
      rc = gex_AM_RequestLong2(tm, 1, on_told_long, from, sizeof *from, there, GEX_EVENT_NOW, flags,
                               form, i);
      break;
    case am_committed:
      return started[form][i] = (unsigned char)negotiated(form, i, 0, flags);
    default:
      return started[form][i] = (unsigned char)negotiated(form, i, flags, flags);
  }
  if (rc != 0 || ev == GEX_EVENT_NO_OP) {
    const slot wanted = value_of(form, i);
    CHECK((flags & GEX_FLAG_IMMEDIATE) != 0); /* "if and only if" */
    CHECK(memcmp(from, &wanted, sizeof wanted) == 0);
    return started[form][i] = 0;
  }
  events[form][i] = ev;
  return started[form][i] = 1;
}

static void wait_for_all(void) {
  int form, i;
  for (form = 0; form < forms; ++form)
    for (i = 0; i < tries; ++i) {
      if (started[form][i]) gex_Event_Wait(locals[form][i]);
      locals[form][i] = GEX_EVENT_INVALID;
    }
  for (form = 0; form < forms; ++form) {
    for (i = 0; i < tries; ++i)
      if (!started[form][i]) events[form][i] = GEX_EVENT_INVALID;
    gex_Event_WaitAll(events[form], tries, 0);
  }
  gex_NBI_Wait(GEX_EC_PUT, 0);
  gex_NBI_Wait(GEX_EC_GET, 0);
  gex_NBI_Wait(GEX_EC_RMW, 0);
  gex_NBI_Wait(GEX_EC_LC | GEX_EC_AM, 0);
  CHECK(gex_NBI_Test(GEX_EC_ALL, 0) == GASNET_OK);
}

/* Every place is as its call says: rank 0's after gets, rank 1's after puts. */
static void places_are_right(void) {
  int form, i;
  for (form = 0; form < forms; ++form) {
    const size_t n = bytes_of(form);
    for (i = 0; i < tries; ++i) {
      const slot wanted = value_of(form, i);
      slot there;
      if (form >= am_short && form <= am_committed) continue; /* rank 1 looks itself */
      CHECK(gex_RMA_GetBlocking(tm, &there, 1, &theirs[form * tries + i], sizeof there, 0) == 0);
      if (is_get(form)) {
        slot before;
        memset(&before, 0xee, sizeof before);
        CHECK(memcmp(&got[form][i], started[form][i] ? &wanted : &before, n) == 0);
        CHECK(memcmp((char*)&got[form][i] + n, (char*)&before + n, sizeof before - n) == 0);
        CHECK(memcmp(&there, &wanted, sizeof there) == 0);
      } else {
        slot before;
        memset(&before, 0, sizeof before);
        CHECK(memcmp(&there, started[form][i] ? &wanted : &before, n) == 0);
        CHECK(memcmp((char*)&there + n, (char*)&before + n, sizeof before - n) == 0);
      }
    }
  }
}

static int is_stopped(long pid) {
  char name[64], line[512];
  const char* state = NULL;
  FILE* f;
  sprintf(name, "/proc/%ld/stat", pid);
  f = fopen(name, "r");
  if (f == NULL) return 0;
  if (fgets(line, sizeof line, f) != NULL) state = strrchr(line, ')');
  fclose(f);
  return state != NULL && state[2] == 'T';
}

static void lay_out(void) {
  int form, i;
  for (form = 0; form < forms; ++form)
    for (i = 0; i < tries; ++i) {
      mine[form][i] = value_of(form, i);
      memset(&got[form][i], 0xee, sizeof(slot));
      if (me == 1) {
        if (is_get(form))
          theirs[form * tries + i] = value_of(form, i);
        else
          memset(&theirs[form * tries + i], 0, sizeof(slot));
      }
    }
}

/* Rank 0's part. Returns how many messages it has sent. */
static int64_t call_all(pid_t other, int mapped) {
  int64_t sent = 0;
  int form, i;
  CHECK(kill(other, SIGSTOP) == 0);
  while (!is_stopped((long)other)) usleep(1000);
  for (i = 0; i < tries - 1; ++i)
    for (form = 0; form < while_stopped; ++form) {
      const int begun = start(form, i, GEX_FLAG_IMMEDIATE);
      if (mapped && form < am_short) CHECK(begun);
    }
  /* There is no room for any number of messages to a process that takes none. */
  for (form = am_short; form <= am_committed; ++form) CHECK(!started[form][tries - 2]);
  CHECK(kill(other, SIGCONT) == 0);
  wait_for_all();
  /* The other process polls again, and makes room. */
  for (form = 0; form < forms; ++form) {
    const time_t until = time(NULL) + 60;
    while (!start(form, tries - 1, GEX_FLAG_IMMEDIATE) && time(NULL) < until) gasnet_AMPoll();
    CHECK(started[form][tries - 1]);
  }
  wait_for_all();
  places_are_right();
  for (form = am_short; form <= am_committed; ++form)
    for (i = 0; i < tries; ++i) sent += started[form][i];
  return sent;
}

int main(void) {
  gex_AM_Entry_t table[] = {
      {on_told, HANDLER(&told_short), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 2, NULL, "told"},
      {on_told_long, HANDLER(&told_bytes), GEX_FLAG_AM_MEDLONG | GEX_FLAG_AM_REQUEST, 2, NULL,
       "told bytes"}};
  int64_t pid = 0, sent = 0;
  void* mapped = NULL;
  int form;
  join_job("immediate", 0);
  MUST(gex_EP_RegisterHandlers(ep, table, 2));
  make_segments();
  theirs = (slot*)(void*)area[1];
  CHECK(sizeof(slot) * forms * tries <= (size_t)segment_bytes);
  lay_out();
  /* No device multiplies: where nothing is mapped they go by message. */
  gex_AD_Create(&ad, tm, GEX_DT_U64,
                GEX_OP_ADD | GEX_OP_MULT | GEX_OP_FMULT | GEX_OP_SET | GEX_OP_GET, 0);
  pid = getpid();
  gex_Event_Wait(gex_Coll_BroadcastNB(tm, 1, &pid, &pid, sizeof pid, 0));
  gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, 1, NULL, &mapped, NULL, 0));
  meet();
  if (me == 0) sent = call_all((pid_t)pid, mapped != NULL);
  gex_Event_Wait(gex_Coll_BroadcastNB(tm, 0, &sent, &sent, sizeof sent, 0));
  gex_Event_Wait(gex_Coll_BroadcastNB(tm, 0, started, started, sizeof started, 0));
  if (me == 1) {
    GASNET_BLOCKUNTIL(answers >= sent);
    meet();
    CHECK(answers == sent);
    for (form = am_short; form <= am_committed; ++form)
      CHECK(memcmp((const void*)told[form], started[form], tries) == 0);
  } else {
    meet();
  }
  finish();
  return 1;
}
