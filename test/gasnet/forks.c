/* A child made by fork() is refused, ends alone, and may exec; its parent's job goes on. Each child
 * is to end with 1 and to have said why, once; main() of it never returns. The last node's children
 * are made while others send to it. */
#define _GNU_SOURCE
#include <gasnet.h>

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../child.h"
#include "job.h"

enum { note_index = 128 };
static volatile int notes = 0;
static void on_note(gasnet_token_t token, void* buf, size_t nbytes) {
  (void)token, (void)buf, (void)nbytes;
  ++notes;
}

static gasnet_node_t other(void) { return (gasnet_mynode() + 1) % gasnet_nodes(); }
static char text[3000];

static void calls_poll(void) { _exit(gasnet_AMPoll() == GASNET_ERR_NOT_INIT); }
static void calls_request(void) {
  const int all =
      gasnet_AMRequestShort0(other(), note_index) == GASNET_ERR_NOT_INIT &&
      gasnet_AMRequestMedium0(other(), note_index, text, sizeof text) == GASNET_ERR_NOT_INIT &&
      gasnet_AMRequestShort0(gasnet_mynode(), note_index) == GASNET_ERR_NOT_INIT;
  _exit(all);
}
static void calls_put(void) { gasnet_put(other(), area[other()], text, sizeof text); }
static void calls_get(void) { gasnet_get(text, other(), area[other()], sizeof text); }
static void calls_barrier(void) { gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS); }
static void calls_wait(void) { GASNET_BLOCKUNTIL(notes < 0); }
static void calls_exit(void) { gasnet_exit(1); }
static void returns(void) { exit(1); } /* exit handlers and destructors run */
static void is_ended(void) {
  raise(SIGTERM);
  _exit(3);
}
static void runs_another(void) {
  execl("/bin/sh", "sh", "-c", "echo it could not; exit 1", (char*)NULL);
  _exit(3);
}

static const struct {
  const char* name;
  void (*act)(void);
  int says;
} ways[] = {
    {"poll", &calls_poll, 1},        {"request", &calls_request, 1}, {"put", &calls_put, 1},
    {"get", &calls_get, 1},          {"barrier", &calls_barrier, 1}, {"wait", &calls_wait, 1},
    {"gasnet_exit", &calls_exit, 0}, {"exit", &returns, 0},          {"SIGTERM", &is_ended, 0},
    {"exec", &runs_another, 1},
};

static void try_way(size_t i) {
  int pipe_ends[2], status = 0, lines = 0;
  char said[4096], *at = said;
  ssize_t n;
  pid_t child;
  if (pipe(pipe_ends) != 0) abort();
  fflush(NULL);
  child = fork();
  if (child == 0) {
    in_child = 1;
    if (dup2(pipe_ends[1], 1) < 0 || dup2(pipe_ends[1], 2) < 0) abort();
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    ways[i].act();
    _exit(3); /* it was not refused */
  }
  close(pipe_ends[1]);
  while ((n = read(pipe_ends[0], at, (size_t)(said + sizeof said - 1 - at))) > 0) at += n;
  *at = 0;
  close(pipe_ends[0]);
  CHECK(waitpid(child, &status, 0) == child);
  if (ways[i].act == &is_ended)
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  else
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
  for (at = said; (at = strstr(at, "it could not")) != NULL; ++at) ++lines;
  for (at = said; (at = strstr(at, "made by fork()")) != NULL; ++at) ++lines;
  CHECK((lines != 0) == ways[i].says);
  if (check_result() != 0) {
    fprintf(stderr, "way %s, status %x: %s\n", ways[i].name, (unsigned)status, said);
    gasnet_exit(2);
  }
}

int main(int argc, char** argv) {
  gasnet_handlerentry_t table[] = {{note_index, HANDLER(&on_note)}, AREA_HANDLER};
  size_t i;
  MUST(gasnet_init(&argc, &argv));
  MUST(gasnet_attach(table, 2, area_bytes, 0));
  share_areas();
  gasnet_get(text, other(), area[other()], 1); /* what can be mapped is mapped */
  for (i = 0; i < sizeof ways / sizeof *ways; ++i) {
    if (gasnet_mynode() == gasnet_nodes() - 1)
      try_way(i);
    else
      MUST(gasnet_AMRequestMedium0(gasnet_nodes() - 1, note_index, text, sizeof text));
    meet();
  }
  /* A barrier does not say that messages have been handled. */
  if (gasnet_mynode() == gasnet_nodes() - 1)
    GASNET_BLOCKUNTIL(notes == (int)(sizeof ways / sizeof *ways) * (int)(gasnet_nodes() - 1));
  finish();
  return 0;
}
