/* MPI and GASNet in one process, started by one of MPI's launchers: both know the same ranks, and
 * each works while the other is there.
 *
 *     mpi_beside PROCESSES mpi|gasnet mpi|gasnet
 *
 * The second word says which of the two is started first, the third whether MPI is ended before
 * gasnet_exit or not at all. The includes stand in both orders, by MPI_FIRST. */
#ifdef MPI_FIRST
#include <mpi.h>
#endif
#include <gasnet.h>
#ifndef MPI_FIRST
#include <mpi.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void handle(gasnet_token_t token, gasnet_handlerarg_t from) {
  gasnet_AMReplyShort1(token, 201, from);
}
static volatile int answers = 0;
static void count(gasnet_token_t token, gasnet_handlerarg_t from) {
  (void)token;
  answers += from == (gasnet_handlerarg_t)gasnet_mynode();
}

static void barrier(void) {
  gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
  if (gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS) != GASNET_OK) exit(11);
}

static void start_gasnet(int* argc, char*** argv) {
  gasnet_handlerentry_t table[] = {{200, (void (*)())handle}, {201, (void (*)())count}};
  if (gasnet_init(argc, argv) != GASNET_OK) exit(12);
  if (gasnet_attach(table, 2, 0, 0) != GASNET_OK) exit(13);
}

int main(int argc, char** argv) {
  int rank = -1, size = -1, sum = -1, n, mpi_first, mpi_ends_first;
  if (argc != 4) return 2;
  mpi_first = strcmp(argv[2], "mpi") == 0;
  mpi_ends_first = strcmp(argv[3], "mpi") == 0;
  if (mpi_first) MPI_Init(&argc, &argv);
  start_gasnet(&argc, &argv);
  if (!mpi_first) MPI_Init(&argc, &argv);

  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank != (int)gasnet_mynode() || size != (int)gasnet_nodes() || size != atoi(argv[1])) {
    fprintf(stderr, "MPI: %d of %d, GASNet: %d of %d\n", rank, size, (int)gasnet_mynode(),
            (int)gasnet_nodes());
    return 14;
  }
  for (n = 0; n < 100; ++n) {
    if (gasnet_AMRequestShort1((gasnet_node_t)((rank + n) % size), 200, rank) != GASNET_OK)
      return 15;
    if (n % 10 == 0) MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  }
  GASNET_BLOCKUNTIL(answers == 100);
  barrier();
  if (sum != size * (size - 1) / 2) return 16;
  printf("rank %d of %d agrees\n", rank, size);
  fflush(stdout);

  if (mpi_ends_first) {
    MPI_Finalize();
    barrier();
  }
  gasnet_exit(0);
}
