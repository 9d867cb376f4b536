/* gasnet_coll.h used wrongly, or by processes that end: the job ends with a line that names the
 * rank, the call and the reason, and no process hangs. The argument chooses the mistake. */
#define _GNU_SOURCE
#include <gasnet_coll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "job.h"

static char buffer[1 << 20], other[1 << 20];

int main(int argc, char** argv) {
  const int flags = GASNET_COLL_LOCAL | GASNET_COLL_IN_MYSYNC | GASNET_COLL_OUT_MYSYNC;
  const char* const what = argc > 1 ? argv[1] : "";
  gasnet_coll_handle_t h;
  int mine, i;
  MUST(gasnet_init(&argc, &argv));
  MUST(gasnet_attach(NULL, 0, area_bytes, 0));
  mine = gasnet_mynode() == 0;
  if (strcmp(what, "unknown") == 0)
    gasnet_coll_reduce(GASNET_TEAM_ALL, 0, buffer, other, 0, 0, 8, 1, 0, 0, flags);
  gasnet_coll_init(NULL, 0, NULL, 0, 0);
  if (strcmp(what, "flags") == 0 && mine)
    gasnet_coll_broadcast(GASNET_TEAM_ALL, buffer, 0, other, 8, GASNET_COLL_LOCAL);
  if (strcmp(what, "root") == 0 && mine)
    gasnet_coll_scatter(GASNET_TEAM_ALL, buffer, 2, other, 8, flags);
  if (strcmp(what, "function") == 0 && mine)
    gasnet_coll_reduce(GASNET_TEAM_ALL, 0, buffer, other, 0, 0, 8, 1, 3, 0, flags);
  if (strcmp(what, "block") == 0 && mine)
    gasnet_coll_reduce(GASNET_TEAM_ALL, 0, buffer, other, 8, 0, 8, 1, 0, 0, flags);
  if (strcmp(what, "member") == 0 && mine) {
    /* By itself in a team of one. */
    gasnet_team_handle_t alone = gasnet_coll_team_split(GASNET_TEAM_ALL, 1, 0, NULL);
    (void)gasnet_coll_team_node2rank(alone, 1);
  } else if (strcmp(what, "member") == 0) {
    (void)gasnet_coll_team_split(GASNET_TEAM_ALL, 2, 0, NULL);
  }
  if (strcmp(what, "split") == 0) (void)gasnet_coll_team_split(GASNET_TEAM_ALL, 1, 0, NULL);
  if (strcmp(what, "sizes") == 0)
    gasnet_coll_exchange(GASNET_TEAM_ALL, buffer, other, mine ? 8 : 16, flags);
  if (strcmp(what, "kinds") == 0 && mine)
    gasnet_coll_exchange(GASNET_TEAM_ALL, buffer, other, 8, flags);
  if (strcmp(what, "kinds") == 0 && !mine)
    gasnet_coll_gather_all(GASNET_TEAM_ALL, buffer, other, 8, flags);
  if (strcmp(what, "twice") == 0) {
    h = gasnet_coll_gather_all_nb(GASNET_TEAM_ALL, buffer, other, 8, flags);
    while (mine && h == GASNET_COLL_INVALID_HANDLE)
      h = gasnet_coll_gather_all_nb(GASNET_TEAM_ALL, buffer, other, 8, flags);
    if (mine) {
      gasnet_coll_wait_sync(h);
      gasnet_coll_wait_sync(h);
    }
    while (1) gasnet_coll_gather_all(GASNET_TEAM_ALL, buffer, other, 8, flags);
  }
  if (strcmp(what, "scan") == 0) gasnet_coll_scan(GASNET_TEAM_ALL, 0, 0, 0, 0, 0, 0, 8, 1, 0, 0, 0);
  if (strcmp(what, "notified") == 0 && mine) (void)gasnet_coll_barrier_wait(GASNET_TEAM_ALL, 0, 0);
  /* Somebody ends while the others are in a collective, or come to one. */
  for (i = 0; i < 2000; ++i) {
    if (gasnet_mynode() == gasnet_nodes() - 1 && i == 1000) {
      if (strcmp(what, "killed") == 0) raise(SIGKILL);
      if (strcmp(what, "left") == 0) _exit(0);
      if (strcmp(what, "exit") == 0) gasnet_exit(5);
    }
    gasnet_coll_gather_all(GASNET_TEAM_ALL, buffer, other, i % 2 == 0 ? 8 : 20000, flags);
    gasnet_coll_broadcast(GASNET_TEAM_ALL, buffer, i % gasnet_nodes(), other, 40000, flags);
  }
  gasnet_exit(0);
  return 0;
}
