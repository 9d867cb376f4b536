/* gasnet_tools.h alone, in C99, with threads: everything once more, then the promises of the
 * thread objects and the atomics between threads. */
#define _GNU_SOURCE
#define GASNETT_THREAD_SAFE 1
#include "tools_names.h"

#include <pthread.h>

enum { threads = 4, rounds = 20000 };

static gasnett_atomic_t count = gasnett_atomic_init(0);
static gasnett_strongatomic64_t strong = gasnett_strongatomic64_init(0);
static gasnett_mutex_t lock = GASNETT_MUTEX_INITIALIZER;
static gasnett_cond_t changed = GASNETT_COND_INITIALIZER;
static gasnett_rwlock_t rwlock = GASNETT_RWLOCK_INITIALIZER;
static int plain = 0, arrived = 0, written = 0;
GASNETT_THREADKEY_DEFINE(mine);

static void* work(void* arg) {
  int i, torn = 0;
  gasnett_threadkey_set(mine, arg);
  for (i = 0; i < rounds; ++i) {
    gasnett_atomic_increment(&count, 0);
    gasnett_strongatomic64_add(&strong, 2, 0);
    gasnett_mutex_lock(&lock);
    ++plain;
    gasnett_mutex_unlock(&lock);
  }
  for (i = 0; i < 200; ++i) {
    gasnett_rwlock_wrlock(&rwlock);
    ++written;
    ++written;
    gasnett_rwlock_unlock(&rwlock);
    gasnett_rwlock_rdlock(&rwlock);
    torn += written % 2;
    gasnett_rwlock_unlock(&rwlock);
  }
  gasnett_mutex_lock(&lock);
  ++arrived;
  gasnett_cond_broadcast(&changed);
  while (arrived < threads) gasnett_cond_wait(&changed, &lock);
  CHECK(torn == 0);
  CHECK(gasnett_threadkey_get(mine) == arg);
  gasnett_mutex_unlock(&lock);
  return NULL;
}

static void between_threads(void) {
  pthread_t t[threads];
  char marks[threads];
  int i, refused = 0;
  /* The threads check too, so this one counts first and checks when they have ended. */
  for (i = 0; i < threads; ++i) refused += pthread_create(&t[i], NULL, &work, &marks[i]) != 0;
  if (refused != 0) abort();
  for (i = 0; i < threads; ++i) refused += pthread_join(t[i], NULL) != 0;
  CHECK(refused == 0);
  CHECK(gasnett_atomic_read(&count, GASNETT_ATOMIC_ACQ) == threads * rounds);
  CHECK(gasnett_strongatomic64_read(&strong, 0) == 2 * threads * rounds);
  CHECK(plain == threads * rounds && written == 2 * 200 * threads);
  CHECK(gasnett_threadkey_get(mine) == NULL);
}

int main(int argc, char** argv) {
  between_threads();
  return tools_names(argc, argv);
}
