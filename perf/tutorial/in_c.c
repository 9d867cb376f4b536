/* The tutorial's fourth step in C: ranks that sleep in epoll, beside sockets or timers, until a
 * message comes. Rank 0 adds up what the others send, and answers the last of them.
 *   penrun -n 4 tutorial_in_c */
#define _GNU_SOURCE
#include <penstock.h>
#include <stdio.h>
#include <sys/epoll.h>

static struct state {
  struct penstock_endpoint* ep;
  int answer;          /* a handler's number */
  uint32_t heard, sum; /* at rank 0 */
  uint32_t total;      /* at the others */
  int answered;
} me;

static void on_number(struct penstock_token* t, const uint32_t* args, void* context) {
  (void)t, (void)context;
  ++me.heard, me.sum += args[0]; /* to be seen by the loop, which may send requests */
}
static void on_total(struct penstock_token* t, const uint32_t* args, void* context) {
  (void)t, (void)context;
  me.total = args[0], me.answered = 1;
}

static int failed(void) {
  fprintf(stderr, "tutorial_in_c: %s\n", penstock_why());
  return 1;
}

int main(void) {
  int number, wakes, all;
  struct epoll_event e = {.events = EPOLLIN};
  enum penstock_status s = PENSTOCK_OK;
  uint32_t rank, others, told = 0;
  struct penstock_world* w = penstock_join(NULL, 0);
  if (w == NULL || (me.ep = penstock_open(w, NULL, 0)) == NULL) return failed();
  number = penstock_add_short(me.ep, on_number, 1, NULL);
  me.answer = penstock_add_short(me.ep, on_total, 1, NULL);
  wakes = penstock_event_fd(me.ep); /* before the start, so that the others wake this rank */
  if (number < 0 || me.answer < 0 || wakes < 0) return failed();
  if (penstock_start(me.ep, 0, PENSTOCK_SEGMENTS) != 0) return failed();
  rank = penstock_rank(me.ep), others = penstock_size(me.ep) - 1;

  all = epoll_create1(EPOLL_CLOEXEC);
  if (all < 0 || epoll_ctl(all, EPOLL_CTL_ADD, wakes, &e) != 0) return perror("epoll"), 1;
  if (rank != 0) s = penstock_request_short(me.ep, 0, number, &rank, 1);
  while (s == PENSTOCK_OK) {
    if (rank == 0 && me.heard == others) {
      while (s == PENSTOCK_OK && told < others)
        s = penstock_request_short(me.ep, ++told, me.answer, &me.sum, 1);
      break;
    }
    if (rank != 0 && me.answered) break;
    s = penstock_arm(me.ep); /* runs what has come; OK: nothing more, so that it may sleep */
    if (s == PENSTOCK_OK) (void)epoll_wait(all, &e, 1, -1);
    if (s == PENSTOCK_PENDING) s = PENSTOCK_OK;
  }
  if (rank != 0 && s == PENSTOCK_OK) printf("rank %u: all ranks add up to %u\n", rank, me.total);
  if (s == PENSTOCK_OK) s = penstock_barrier(me.ep);
  if (s != PENSTOCK_OK) fprintf(stderr, "tutorial_in_c: %s\n", penstock_describe(s));
  penstock_close(me.ep);
  penstock_leave(w);
  return s != PENSTOCK_OK;
}
