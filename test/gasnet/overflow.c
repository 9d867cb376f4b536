/* Job of two: rank 1 sends 4,000 Shorts to rank 0, which does not poll until rank 1 has no room for
 * more, or has sent all, and tells it by a signal; then both exit. Without flow control messages
 * find no receive buffer, and a line says so though the library looks once a second. */
#define _POSIX_C_SOURCE 200809L
#include <gasnet.h>
#include <gasnetex.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { messages = 4000 };
static volatile int came, pid_of_first;
static void on_short(gasnet_token_t t) {
  (void)t;
  came++;
}

static void on_pid(gasnet_token_t t, gasnet_handlerarg_t pid) {
  (void)t;
  pid_of_first = pid;
}

/* Sends as many as go at once; none more has gone for 0.2 s. */
static int send_what_goes(gex_TM_t team) {
  const struct timespec moment = {.tv_nsec = 1000000};
  int sent = 0, in_vain = 0;
  while (sent < messages && in_vain < 200)
    if (gex_AM_RequestShort0(team, 0, 200, GEX_FLAG_IMMEDIATE) == 0) {
      ++sent;
      in_vain = 0;
    } else {
      ++in_vain;
      nanosleep(&moment, NULL);
      CHECK(gasnet_AMPoll() == GASNET_OK);
    }
  return sent;
}

int main(int argc, char** argv) {
  gasnet_handlerentry_t handlers[] = {{200, (void (*)())on_short}, {201, (void (*)())on_pid}};
  gex_TM_t team;
  sigset_t told;
  sigemptyset(&told);
  sigaddset(&told, SIGUSR1);
  CHECK(sigprocmask(SIG_BLOCK, &told, NULL) == 0); /* in the library's threads, too */
  CHECK(gasnet_init(&argc, &argv) == GASNET_OK);
  CHECK(gasnet_attach(handlers, 2, GASNET_PAGESIZE, 0) == GASNET_OK);
  gasnet_QueryGexObjects(NULL, NULL, &team, NULL);
  if (gasnet_mynode() == 0)
    CHECK(gasnet_AMRequestShort1(1, 201, (gasnet_handlerarg_t)getpid()) == GASNET_OK);
  else
    GASNET_BLOCKUNTIL(pid_of_first != 0);
  gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
  CHECK(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS) == GASNET_OK);
  if (gasnet_mynode() == 1) {
    int sent = send_what_goes(team);
    CHECK(kill(pid_of_first, SIGUSR1) == 0);
    for (; sent < messages; sent++) CHECK(gasnet_AMRequestShort0(0, 200) == GASNET_OK);
  } else {
    CHECK(sigtimedwait(&told, NULL, &(struct timespec){.tv_sec = 50}) == SIGUSR1);
    GASNET_BLOCKUNTIL(came == messages);
  }
  gasnet_exit(check_result());
}
