/* Active messages of gasnet.h: for each kind the functions with 0 to 16 arguments, and the form
 * that takes the number of arguments as an argument. Specification 2.3. The functions are inline:
 * they lay the arguments out and make one call into the library. */
#ifndef _IN_PENSTOCK_GASNET_AM_H
#define _IN_PENSTOCK_GASNET_AM_H
#ifndef _INCLUDED_GASNET_H
#error include gasnet.h
#endif

#include <gasnet_am_lists.h>

GASNETT_BEGIN_EXTERNC

/* ---- what the library of this mode defines. args has n arguments, n is at most 16, and there is
 * room for an even number. The payload may be reused when a function returns; only that of an
 * asynchronous Long must stay until the handler of its reply runs. Requests wait, polling, while
 * resources are short; replies do not wait. They return GASNET_OK or an error ---- */
extern int GASNETC_(request_short)(gasnet_node_t dest, gasnet_handler_t handler, unsigned n,
                                   const gasnet_handlerarg_t* args);
extern int GASNETC_(request_medium)(gasnet_node_t dest, gasnet_handler_t handler,
                                    const void* source, size_t nbytes, unsigned n,
                                    const gasnet_handlerarg_t* args);
extern int GASNETC_(request_long)(gasnet_node_t dest, gasnet_handler_t handler, const void* source,
                                  size_t nbytes, void* dest_addr, int async, unsigned n,
                                  const gasnet_handlerarg_t* args);
extern int GASNETC_(reply_short)(gasnet_token_t token, gasnet_handler_t handler, unsigned n,
                                 const gasnet_handlerarg_t* args);
extern int GASNETC_(reply_medium)(gasnet_token_t token, gasnet_handler_t handler,
                                  const void* source, size_t nbytes, unsigned n,
                                  const gasnet_handlerarg_t* args);
extern int GASNETC_(reply_long)(gasnet_token_t token, gasnet_handler_t handler, const void* source,
                                size_t nbytes, void* dest_addr, unsigned n,
                                const gasnet_handlerarg_t* args);
/* Ends the program, since the number of arguments given is not the number announced. */
extern void GASNETC_(bad_argument_count)(const char* function, int announced,
                                         int given) GASNETT_NORETURN;

#define gasnet_AMMaxArgs() ((size_t)16)
#define gasnet_AMMaxMedium() ((size_t)GASNETC_(max_medium))
#define gasnet_AMMaxLongRequest() ((size_t)GASNETC_(max_long)[GASNETC_EVERYTHING])
#define gasnet_AMMaxLongReply() ((size_t)GASNETC_(max_long_reply)[GASNETC_EVERYTHING])

/* One inline function per kind and number. The second of each pair also takes the number announced.
 */
#define GASNETC_DEFINE(name, n, params, call)                                             \
  GASNETC_INLINE int name##n(params GASNETC_PARAMS##n) {                                  \
    const gasnet_handlerarg_t gasnetc_args[GASNETC_ROOM(n)] = {GASNETC_NAMES##n};         \
    return call;                                                                          \
  }                                                                                       \
  GASNETC_INLINE int gasnetc_counted_##name##n(params, int announced GASNETC_PARAMS##n) { \
    const gasnet_handlerarg_t gasnetc_args[GASNETC_ROOM(n)] = {GASNETC_NAMES##n};         \
    if_pf(announced != n) GASNETC_(bad_argument_count)(#name, announced, n);              \
    return call;                                                                          \
  }

#define GASNETC_TO_NODE gasnet_node_t dest GASNETC_COMMA gasnet_handler_t handler
#define GASNETC_TO_TOKEN gasnet_token_t token GASNETC_COMMA gasnet_handler_t handler
#define GASNETC_PAYLOAD const void* source_addr GASNETC_COMMA size_t nbytes

#define GASNETC_DEFINE_ALL(n)                                                                    \
  GASNETC_DEFINE(gasnet_AMRequestShort, n, GASNETC_TO_NODE,                                      \
                 GASNETC_(request_short)(dest, handler, n, gasnetc_args))                        \
  GASNETC_DEFINE(gasnet_AMRequestMedium, n, GASNETC_TO_NODE GASNETC_COMMA GASNETC_PAYLOAD,       \
                 GASNETC_(request_medium)(dest, handler, source_addr, nbytes, n, gasnetc_args))  \
  GASNETC_DEFINE(                                                                                \
      gasnet_AMRequestLong, n,                                                                   \
      GASNETC_TO_NODE GASNETC_COMMA GASNETC_PAYLOAD GASNETC_COMMA void* dest_addr,               \
      GASNETC_(request_long)(dest, handler, source_addr, nbytes, dest_addr, 0, n, gasnetc_args)) \
  GASNETC_DEFINE(                                                                                \
      gasnet_AMRequestLongAsync, n,                                                              \
      GASNETC_TO_NODE GASNETC_COMMA GASNETC_PAYLOAD GASNETC_COMMA void* dest_addr,               \
      GASNETC_(request_long)(dest, handler, source_addr, nbytes, dest_addr, 1, n, gasnetc_args)) \
  GASNETC_DEFINE(gasnet_AMReplyShort, n, GASNETC_TO_TOKEN,                                       \
                 GASNETC_(reply_short)(token, handler, n, gasnetc_args))                         \
  GASNETC_DEFINE(gasnet_AMReplyMedium, n, GASNETC_TO_TOKEN GASNETC_COMMA GASNETC_PAYLOAD,        \
                 GASNETC_(reply_medium)(token, handler, source_addr, nbytes, n, gasnetc_args))   \
  GASNETC_DEFINE(                                                                                \
      gasnet_AMReplyLong, n,                                                                     \
      GASNETC_TO_TOKEN GASNETC_COMMA GASNETC_PAYLOAD GASNETC_COMMA void* dest_addr,              \
      GASNETC_(reply_long)(token, handler, source_addr, nbytes, dest_addr, n, gasnetc_args))

GASNETC_DEFINE_ALL(0)
GASNETC_DEFINE_ALL(1)
GASNETC_DEFINE_ALL(2)
GASNETC_DEFINE_ALL(3)
GASNETC_DEFINE_ALL(4)
GASNETC_DEFINE_ALL(5)
GASNETC_DEFINE_ALL(6)
GASNETC_DEFINE_ALL(7)
GASNETC_DEFINE_ALL(8)
GASNETC_DEFINE_ALL(9)
GASNETC_DEFINE_ALL(10)
GASNETC_DEFINE_ALL(11)
GASNETC_DEFINE_ALL(12)
GASNETC_DEFINE_ALL(13)
GASNETC_DEFINE_ALL(14)
GASNETC_DEFINE_ALL(15)
GASNETC_DEFINE_ALL(16)

/* ---- the forms with the number of arguments: (…, numargs, arguments) ---- */
#define GASNETC_COUNTED(name, ...) _CONCAT(gasnetc_counted_##name, GASNETC_COUNT(__VA_ARGS__))
#define gasnet_AMRequestShort(dest, handler, ...) \
  GASNETC_COUNTED(gasnet_AMRequestShort, __VA_ARGS__)((dest), (handler), __VA_ARGS__)
#define gasnet_AMRequestMedium(dest, handler, source_addr, nbytes, ...) \
  GASNETC_COUNTED(gasnet_AMRequestMedium, __VA_ARGS__)                  \
  ((dest), (handler), (source_addr), (nbytes), __VA_ARGS__)
#define gasnet_AMRequestLong(dest, handler, source_addr, nbytes, dest_addr, ...) \
  GASNETC_COUNTED(gasnet_AMRequestLong, __VA_ARGS__)                             \
  ((dest), (handler), (source_addr), (nbytes), (dest_addr), __VA_ARGS__)
#define gasnet_AMRequestLongAsync(dest, handler, source_addr, nbytes, dest_addr, ...) \
  GASNETC_COUNTED(gasnet_AMRequestLongAsync, __VA_ARGS__)                             \
  ((dest), (handler), (source_addr), (nbytes), (dest_addr), __VA_ARGS__)
#define gasnet_AMReplyShort(token, handler, ...) \
  GASNETC_COUNTED(gasnet_AMReplyShort, __VA_ARGS__)((token), (handler), __VA_ARGS__)
#define gasnet_AMReplyMedium(token, handler, source_addr, nbytes, ...) \
  GASNETC_COUNTED(gasnet_AMReplyMedium, __VA_ARGS__)                   \
  ((token), (handler), (source_addr), (nbytes), __VA_ARGS__)
#define gasnet_AMReplyLong(token, handler, source_addr, nbytes, dest_addr, ...) \
  GASNETC_COUNTED(gasnet_AMReplyLong, __VA_ARGS__)                              \
  ((token), (handler), (source_addr), (nbytes), (dest_addr), __VA_ARGS__)

GASNETT_END_EXTERNC

#endif
