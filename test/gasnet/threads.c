/* PAR: threads of one process send, poll, run handlers, put, get and synchronize at the same time;
 * handles and implicit operations belong to the thread that began them; handler-safe locks keep
 * threads and handlers apart. */
#define _GNU_SOURCE
#include <gasnet.h>

#include <pthread.h>
#include <string.h>

#include "job.h"

#include <gasnet_tools.h>

enum { threads = 4, rounds = 300, request_index = 128, reply_index = 129, bulk_index = 130 };

/* A counter of two words that must always agree, changed by handlers and threads. */
static gasnet_hsl_t lock = GASNET_HSL_INITIALIZER;
static int low = 0, high = 0;
static gasnett_atomic_t served = gasnett_atomic_init(0), bytes_served = gasnett_atomic_init(0);
static gasnett_atomic_t answered[threads];
static int failures = 0;

static void bump(void) {
  gasnet_hsl_lock(&lock);
  if (low != high) ++failures;
  ++low;
  ++high;
  gasnet_hsl_unlock(&lock);
}
static void on_request(gasnet_token_t token, gasnet_handlerarg_t thread, gasnet_handlerarg_t x) {
  bump();
  gasnett_atomic_increment(&served, 0);
  MUST(gasnet_AMReplyShort2(token, reply_index, thread, x + 1));
}
static void on_reply(gasnet_token_t token, gasnet_handlerarg_t thread, gasnet_handlerarg_t x) {
  (void)token;
  bump();
  gasnett_atomic_set(&answered[thread], (gasnett_atomic_val_t)x, GASNETT_ATOMIC_REL);
}
static void on_bulk(gasnet_token_t token, void* buf, size_t nbytes, gasnet_handlerarg_t seed) {
  const unsigned char* b = (const unsigned char*)buf;
  size_t i;
  (void)token;
  for (i = 0; i < nbytes; ++i)
    if (b[i] != (unsigned char)(seed + (int)i)) {
      gasnet_hsl_lock(&lock);
      ++failures;
      gasnet_hsl_unlock(&lock);
      break;
    }
  gasnett_atomic_increment(&bytes_served, 0);
}

static void* work(void* arg) {
  const int me = *(int*)arg;
  const gasnet_node_t next = (gasnet_mynode() + 1) % gasnet_nodes();
  char* const mine = area[next] + 4096 * ((int)gasnet_mynode() % 8 * threads + me);
  unsigned char message[500];
  uint64_t values[8], back[8];
  int i, k, wrong = 0;
  GASNET_BEGIN_FUNCTION();
  for (i = 0; i < rounds; ++i) {
    gasnet_handle_t h[2];
    MUST(gasnet_AMRequestShort2(next, request_index, me, 2 * i));
    GASNET_BLOCKUNTIL(gasnett_atomic_read(&answered[me], GASNETT_ATOMIC_ACQ) ==
                      (gasnett_atomic_val_t)(2 * i + 1));
    for (k = 0; k < 500; ++k) message[k] = (unsigned char)(me + i + k);
    MUST(gasnet_AMRequestMedium1(next, bulk_index, message, 500, me + i));
    for (k = 0; k < 8; ++k) values[k] = (uint64_t)me << 32 | (uint64_t)(i * 8 + k);
    for (k = 0; k < 8; ++k) gasnet_put_nbi(next, mine + 8 * k, &values[k], 8);
    gasnet_wait_syncnbi_puts();
    h[0] = gasnet_get_nb_bulk(back, next, mine, sizeof back);
    h[1] = gasnet_put_nb_bulk(next, mine + 1024, values, sizeof values);
    gasnet_wait_syncnb_all(h, 2);
    wrong += memcmp(back, values, sizeof back) != 0;
    gasnet_begin_nbi_accessregion();
    gasnet_put_nbi_val(next, mine + 2048, (unsigned)i, 4);
    gasnet_wait_syncnb(gasnet_end_nbi_accessregion());
    wrong += gasnet_get_val(next, mine + 2048, 4) != (gasnet_register_value_t)i;
  }
  bump();
  gasnet_hsl_lock(&lock);
  failures += wrong;
  gasnet_hsl_unlock(&lock);
  return NULL;
}

int main(int argc, char** argv) {
  gasnet_handlerentry_t table[] = {{request_index, HANDLER(&on_request)},
                                   {reply_index, HANDLER(&on_reply)},
                                   {bulk_index, HANDLER(&on_bulk)},
                                   AREA_HANDLER};
  pthread_t t[threads];
  int names[threads];
  int i;
  MUST(gasnet_init(&argc, &argv));
  MUST(gasnet_attach(table, 4, area_bytes, 0));
  share_areas();
  for (i = 0; i < threads; ++i) {
    names[i] = i;
    CHECK(pthread_create(&t[i], NULL, &work, &names[i]) == 0);
  }
  for (i = 0; i < threads; ++i) CHECK(pthread_join(t[i], NULL) == 0);
  /* what the node before sent may still be on its way */
  GASNET_BLOCKUNTIL(gasnett_atomic_read(&served, 0) == threads * rounds &&
                    gasnett_atomic_read(&bytes_served, 0) == threads * rounds);
  CHECK(failures == 0);
  /* each request and each reply, and each thread once */
  CHECK(low == 2 * threads * rounds + threads && high == low);
  finish();
  return 1;
}
