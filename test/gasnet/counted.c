/* The counters' C interface in a program of gasnet.h: its figures are those that the program itself
 * has counted, every name that it lists can be asked for, and unknown names are refused. */
#include <gasnet.h>
#include <penstock/counters.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { on_ping = 200, on_pong, on_bytes };
enum { pings = 300, packets = 70, packet_bytes = 100 };

static volatile int pongs = 0, answered = 0, arrived = 0;

static void ping(gasnet_token_t token) {
  ++answered;
  if (gasnet_AMReplyShort0(token, on_pong) != GASNET_OK) gasnet_exit(3);
}
static void pong(gasnet_token_t token) {
  (void)token;
  ++pongs;
}
static void bytes(gasnet_token_t token, void* payload, size_t n) {
  (void)token, (void)payload, (void)n;
  ++arrived;
}

static uint64_t own(const struct penstock_counters* c, const char* name) {
  uint64_t value = 0;
  CHECK(penstock_counters_get(c, name, &value) == 0);
  return value;
}
static uint64_t of(const struct penstock_counters* c, unsigned peer, const char* name) {
  uint64_t value = 0;
  CHECK(penstock_counters_get_peer(c, peer, name, &value) == 0);
  return value;
}

int main(int argc, char** argv) {
  static gasnet_handlerentry_t table[] = {
      {on_ping, (void (*)())ping}, {on_pong, (void (*)())pong}, {on_bytes, (void (*)())bytes}};
  char payload[packet_bytes] = {0};
  struct penstock_counters* c;
  uint64_t value = 77, polls;
  unsigned i, n, met = 0;
  gasnet_node_t next, before;
  if (gasnet_init(&argc, &argv) != GASNET_OK) return 1;
  CHECK(penstock_counters_take(0) == NULL);
  if (gasnet_attach(table, 3, GASNET_PAGESIZE, 0) != GASNET_OK) return 2;
  next = (gasnet_mynode() + 1) % gasnet_nodes();
  before = (gasnet_mynode() + gasnet_nodes() - 1) % gasnet_nodes();
  for (i = 0; i < pings; ++i)
    if (gasnet_AMRequestShort0(next, on_ping) != GASNET_OK) return 4;
  for (i = 0; i < packets; ++i)
    if (gasnet_AMRequestMedium0(next, on_bytes, payload, packet_bytes) != GASNET_OK) return 5;
  GASNET_BLOCKUNTIL(pongs == pings && answered == pings && arrived == packets);

  c = penstock_counters_take(0);
  CHECK(c != NULL && penstock_counters_take(1) == NULL);
  if (c == NULL) return 6;
  for (i = 0; penstock_counter_name(i) != NULL; ++i) {
    CHECK(penstock_counters_get(c, penstock_counter_name(i), &value) == 0);
    CHECK(strlen(penstock_counter_help(i)) > 5);
    CHECK(strstr(penstock_counters_json(c), penstock_counter_name(i)) != NULL);
    CHECK(strstr(penstock_counters_prometheus(c), penstock_counter_name(i)) != NULL);
  }
  CHECK(i > 10 && penstock_counter_help(i) == NULL);
  value = 77;
  CHECK(penstock_counters_get(c, "penguins", &value) == -1 && value == 77);
  polls = own(c, "polls");
  CHECK(polls != 0);

  n = penstock_counters_peers(c);
  CHECK(n >= 1 && n <= gasnet_nodes());
  for (met = 0; met < n; ++met) {
    const uint32_t rank = penstock_counters_rank(c, met);
    CHECK(strlen(penstock_counters_path(c, met)) == (rank == gasnet_mynode() ? 4 : 5));
    CHECK(strcmp(penstock_counters_waits_for(c, met), "") == 0);
    CHECK(strcmp(penstock_counters_waits_handler(c, met), "") == 0);
    for (i = 0; penstock_peer_counter_name(i) != NULL; ++i) {
      CHECK(penstock_counters_get_peer(c, met, penstock_peer_counter_name(i), &value) == 0);
      CHECK(strlen(penstock_peer_counter_help(i)) > 5);
    }
    CHECK(i > 30 && penstock_peer_counter_help(i) == NULL);
    if (rank == next) {
      CHECK(of(c, met, "requests_sent.shorts") == pings);
      CHECK(of(c, met, "requests_sent.mediums") == packets);
      CHECK(of(c, met, "requests_sent.medium_bytes") == packets * packet_bytes);
      CHECK(of(c, met, "replies_handled.shorts") == pings);
    }
    if (rank == before) {
      CHECK(of(c, met, "requests_handled.shorts") == pings);
      CHECK(of(c, met, "requests_handled.mediums") == packets);
      CHECK(of(c, met, "replies_sent.shorts") == pings);
    }
  }
  CHECK(penstock_counters_rank(c, n) == (uint32_t)-1);
  CHECK(penstock_counters_get_peer(c, n, "puts", &value) == -1);
  CHECK(strcmp(penstock_counters_path(c, n), "") == 0);

  /* A snapshot stays; another one has moved on. */
  gasnet_AMPoll();
  CHECK(own(c, "polls") == polls);
  penstock_counters_free(c);
  c = penstock_counters_take(0);
  CHECK(c != NULL && own(c, "polls") > polls);
  penstock_counters_free(c);
  penstock_counters_free(NULL);

  if (check_result() != 0) gasnet_exit(check_result()); /* before the others may leave with 0 */
  gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
  gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS);
  gasnet_exit(check_result());
  return 7;
}
