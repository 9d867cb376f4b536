/* The plain C interface of Penstock, over the C++ one (penstock/penstock.hpp): functions, opaque
 * handles, and structures of numbers and pointers; no macro is needed. C89 with <stdint.h>, and
 * C++. Interpreters load the library and call the same functions (lib/python). A program links
 * penstock-seq (one thread), penstock-parsync (one thread at a time) or penstock-par (any number of
 * threads); all three offer these names.
 *
 *   struct penstock_world* w = penstock_join(NULL, 0);
 *   struct penstock_endpoint* ep = penstock_open(w, NULL, 0);
 *   int greet = penstock_add_short(ep, on_greet, 1, NULL);   // in the same order on every rank
 *   penstock_start(ep, 0, PENSTOCK_SEGMENTS);                // collective; messages flow from here
 *   penstock_request_short(ep, 1, greet, &number, 1);
 *   penstock_wait_until(ep, greeted, NULL);
 *   penstock_close(ep);
 *   penstock_leave(w);
 *
 * Calls of set-up return NULL or -1 when they fail, and penstock_why() says why. Calls of the data
 * path return a status. Ranks are numbered 0 to size-1. Handles must come from these functions and
 * must not be NULL. Thread rules are those of the library that is linked; penstock_open, _add_…,
 * _start and _close are for one thread at a time in all of them. */
#ifndef PENSTOCK_H
#define PENSTOCK_H

#include <stddef.h>
#include <stdint.h>

#include "penstock/counters.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status ---- */

/* What a call of the data path returns. */
enum penstock_status {
  PENSTOCK_OK = 0,      /* done */
  PENSTOCK_PENDING = 1, /* begun, not complete; poll and ask again */
  /* short of something, or of time: poll and call again */
  PENSTOCK_NO_CREDIT = 2, /* the target has lent too few credits */
  PENSTOCK_NO_TICKET = 3, /* too many messages are in flight */
  PENSTOCK_NO_CHUNK = 4,  /* no registered send buffer is free */
  PENSTOCK_NO_SPACE = 5,  /* the send queue or ring is full */
  PENSTOCK_NOT_READY = 6, /* the connection is being made */
  PENSTOCK_BUSY = 7,      /* another thread is inside the queue */
  PENSTOCK_TIMED_OUT = 8, /* the time of a wait is over; nothing is lost */
  /* failed: calling again cannot help */
  PENSTOCK_BAD_RANK = 9,        /* the job has no such process */
  PENSTOCK_BAD_HANDLER = 10,    /* not registered, or for another kind or number of arguments */
  PENSTOCK_BAD_ARGUMENTS = 11,  /* null payload, more than 16 arguments, nothing to end */
  PENSTOCK_TOO_LONG = 12,       /* the payload is above the maximum of its kind */
  PENSTOCK_OUT_OF_SEGMENT = 13, /* the address or size lies outside the other rank's segment */
  PENSTOCK_IN_HANDLER = 14,     /* called in a handler, which must not */
  PENSTOCK_NOT_IN_HANDLER = 15, /* a reply was sent from outside its handler */
  PENSTOCK_REPLIED_TWICE = 16,  /* the handler has replied already, or was itself a reply */
  PENSTOCK_UNSUPPORTED = 17,    /* the device or this build cannot do it */
  PENSTOCK_DEVICE_ERROR = 18,   /* a verbs call failed */
  PENSTOCK_PEER_DEAD = 19,      /* the peer process is gone */
  PENSTOCK_SHUT_DOWN = 20,      /* the endpoint is not started, or is closing, or its parent's */
  PENSTOCK_MISALIGNED = 21      /* the address is not a multiple of the operand's size */
};

/* 1 if the status says that the call failed and that calling again cannot help; else 0. */
int penstock_is_failure(enum penstock_status s);
/* A few words of English; never NULL. The text lasts as long as the process. */
const char* penstock_describe(enum penstock_status s);
/* One line: why the last call of set-up that failed in this thread did, and what the user can do.
 * "" if none has. It lasts until this thread's next call of set-up. */
const char* penstock_why(void);

/* ---- the job ---- */

struct penstock_world;    /* this process's place in the job */
struct penstock_endpoint; /* its place in the exchange of messages */
struct penstock_token;    /* a handler's view of its message */
struct penstock_atomics;  /* a set of remote atomics */

/* A setting by name (PENSTOCK_… or GASNET_…); it takes precedence over the environment. */
struct penstock_setting {
  const char* name;  /* such as "PENSTOCK_DEVICE" */
  const char* value; /* as it would stand in the environment */
};

/* Joins the job that penrun, PMIx or PMI names in the environment; without one it is a job of one
 * process. A process joins once. settings has `count` elements and may be NULL if that is 0.
 * Returns NULL on failure. It waits for nobody but the launcher. */
struct penstock_world* penstock_join(const struct penstock_setting* settings, size_t count);
/* Ends this process's part in the job, once its endpoints are closed, and frees w; w may be NULL.
 */
void penstock_leave(struct penstock_world* w);
/* This process's number in the job, from 0. Any thread. */
uint32_t penstock_world_rank(const struct penstock_world* w);
/* The number of the job's processes, at least 1. Any thread. */
uint32_t penstock_world_size(const struct penstock_world* w);
/* Ends every process of the job with that code (0 to 255). It does not return. Any thread. */
void penstock_exit(struct penstock_world* w, int code);
/* Gives every rank the bytes of all ranks, in their order, through the launcher: each gives `bytes`
 * bytes, the same number everywhere, and `all` has room for as many times the size of the job. It
 * is collective and slow (milliseconds), meant for set-up, and runs no handler. 0, or -1 on
 * failure. */
int penstock_exchange(struct penstock_world* w, const void* mine, size_t bytes, void* all);

/* ---- the endpoint ---- */

/* Handlers. They run inside calls that poll, on the thread that polls. args has as many words as
 * the handler was registered with; it and the token are valid only during the handler. A handler
 * may reply once, to a request, and must not send requests, poll or wait. */
typedef void (*penstock_short_handler)(struct penstock_token* t, const uint32_t* args,
                                       void* context);
/* The same for Mediums and Longs. payload has `bytes` bytes, which in a Medium are aligned for any
 * type, and may be changed in place; a Medium's is gone when the handler returns, a Long's stays in
 * the segment. */
typedef void (*penstock_payload_handler)(struct penstock_token* t, const uint32_t* args,
                                         void* payload, size_t bytes, void* context);

/* What memory of other ranks puts and gets may reach. */
enum penstock_access {
  PENSTOCK_SEGMENTS = 0,  /* segments only: the fastest */
  PENSTOCK_EVERYTHING = 1 /* any memory */
};

/* Opens a device and makes the queues; w must live longer than the endpoint. It is collective: all
 * ranks open their endpoints in the same order. Returns NULL on failure. */
struct penstock_endpoint* penstock_open(struct penstock_world* w,
                                        const struct penstock_setting* settings, size_t count);
/* Closes the endpoint and frees it; ep may be NULL. It is collective, and waits, polling, until all
 * ranks close theirs: everything sent before has been handled then. */
void penstock_close(struct penstock_endpoint* ep);

/* Registers a handler of Shorts that takes nargs words (0 to 16); context is passed to it. Handlers
 * are added before penstock_start(), the same ones in the same order on every rank, at most 255.
 * Returns the handler's number, 1 to 255, or -1 on failure. */
int penstock_add_short(struct penstock_endpoint* ep, penstock_short_handler f, unsigned nargs,
                       void* context);
/* The same for a handler of Mediums or Longs, which gets the payload too. */
int penstock_add_payload(struct penstock_endpoint* ep, penstock_payload_handler f, unsigned nargs,
                         void* context);
/* Gives a handler a name, by which traces, lines and pentop call it beside its number; without it
 * they take that of the function, where the program's symbols have it. The text is copied, of which
 * 64 characters are kept. Any thread, at any time. 0, or -1 if no handler has that number. */
int penstock_name_handler(struct penstock_endpoint* ep, int handler, const char* name);
/* Registers a segment of segment_bytes bytes (0 and more, rounded up to pages, not the same on all
 * ranks), compares the ranks' handlers, and lets messages flow. The endpoint owns the segment. It
 * is collective, once for each endpoint. 0, or -1 on failure. */
int penstock_start(struct penstock_endpoint* ep, size_t segment_bytes, enum penstock_access access);

/* This process's number in the job, from 0. Any thread, also in a handler. */
uint32_t penstock_rank(const struct penstock_endpoint* ep);
/* The number of the job's processes, at least 1. Any thread, also in a handler. */
uint32_t penstock_size(const struct penstock_endpoint* ep);
/* Where a rank's segment lies in that rank's address space: its addresses are the destinations of
 * Longs, puts and gets, and only this rank's own may be dereferenced. NULL if the segment is empty
 * or there is no such rank. Its size in bytes goes to *bytes, unless bytes is NULL. */
void* penstock_segment(const struct penstock_endpoint* ep, uint32_t rank, size_t* bytes);
/* Largest payload of a Medium, in bytes. It does not change. Any thread. */
size_t penstock_max_medium(const struct penstock_endpoint* ep);
/* Largest payload of a Long, in bytes. It does not change. Any thread. */
size_t penstock_max_long(const struct penstock_endpoint* ep);
/* One line about the device in use, and why it was chosen. It lasts as long as the endpoint. */
const char* penstock_device(const struct penstock_endpoint* ep);

/* ---- active messages ---- */

/* Send a request to rank `to`, this one included, where the handler runs with the nargs words at
 * args (NULL if nargs is 0) and, but in a Short, with `bytes` bytes at payload. They wait, polling,
 * while credits, room or the connection are short. OK: the request is on its way, and args and
 * payload may be reused. After a failure nothing was sent: BAD_RANK, BAD_HANDLER, BAD_ARGUMENTS,
 * TOO_LONG, OUT_OF_SEGMENT, IN_HANDLER, PEER_DEAD, DEVICE_ERROR or SHUT_DOWN. A Long is put at
 * dest, an address in the target's segment, before its handler runs. */
enum penstock_status penstock_request_short(struct penstock_endpoint* ep, uint32_t to, int handler,
                                            const uint32_t* args, unsigned nargs);
enum penstock_status penstock_request_medium(struct penstock_endpoint* ep, uint32_t to, int handler,
                                             const void* payload, size_t bytes,
                                             const uint32_t* args, unsigned nargs);
enum penstock_status penstock_request_long(struct penstock_endpoint* ep, uint32_t to, int handler,
                                           const void* payload, size_t bytes, void* dest,
                                           const uint32_t* args, unsigned nargs);
/* As penstock_request_long, but the payload must stay unchanged until the reply's handler runs. */
enum penstock_status penstock_request_long_async(struct penstock_endpoint* ep, uint32_t to,
                                                 int handler, const void* payload, size_t bytes,
                                                 void* dest, const uint32_t* args, unsigned nargs);
/* Send a handler's reply, to a handler at the requester: at most once, only in the handler of a
 * request. They wait for no credits. dest lies in the requester's segment. Failures as above, and
 * NOT_IN_HANDLER, REPLIED_TWICE. */
enum penstock_status penstock_reply_short(struct penstock_token* t, int handler,
                                          const uint32_t* args, unsigned nargs);
enum penstock_status penstock_reply_medium(struct penstock_token* t, int handler,
                                           const void* payload, size_t bytes, const uint32_t* args,
                                           unsigned nargs);
enum penstock_status penstock_reply_long(struct penstock_token* t, int handler, const void* payload,
                                         size_t bytes, void* dest, const uint32_t* args,
                                         unsigned nargs);
/* The rank that sent the message. While its handler runs, on the handler's thread. */
uint32_t penstock_source(const struct penstock_token* t);
/* 1 if the message is a request, which may be answered once; 0 if it is a reply. As above. */
int penstock_is_request(const struct penstock_token* t);
/* The endpoint that the message came to. As above. */
struct penstock_endpoint* penstock_token_endpoint(const struct penstock_token* t);

/* A hint, which changes nothing but speed: up to `messages` Mediums of `bytes` bytes each will be
 * under way to that rank at a time. It never waits. */
enum penstock_status penstock_expect(struct penstock_endpoint* ep, uint32_t to, uint32_t messages,
                                     size_t bytes);

/* ---- progress ---- */

/* Takes the messages that have arrived, runs their handlers, and returns; it never waits. */
enum penstock_status penstock_poll(struct penstock_endpoint* ep);
/* Polls until done(context) is not 0, and yields the core while no message comes. done is called by
 * the calling thread, between polls. OK, or the failure of a poll. */
enum penstock_status penstock_wait_until(struct penstock_endpoint* ep, int (*done)(void* context),
                                         void* context);
/* The same for timeout_ns nanoseconds at most: TIMED_OUT when they are over. done is asked once
 * at least. */
enum penstock_status penstock_wait_for(struct penstock_endpoint* ep, int (*done)(void* context),
                                       void* context, uint64_t timeout_ns);
/* Returns when every rank has called it, which says nothing of messages. It is collective and
 * polls. PEER_DEAD: a rank has left and will never come. */
enum penstock_status penstock_barrier(struct penstock_endpoint* ep);
/* Returns when the handlers of all requests that this process sent before have run. It polls; the
 * targets have to poll, too. */
enum penstock_status penstock_quiet(struct penstock_endpoint* ep);

/* The same for timeout_ns nanoseconds at most: TIMED_OUT when they are over. Nothing is lost: the
 * wait goes on when either form is called again. A time of 0 makes it a test. */
enum penstock_status penstock_barrier_for(struct penstock_endpoint* ep, uint64_t timeout_ns);
enum penstock_status penstock_quiet_for(struct penstock_endpoint* ep, uint64_t timeout_ns);

/* ---- sleeping ---- */

/* A descriptor that is readable when there may be something to do, for poll(2), epoll and the like.
 * The first call has to come before penstock_start(). The endpoint owns it, and the program does
 * not read it. It says nothing before penstock_arm(), and stays readable until the next one. -1 on
 * failure. A message to a rank that sleeps takes its sender a system call. */
int penstock_event_fd(struct penstock_endpoint* ep);
/* Gets ready to sleep on that descriptor, and polls. OK: nothing has come, so the program may
 * sleep. PENDING: something has been handled, or is under way; see whether what you wait for is
 * there, and call it again. One thread at a time, and no handler. */
enum penstock_status penstock_arm(struct penstock_endpoint* ep);

/* ---- put and get ---- */

/* Copy `bytes` bytes between this process's memory and a rank's segment (with PENSTOCK_EVERYTHING:
 * any memory of that rank); the remote address is one of that rank's address space. The operation
 * is complete at both ends when the call returns. Waits poll, which runs handlers. Not in a
 * handler, unless the memory is mapped here. BAD_RANK, OUT_OF_SEGMENT, BAD_ARGUMENTS (local memory
 * is NULL), IN_HANDLER, SHUT_DOWN: nothing was done; DEVICE_ERROR, PEER_DEAD: part of it may have
 * been. */
enum penstock_status penstock_put(struct penstock_endpoint* ep, uint32_t to, void* dest,
                                  const void* src, size_t bytes);
enum penstock_status penstock_get(struct penstock_endpoint* ep, void* dest, uint32_t from,
                                  const void* src, size_t bytes);
/* Sets `bytes` bytes at dest to the low byte of value. */
enum penstock_status penstock_set(struct penstock_endpoint* ep, uint32_t to, void* dest, int value,
                                  size_t bytes);

/* An operation that may be in flight. It belongs to the caller, must not be copied, and must live
 * until it is complete. One that is all zeros is complete. */
struct penstock_operation {
  void* inside[3]; /* the library's own */
};
/* Start the same, and return PENDING if it is in flight: then *op must be waited for. OK or a
 * failure: it is complete. src of a put may be changed when the call returns; dest of a get is
 * untouched until the operation is complete. */
enum penstock_status penstock_put_nb(struct penstock_endpoint* ep, uint32_t to, void* dest,
                                     const void* src, size_t bytes, struct penstock_operation* op);
enum penstock_status penstock_get_nb(struct penstock_endpoint* ep, void* dest, uint32_t from,
                                     const void* src, size_t bytes, struct penstock_operation* op);
/* Waits until the operation is complete. OK, or why it failed. */
enum penstock_status penstock_finish(struct penstock_operation* op);
/* The same for timeout_ns nanoseconds at most: TIMED_OUT when they are over. */
enum penstock_status penstock_finish_for(struct penstock_operation* op, uint64_t timeout_ns);
/* Polls once. PENDING if the operation is still in flight, else as penstock_finish(). */
enum penstock_status penstock_try_finish(struct penstock_operation* op);
/* Start the same without a handle; penstock_finish_all() waits for all of this thread's. OK or a
 * failure. */
enum penstock_status penstock_put_nbi(struct penstock_endpoint* ep, uint32_t to, void* dest,
                                      const void* src, size_t bytes);
enum penstock_status penstock_get_nbi(struct penstock_endpoint* ep, void* dest, uint32_t from,
                                      const void* src, size_t bytes);
enum penstock_status penstock_finish_all(struct penstock_endpoint* ep);

/* ---- atomics ---- */

/* The types of words. */
enum penstock_type {
  PENSTOCK_INT32 = 0,
  PENSTOCK_UINT32 = 1,
  PENSTOCK_INT64 = 2,
  PENSTOCK_UINT64 = 3,
  PENSTOCK_FLOAT = 4,
  PENSTOCK_DOUBLE = 5
};
/* The operations, a bit each. The last three are for integers only. Integers wrap around. */
enum penstock_atomic_op {
  PENSTOCK_GET = 1,
  PENSTOCK_SET = 2,
  PENSTOCK_SWAP = 4,
  PENSTOCK_CAS = 8, /* stores b if the word equals a bit by bit */
  PENSTOCK_ADD = 16,
  PENSTOCK_SUB = 32,
  PENSTOCK_INC = 64,
  PENSTOCK_DEC = 128,
  PENSTOCK_MULT = 256,
  PENSTOCK_MIN = 512,
  PENSTOCK_MAX = 1024,
  PENSTOCK_AND = 2048,
  PENSTOCK_OR = 4096,
  PENSTOCK_XOR = 8192
};
/* What may carry them out. */
enum penstock_atomic_path {
  PENSTOCK_AUTOMATIC =
      0,                 /* the device if it can; then nothing else may touch the words meanwhile */
  PENSTOCK_PROCESSOR = 1 /* never the device */
};

/* Makes a set of operations (bits of penstock_atomic_op, together) on words of one type. Every rank
 * that uses the words makes one with the same type, operations and path; that takes no
 * communication. All access to a word that may be concurrent must go through such sets. After
 * penstock_start(); it is freed before the endpoint is closed. Returns NULL on failure. */
struct penstock_atomics* penstock_atomics_make(struct penstock_endpoint* ep,
                                               enum penstock_type type, uint32_t ops,
                                               enum penstock_atomic_path path);
/* Frees the set, none of whose operations is under way; a may be NULL. */
void penstock_atomics_free(struct penstock_atomics* a);
/* 1 if the device carries the operations out, else 0. */
int penstock_atomics_by_device(const struct penstock_atomics* a);
/* Carries out op on the word at rank r, which lies in its segment, aligned to its size. a and b
 * point to operands of the set's type: a is NULL for GET, INC and DEC, b for all but CAS. The
 * former value is written to *old, unless old is NULL. The operation is complete at the target when
 * the call returns. Failures are those of penstock_put, MISALIGNED, UNSUPPORTED (op is not in the
 * set) and BAD_ARGUMENTS (an operand is missing). */
enum penstock_status penstock_atomic(struct penstock_atomics* set, uint32_t r, void* word,
                                     enum penstock_atomic_op op, const void* a, const void* b,
                                     void* old);

#ifdef __cplusplus
}
#endif

#endif
