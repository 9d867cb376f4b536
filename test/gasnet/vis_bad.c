/* gasnet_vis.h used wrongly: the job ends with a line that names the call, the rank and the reason.
 * The argument says which mistake node 0 makes; CTest compares the line. */
#define GASNET_DEBUG 1
#include <gasnet_vis.h>
#include <string.h>

#include "job.h"

static char local[256];

int main(int argc, char** argv) {
  static const gasnet_handlerentry_t entry = AREA_HANDLER;
  static const size_t count[] = {8, 4}, overlapping[] = {7}, apart[] = {16};
  gasnet_handlerentry_t table[1];
  gasnet_memvec_t to, from;
  void* piece[1];
  const char* const mistake = argc > 1 ? argv[1] : "";
  table[0] = entry;
  MUST(gasnet_init(&argc, &argv));
  MUST(gasnet_attach(table, 1, area_bytes, 0));
  share_areas();
  to.addr = area[1], to.len = 16;
  from.addr = local, from.len = 16;
  piece[0] = local;
  if (gasnet_mynode() == 0) {
    if (strcmp(mistake, "node") == 0) gasnet_putv_bulk(gasnet_nodes(), 1, &to, 1, &from);
    if (strcmp(mistake, "outside") == 0) {
      to.addr = area[1] + area_bytes - 8;
      (void)gasnet_putv_nb_bulk(1, 1, &to, 1, &from);
    }
    if (strcmp(mistake, "totals") == 0) {
      from.len = 15;
      gasnet_getv_nbi_bulk(1, &from, 1, 1, &to);
    }
    if (strcmp(mistake, "overlap") == 0) {
      gasnet_memvec_t twice[2];
      twice[0].addr = area[1] + 100, twice[0].len = 8;
      twice[1].addr = area[1] + 93, twice[1].len = 8;
      gasnet_putv_bulk(1, 2, twice, 1, &from);
    }
    if (strcmp(mistake, "length") == 0) gasnet_geti_bulk(1, piece, 0, 1, 1, &to.addr, 16);
    if (strcmp(mistake, "stride") == 0)
      gasnet_puts_bulk(1, area[1], overlapping, local, apart, count, 1);
    if (strcmp(mistake, "far") == 0)
      gasnet_gets_bulk(local, apart, 1, area[1] + area_bytes - 31, apart, count, 1);
  }
  meet();
  gasnet_exit(3); /* nobody noticed */
  return 3;
}
