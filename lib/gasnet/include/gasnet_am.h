/* Active messages of gasnet.h: for each kind the functions with 0 to 16 arguments, and the form
 * that takes the number of arguments as an argument. Specification 2.3. The functions are inline:
 * they lay the arguments out and make one call into the library. */
#ifndef _IN_PENSTOCK_GASNET_AM_H
#define _IN_PENSTOCK_GASNET_AM_H
#ifndef _INCLUDED_GASNET_H
#error include gasnet.h
#endif

GASNETT_BEGIN_EXTERNC

/* ---- what the library of this mode defines. args: n of them, n at most 16, and room for an even
 * number. The payload may be
 * reused when a function returns, but for an asynchronous Long, whose payload must stay until its
 * reply's handler runs. Requests wait, polling, while resources are short; replies do not.
 * GASNET_OK or an error ---- */
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
/* Ends the program: the number of arguments given is not the number announced. */
extern void GASNETC_(bad_argument_count)(const char* function, int announced,
                                         int given) GASNETT_NORETURN;

#define gasnet_AMMaxArgs() ((size_t)16)
#define gasnet_AMMaxMedium() ((size_t)GASNETC_(max_medium))
#define gasnet_AMMaxLongRequest() ((size_t)GASNETC_(max_long)[GASNETC_EVERYTHING])
#define gasnet_AMMaxLongReply() ((size_t)GASNETC_(max_long)[GASNETC_EVERYTHING])

/* ---- lists of n parameters and of their names ---- */

#define GASNETC_PARAMS0
#define GASNETC_PARAMS1 GASNETC_PARAMS0, gasnet_handlerarg_t gasnetc_a0
#define GASNETC_PARAMS2 GASNETC_PARAMS1, gasnet_handlerarg_t gasnetc_a1
#define GASNETC_PARAMS3 GASNETC_PARAMS2, gasnet_handlerarg_t gasnetc_a2
#define GASNETC_PARAMS4 GASNETC_PARAMS3, gasnet_handlerarg_t gasnetc_a3
#define GASNETC_PARAMS5 GASNETC_PARAMS4, gasnet_handlerarg_t gasnetc_a4
#define GASNETC_PARAMS6 GASNETC_PARAMS5, gasnet_handlerarg_t gasnetc_a5
#define GASNETC_PARAMS7 GASNETC_PARAMS6, gasnet_handlerarg_t gasnetc_a6
#define GASNETC_PARAMS8 GASNETC_PARAMS7, gasnet_handlerarg_t gasnetc_a7
#define GASNETC_PARAMS9 GASNETC_PARAMS8, gasnet_handlerarg_t gasnetc_a8
#define GASNETC_PARAMS10 GASNETC_PARAMS9, gasnet_handlerarg_t gasnetc_a9
#define GASNETC_PARAMS11 GASNETC_PARAMS10, gasnet_handlerarg_t gasnetc_a10
#define GASNETC_PARAMS12 GASNETC_PARAMS11, gasnet_handlerarg_t gasnetc_a11
#define GASNETC_PARAMS13 GASNETC_PARAMS12, gasnet_handlerarg_t gasnetc_a12
#define GASNETC_PARAMS14 GASNETC_PARAMS13, gasnet_handlerarg_t gasnetc_a13
#define GASNETC_PARAMS15 GASNETC_PARAMS14, gasnet_handlerarg_t gasnetc_a14
#define GASNETC_PARAMS16 GASNETC_PARAMS15, gasnet_handlerarg_t gasnetc_a15
#define GASNETC_NAMES1 gasnetc_a0
#define GASNETC_NAMES2 GASNETC_NAMES1, gasnetc_a1
#define GASNETC_NAMES3 GASNETC_NAMES2, gasnetc_a2
#define GASNETC_NAMES4 GASNETC_NAMES3, gasnetc_a3
#define GASNETC_NAMES5 GASNETC_NAMES4, gasnetc_a4
#define GASNETC_NAMES6 GASNETC_NAMES5, gasnetc_a5
#define GASNETC_NAMES7 GASNETC_NAMES6, gasnetc_a6
#define GASNETC_NAMES8 GASNETC_NAMES7, gasnetc_a7
#define GASNETC_NAMES9 GASNETC_NAMES8, gasnetc_a8
#define GASNETC_NAMES10 GASNETC_NAMES9, gasnetc_a9
#define GASNETC_NAMES11 GASNETC_NAMES10, gasnetc_a10
#define GASNETC_NAMES12 GASNETC_NAMES11, gasnetc_a11
#define GASNETC_NAMES13 GASNETC_NAMES12, gasnetc_a12
#define GASNETC_NAMES14 GASNETC_NAMES13, gasnetc_a13
#define GASNETC_NAMES15 GASNETC_NAMES14, gasnetc_a14
#define GASNETC_NAMES16 GASNETC_NAMES15, gasnetc_a15
#define GASNETC_NAMES0 0

/* One inline function per kind and number. The second of each pair also takes the number announced.
 * The library reads arguments in pairs: an even number of them, and never none. */
#define GASNETC_ROOM(n) (((n) + 1) / 2 * 2 + 2 * !(n))
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

#define GASNETC_COMMA ,
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
/* How many arguments follow the first: 0 to 16. */
#define GASNETC_COUNT_AT(a, x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, \
                         n, ...)                                                                  \
  n
#define GASNETC_COUNT(...)                                                                \
  GASNETC_COUNT_AT(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, \
                   gasnetc_end)
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
