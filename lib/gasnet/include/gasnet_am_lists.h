/* What the active messages of gasnet.h and of gasnetex.h are written with: lists of n parameters
 * and of their names, and the number of arguments of a macro. */
#ifndef _IN_PENSTOCK_GASNET_AM_LISTS_H
#define _IN_PENSTOCK_GASNET_AM_LISTS_H

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

/* How many words the list of n arguments takes: the library reads arguments in pairs, so an even
 * number, and never none. */
#define GASNETC_ROOM(n) (((n) + 1) / 2 * 2 + 2 * !(n))
#define GASNETC_COMMA ,

/* How many arguments follow the first: 0 to 16. */
#define GASNETC_COUNT_AT(a, x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, \
                         n, ...)                                                                  \
  n
#define GASNETC_COUNT(...)                                                                \
  GASNETC_COUNT_AT(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, \
                   gasnetc_end)

#endif
