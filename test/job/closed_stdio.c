/* A process whose standard descriptors may be closed: sends messages, prints much, and writes into
 * FILE.RANK what its descriptors 0, 1 and 2 are, so that a script can tell whether one of them is
 * the library's. closed_stdio FILE */
#include <gasnet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile int answered;
static void ask(gasnet_token_t t) { gasnet_AMReplyShort0(t, 129); }
static void answer(gasnet_token_t t) {
  (void)t;
  answered++;
}

int main(int argc, char** argv) {
  gasnet_handlerentry_t handlers[] = {{128, (void (*)())ask}, {129, (void (*)())answer}};
  char path[4096], what[256], line[1024] = "";
  int i;
  FILE* f;
  gasnet_init(&argc, &argv);
  gasnet_attach(handlers, 2, 1 << 20, 0);
  for (i = 0; i < 2000; i++) printf("line %d of a program that may have no standard output\n", i);
  fflush(stdout);
  for (i = 0; i < 100; i++) gasnet_AMRequestShort0((gasnet_mynode() + 1) % gasnet_nodes(), 128);
  GASNET_BLOCKUNTIL(answered == 100);
  gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
  gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS);
  for (i = 0; i < 3; i++) {
    ssize_t n;
    snprintf(path, sizeof path, "/proc/self/fd/%d", i);
    n = readlink(path, what, sizeof what - 1);
    what[n < 0 ? 0 : n] = 0;
    snprintf(line + strlen(line), sizeof line - strlen(line), " %s", n < 0 ? "closed" : what);
  }
  snprintf(path, sizeof path, "%s.%d", argv[1], (int)gasnet_mynode());
  f = fopen(path, "w");
  if (f == NULL) gasnet_exit(3);
  fprintf(f, "%d of %d:%s\n", (int)gasnet_mynode(), (int)gasnet_nodes(), line);
  fclose(f);
  gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
  gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS);
  gasnet_exit(0);
  return 0;
}
