/* What Penstock offers to programs of gasnet.h and of gasnetex.h beyond GASNet's specifications.
 * This header includes gasnet.h. A program that is also compiled with another GASNet asks for it:
 *
 *   #ifdef __has_include
 *   #if __has_include(<gasnet_penstock.h>)
 *   #include <gasnet_penstock.h>
 *   #endif
 *   #endif
 *   ...
 *   #ifdef GASNET_PENSTOCK_EXPECT
 *   gasnet_penstock_expect(neighbour, 16, 4000);
 *   #endif
 */
#ifndef _GASNET_PENSTOCK_H
#define _GASNET_PENSTOCK_H

#include <gasnet.h>

GASNETT_BEGIN_EXTERNC

extern int GASNETC_(expect)(gasnet_node_t node, unsigned int messages, size_t nbytes);

GASNETT_END_EXTERNC

/* A hint, which changes nothing but speed: this process will soon have up to `messages` requests at
 * a time under way to that node, each with `nbytes` bytes of payload (0: Shorts). It starts a
 * connection and asks for the credits that these requests need, so that both are there before the
 * first one is sent. The node lends what it can, at most PENSTOCK_LENDER_LIMIT in an epoch; a
 * program that needs more repeats the hint. A stencil gives one hint for each neighbour before its
 * first step.
 *
 * Any thread may call it from gasnet_attach (or gex_Client_Init) on, but no handler. It never
 * waits. Returns GASNET_OK; GASNET_ERR_NOT_INIT before that call; GASNET_ERR_BAD_ARG, with a line
 * on stderr, in a handler, if there is no such node, and if nbytes is above gasnet_AMMaxMedium().
 */
#define GASNET_PENSTOCK_EXPECT 1
#define gasnet_penstock_expect(node, messages, nbytes) \
  GASNETC_(expect)((node), (messages), (nbytes))

#endif
