/* Makes a number of puts, gets, memsets, barriers and messages that the test `noted` knows, to the
 * next node. */
#include <gasnet.h>
#include <string.h>

#include "job.h"

enum { on_ping = 200, on_pong = 201 };
static volatile int pings = 0, pongs = 0;

static void ping(gasnet_token_t token) {
  ++pings;
  MUST(gasnet_AMReplyShort0(token, on_pong));
}
static void pong(gasnet_token_t token) {
  (void)token;
  ++pongs;
}

int main(int argc, char** argv) {
  gasnet_handlerentry_t table[] = {
      {on_ping, HANDLER(&ping)}, {on_pong, HANDLER(&pong)}, AREA_HANDLER};
  char big[1000] = "put", got[1000] = "";
  gasnet_handle_t h;
  gasnet_node_t next;
  int i;
  MUST(gasnet_init(&argc, &argv));
  MUST(gasnet_attach(table, 3, area_bytes, 0));
  share_areas();
  next = (gasnet_mynode() + 1) % gasnet_nodes();
  for (i = 0; i < 5; ++i) gasnet_put_val(next, area[next], (gasnet_register_value_t)i, 8);
  gasnet_put(next, area[next] + 64, big, sizeof big);
  h = gasnet_put_nb(next, area[next] + 2000, big, 500);
  gasnet_wait_syncnb(h);
  gasnet_put_nbi(next, area[next] + 4000, big, 500);
  gasnet_wait_syncnbi_puts();
  CHECK(gasnet_get_val(next, area[next], 8) == 4);
  gasnet_get(got, next, area[next] + 64, sizeof got);
  CHECK(strcmp(got, "put") == 0);
  gasnet_get_nbi(got, next, area[next] + 64, 10);
  gasnet_wait_syncnbi_gets();
  gasnet_memset(next, area[next] + 8000, 7, 300);
  for (i = 0; i < 6; ++i) MUST(gasnet_AMRequestShort0(next, on_ping));
  GASNET_BLOCKUNTIL(pings == 6 && pongs == 6);
  meet();
  if (check_result() != 0) gasnet_exit(check_result()); /* before the others may leave with 0 */
  meet();
  gasnet_exit(check_result());
  return 0;
}
