/* What `compare` has MPI do, in the words of its library: mpi_pair TEST BYTES SECONDS, two ranks
   (incast: all but rank 0 send to it).
   Prints one figure: nanoseconds (the median of batches), or operations a second. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { samples = 64, batch = 100, window = 64 };

static int by_size(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void ping(int rank, char* mine, char* theirs, int bytes) {
  if (rank == 0) {
    MPI_Send(mine, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(theirs, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  } else {
    MPI_Recv(theirs, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Send(mine, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
  }
}

/* A window of messages one way, then one back that says that they have been received. */
static void stream(int rank, char* mine, char* theirs, int bytes) {
  MPI_Request requests[window];
  for (int i = 0; i < window; ++i)
    if (rank == 0)
      MPI_Isend(mine, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &requests[i]);
    else
      MPI_Irecv(theirs, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[i]);
  MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
  if (rank == 0)
    MPI_Recv(theirs, 1, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  else
    MPI_Send(mine, 1, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
}

/* All others send windows of messages to rank 0, each answered by one message; messages a second.
 */
static double incast(int rank, int ranks, char* mine, char* theirs, int bytes, double seconds) {
  MPI_Request requests[window];
  const int senders = ranks - 1;
  unsigned long rounds = 0;
  int go_on = 1;
  MPI_Barrier(MPI_COMM_WORLD);
  const double begun = MPI_Wtime();
  while (go_on) {
    if (rank == 0) {
      go_on = MPI_Wtime() < begun + seconds;
      for (int s = 1; s <= senders; ++s) {
        for (int i = 0; i < window; ++i)
          MPI_Irecv(theirs, bytes, MPI_BYTE, s, 0, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
        MPI_Send(&go_on, 1, MPI_INT, s, 1, MPI_COMM_WORLD);
      }
      ++rounds;
    } else {
      for (int i = 0; i < window; ++i)
        MPI_Isend(mine, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &requests[i]);
      MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
      MPI_Recv(&go_on, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }
  return (double)rounds * senders * window / (MPI_Wtime() - begun);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const char* test = argc > 3 ? argv[1] : "lat";
  const int bytes = argc > 3 ? atoi(argv[2]) : 8;
  const double seconds = argc > 3 ? atof(argv[3]) : 0.1;
  char *mine = calloc(1, 65536), *theirs = calloc(1, 65536), *base = NULL;
  if (strcmp(test, "incast") == 0) {
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const double rate = incast(rank, ranks, mine, theirs, bytes, seconds);
    if (rank == 0) printf("figure %.1f\n", rate);
    MPI_Finalize();
    return 0;
  }
  const int is_rate = strcmp(test, "rate") == 0,
            one_sided = strcmp(test, "put") == 0 || strcmp(test, "get") == 0;
  MPI_Win win;
  if (one_sided) {
    MPI_Win_allocate(65536, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    memset(base, 0, 65536);
    MPI_Win_lock_all(0, win);
  }
  double took[samples];
  int n = 0, go_on = 1;
  const double until = MPI_Wtime() + seconds;
  /* Rank 0 says when it is enough, so that both make as many rounds. */
  for (unsigned long round = 0; go_on; ++round) {
    const double begun = MPI_Wtime();
    for (int i = 0; i < (is_rate ? 4 : batch); ++i) {
      if (is_rate) {
        stream(rank, mine, theirs, bytes);
      } else if (!one_sided) {
        ping(rank, mine, theirs, bytes);
      } else if (rank == 0) {
        if (test[0] == 'p')
          MPI_Put(mine, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, win);
        else
          MPI_Get(mine, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, win);
        MPI_Win_flush(1, win);
      }
    }
    took[n++ % samples] = MPI_Wtime() - begun;
    if (rank == 0) go_on = MPI_Wtime() < until;
    MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  if (rank == 0) {
    if (n > samples) n = samples;
    qsort(took, (size_t)n, sizeof took[0], by_size);
    const double median = took[n / 2];
    if (is_rate)
      printf("figure %.1f\n", 4 * window / median);
    else
      printf("figure %.1f\n", median / batch * 1e9 / (one_sided ? 1 : 2));
  }
  if (one_sided) {
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
  }
  MPI_Finalize();
  return 0;
}
