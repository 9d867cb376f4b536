/* A library that uses GASNet, to be loaded by a program that knows nothing of it. */
#include <gasnet.h>

static volatile int from = -1;

static void on_greeting(gasnet_token_t token, gasnet_handlerarg_t rank) {
  (void)token;
  from = (int)rank;
}

int greet_start(void) {
  gasnet_handlerentry_t table[] = {{200, (void (*)())on_greeting}};
  if (gasnet_init(0, 0) != GASNET_OK) return 1;
  return gasnet_attach(table, 1, GASNET_PAGESIZE, 0) != GASNET_OK;
}
int greet_size(void) { return (int)gasnet_nodes(); }
int greet_neighbour(void) {
  const int n = (int)gasnet_nodes(), me = (int)gasnet_mynode();
  if (gasnet_AMRequestShort1((gasnet_node_t)((me + 1) % n), 200, me) != GASNET_OK) return -1;
  GASNET_BLOCKUNTIL(from >= 0);
  return from == (me + n - 1) % n;
}
void greet_end(void) {
  gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
  gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS);
  gasnet_exit(0);
}
