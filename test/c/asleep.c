/* Job program: a rank sleeps in poll(2) until its neighbour's message is there; waits that end, and
 * go on. */
#include <poll.h>

#include "check.h"

static struct penstock_endpoint* ep;
static unsigned hits, sleeps;

static void on_hit(struct penstock_token* t, const uint32_t* args, void* context) {
  (void)t, (void)args, (void)context;
  ++hits;
}

/* Sleeps until `wanted` hits are there. */
static void sleep_until(int fd, unsigned wanted) {
  while (hits < wanted) {
    const enum penstock_status s = penstock_arm(ep);
    CHECK(s == PENSTOCK_OK || s == PENSTOCK_PENDING);
    if (s == PENSTOCK_OK && hits < wanted) {
      struct pollfd p;
      p.fd = fd, p.events = POLLIN, p.revents = 0;
      ++sleeps;
      CHECK(poll(&p, 1, 60000) == 1); /* a message wakes it */
    }
  }
}

int main(void) {
  struct penstock_world* w;
  struct penstock_operation none;
  uint32_t right, i;
  int hit, fd;

  SET_UP((w = penstock_join(NULL, 0)) != NULL);
  SET_UP((ep = penstock_open(w, NULL, 0)) != NULL);
  SET_UP((hit = penstock_add_short(ep, on_hit, 0, NULL)) > 0);
  CHECK(penstock_arm(ep) != PENSTOCK_OK);
  SET_UP((fd = penstock_event_fd(ep)) > 2);
  CHECK(penstock_event_fd(ep) == fd);
  SET_UP(penstock_start(ep, 0, PENSTOCK_SEGMENTS) == 0);
  right = (penstock_rank(ep) + 1) % penstock_size(ep);

  /* A token of the ring: each rank sleeps until its left neighbour has sent it on. */
  for (i = 1; i <= 20; ++i) {
    if (penstock_rank(ep) != 0) sleep_until(fd, i);
    CHECK(penstock_request_short(ep, right, hit, NULL, 0) == PENSTOCK_OK);
    if (penstock_rank(ep) == 0) sleep_until(fd, i);
  }
  CHECK(hits == 20);
  CHECK(penstock_size(ep) == 1 || sleeps > 0);

  /* Rank 0's barrier is not complete before the others begin it, which they do when they are told.
   */
  if (penstock_size(ep) > 1) {
    if (penstock_rank(ep) == 0) {
      CHECK(penstock_barrier_for(ep, 0) == PENSTOCK_TIMED_OUT);
      CHECK(penstock_barrier_for(ep, 5u * 1000u * 1000u) == PENSTOCK_TIMED_OUT);
      for (i = 1; i < penstock_size(ep); ++i)
        CHECK(penstock_request_short(ep, i, hit, NULL, 0) == PENSTOCK_OK);
    } else {
      sleep_until(fd, 21);
    }
  }
  CHECK(penstock_barrier_for(ep, (uint64_t)-1) == PENSTOCK_OK);
  CHECK(penstock_quiet_for(ep, (uint64_t)60 * 1000 * 1000 * 1000) == PENSTOCK_OK);
  memset(&none, 0, sizeof none);
  CHECK(penstock_finish_for(&none, 0) == PENSTOCK_OK);
  CHECK(penstock_barrier(ep) == PENSTOCK_OK);
  penstock_close(ep);
  penstock_leave(w);
  return 0;
}
