/* Node 1 comes to a bad end, deep in the program. argv[1] is segv, abort or error, for which the
 * library ends the process; or asked, a signal that does not end it; or nothing at all. The test
 * `backtrace` checks the backtrace, `frozen` whether the process waits for a debugger. */
#include <gasnet.h>
#include <signal.h>
#include <string.h>

#include "job.h"

static int* volatile nowhere = (int*)64;

__attribute__((noinline)) static void deep_in_the_program(const char* how) {
  if (strcmp(how, "segv") == 0) *nowhere = 1;
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "error") == 0) (void)gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS);
  if (strcmp(how, "asked") == 0) {
    raise(SIGUSR1);
    return;
  }
  fprintf(stderr, "node %u is still there\n", gasnet_mynode());
}

int main(int argc, char** argv) {
  gasnet_handlerentry_t table[] = {AREA_HANDLER};
  MUST(gasnet_init(&argc, &argv));
  MUST(gasnet_attach(table, 1, area_bytes, 0));
  share_areas();
  meet();
  if (gasnet_mynode() == 1) deep_in_the_program(argc > 1 ? argv[1] : "");
  if (check_result() != 0) gasnet_exit(check_result()); /* before the others may leave with 0 */
  meet();
  gasnet_exit(check_result());
  return 0;
}
