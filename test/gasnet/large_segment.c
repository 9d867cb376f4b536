/* A segment of 64 MiB under a small ulimit -l: given and usable where the device pins nothing.
   An argument: the size in MiB instead, which must be refused. */
#include <gasnet.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  if (gasnet_init(&argc, &argv) != GASNET_OK) return 2;
  const int refused = argc > 1;
  const uintptr_t bytes = (uintptr_t)(refused ? atoi(argv[1]) : 64) << 20;
  const int code = gasnet_attach(NULL, 0, bytes, 0);
  if (refused) {
    if (code == GASNET_OK) fprintf(stderr, "%lu bytes were given\n", (unsigned long)bytes);
    return code == GASNET_OK;
  }
  if (code != GASNET_OK) return 3;
  gasnet_seginfo_t of[2];
  gasnet_getSegmentInfo(of, 2);
  const gasnet_node_t other = gasnet_nodes() - 1 - gasnet_mynode();
  const int mine = 100 + (int)gasnet_mynode();
  gasnet_put(other, (char*)of[other].addr + bytes - sizeof mine, (void*)&mine, sizeof mine);
  gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
  gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS);
  int seen;
  memcpy(&seen, (char*)of[gasnet_mynode()].addr + bytes - sizeof seen, sizeof seen);
  const int right = seen == 100 + (int)other;
  if (!right) fprintf(stderr, "%d instead of %d\n", seen, 100 + (int)other);
  gasnet_exit(right ? 0 : 4);
}
