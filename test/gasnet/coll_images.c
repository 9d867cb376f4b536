/* gasnet_coll.h by several threads of each process, which are images of their own: node n has
 * 1 + n % 3 of them. The main thread takes part only in the last barrier. */
#define _GNU_SOURCE
#include <gasnet_coll.h>

#include <pthread.h>
#include <string.h>

#include "job.h"

#include <gasnet_tools.h>

enum { most_images = 64, per_node = 3, most_block = 6000, sum_function = 0 };

static gasnet_image_t images[most_nodes];
static unsigned all_images;
static gasnett_atomic_t failed = gasnett_atomic_init(0);
/* Of this process's images, for the M forms: everybody gives the same lists. */
static char *sources[per_node], *targets[per_node];
static void *source_list[per_node], *target_list[per_node];

#define HOLDS(what)                                                      \
  do {                                                                   \
    if (!(what)) {                                                       \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #what); \
      gasnett_atomic_increment(&failed, 0);                              \
    }                                                                    \
  } while (0)

static char byte_of(unsigned from, unsigned to, size_t i) {
  return (char)(from * 31 + to * 17 + i * 3 + i / 251);
}
static void fill(char* at, unsigned from, unsigned to, size_t n) {
  size_t i;
  for (i = 0; i < n; ++i) at[i] = byte_of(from, to, i);
}
static int filled(const char* at, unsigned from, unsigned to, size_t n) {
  size_t i;
  for (i = 0; i < n; ++i)
    if (at[i] != byte_of(from, to, i)) return 0;
  return 1;
}
static void add(void* results, size_t result_count, const void* left_operands, size_t left_count,
                const void* right_operands, size_t elem_size, int flags, int arg) {
  size_t k;
  (void)left_count, (void)elem_size, (void)flags, (void)arg;
  for (k = 0; k < result_count; ++k)
    ((uint64_t*)results)[k] =
        ((const uint64_t*)left_operands)[k] + ((const uint64_t*)right_operands)[k];
}

static void barrier(void) {
  HOLDS(gasnet_coll_barrier(GASNET_TEAM_ALL, 5, GASNET_BARRIERFLAG_IMAGES) == GASNET_OK);
}

/* All operations once, by lists (lists) or plain, as image `me`, number `local` of its process. */
static void operations(unsigned me, unsigned local, unsigned root, size_t n, int lists, int sync) {
  char *const src = sources[local], *const dst = targets[local];
  const int flags = GASNET_COLL_LOCAL | sync;
  /* The root's addresses, given by all images of its process; nobody else's are looked at. */
  const unsigned at = root - (me - local), here = at < images[gasnet_mynode()];
  char *const rooted_src = here ? sources[at] : (char*)1, *const rooted_dst =
                                                              here ? targets[at] : NULL;
  unsigned r;
  fill(src, me, 0, n);
  if (lists)
    gasnet_coll_broadcastM(GASNET_TEAM_ALL, target_list, root, rooted_src, n, flags);
  else
    gasnet_coll_broadcast(GASNET_TEAM_ALL, dst, root, me == root ? src : NULL, n, flags);
  HOLDS(filled(dst, root, 0, n));
  barrier();
  for (r = 0; r < all_images; ++r) fill(src + r * n, me, r, n);
  if (lists)
    gasnet_coll_scatterM(GASNET_TEAM_ALL, target_list, root, rooted_src, n, flags);
  else
    gasnet_coll_scatter(GASNET_TEAM_ALL, dst, root, src, n, flags);
  HOLDS(filled(dst, root, me, n));
  barrier();
  if (lists)
    gasnet_coll_exchangeM(GASNET_TEAM_ALL, target_list, source_list, n, flags);
  else
    gasnet_coll_exchange(GASNET_TEAM_ALL, dst, src, n, flags);
  for (r = 0; r < all_images; ++r) HOLDS(filled(dst + r * n, r, me, n));
  barrier();
  fill(src, me, 1, n);
  if (lists)
    gasnet_coll_gather_allM(GASNET_TEAM_ALL, target_list, source_list, n, flags);
  else
    gasnet_coll_wait_sync(gasnet_coll_gather_all_nb(GASNET_TEAM_ALL, dst, src, n, flags));
  for (r = 0; r < all_images; ++r) HOLDS(filled(dst + r * n, r, 1, n));
  barrier();
  if (lists)
    gasnet_coll_gatherM(GASNET_TEAM_ALL, root, rooted_dst, source_list, n, flags);
  else
    gasnet_coll_gather(GASNET_TEAM_ALL, root, dst, src, n, flags);
  for (r = 0; me == root && r < all_images; ++r) HOLDS(filled(dst + r * n, r, 1, n));
  barrier();
  ((uint64_t*)src)[0] = me, ((uint64_t*)src)[1] = 1;
  if (lists)
    gasnet_coll_reduceM(GASNET_TEAM_ALL, root, rooted_dst, source_list, 0, 0, 8, 2, sum_function, 0,
                        flags);
  else
    gasnet_coll_reduce(GASNET_TEAM_ALL, root, dst, src, 0, 0, 8, 2, sum_function, 0, flags);
  HOLDS(me != root || (((uint64_t*)dst)[0] == all_images * (all_images - 1) / 2 &&
                       ((uint64_t*)dst)[1] == all_images));
  barrier();
}

static void* work(void* arg) {
  const unsigned me = *(unsigned*)arg;
  unsigned local = me, root, n;
  gasnet_coll_fn_entry_t function;
  for (n = 0; n < gasnet_mynode(); ++n) local -= images[n];
  function.fnptr = &add, function.flags = 0;
  gasnet_coll_init(images, me, &function, 1, 0);
  memset(&function, 0, sizeof function);
  for (root = 0; root < all_images; ++root) {
    operations(me, local, root, 40, 0, GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC);
    operations(me, local, root, 3000, 0, GASNET_COLL_IN_NOSYNC | GASNET_COLL_OUT_ALLSYNC);
    operations(me, local, root, most_block, 0, GASNET_COLL_IN_ALLSYNC | GASNET_COLL_OUT_ALLSYNC);
    operations(me, local, root, 500, 1, GASNET_COLL_IN_ALLSYNC | GASNET_COLL_OUT_NOSYNC);
  }
  for (n = 0; n < 300; ++n) barrier();
  return NULL;
}

int main(int argc, char** argv) {
  static const gasnet_handlerentry_t entry = AREA_HANDLER;
  gasnet_handlerentry_t table[1];
  pthread_t threads[per_node];
  unsigned number[per_node];
  unsigned first = 0, i;
  gasnet_node_t n;
  const int one_each = argc > 1;
  table[0] = entry;
  MUST(gasnet_init(&argc, &argv));
  MUST(gasnet_attach(table, 1, area_bytes, 0));
  share_areas();
  for (n = 0; n < gasnet_nodes(); ++n) {
    images[n] = one_each ? 1 : 1 + n % per_node;
    if (n < gasnet_mynode()) first += images[n];
    all_images += images[n];
  }
  CHECK(all_images <= most_images);
  for (i = 0; i < images[gasnet_mynode()]; ++i) {
    source_list[i] = sources[i] = (char*)malloc(all_images * most_block);
    target_list[i] = targets[i] = (char*)malloc(all_images * most_block);
    number[i] = first + i;
  }
  for (i = 0; i < images[gasnet_mynode()]; ++i)
    CHECK(pthread_create(&threads[i], NULL, &work, &number[i]) == 0);
  for (i = 0; i < images[gasnet_mynode()]; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(gasnett_atomic_read(&failed, 0) == 0);
  CHECK(gasnet_coll_barrier(GASNET_TEAM_ALL, 1, 0) == GASNET_OK);
  finish();
  return 0;
}
