/* What the endpoints of this process have counted, for programs in C99 and C++: the counters of
 * penstock/counters.hpp by their names. Programs that use gasnet.h have one endpoint, number 0,
 * from gasnet_attach on.
 *
 * A program takes a snapshot, asks it, and frees it. New versions add names and remove none, so
 * that nothing here has to be compiled again for them. Counts begin at 0 and only grow, but for
 * those whose help begins with "now: ". All functions may be called by any thread, also inside a
 * handler, and not in a signal handler. None waits for another process; a snapshot costs a walk
 * over the ranks, and slows messages by nothing. */
#ifndef PENSTOCK_COUNTERS_H
#define PENSTOCK_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A snapshot; the caller's, to be freed. It stays what it is when the endpoint has ended. */
struct penstock_counters;

/* Of that endpoint: 0 is the one that this process started first, and the number of one that has
 * ended is given away again. NULL if none has that number, in a child of fork(), and without
 * memory. */
struct penstock_counters* penstock_counters_take(unsigned endpoint);
/* c may be NULL. */
void penstock_counters_free(struct penstock_counters* c);

/* The value of the endpoint's counter of that name, such as "polls". 0, or -1 and *value unchanged:
 * no counter has that name. */
int penstock_counters_get(const struct penstock_counters* c, const char* name, uint64_t* value);

/* The number of ranks that a message or an operation went to or came from, this one's own included.
 */
unsigned penstock_counters_peers(const struct penstock_counters* c);
/* The rank of the peer-th of them, from 0 in the order of ranks; (uint32_t)-1 if there is none. */
uint32_t penstock_counters_rank(const struct penstock_counters* c, unsigned peer);
/* The way of messages to it: "rings", "verbs" or "self". "" if there is none. */
const char* penstock_counters_path(const struct penstock_counters* c, unsigned peer);
/* What a request to it waits for at this moment, such as "credits". "": none waits. */
const char* penstock_counters_waits_for(const struct penstock_counters* c, unsigned peer);
/* The value of its counter of that name, such as "puts" or "requests_sent.shorts". As
 * penstock_counters_get; -1, too, if there is no such peer. */
int penstock_counters_get_peer(const struct penstock_counters* c, unsigned peer, const char* name,
                               uint64_t* value);

/* The name of the i-th counter of an endpoint, or of a peer, and a few words on what it counts.
 * NULL behind the last one. They last as long as the process. */
const char* penstock_counter_name(unsigned i);
const char* penstock_counter_help(unsigned i);
const char* penstock_peer_counter_name(unsigned i);
const char* penstock_peer_counter_help(unsigned i);

/* All of it as text, as the files of PENSTOCK_COUNTERS: one JSON object on a line, and Prometheus's
 * exposition format. Freed by penstock_counters_free. */
const char* penstock_counters_json(struct penstock_counters* c);
const char* penstock_counters_prometheus(struct penstock_counters* c);

#ifdef __cplusplus
}
#endif

#endif
