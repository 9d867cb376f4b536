/* A kernel with pages of 64 KiB, played to programs that are started with this library preloaded:
   sysconf says 64 KiB, mappings begin at multiples of that, and calls whose address or offset is
   none fail with EINVAL, as they do there. Calls inside the C library (malloc's) are not seen, so
   memory of malloc ends where it ends: what only that makes of a call is taken for done. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { page = 65536 };
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
static int crooked(const void* p) { return (uintptr_t)p % page != 0; }
static size_t whole(size_t n) { return (n + page - 1) / page * page; }
static int refused(void) {
  errno = EINVAL;
  return -1;
}

long sysconf(int name) { return name == _SC_PAGESIZE ? page : NEXT(sysconf)(name); }
int getpagesize(void) { return page; }

void* mmap(void* at, size_t n, int prot, int flags, int fd, off_t offset) {
  if (offset % page != 0 || ((flags & MAP_FIXED) != 0 && crooked(at)) || n == 0) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  if (at != NULL) return NEXT(mmap)(at, n, prot, flags, fd, offset);
  /* Room for an aligned one; what is too much goes back, so that nothing else lies in its last
   * page. */
  char* room = NEXT(mmap)(NULL, whole(n) + page, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return MAP_FAILED;
  char* from = (char*)whole((uintptr_t)room);
  if (from != room) NEXT(munmap)(room, (size_t)(from - room));
  if (from != room + page) NEXT(munmap)(from + whole(n), (size_t)(room + page - from));
  void* p = NEXT(mmap)(from, (flags & MAP_ANONYMOUS) != 0 ? whole(n) : n, prot, flags | MAP_FIXED,
                       fd, offset);
  if (p == MAP_FAILED) {
    const int e = errno;
    NEXT(munmap)(from, whole(n));
    errno = e;
  }
  return p;
}
void* mmap64(void* at, size_t n, int prot, int flags, int fd, off_t offset) {
  return mmap(at, n, prot, flags, fd, offset);
}
int munmap(void* p, size_t n) { return crooked(p) ? refused() : NEXT(munmap)(p, whole(n)); }
int mprotect(void* p, size_t n, int prot) {
  return crooked(p) ? refused() : NEXT(mprotect)(p, n, prot);
}
void* mremap(void* p, size_t before, size_t after, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  void* to = va_arg(rest, void*);
  va_end(rest);
  if (crooked(p) || ((flags & MREMAP_FIXED) != 0 && crooked(to))) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  return NEXT(mremap)(p, before, after, flags, to);
}
/* The pages at the ends of malloc's memory have other neighbours here, or none: a page can do what
 * any part of it can. */
enum { part = 4096 };
int madvise(void* p, size_t n, int advice) {
  if (crooked(p)) return refused();
  if (NEXT(madvise)(p, whole(n), advice) == 0) return 0;
  int done = 0;
  for (size_t at = 0; at < whole(n); at += part)
    done |= NEXT(madvise)((char*)p + at, part, advice) == 0;
  return done ? 0 : -1;
}
int mincore(void* p, size_t n, unsigned char* states) {
  if (crooked(p)) return refused();
  for (size_t i = 0; i < whole(n) / page; ++i) { /* one state for each page */
    unsigned char state;
    size_t at = 0;
    while (at < page && NEXT(mincore)((char*)p + i * page + at, 1, &state) != 0) at += part;
    if (at == page) return -1; /* ENOMEM */
    states[i] = 1;
  }
  return 0;
}
