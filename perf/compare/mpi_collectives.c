/* The collectives of perf/collectives by MPI: mpi_collectives SECONDS. Rank 0 prints the medians of
   seven rounds in microseconds, each as all ranks see it, between two barriers. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { rounds = 7, kinds = 4, megabyte = 1 << 20 };
static const char* const names[kinds] = {"reduce_all 8 B", "reduce_all 1 MB", "broadcast 1 MB",
                                         "exchange 1 MB"};
static char *from, *to;

static void one(int kind) {
  switch (kind) {
    case 0:
      MPI_Allreduce(from, to, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
      break;
    case 1:
      MPI_Allreduce(from, to, megabyte / 8, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
      break;
    case 2:
      MPI_Bcast(from, megabyte, MPI_BYTE, 0, MPI_COMM_WORLD);
      break;
    default:
      MPI_Alltoall(from, megabyte, MPI_BYTE, to, megabyte, MPI_BYTE, MPI_COMM_WORLD);
  }
}

static double microseconds(int kind, int count) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double since = MPI_Wtime();
  for (int i = 0; i < count; ++i) one(kind);
  MPI_Barrier(MPI_COMM_WORLD);
  return (MPI_Wtime() - since) * 1e6 / count;
}

static int by_size(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const double seconds = argc > 1 ? atof(argv[1]) : 1;
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  from = calloc(ranks, megabyte);
  to = calloc(ranks, megabyte);
  if (from == NULL || to == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  for (int kind = 0; kind < kinds; ++kind) {
    double took[rounds];
    int count = (int)(seconds * 1e6 / rounds / kinds / microseconds(kind, 3)) + 3;
    MPI_Bcast(&count, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < rounds; ++i) took[i] = microseconds(kind, count);
    qsort(took, rounds, sizeof *took, by_size);
    if (rank == 0) printf("%-16s %10.2f us\n", names[kind], took[rounds / 2]);
  }
  return MPI_Finalize();
}
