/* What the endpoints of this process have counted, for programs in C99 and C++: the counters of
 * penstock/counters.hpp by their names. Programs that use gasnet.h have one endpoint, number 0,
 * from gasnet_attach on.
 *
 * A program takes a snapshot, asks it for counters by their names, and frees it. New versions add
 * names and remove none, so that programs need not be compiled again for them. Counts begin at 0
 * and only grow, except those whose help begins with "now: ". Any thread may call these functions,
 * also inside a handler, but not in a signal handler. None waits for another process. Taking a
 * snapshot costs a walk over the ranks, and does not slow messages. */
#ifndef PENSTOCK_COUNTERS_H
#define PENSTOCK_COUNTERS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A snapshot. It belongs to the caller, who frees it, and stays as it is when the endpoint ends. */
struct penstock_counters;

/* Takes a snapshot of an endpoint by its number: 0 is the one that this process started first, and
 * the number of an endpoint that has ended is used again. NULL if no endpoint has that number, in a
 * child of fork(), and where memory is short. */
struct penstock_counters* penstock_counters_take(unsigned endpoint);
/* Frees a snapshot, and the texts that were made from it; c may be NULL. */
void penstock_counters_free(struct penstock_counters* c);

/* Writes the value of the endpoint's counter of that name, such as "polls", to *value and returns
 * 0. Returns -1 and leaves *value alone if no counter has that name. */
int penstock_counters_get(const struct penstock_counters* c, const char* name, uint64_t* value);

/* The number of peers: ranks that a message or an operation went to or came from, this one's own
 * rank included. */
unsigned penstock_counters_peers(const struct penstock_counters* c);
/* The rank of a peer; peers are numbered from 0 in the order of their ranks. (uint32_t)-1 if there
 * is no such peer. */
uint32_t penstock_counters_rank(const struct penstock_counters* c, unsigned peer);
/* The path of messages to a peer: "rings", "verbs" or "self"; "" if there is no such peer. */
const char* penstock_counters_path(const struct penstock_counters* c, unsigned peer);
/* What a request to a peer waits for at this moment, such as "credits"; "" if none waits. */
const char* penstock_counters_waits_for(const struct penstock_counters* c, unsigned peer);
/* The handler that this request is for, as "3 on_hit"; "" if none waits, or it is the library's own
 * message. It is valid as long as c. */
const char* penstock_counters_waits_handler(const struct penstock_counters* c, unsigned peer);
/* As penstock_counters_get, for a counter of a peer, such as "puts" or "requests_sent.shorts". It
 * returns -1 also if there is no such peer. */
int penstock_counters_get_peer(const struct penstock_counters* c, unsigned peer, const char* name,
                               uint64_t* value);

/* The name of the i-th counter of an endpoint; i begins with 0. NULL if there is no i-th counter.
 * The text lasts as long as the process. Any thread. */
const char* penstock_counter_name(unsigned i);
/* A few words that say what that counter counts; NULL and lifetime as penstock_counter_name. */
const char* penstock_counter_help(unsigned i);
/* The name of the i-th counter of a peer; NULL and lifetime as penstock_counter_name. */
const char* penstock_peer_counter_name(unsigned i);
/* A few words that say what that counter of a peer counts; as penstock_counter_name. */
const char* penstock_peer_counter_help(unsigned i);

/* The whole snapshot as text, like the files of PENSTOCK_COUNTERS: one JSON object on a line.
 * penstock_counters_free frees the text. */
const char* penstock_counters_json(struct penstock_counters* c);
/* The same in Prometheus's exposition format, many lines. */
const char* penstock_counters_prometheus(struct penstock_counters* c);

#ifdef __cplusplus
}
#endif

#endif
