/* The same in C, by gasnet.h. */
#include <gasnet.h>
#include <penstock/counters.h>
#include <stdio.h>

static volatile int from = -1;

static void on_greeting(gasnet_token_t token, gasnet_handlerarg_t rank) {
  (void)token;
  from = (int)rank;
}

int main(int argc, char** argv) {
  gasnet_handlerentry_t table[] = {{200, (void (*)())on_greeting}};
  if (gasnet_init(&argc, &argv) != GASNET_OK) return 1;
  if (gasnet_attach(table, 1, GASNET_PAGESIZE, 0) != GASNET_OK) return 2;
  const int n = (int)gasnet_nodes(), me = (int)gasnet_mynode();
  if (gasnet_AMRequestShort1((gasnet_node_t)((me + 1) % n), 200, me) != GASNET_OK) return 3;
  GASNET_BLOCKUNTIL(from >= 0);
  struct penstock_counters* counters = penstock_counters_take(0);
  uint64_t polls = 0;
  if (counters == NULL || penstock_counters_get(counters, "polls", &polls) != 0 || polls == 0)
    return 5;
  penstock_counters_free(counters);
  if (from == (me + n - 1) % n) printf("greeted\n");
  fflush(stdout);
  gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
  gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS);
  gasnet_exit(0);
  return 4;
}
