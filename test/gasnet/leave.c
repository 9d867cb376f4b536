/* The ways out of a GASNet program, chosen by argv[1]; exit_matrix knows the result that each
 * must have. argv[2]: the node that leaves in this way. */
#define _GNU_SOURCE
#include <gasnet.h>

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "job.h"

enum { die_index = 128, noise_index = 129 };

static void on_die(gasnet_token_t token, gasnet_handlerarg_t code) {
  (void)token;
  gasnet_exit(code);
}
static void on_quit(int sig) {
  (void)sig;
  gasnet_exit(9);
}
static void on_told(int sig) {
  (void)sig;
  if (write(1, "told\n", 5) == 5) gasnet_exit(9);
}
#if GASNET_PAR
static void* leaves(void* arg) {
  (void)arg;
  usleep(20000);
  gasnet_exit(7);
  return NULL;
}
static void* polls(void* arg) {
  for (;;) gasnet_AMPoll();
  return arg;
}
/* Requests, Longs, puts and gets without end. */
static void* talks(void* arg) {
  const gasnet_node_t to = (gasnet_mynode() + 1) % gasnet_nodes();
  static char text[3000], got[3000];
  for (;;) {
    (void)gasnet_AMRequestMedium0(to, noise_index, text, sizeof text);
    (void)gasnet_AMRequestLong0(to, noise_index, text, 300, area[to]);
    gasnet_put(to, area[to], text, sizeof text);
    gasnet_get(got, to, area[to], sizeof got);
  }
  return arg;
}
static void start(void* (*work)(void*)) {
  pthread_t t;
  if (pthread_create(&t, NULL, work, NULL) != 0) abort();
}
#endif
static void on_noise(gasnet_token_t token, void* buf, size_t nbytes) {
  (void)token, (void)buf, (void)nbytes;
}
static int* volatile nowhere = (int*)64;
static volatile int for_ever = 1;
static void spin(void) {
  while (for_ever) {
  }
}

/* Requests to a node without end, of both kinds that travel differently. */
static void flood(gasnet_node_t to) {
  static char text[3000];
  for (;;) {
    MUST(gasnet_AMRequestMedium0(to, noise_index, text, 100));
    MUST(gasnet_AMRequestMedium0(to, noise_index, text, sizeof text));
  }
}
static void send_many(gasnet_node_t to, int requests) {
  static char text[64];
  int i;
  for (i = 0; i < requests; ++i) MUST(gasnet_AMRequestMedium0(to, noise_index, text, sizeof text));
}

static void serve_for_ever(void) {
  for (;;) gasnet_AMPoll();
}

int main(int argc, char** argv) {
  gasnet_handlerentry_t table[] = {
      {die_index, HANDLER(&on_die)}, {noise_index, HANDLER(&on_noise)}, AREA_HANDLER};
  const char* how = argc > 1 ? argv[1] : "";
  gasnet_node_t actor, next;
  int acts;
#define WAY(name) if (strcmp(how, name) == 0)
  WAY("nothing") return 4; /* not a GASNet process yet */
  MUST(gasnet_init(&argc, &argv));
  actor = (argc > 2 ? (gasnet_node_t)atoi(argv[2]) : 0) % gasnet_nodes();
  next = (actor + 1) % gasnet_nodes();
  acts = gasnet_mynode() == actor;
  WAY("unattached") gasnet_exit(3);
  WAY("unattached-one") {
    if (acts) gasnet_exit(3);
  }
  WAY("unattached-kill") {
    if (acts) raise(SIGKILL);
  }
  MUST(gasnet_attach(table, 3, area_bytes, 0));
  share_areas();
  /* All do the same. */
  WAY("all") gasnet_exit(5);
  WAY("print") {
    printf("node %u prints\n", gasnet_mynode());
    gasnet_exit(0);
  }
  WAY("return") return 6;
  WAY("exit") exit(6);
  WAY("handlers") {
    MUST(gasnet_AMRequestShort1((gasnet_mynode() + 1) % gasnet_nodes(), die_index, 5));
    serve_for_ever();
  }
  /* One ends the job. */
  WAY("one") {
    if (acts) gasnet_exit(5);
  }
  WAY("one0") {
    if (acts) gasnet_exit(0);
  }
  WAY("one-return") {
    if (acts) return 6;
  }
  WAY("one-exit") {
    if (acts) exit(6);
  }
  WAY("handler") {
    if (gasnet_mynode() == next) MUST(gasnet_AMRequestShort1(actor, die_index, 5));
  }
  WAY("loopback") {
    if (acts) MUST(gasnet_AMRequestShort1(actor, die_index, 5));
  }
  WAY("barrier") {
    if (acts) gasnet_exit(5);
    meet();
  }
  WAY("quit") { /* the client's handler of SIGQUIT runs where others end the job */
    signal(SIGQUIT, &on_quit);
    meet();
    if (acts) gasnet_exit(9);
  }
  /* Traffic is in flight to whoever leaves. */
  WAY("flooded0") {
    if (!acts) flood(actor);
    send_many(next, 10000);
    gasnet_exit(0);
  }
  WAY("flooded") {
    if (!acts) flood(actor);
    usleep(20000);
    gasnet_exit(5);
  }
  WAY("flooded-return") {
    if (!acts) flood(actor);
    usleep(20000);
    return 6;
  }
  WAY("flooded-handler") { /* who leaves polls no more */
    if (gasnet_mynode() == next) MUST(gasnet_AMRequestShort1(actor, die_index, 5));
    if (!acts) flood(actor);
  }
  WAY("floods") { /* all at once to all, and one leaves in the middle of it */
    if (!acts) flood((gasnet_mynode() + 1) % gasnet_nodes());
    send_many(next, 3000);
    gasnet_exit(0);
  }
  WAY("behind300") { /* all leave, one is late */
    if (acts) send_many(next, 300);
    gasnet_exit(0);
  }
  WAY("behind1000") {
    if (acts) send_many(next, 1000);
    gasnet_exit(0);
  }
  WAY("behind20000") {
    if (acts) send_many(next, 20000);
    gasnet_exit(0);
  }
  WAY("die-behind") { /* a handler asks for the end while its thread leaves */
    if (acts) {
      send_many(next, 2000);
      MUST(gasnet_AMRequestShort1(next, die_index, 0));
    }
    gasnet_exit(0);
  }
#if GASNET_PAR
  WAY("thread") {
    if (acts) start(&leaves);
  }
  WAY("threads") { /* all threads of all nodes at once */
    start(&leaves);
    start(&leaves);
    gasnet_exit(7);
  }
  WAY("return-polling") { /* another thread goes on */
    start(&polls);
    usleep(1000);
    return 6;
  }
  WAY("talking") {
    start(&talks);
    start(&talks);
    usleep(50000);
    if (acts) gasnet_exit(8);
  }
#endif
  /* Signals and deaths. */
  WAY("term") {
    if (acts) raise(SIGTERM);
  }
  WAY("int") {
    if (acts) raise(SIGINT);
  }
  WAY("term-quit") { /* SIGTERM turns into SIGQUIT for the client's handler */
    signal(SIGQUIT, &on_quit);
    if (acts) raise(SIGTERM);
  }
  WAY("abort") {
    if (acts) abort();
  }
  WAY("segv") {
    if (acts) *nowhere = 1;
  }
  WAY("kill") {
    if (acts) raise(SIGKILL);
  }
  WAY("barrier-kill") {
    if (acts) raise(SIGKILL);
    meet();
  }
  /* Somebody does not poll. */
  WAY("deaf") {
    if (acts) raise(SIGTERM);
    spin();
  }
  WAY("deaf-quit") {
    signal(SIGQUIT, &on_quit);
    if (acts) raise(SIGTERM);
    spin();
  }
  WAY("stopped") {
    if (gasnet_mynode() == next) raise(SIGSTOP);
    if (acts) {
      usleep(20000);
      gasnet_exit(5);
    }
  }
  WAY("wedged") {
    if (acts) gasnet_exit(5);
    if (gasnet_mynode() == next) spin();
  }
  WAY("wedged-told") { /* SIGQUIT reaches who does not poll */
    signal(SIGQUIT, &on_told);
    meet();
    if (acts) {
      signal(SIGQUIT, SIG_DFL);
      gasnet_exit(5);
    }
    if (gasnet_mynode() == next) spin();
  }
  WAY("wedged-return") {
    if (acts) return 6;
    if (gasnet_mynode() == next) spin();
  }
  serve_for_ever();
  return 1;
}
