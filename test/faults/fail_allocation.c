/* A library for LD_PRELOAD: the k-th allocation fails, in some processes of a job.
 *   TEST_FAIL=KIND:K:TIMES:WHO:FILE    KIND is malloc or mmap; TIMES 1 or 0 (all from the
 * k-th on); WHO a rank, or - for processes of the launcher. FILE has a counter of 8 bytes, which
 * all of them share. Memory that the C library asks the kernel for, for itself or for a thread's
 * stack, is not looked at. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t n, size_t bytes);
void* __libc_realloc(void* p, size_t bytes);
void* __libc_memalign(size_t align, size_t bytes);

static _Atomic long* counter = NULL;
static long first = 0, times = 0;
static int of_malloc = 0;

static void* map(void* at, size_t bytes, int rights, int flags, int fd, off_t offset) {
  return (void*)syscall(SYS_mmap, at, bytes, rights, flags, fd, offset);
}

__attribute__((constructor)) static void begin(void) {
  const char* const rank = getenv("PENRUN_RANK");
  const char* const told = getenv("TEST_FAIL");
  char kind[8], who[8], path[256];
  int fd;
  if (told == NULL ||
      sscanf(told, "%7[^:]:%ld:%ld:%7[^:]:%255s", kind, &first, &times, who, path) != 5)
    return;
  if (strcmp(who, rank == NULL ? "-" : rank) != 0) return;
  fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) _exit(97);
  of_malloc = strcmp(kind, "malloc") == 0;
  counter = map(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if ((void*)counter == MAP_FAILED) _exit(97);
  close(fd);
}

static int fails(int is_malloc) {
  long n;
  if (counter == NULL || is_malloc != of_malloc) return 0;
  n = atomic_fetch_add_explicit(counter, 1, memory_order_relaxed) + 1;
  if (first == 0 || n < first || (times != 0 && n >= first + times)) return 0;
  errno = ENOMEM;
  return 1;
}

void* malloc(size_t bytes) { return fails(1) ? NULL : __libc_malloc(bytes); }
void* calloc(size_t n, size_t bytes) { return fails(1) ? NULL : __libc_calloc(n, bytes); }
void* realloc(void* p, size_t bytes) { return fails(1) ? NULL : __libc_realloc(p, bytes); }
void* aligned_alloc(size_t align, size_t bytes) {
  return fails(1) ? NULL : __libc_memalign(align, bytes);
}
int posix_memalign(void** to, size_t align, size_t bytes) {
  void* const p = fails(1) ? NULL : __libc_memalign(align, bytes);
  if (p == NULL) return ENOMEM;
  *to = p;
  return 0;
}
void* mmap(void* at, size_t bytes, int rights, int flags, int fd, off_t offset) {
  return fails(0) ? MAP_FAILED : map(at, bytes, rights, flags, fd, offset);
}
void* mmap64(void* at, size_t bytes, int rights, int flags, int fd, off_t offset) {
  return mmap(at, bytes, rights, flags, fd, offset);
}
