/* Job of two: rank 1 sends 4,000 Shorts to rank 0, which does not poll for 200 ms, and both exit.
 * Without flow control messages find no receive buffer, and a line says so though the library looks
 * once a second. */
#define _POSIX_C_SOURCE 200809L
#include <gasnet.h>
#include <time.h>

#include "check.h"

enum { messages = 4000 };
static volatile int came;
static void on_short(gasnet_token_t t) {
  (void)t;
  came++;
}

int main(int argc, char** argv) {
  gasnet_handlerentry_t handlers[] = {{200, (void (*)())on_short}};
  CHECK(gasnet_init(&argc, &argv) == GASNET_OK);
  CHECK(gasnet_attach(handlers, 1, GASNET_PAGESIZE, 0) == GASNET_OK);
  gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
  CHECK(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
  if (gasnet_mynode() == 1) {
    for (int i = 0; i < messages; i++) CHECK(gasnet_AMRequestShort0(0, 200) == GASNET_OK);
  } else {
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    GASNET_BLOCKUNTIL(came == messages);
  }
  gasnet_exit(check_result());
}
