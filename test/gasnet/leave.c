/* The ways out of a GASNet program, chosen by argv[1]; leave.sh says what must come of each. */
#define _GNU_SOURCE
#include <gasnet.h>

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "job.h"

enum { die_index = 128 };

static void on_die(gasnet_token_t token, gasnet_handlerarg_t code) {
  (void)token;
  gasnet_exit(code);
}
static void on_quit(int sig) {
  (void)sig;
  gasnet_exit(9);
}
#if GASNET_PAR
static void* leaves(void* arg) {
  (void)arg;
  usleep(20000);
  gasnet_exit(7);
  return NULL;
}
#endif

static void serve_for_ever(void) {
  for (;;) gasnet_AMPoll();
}

int main(int argc, char** argv) {
  gasnet_handlerentry_t table[] = {{die_index, HANDLER(&on_die)}, AREA_HANDLER};
  const char* how = argc > 1 ? argv[1] : "";
  const gasnet_node_t last = argc > 2 ? (gasnet_node_t)atoi(argv[2]) : 0; /* who does it */
  gasnet_node_t actor;
  if (strcmp(how, "nothing") == 0) return 4; /* not a GASNet process yet */
  MUST(gasnet_init(&argc, &argv));
  actor = last % gasnet_nodes();
  if (strcmp(how, "unattached") == 0) gasnet_exit(3);
  MUST(gasnet_attach(table, 2, area_bytes, 0));
  share_areas();
  if (strcmp(how, "all") == 0) gasnet_exit(5);
  if (strcmp(how, "print") == 0) {
    printf("node %u prints\n", gasnet_mynode());
    gasnet_exit(0);
  }
  if (strcmp(how, "return") == 0) return 6;
  if (strcmp(how, "exit") == 0) exit(6);
  if (strcmp(how, "one") == 0) {
    if (gasnet_mynode() == actor) gasnet_exit(5);
    serve_for_ever();
  }
  if (strcmp(how, "one0") == 0) {
    if (gasnet_mynode() == actor) gasnet_exit(0);
    serve_for_ever();
  }
  if (strcmp(how, "onereturn") == 0) {
    if (gasnet_mynode() == actor) return 6;
    serve_for_ever();
  }
  if (strcmp(how, "handler") == 0) {
    if (gasnet_mynode() == (actor + 1) % gasnet_nodes())
      MUST(gasnet_AMRequestShort1(actor, die_index, 5));
    serve_for_ever();
  }
  if (strcmp(how, "barrier") == 0) {
    if (gasnet_mynode() == actor) gasnet_exit(5);
    meet();
  }
  if (strcmp(how, "quit") == 0) { /* the client's handler of SIGQUIT decides the code */
    signal(SIGQUIT, &on_quit);
    if (gasnet_mynode() == actor) gasnet_exit(9);
    serve_for_ever();
  }
#if GASNET_PAR
  if (strcmp(how, "thread") == 0) {
    pthread_t t;
    if (gasnet_mynode() == actor) pthread_create(&t, NULL, &leaves, NULL);
    serve_for_ever();
  }
#endif
  if (strcmp(how, "term") == 0 || strcmp(how, "int") == 0) {
    if (gasnet_mynode() == actor) raise(how[0] == 't' ? SIGTERM : SIGINT);
    serve_for_ever();
  }
  if (strcmp(how, "termquit") == 0) { /* SIGTERM turns into SIGQUIT for the client's handler */
    signal(SIGQUIT, &on_quit);
    if (gasnet_mynode() == actor) raise(SIGTERM);
    serve_for_ever();
  }
  if (strcmp(how, "deaf") == 0) { /* nobody polls: the timer ends it */
    if (gasnet_mynode() == actor) raise(SIGTERM);
    for (;;) sleep(1);
  }
  if (strcmp(how, "abort") == 0) {
    if (gasnet_mynode() == actor) abort();
    serve_for_ever();
  }
  if (strcmp(how, "kill") == 0) {
    if (gasnet_mynode() == actor) raise(SIGKILL);
    serve_for_ever();
  }
  fprintf(stderr, "unknown way: %s\n", how);
  return 1;
}
