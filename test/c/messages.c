/* Job program: each kind of request and reply of penstock.h, with every number of arguments. */
#include "check.h"

enum { most = 16, segment_bytes = 8192 };

static struct penstock_endpoint* ep;
static uint32_t next;
static int asked_short[most + 1], asked_payload[most + 1], answered[most + 1], put_back;
static unsigned requests_run, replies_run, longs_back;
static int context_of_requests;

static uint32_t word(unsigned nargs, unsigned i) { return 1000u * nargs + i; }

static void check_words(const uint32_t* args, unsigned nargs) {
  unsigned i;
  for (i = 0; i < nargs; ++i) CHECK(args[i] == word(nargs, i));
}

/* How many arguments a handler has is in its context. */
static void on_short(struct penstock_token* t, const uint32_t* args, void* context) {
  const unsigned nargs = (unsigned)((int*)context - asked_short);
  check_words(args, nargs);
  CHECK(penstock_is_request(t) == 1);
  CHECK(penstock_token_endpoint(t) == ep);
  CHECK(penstock_source(t) == (penstock_rank(ep) + penstock_size(ep) - 1) % penstock_size(ep));
  CHECK(penstock_reply_short(t, answered[nargs], args, nargs) == PENSTOCK_OK);
  CHECK(penstock_reply_short(t, answered[nargs], args, nargs) == PENSTOCK_REPLIED_TWICE);
  ++requests_run;
}
static void on_answer(struct penstock_token* t, const uint32_t* args, void* context) {
  check_words(args, (unsigned)((int*)context - answered));
  CHECK(penstock_is_request(t) == 0);
  CHECK(penstock_source(t) == next);
  CHECK(penstock_reply_short(t, answered[0], NULL, 0) == PENSTOCK_REPLIED_TWICE);
  ++replies_run;
}
/* Answers a Medium with its bytes, each one more, and a Long by putting them at the requester. */
static void on_payload(struct penstock_token* t, const uint32_t* args, void* payload, size_t bytes,
                       void* context) {
  const unsigned nargs = (unsigned)((int*)context - asked_payload);
  unsigned char* const p = (unsigned char*)payload;
  const unsigned char* const mine =
      (const unsigned char*)penstock_segment(ep, penstock_rank(ep), NULL);
  size_t i;
  check_words(args, nargs);
  for (i = 0; i < bytes; ++i) CHECK(p[i] == (unsigned char)(i + nargs));
  for (i = 0; i < bytes; ++i) p[i] = (unsigned char)(p[i] + 1);
  if (p >= mine && p < mine + segment_bytes) { /* a Long: it stays where it was put */
    unsigned char* const back =
        (unsigned char*)penstock_segment(ep, penstock_source(t), NULL) + 4096;
    CHECK(penstock_reply_long(t, put_back, p, bytes, back, args, 1) == PENSTOCK_OK);
  } else {
    CHECK((size_t)p % 16 == 0); /* the most that a type of this machine asks for */
    CHECK(penstock_reply_medium(t, put_back, p, bytes, args, 1) == PENSTOCK_OK);
  }
  ++requests_run;
}
static void on_back(struct penstock_token* t, const uint32_t* args, void* payload, size_t bytes,
                    void* context) {
  const unsigned char* const p = (const unsigned char*)payload;
  const unsigned char* const mine =
      (const unsigned char*)penstock_segment(ep, penstock_rank(ep), NULL);
  const unsigned nargs = args[0] / 1000u;
  size_t i;
  CHECK(context == &context_of_requests);
  CHECK(penstock_is_request(t) == 0);
  for (i = 0; i < bytes; ++i) CHECK(p[i] == (unsigned char)(i + nargs + 1));
  if (p == mine + 4096) ++longs_back;
  ++replies_run;
}

static int replies(void* wanted) { return replies_run == *(const unsigned*)wanted; }

int main(void) {
  static const struct penstock_setting settings[] = {{"PENSTOCK_WAIT_WARNING", "0"}};
  struct penstock_world* w;
  uint32_t args[most];
  unsigned char *payload, *there;
  unsigned n, i, sent = 0;
  size_t bytes;

  SET_UP((w = penstock_join(settings, 1)) != NULL);
  SET_UP((ep = penstock_open(w, NULL, 0)) != NULL);
  for (n = 0; n <= most; ++n) {
    SET_UP((asked_short[n] = penstock_add_short(ep, on_short, n, &asked_short[n])) > 0);
    SET_UP((asked_payload[n] = penstock_add_payload(ep, on_payload, n, &asked_payload[n])) > 0);
    SET_UP((answered[n] = penstock_add_short(ep, on_answer, n, &answered[n])) > 0);
  }
  SET_UP((put_back = penstock_add_payload(ep, on_back, 1, &context_of_requests)) > 0);
  CHECK(penstock_name_handler(ep, put_back, "back") == 0);
  CHECK(penstock_name_handler(ep, put_back + 1, "none") == -1);
  CHECK(penstock_name_handler(ep, 0, "none") == -1);
  SET_UP(penstock_start(ep, segment_bytes, PENSTOCK_SEGMENTS) == 0);
  CHECK(penstock_rank(ep) == penstock_world_rank(w));
  CHECK(penstock_size(ep) == penstock_world_size(w));
  CHECK(penstock_device(ep)[0] != '\0');
  CHECK(penstock_max_medium(ep) >= 4032 && penstock_max_long(ep) >= penstock_max_medium(ep));
  next = (penstock_rank(ep) + 1) % penstock_size(ep);
  there = (unsigned char*)penstock_segment(ep, next, &bytes);
  CHECK(there != NULL && bytes == segment_bytes);
  CHECK(penstock_segment(ep, penstock_size(ep), &bytes) == NULL && bytes == 0);
  payload = (unsigned char*)malloc(penstock_max_medium(ep));
  CHECK(penstock_expect(ep, next, 4, 4096) == PENSTOCK_OK);

  for (n = 0; n <= most; ++n) {
    for (i = 0; i < n; ++i) args[i] = word(n, i);
    CHECK(penstock_request_short(ep, next, asked_short[n], args, n) == PENSTOCK_OK);
    ++sent;
    CHECK(penstock_wait_until(ep, replies, &sent) == PENSTOCK_OK);
  }
  for (n = 1; n <= most; ++n) {
    const size_t sizes[] = {0, 1, 7, 1000, 4032, 65536};
    unsigned k;
    for (i = 0; i < n; ++i) args[i] = word(n, i);
    for (k = 0; k < sizeof sizes / sizeof *sizes; ++k) {
      for (bytes = 0; bytes < sizes[k]; ++bytes) payload[bytes] = (unsigned char)(bytes + n);
      CHECK(penstock_request_medium(ep, next, asked_payload[n], payload, sizes[k], args, n) ==
            PENSTOCK_OK);
      ++sent;
      if (sizes[k] != 0 && sizes[k] <= 4096) {
        CHECK(penstock_wait_until(ep, replies, &sent) == PENSTOCK_OK);
        CHECK(penstock_request_long(ep, next, asked_payload[n], payload, sizes[k], there, args,
                                    n) == PENSTOCK_OK);
        ++sent;
        CHECK(penstock_wait_until(ep, replies, &sent) == PENSTOCK_OK);
        CHECK(penstock_request_long_async(ep, next, asked_payload[n], payload, sizes[k], there,
                                          args, n) == PENSTOCK_OK);
        ++sent;
      }
      CHECK(penstock_wait_until(ep, replies, &sent) == PENSTOCK_OK);
    }
  }
  CHECK(longs_back == most * 4u * 2u);
  CHECK(penstock_quiet(ep) == PENSTOCK_OK);
  CHECK(penstock_barrier(ep) == PENSTOCK_OK);
  CHECK(requests_run == sent); /* the neighbour sent as many */
  free(payload);
  penstock_close(ep);
  penstock_leave(w);
  return 0;
}
