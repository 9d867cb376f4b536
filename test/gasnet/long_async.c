/* Long requests to all nodes, many more than completion queues hold, then a pause without a poll:
 * every completion meanwhile has room, and all requests are answered.
 *     long_async ROUNDS MESSAGES MICROSECONDS
 * Each round: MESSAGES of 8 KB to all other nodes in turn, a pause of MICROSECONDS, then polls
 * until the last answer has come. */
#define _GNU_SOURCE
#include <gasnet.h>

#include <string.h>
#include <unistd.h>

#include "job.h"

enum { payload_bytes = 8192, store_index = 128, stored_index = 129 };

static int wrong = 0;

GASNETT_INLINE(on_store)
void on_store(gasnet_token_t token, void* buf, size_t nbytes, gasnet_handlerarg_t seed) {
  const unsigned char* const b = (const unsigned char*)buf;
  if (nbytes != payload_bytes || b[0] != (unsigned char)seed ||
      b[payload_bytes - 1] != (unsigned char)seed)
    ++wrong;
  MUST(gasnet_AMReplyShort1(token, stored_index, seed));
}
GASNETT_INLINE(on_stored)
void on_stored(gasnet_token_t token, gasnet_handlerarg_t seed) {
  (void)token;
  (void)seed;
  ++answers;
}

int main(int argc, char** argv) {
  gasnet_handlerentry_t table[] = {{store_index, HANDLER(&on_store)},
                                   {stored_index, HANDLER(&on_stored)}};
  int rounds, messages, pause_us, round, i;
  char* from;
  MUST(gasnet_init(&argc, &argv));
  rounds = argc > 1 ? atoi(argv[1]) : 5;
  messages = argc > 2 ? atoi(argv[2]) : 200;
  pause_us = argc > 3 ? atoi(argv[3]) : 20000;
  MUST(gasnet_attach(table, 2, area_bytes, 0));
  share_areas();
  /* The payload lies in the segment, behind the places that others write to. */
  from = area[gasnet_mynode()] + area_bytes - payload_bytes;
  memset(from, (int)gasnet_mynode(), payload_bytes);
  for (round = 0; round < rounds; ++round) {
    const int before = answers;
    for (i = 0; i < messages; ++i) {
      const gasnet_node_t to =
          (gasnet_mynode() + 1 + (gasnet_node_t)i % (gasnet_nodes() - 1)) % gasnet_nodes();
      MUST(gasnet_AMRequestLongAsync1(to, store_index, from, payload_bytes,
                                      area[to] + (size_t)gasnet_mynode() * payload_bytes,
                                      (gasnet_handlerarg_t)gasnet_mynode()));
    }
    usleep((unsigned)pause_us);
    GASNET_BLOCKUNTIL(answers == before + messages);
  }
  CHECK(wrong == 0);
  finish();
  return 0;
}
