/* Job program: what penstock.h refuses, the status or the words for it, and waits that end. */
#include <time.h>

#include "check.h"

static struct penstock_endpoint* ep;
static unsigned hits;

static void on_hit(struct penstock_token* t, const uint32_t* args, void* context) {
  (void)t, (void)args, (void)context;
  CHECK(penstock_poll(ep) == PENSTOCK_IN_HANDLER);
  CHECK(penstock_request_short(ep, 0, 1, args, 1) == PENSTOCK_IN_HANDLER);
  CHECK(penstock_barrier(ep) == PENSTOCK_IN_HANDLER);
  ++hits;
}
static void on_bytes(struct penstock_token* t, const uint32_t* args, void* payload, size_t bytes,
                     void* context) {
  (void)t, (void)args, (void)payload, (void)bytes, (void)context;
}
static int hit(void* context) { return hits >= *(const unsigned*)context; }
static int never(void* context) {
  ++*(unsigned*)context;
  return 0;
}
static int at_once(void* context) {
  (void)context;
  return 1;
}

/* A failure of set-up that says, among other things, `words`. */
static void check_why(int failed, const char* words) {
  if (!failed || strstr(penstock_why(), words) == NULL)
    fprintf(stderr, "failed: %d, and why: %s\n", failed, penstock_why());
  CHECK(failed && strstr(penstock_why(), words) != NULL);
}

int main(int argc, char** argv) {
  static const struct penstock_setting wrong[] = {{"PENSTOCK_DEVICE", "shm0"},
                                                  {"PENSTOCK_NO_SUCH", "1"}};
  struct penstock_world* w;
  struct penstock_atomics* set;
  struct penstock_operation op;
  const uint32_t args[17] = {0};
  uint64_t word = 0;
  char* there;
  char big[64];
  int short_, payload, s;
  unsigned asked = 0, wanted;
  size_t bytes;
  uint32_t next;
  time_t from;

  CHECK(penstock_why()[0] == '\0');
  check_why(penstock_join(wrong, 2) == NULL, "NO_SUCH");
  if (argc > 1 && strcmp(argv[1], "unseen") == 0) {
    /* A failure at which nobody has looked. */
    ep = penstock_open(penstock_join(wrong, 2), NULL, 0);
    return 0;
  }
  SET_UP((w = penstock_join(NULL, 0)) != NULL);
  CHECK(penstock_why()[0] == '\0');
  check_why(penstock_join(NULL, 0) == NULL, "join");
  SET_UP((ep = penstock_open(w, NULL, 0)) != NULL);
  SET_UP((short_ = penstock_add_short(ep, on_hit, 1, NULL)) > 0);
  SET_UP((payload = penstock_add_payload(ep, on_bytes, 0, NULL)) > 0);
  check_why(penstock_add_short(ep, on_hit, 17, NULL) == -1, "16");
  check_why(penstock_add_short(ep, NULL, 1, NULL) == -1, "null");
  check_why(penstock_add_payload(ep, NULL, 1, NULL) == -1, "null");
  check_why(penstock_name_handler(ep, short_, NULL) == -1, "null");
  /* Before the start. */
  CHECK(penstock_request_short(ep, 0, short_, args, 1) == PENSTOCK_SHUT_DOWN);
  CHECK(penstock_put(ep, 0, &word, &word, 8) == PENSTOCK_SHUT_DOWN);
  CHECK(penstock_put_nb(ep, 0, &word, &word, 8, &op) == PENSTOCK_SHUT_DOWN);
  CHECK(penstock_finish(&op) == PENSTOCK_OK);
  check_why(penstock_atomics_make(ep, PENSTOCK_UINT64, PENSTOCK_ADD, PENSTOCK_AUTOMATIC) == NULL,
            "start");
  SET_UP(penstock_start(ep, 4096, PENSTOCK_SEGMENTS) == 0);
  check_why(penstock_start(ep, 0, PENSTOCK_SEGMENTS) == -1, "started already");
  check_why(penstock_add_short(ep, on_hit, 1, NULL) == -1, "before penstock_start");

  next = (penstock_rank(ep) + 1) % penstock_size(ep);
  there = (char*)penstock_segment(ep, next, &bytes);
  CHECK(bytes == 4096);
  CHECK(penstock_request_short(ep, penstock_size(ep), short_, args, 1) == PENSTOCK_BAD_RANK);
  CHECK(penstock_request_short(ep, next, 0, args, 1) == PENSTOCK_BAD_HANDLER);
  CHECK(penstock_request_short(ep, next, -1, args, 1) == PENSTOCK_BAD_HANDLER);
  CHECK(penstock_request_short(ep, next, 256 + short_, args, 1) == PENSTOCK_BAD_HANDLER);
  CHECK(penstock_request_short(ep, next, 77, args, 1) == PENSTOCK_BAD_HANDLER);
  CHECK(penstock_request_short(ep, next, payload, args, 0) == PENSTOCK_BAD_HANDLER);
  CHECK(penstock_request_short(ep, next, short_, args, 2) == PENSTOCK_BAD_HANDLER);
  CHECK(penstock_request_short(ep, next, short_, args, 17) == PENSTOCK_BAD_ARGUMENTS);
  CHECK(penstock_request_short(ep, next, short_, NULL, 1) == PENSTOCK_BAD_ARGUMENTS);
  CHECK(penstock_request_medium(ep, next, short_, big, 8, args, 1) == PENSTOCK_BAD_HANDLER);
  CHECK(penstock_request_medium(ep, next, payload, NULL, 8, NULL, 0) == PENSTOCK_BAD_ARGUMENTS);
  CHECK(penstock_request_medium(ep, next, payload, big, penstock_max_medium(ep) + 1, NULL, 0) ==
        PENSTOCK_TOO_LONG);
  CHECK(penstock_request_long(ep, next, payload, big, sizeof big, there - 1, NULL, 0) ==
        PENSTOCK_OUT_OF_SEGMENT);
  CHECK(penstock_request_long(ep, next, payload, big, sizeof big, there + 4096 - 63, NULL, 0) ==
        PENSTOCK_OUT_OF_SEGMENT);
  CHECK(penstock_put(ep, next, there + 4089, &word, 8) == PENSTOCK_OUT_OF_SEGMENT);
  CHECK(penstock_get(ep, &word, penstock_size(ep), there, 8) == PENSTOCK_BAD_RANK);
  for (s = 0; s < 2; ++s) { /* the second time where memory may be mapped */
    CHECK(penstock_put(ep, next, there, NULL, 8) == PENSTOCK_BAD_ARGUMENTS);
    CHECK(penstock_get(ep, NULL, next, there, 8) == PENSTOCK_BAD_ARGUMENTS);
    CHECK(penstock_put_nbi(ep, next, there, NULL, 8) == PENSTOCK_BAD_ARGUMENTS);
    CHECK(penstock_get_nbi(ep, NULL, next, there, 8) == PENSTOCK_BAD_ARGUMENTS);
    CHECK(penstock_put_nb(ep, next, there, NULL, 8, &op) == PENSTOCK_BAD_ARGUMENTS);
    CHECK(penstock_finish(&op) == PENSTOCK_OK);
    CHECK(penstock_get_nb(ep, NULL, next, there, 8, &op) == PENSTOCK_BAD_ARGUMENTS);
    CHECK(penstock_finish(&op) == PENSTOCK_OK);
    CHECK(penstock_get(ep, &word, next, there, 8) == PENSTOCK_OK);
  }

  check_why(penstock_atomics_make(ep, PENSTOCK_DOUBLE, PENSTOCK_XOR, PENSTOCK_AUTOMATIC) == NULL,
            "integers");
  check_why(
      penstock_atomics_make(ep, (enum penstock_type)6, PENSTOCK_ADD, PENSTOCK_AUTOMATIC) == NULL,
      "type");
  SET_UP((set = penstock_atomics_make(ep, PENSTOCK_UINT64, PENSTOCK_ADD | PENSTOCK_CAS,
                                      PENSTOCK_AUTOMATIC)) != NULL);
  CHECK(penstock_atomic(set, next, there, PENSTOCK_SUB, &word, NULL, NULL) == PENSTOCK_UNSUPPORTED);
  CHECK(penstock_atomic(set, next, there, (enum penstock_atomic_op)3, &word, NULL, NULL) ==
        PENSTOCK_UNSUPPORTED);
  CHECK(penstock_atomic(set, next, there, PENSTOCK_ADD, NULL, NULL, NULL) ==
        PENSTOCK_BAD_ARGUMENTS);
  CHECK(penstock_atomic(set, next, there, PENSTOCK_CAS, &word, NULL, NULL) ==
        PENSTOCK_BAD_ARGUMENTS);
  CHECK(penstock_atomic(set, next, there + 1, PENSTOCK_ADD, &word, NULL, NULL) ==
        PENSTOCK_MISALIGNED);
  penstock_atomics_free(set);

  for (s = PENSTOCK_OK; s <= PENSTOCK_MISALIGNED; ++s) {
    CHECK(strcmp(penstock_describe((enum penstock_status)s), "unknown status") != 0);
    CHECK(penstock_is_failure((enum penstock_status)s) == (s >= PENSTOCK_BAD_RANK));
  }

  /* Waits that end. */
  CHECK(penstock_wait_for(ep, at_once, NULL, 0) == PENSTOCK_OK);
  from = time(NULL);
  CHECK(penstock_wait_for(ep, never, &asked, 20u * 1000u * 1000u) == PENSTOCK_TIMED_OUT);
  CHECK(asked > 0 && time(NULL) - from < 10);
  CHECK(penstock_request_short(ep, next, short_, args, 1) == PENSTOCK_OK);
  wanted = 1;
  CHECK(penstock_wait_for(ep, hit, &wanted, (uint64_t)60 * 1000 * 1000 * 1000) == PENSTOCK_OK);
  CHECK(penstock_barrier(ep) == PENSTOCK_OK);
  CHECK(hits == 1); /* nothing that was refused has arrived */
  penstock_close(ep);
  penstock_close(NULL);
  penstock_leave(w);
  penstock_leave(NULL);
  return 0;
}
