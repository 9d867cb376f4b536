/* The exchanges of the OSU benchmarks between the ranks of MPI, with checked data: there and back,
   windows one way and both ways, collectives, one-sided transfers and atomics. Prints a line when
   all was right. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { window = 64, most = 1 << 20 };

static int rank, ranks;
static const int sizes[] = {1, 8, 200, 4096, 20000, 1 << 17, most};

/* Byte i of message `serial` from a rank: neighbours in memory, in time and in rank differ. */
static unsigned char byte_of(int from, int serial, int i) {
  return (unsigned char)(from * 151 + serial * 31 + i * 7 + (i >> 8));
}

static void fill(unsigned char* to, int serial, int bytes) {
  for (int i = 0; i < bytes; ++i) to[i] = byte_of(rank, serial, i);
}

static void check(const unsigned char* got, int from, int serial, int bytes, const char* what) {
  for (int i = 0; i < bytes; ++i)
    if (got[i] != byte_of(from, serial, i)) {
      fprintf(stderr, "rank %d: %s: byte %d of %d of message %d from rank %d is wrong\n", rank,
              what, i, bytes, serial, from);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void must(int right, const char* what) {
  if (right) return;
  fprintf(stderr, "rank %d: %s: a wrong result\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void there_and_back(int peer, int bytes, unsigned char* mine, unsigned char* theirs) {
  for (int n = 0; n < 20; ++n) {
    fill(mine, n, bytes);
    if (rank < peer) MPI_Send(mine, bytes, MPI_BYTE, peer, n, MPI_COMM_WORLD);
    MPI_Recv(theirs, bytes, MPI_BYTE, peer, n, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank > peer) MPI_Send(mine, bytes, MPI_BYTE, peer, n, MPI_COMM_WORLD);
    check(theirs, peer, n, bytes, "there and back");
  }
}

/* Both send a window of messages, which are received in reverse order of their posting. */
static void both_ways(int peer, int bytes, unsigned char* mine, unsigned char* theirs) {
  MPI_Request requests[2 * window];
  for (int n = 0; n < window; ++n) {
    const int tag = window - 1 - n;
    MPI_Irecv(theirs + (size_t)tag * bytes, bytes, MPI_BYTE, peer, tag, MPI_COMM_WORLD,
              &requests[n]);
  }
  for (int n = 0; n < window; ++n) {
    fill(mine + (size_t)n * bytes, n, bytes);
    MPI_Isend(mine + (size_t)n * bytes, bytes, MPI_BYTE, peer, n, MPI_COMM_WORLD,
              &requests[window + n]);
  }
  MPI_Waitall(2 * window, requests, MPI_STATUSES_IGNORE);
  for (int n = 0; n < window; ++n) check(theirs + (size_t)n * bytes, peer, n, bytes, "both ways");
}

static void collectives(int bytes, unsigned char* mine, unsigned char* theirs) {
  for (int to = 0; to < ranks; ++to) fill(mine + (size_t)to * bytes, to, bytes);
  MPI_Alltoall(mine, bytes, MPI_BYTE, theirs, bytes, MPI_BYTE, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; ++from)
    check(theirs + (size_t)from * bytes, from, rank, bytes, "to all");
  for (int root = 0; root < ranks; ++root) {
    if (rank == root) fill(mine, root, bytes);
    MPI_Bcast(mine, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
    check(mine, root, root, bytes, "broadcast");
  }
  const int words = bytes / 8;
  long *in = (long*)mine, *out = (long*)theirs;
  for (int i = 0; i < words; ++i) in[i] = rank + 3L * i;
  MPI_Allreduce(in, out, words, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < words; ++i) must(out[i] == ranks * (ranks - 1) / 2 + 3L * i * ranks, "sum");
}

static void one_sided(int peer, int bytes, unsigned char* mine, unsigned char* theirs) {
  unsigned char* memory;
  MPI_Win w;
  MPI_Win_allocate(2 * most, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &w);
  memset(memory, 0, 2 * most);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, w);
  fill(mine, 5, bytes);
  MPI_Put(mine, bytes, MPI_BYTE, peer, 0, bytes, MPI_BYTE, w);
  MPI_Win_flush(peer, w);
  MPI_Get(theirs, bytes, MPI_BYTE, peer, 0, bytes, MPI_BYTE, w);
  MPI_Win_flush(peer, w);
  check(theirs, rank, 5, bytes, "get of what was put");
  MPI_Barrier(MPI_COMM_WORLD);
  check(memory, peer, 5, bytes, "put");
  const long one = 1;
  long before;
  for (int n = 0; n < 100; ++n)
    for (int to = 0; to < ranks; ++to) {
      MPI_Fetch_and_op(&one, &before, MPI_LONG, to, most, MPI_SUM, w);
      MPI_Win_flush(to, w);
      must(before >= n && before < 100L * ranks, "fetch-add");
    }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Fetch_and_op(&one, &before, MPI_LONG, rank, most, MPI_NO_OP, w);
  MPI_Win_flush(rank, w);
  must(before == 100L * ranks, "count of the fetch-adds");
  MPI_Win_unlock_all(w);
  MPI_Win_free(&w);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int peer = rank ^ 1; /* the number of ranks is even */
  unsigned char* mine = malloc((size_t)window * most);
  unsigned char* theirs = malloc((size_t)window * most);
  must(mine != NULL && theirs != NULL && ranks % 2 == 0, "start");
  for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
    there_and_back(peer, sizes[s], mine, theirs);
    both_ways(peer, sizes[s], mine, theirs);
    collectives(sizes[s], mine, theirs);
    one_sided(peer, sizes[s], mine, theirs);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks exchanged all sizes, and every byte was right\n", ranks);
  free(mine);
  free(theirs);
  MPI_Finalize();
  return 0;
}
