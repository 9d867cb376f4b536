/* No handler of the client's runs before gasnet_attach has returned in its process. Every node
 * sends to all others the moment that it has returned, and is itself late by turns. */
#include <gasnet.h>

#include <unistd.h>

#include "job.h"

enum { hello_index = 128 };
static int attached = 0, heard = 0; /* a progress thread runs handlers, too */

static void on_hello(gasnet_token_t token) {
  (void)token;
  CHECK(__atomic_load_n(&attached, __ATOMIC_ACQUIRE));
  __atomic_add_fetch(&heard, 1, __ATOMIC_RELEASE);
}

int main(int argc, char** argv) {
  gasnet_handlerentry_t table[] = {{hello_index, HANDLER(&on_hello)}};
  gasnet_node_t n;
  MUST(gasnet_init(&argc, &argv));
  MUST(gasnet_attach(table, 1, GASNET_PAGESIZE, 0));
  /* What a client does here is not much, and must be enough. */
  __atomic_store_n(&attached, 1, __ATOMIC_RELEASE);
  for (n = 0; n < gasnet_nodes(); ++n) MUST(gasnet_AMRequestShort0(n, hello_index));
  GASNET_BLOCKUNTIL(__atomic_load_n(&heard, __ATOMIC_ACQUIRE) == (int)gasnet_nodes());
  CHECK(__atomic_load_n(&heard, __ATOMIC_ACQUIRE) == (int)gasnet_nodes());
  finish();
  return 0;
}
