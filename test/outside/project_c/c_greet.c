/* A user of penstock.h: every process is greeted by its neighbour. */
#include <penstock.h>
#include <stdio.h>

static void on_greeting(struct penstock_token* t, const uint32_t* args, void* greeted) {
  (void)t, (void)args;
  *(int*)greeted = 1;
}
static int is_set(void* flag) { return *(int*)flag; }

static int failed(void) {
  fprintf(stderr, "c_greet: %s\n", penstock_why());
  return 1;
}

int main(void) {
  int greeted = 0, greeting;
  enum penstock_status s;
  struct penstock_endpoint* ep;
  struct penstock_world* w = penstock_join(NULL, 0);
  if (w == NULL) return failed();
  if ((ep = penstock_open(w, NULL, 0)) == NULL) return failed();
  if ((greeting = penstock_add_short(ep, on_greeting, 0, &greeted)) < 0) return failed();
  if (penstock_start(ep, 0, PENSTOCK_SEGMENTS) != 0) return failed();
  s = penstock_request_short(ep, (penstock_rank(ep) + 1) % penstock_size(ep), greeting, NULL, 0);
  if (s == PENSTOCK_OK) s = penstock_wait_until(ep, is_set, &greeted);
  if (s == PENSTOCK_OK) s = penstock_barrier(ep);
  if (s != PENSTOCK_OK) {
    fprintf(stderr, "c_greet: %s\n", penstock_describe(s));
    return 1;
  }
  puts("greeted");
  penstock_close(ep);
  penstock_leave(w);
  return 0;
}
