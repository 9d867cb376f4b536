/* Put and get in every form and size, handles and implicit synchronization, access regions, values
 * in registers, memset; then as many operations in flight as 16 bits can count. To this node and
 * the next. */
#include <string.h>

#include "job.h"

enum { sizes = 9, largest = 300000 };
static const size_t size_of[sizes] = {1, 2, 4, 8, 3, 100, 4096, 20000, largest};
static unsigned char source[largest], target[largest];

static void fill(unsigned char* p, size_t n, unsigned seed) {
  size_t i;
  for (i = 0; i < n; ++i) p[i] = (unsigned char)(seed + i * 31 + i / 253);
}
static int filled(const unsigned char* p, size_t n, unsigned seed) {
  size_t i;
  for (i = 0; i < n; ++i)
    if (p[i] != (unsigned char)(seed + i * 31 + i / 253)) return 0;
  return 1;
}
/* What lies at place of node, fetched by a blocking get. */
static int there(gasnet_node_t node, void* place, size_t n, unsigned seed) {
  memset(target, 0xEE, n);
  gasnet_get_bulk(target, node, place, n);
  return filled(target, n, seed);
}

static void blocking(gasnet_node_t node, char* place) {
  int s;
  for (s = 0; s < sizes; ++s) {
    const size_t n = size_of[s];
    fill(source, n, 1);
    gasnet_put(node, place, source, n);
    CHECK(there(node, place, n, 1));
    fill(source, n, 2);
    gasnet_put_bulk(node, place + 1, source, n); /* need not be aligned */
    CHECK(there(node, place + 1, n, 2));
    memset(target, 0, n);
    gasnet_get(target, node, place + 8, n);
    gasnet_memset(node, place, 0x5A, n);
    gasnet_get(target, node, place, n);
    CHECK(target[0] == 0x5A && target[n - 1] == 0x5A);
  }
  gasnet_put(node, place, source, 0);
  gasnet_get(target, node, place, 0);
  gasnet_memset(node, place, 0, 0);
}

static void explicit_handles(gasnet_node_t node, char* place) {
  gasnet_handle_t h[4];
  int s, i, rounds;
  for (s = 0; s < sizes; ++s) {
    const size_t n = size_of[s];
    fill(source, n, 3);
    h[0] = gasnet_put_nb(node, place, source, n);
    memset(source, 0, n); /* may be reused at once */
    gasnet_wait_syncnb(h[0]);
    CHECK(there(node, place, n, 3));
    fill(source, n, 4);
    h[0] = gasnet_put_nb_bulk(node, place, source, n);
    while (gasnet_try_syncnb(h[0]) != GASNET_OK) gasnet_AMPoll();
    memset(target, 0, n);
    h[0] = gasnet_get_nb(target, node, place, n);
    gasnet_wait_syncnb(h[0]);
    CHECK(filled(target, n, 4));
    memset(target, 0, n);
    h[0] = gasnet_get_nb_bulk(target, node, place, n);
    gasnet_wait_syncnb_all(h, 1);
    CHECK(filled(target, n, 4) && h[0] == GASNET_INVALID_HANDLE);
    h[0] = gasnet_memset_nb(node, place, 7, n);
    gasnet_wait_syncnb(h[0]);
    gasnet_get(target, node, place + n - 1, 1);
    CHECK(target[0] == 7);
  }
  gasnet_wait_syncnb(GASNET_INVALID_HANDLE);
  CHECK(gasnet_try_syncnb(GASNET_INVALID_HANDLE) == GASNET_OK);
  /* lists */
  for (i = 0; i < 4; ++i) h[i] = GASNET_INVALID_HANDLE;
  CHECK(gasnet_try_syncnb_all(h, 4) == GASNET_OK && gasnet_try_syncnb_some(h, 4) == GASNET_OK);
  CHECK(gasnet_try_syncnb_all(NULL, 0) == GASNET_OK);
  gasnet_wait_syncnb_all(h, 4);
  gasnet_wait_syncnb_some(h, 4);
  fill(source, 4000, 5);
  for (rounds = 0; rounds < 50; ++rounds) {
    int valid = 0, left = 0;
    for (i = 0; i < 4; ++i) {
      h[i] = i == 2 ? GASNET_INVALID_HANDLE
                    : gasnet_put_nb_bulk(node, place + 1000 * i, source + 1000 * i, 1000);
      valid += h[i] != GASNET_INVALID_HANDLE;
    }
    if (rounds % 2) {
      gasnet_wait_syncnb_some(h, 4);
    } else {
      while (gasnet_try_syncnb_some(h, 4) != GASNET_OK) gasnet_AMPoll();
    }
    for (i = 0; i < 4; ++i) left += h[i] != GASNET_INVALID_HANDLE;
    CHECK(valid == 0 || left < valid);
    if (rounds % 3) {
      gasnet_wait_syncnb_all(h, 4);
    } else {
      while (gasnet_try_syncnb_all(h, 4) != GASNET_OK) gasnet_AMPoll();
    }
    for (i = 0; i < 4; ++i) CHECK(h[i] == GASNET_INVALID_HANDLE);
  }
  CHECK(there(node, place + 1000 * 3, 1, 5 + 3000 * 31 + 3000 / 253));
}

static void implicit(gasnet_node_t node, char* place) {
  gasnet_handle_t region;
  int s;
  CHECK(gasnet_try_syncnbi_all() == GASNET_OK && gasnet_try_syncnbi_puts() == GASNET_OK &&
        gasnet_try_syncnbi_gets() == GASNET_OK);
  for (s = 0; s < sizes; ++s) {
    const size_t n = size_of[s];
    fill(source, n, 6);
    gasnet_put_nbi(node, place, source, n);
    memset(source, 0, n);
    gasnet_wait_syncnbi_puts();
    CHECK(there(node, place, n, 6));
    fill(source, n, 7);
    gasnet_put_nbi_bulk(node, place, source, n);
    while (gasnet_try_syncnbi_puts() != GASNET_OK) gasnet_AMPoll();
    memset(target, 0, n);
    gasnet_get_nbi(target, node, place, n);
    gasnet_wait_syncnbi_gets();
    CHECK(filled(target, n, 7));
    memset(target, 0, n);
    gasnet_get_nbi_bulk(target, node, place, n);
    while (gasnet_try_syncnbi_gets() != GASNET_OK) gasnet_AMPoll();
    CHECK(filled(target, n, 7));
    gasnet_memset_nbi(node, place, 9, n);
    gasnet_wait_syncnbi_all();
    gasnet_get(target, node, place, 1);
    CHECK(target[0] == 9);
  }
  /* a region gathers what is begun in it, and nothing else */
  fill(source, 2000, 8);
  gasnet_begin_nbi_accessregion();
  gasnet_put_nbi(node, place, source, 1000);
  gasnet_wait_syncnb(gasnet_put_nb(node, place + 3000, source, 10));
  gasnet_put_nbi_bulk(node, place + 1000, source + 1000, 1000);
  region = gasnet_end_nbi_accessregion();
  CHECK(gasnet_try_syncnbi_all() == GASNET_OK);
  gasnet_wait_syncnb(region);
  CHECK(there(node, place, 2000, 8));
  gasnet_begin_nbi_accessregion();
  gasnet_wait_syncnb(gasnet_end_nbi_accessregion());
}

static void values(gasnet_node_t node, char* place) {
  const gasnet_register_value_t pattern = (gasnet_register_value_t)0xF1E2D3C4B5A69788u;
  size_t n;
  for (n = 1; n <= sizeof(gasnet_register_value_t); ++n) {
    const gasnet_register_value_t low =
        n == sizeof pattern ? pattern : pattern & (((gasnet_register_value_t)1 << (8 * n)) - 1);
    gasnet_valget_handle_t a, b;
    gasnet_memset(node, place, 0xFF, 32);
    gasnet_put_val(node, place, pattern, n);
    CHECK(gasnet_get_val(node, place, n) == low); /* no sign, nothing beyond n bytes */
    CHECK(gasnet_get_val(node, place + n, 1) == 0xFF);
    gasnet_wait_syncnb(gasnet_put_nb_val(node, place + 8, pattern, n));
    gasnet_put_nbi_val(node, place + 16, pattern, n);
    gasnet_wait_syncnbi_puts();
    a = gasnet_get_nb_val(node, place + 8, n);
    b = gasnet_get_nb_val(node, place + 16, n);
    CHECK(gasnet_wait_syncnb_valget(b) == low && gasnet_wait_syncnb_valget(a) == low);
  }
}

/* Values of sizes that the compiler knows, at both ends of a node's memory: the last of each size
 * ends where it ends. Forms are copies where memory is mapped, and calls where it is not. */
#define AT_THE_ENDS(T)                                                   \
  do {                                                                   \
    char* const ends[2] = {place, place + area_bytes - sizeof(T)};       \
    int e;                                                               \
    for (e = 0; e < 2; ++e) {                                            \
      T put = (T)0xA1B2C3D4E5F60718u, got = 0;                           \
      gasnet_handle_t h;                                                 \
      gasnet_put(node, ends[e], &put, sizeof(T));                        \
      gasnet_get(&got, node, ends[e], sizeof(T));                        \
      CHECK(got == put);                                                 \
      put = (T)(put + 1);                                                \
      h = gasnet_put_nb(node, ends[e], &put, sizeof(T));                 \
      put = 0; /* may be reused at once */                               \
      gasnet_wait_syncnb(h);                                             \
      gasnet_wait_syncnb(gasnet_get_nb(&got, node, ends[e], sizeof(T))); \
      CHECK(got == (T)((T)0xA1B2C3D4E5F60718u + 1));                     \
      put = 5;                                                           \
      gasnet_put_nbi(node, ends[e], &put, sizeof(T));                    \
      put = 0;                                                           \
      gasnet_wait_syncnbi_puts();                                        \
      gasnet_get_nbi_bulk(&got, node, ends[e], sizeof(T));               \
      gasnet_wait_syncnbi_gets();                                        \
      CHECK(got == 5);                                                   \
      gasnet_put_bulk(node, ends[e], &put, sizeof(T));                   \
      CHECK(gasnet_get_val(node, ends[e], sizeof(T)) == 0);              \
    }                                                                    \
  } while (0)
static void at_the_ends(gasnet_node_t node, char* place) {
  const char five[5] = {1, 2, 3, 4, 5};
  char back[5] = {0};
  AT_THE_ENDS(uint8_t);
  AT_THE_ENDS(uint16_t);
  AT_THE_ENDS(uint32_t);
  AT_THE_ENDS(uint64_t);
  gasnet_put(node, place + area_bytes - 5, five, 5);
  gasnet_get(back, node, place + area_bytes - 5, 5);
  CHECK(memcmp(five, back, 5) == 0);
}

/* Many at once, explicit and implicit. */
static void many(gasnet_node_t node, char* place, int count) {
  gasnet_handle_t* h = (gasnet_handle_t*)malloc((size_t)count * sizeof *h);
  uint64_t* got = (uint64_t*)calloc((size_t)count, sizeof *got);
  int i, wrong = 0;
  for (i = 0; i < count; ++i) h[i] = gasnet_put_nb_val(node, place + 8 * i, (unsigned)i, 8);
  gasnet_wait_syncnb_all(h, (size_t)count);
  for (i = 0; i < count; ++i) gasnet_get_nbi(&got[i], node, place + 8 * i, 8);
  gasnet_wait_syncnbi_all();
  for (i = 0; i < count; ++i) wrong += got[i] != (uint64_t)i;
  CHECK(wrong == 0);
  free(h);
  free(got);
}

int main(int argc, char** argv) {
  gasnet_handlerentry_t table[] = {AREA_HANDLER};
  gasnet_node_t targets[2];
  int t,
      at_once; /* 65535, or as many as the first argument says, on a device where each takes long */
  MUST(gasnet_init(&argc, &argv));
  at_once = argc > 1 ? atoi(argv[1]) : 65535;
  CHECK(at_once > 0 && at_once <= 65535);
  MUST(gasnet_attach(table, 1, area_bytes, 0));
  share_areas();
  targets[0] = gasnet_mynode();
  targets[1] = (gasnet_mynode() + 1) % gasnet_nodes();
  for (t = 0; t < 2; ++t) {
    blocking(targets[t], area[targets[t]]);
    explicit_handles(targets[t], area[targets[t]]);
    implicit(targets[t], area[targets[t]]);
    values(targets[t], area[targets[t]]);
    at_the_ends(targets[t], area[targets[t]]);
    many(targets[t], area[targets[t]], at_once);
    meet();
  }
  /* what a put wrote is in the neighbour's memory for its own loads */
  {
    const gasnet_node_t next = targets[1];
    const gasnet_node_t before = (gasnet_mynode() + gasnet_nodes() - 1) % gasnet_nodes();
    gasnet_put_val(next, area[next] + 64, 1000u + gasnet_mynode(), 8);
    meet();
    CHECK(*(uint64_t*)(void*)(area[gasnet_mynode()] + 64) == 1000u + before);
  }
  finish();
  return 1;
}
