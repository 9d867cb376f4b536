/* As cxx.cpp, by gasnet.h, or, compiled with -DEX, by gasnetex.h. */
#ifdef EX
#include <gasnetex.h>
#include "test/gasnet/ex_job.h"
#define SHORT gex_AM_RequestShort1(tm, 1, on_ask, 0, 7)
#define MEDIUM \
  gex_AM_RequestMedium0(tm, 1, on_ask_medium, payload, sizeof payload, GEX_EVENT_NOW, 0)
#define PUT gex_RMA_PutBlocking(tm, 1, area[1], &word, sizeof word, 0)
#define GET gex_RMA_GetBlocking(tm, &word, 1, area[1], sizeof word, 0)
#define END MUST(gex_AM_RequestShort0(tm, 1, on_end, 0))
#define COUNT MUST(gex_AM_RequestShort0(tm, 1, on_count, 0))
#define REPLY_SHORT gex_AM_ReplyShort1(token, on_answer, 0, i)
#define REPLY_MEDIUM gex_AM_ReplyMedium0(token, on_answer_medium, at, bytes, GEX_EVENT_NOW, 0)
#else
#include <gasnet.h>
#include "test/gasnet/job.h"
#define SHORT gasnet_AMRequestShort1(1, on_ask, 7)
#define MEDIUM gasnet_AMRequestMedium0(1, on_ask_medium, payload, sizeof payload)
#define PUT gasnet_put(1, area[1], &word, sizeof word)
#define GET gasnet_get(&word, 1, area[1], sizeof word)
#define END MUST(gasnet_AMRequestShort0(1, on_end))
#define COUNT MUST(gasnet_AMRequestShort0(1, on_count))
#define REPLY_SHORT gasnet_AMReplyShort1(token, on_answer, i)
#define REPLY_MEDIUM gasnet_AMReplyMedium0(token, on_answer_medium, at, bytes)
#define gex_Token_t gasnet_token_t
#define gex_AM_Arg_t gasnet_handlerarg_t
#endif
#include <sched.h>

#include "test/instructions/steps.h"

enum { on_ask = 200, on_answer, on_ask_medium, on_answer_medium, on_count, on_end };
enum { of_short, of_medium };

static volatile int asked = 0, last = 0, counts = 0, over = 0;
static char payload[64];

static void ask(gex_Token_t token, gex_AM_Arg_t i) {
  ++asked, last = of_short;
  (void)REPLY_SHORT;
}
static void answer(gex_Token_t token, gex_AM_Arg_t i) {
  (void)token, (void)i;
  ++answers;
}
static void ask_medium(gex_Token_t token, void* at, size_t bytes) {
  ++asked, last = of_medium;
  (void)REPLY_MEDIUM;
}
static void answer_medium(gex_Token_t token, void* at, size_t bytes) {
  (void)token, (void)at, (void)bytes;
  ++answers;
}
static void count(gex_Token_t token) {
  (void)token;
  counts = !counts;
}
static void end(gex_Token_t token) {
  (void)token;
  over = 1;
}

static void asks(void) {
  struct steps_of request[2] = {{"request_short", 0, {0}}, {"request_medium", 0, {0}}};
  struct steps_of reply[2] = {{"poll_short_reply", 0, {0}}, {"poll_medium_reply", 0, {0}}};
  struct steps_of empty = {"poll_empty", 0, {0}};
  int k, i;
  for (k = 0; k < 2; ++k) {
    for (i = 0; i < steps_warm_up + steps_rounds; ++i) {
      const int before = answers;
      int rc = 0;
      if (i < steps_warm_up) {
        MUST(k == of_short ? SHORT : MEDIUM);
        GASNET_BLOCKUNTIL(answers != before);
        continue;
      }
      if (i == steps_warm_up) COUNT;
      steps_note(&request[k], k == of_short ? STEPS(rc = SHORT) : STEPS(rc = MEDIUM));
      MUST(rc);
      while (answers == before) {
        long n;
        steps_wait();
        n = STEPS(rc = gasnet_AMPoll());
        MUST(rc);
        steps_note(answers == before ? &empty : &reply[k], n);
      }
    }
    COUNT;
    steps_print(&request[k]);
    steps_print(&reply[k]);
  }
  while (empty.count < steps_samples) {
    int rc = 0;
    steps_note(&empty, STEPS(rc = gasnet_AMPoll()));
    MUST(rc);
  }
  steps_print(&empty);
}

static void transfers(void) {
  struct steps_of put = {"put", 0, {0}}, get = {"get", 0, {0}};
  uint64_t word = 5;
  int i;
  for (i = 0; i < steps_samples; ++i) {
    const long p = STEPS(PUT);
    const long g = STEPS(GET);
    CHECK(word == 5);
    steps_note(&put, p), steps_note(&get, g);
  }
  steps_print(&put);
  steps_print(&get);
}

static void answers_all(void) {
  struct steps_of handled[2] = {{"poll_short_request", 0, {0}}, {"poll_medium_request", 0, {0}}};
  while (!over) {
    const int before = asked;
    int rc = 0;
    long n;
    if (!counts) {
      MUST(gasnet_AMPoll());
      sched_yield();
      continue;
    }
    steps_wait();
    n = STEPS(rc = gasnet_AMPoll());
    MUST(rc);
    if (asked == before) continue;
    steps_note(&handled[last], n);
  }
  steps_print(&handled[of_short]);
  steps_print(&handled[of_medium]);
}

int main(int argc, char** argv) {
#ifdef EX
  gex_AM_Entry_t table[] = {
      {on_ask, HANDLER(ask), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 1, NULL, "ask"},
      {on_answer, HANDLER(answer), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 1, NULL, "answer"},
      {on_ask_medium, HANDLER(ask_medium), GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 0, NULL,
       "ask_medium"},
      {on_answer_medium, HANDLER(answer_medium), GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 0, NULL,
       "answer_medium"},
      {on_count, HANDLER(count), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "count"},
      {on_end, HANDLER(end), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "end"}};
  (void)argc, (void)argv;
  join_job("instructions", 0);
  MUST(gex_EP_RegisterHandlers(ep, table, sizeof table / sizeof *table));
  make_segments();
#else
  gasnet_handlerentry_t table[] = {{on_ask, HANDLER(ask)},
                                   {on_answer, HANDLER(answer)},
                                   {on_ask_medium, HANDLER(ask_medium)},
                                   {on_answer_medium, HANDLER(answer_medium)},
                                   {on_count, HANDLER(count)},
                                   {on_end, HANDLER(end)},
                                   AREA_HANDLER};
  MUST(gasnet_init(&argc, &argv));
  MUST(gasnet_attach(table, sizeof table / sizeof *table, area_bytes, 0));
  share_areas();
#endif
  meet();
  steps_begin();
  if (gasnet_mynode() == 0) {
    asks();
    transfers();
    END;
  } else {
    answers_all();
  }
  finish();
}
