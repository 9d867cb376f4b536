/* gasnet_coll.h: broadcast from every root, of nothing to many Mediums' worth, in place and not, in
 * a row, and between a barrier's notify and its wait. */
#include <string.h>

#include "job.h"

enum { most = 100000 };
static unsigned char from[most], to[most + 1];

static void fill(size_t n, unsigned seed) {
  size_t i;
  for (i = 0; i < n; ++i) from[i] = (unsigned char)(seed + i * 13 + i / 253);
}
static int filled(size_t n, unsigned seed) {
  size_t i;
  for (i = 0; i < n; ++i)
    if (to[i] != (unsigned char)(seed + i * 13 + i / 253)) return 0;
  return 1;
}

static void broadcast(void* dst, gasnet_node_t root, void* src, size_t n) {
  gasnet_coll_broadcast(GASNET_TEAM_ALL, dst, root, src, n,
                        GASNET_COLL_LOCAL | GASNET_COLL_IN_ALLSYNC | GASNET_COLL_OUT_ALLSYNC);
}

int main(int argc, char** argv) {
  static const size_t sizes[] = {0, 1, 4, 100, 4032, 4033, most};
  gasnet_node_t root;
  unsigned s, round;
  MUST(gasnet_init(&argc, &argv));
  MUST(gasnet_attach(NULL, 0, area_bytes, 0));
  gasnet_coll_init(0, 0, 0, 0, 0);
  for (root = 0; root < gasnet_nodes(); ++root) {
    for (s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
      const size_t n = sizes[s];
      memset(to, 0xEE, sizeof to);
      if (gasnet_mynode() == root) fill(n, root + s);
      broadcast(to, root, from, n);
      CHECK(filled(n, root + s) && to[n] == 0xEE); /* exactly those bytes */
    }
    for (round = 0; round < 100; ++round) { /* in place */
      unsigned seed = gasnet_mynode() == root ? round * 7 + root : 0xFFFF;
      broadcast(&seed, root, &seed, sizeof seed);
      CHECK(seed == round * 7 + root);
    }
  }
  gasnet_barrier_notify(3, 0);
  fill(8, 1);
  broadcast(to, 0, from, 8);
  CHECK(filled(8, 1));
  CHECK(gasnet_barrier_wait(3, 0) == GASNET_OK);
  finish();
  return 1;
}
