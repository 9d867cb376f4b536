/* Active messages of gasnetex.h whose payload is fixed: for each kind the functions with 0 to 16
 * arguments, and the form that counts them. The functions are inline: they lay the arguments out
 * and make one call into the library. */
#ifndef _IN_PENSTOCK_GASNET_EX_AM_H
#define _IN_PENSTOCK_GASNET_EX_AM_H
#ifndef _GASNETEX_H
#error include gasnetex.h
#endif

#include <gasnet_am_lists.h>

GASNETT_BEGIN_EXTERNC

/* ---- what the library of this mode defines. args: n of them, and room for an even number. 0, or,
 * with GEX_FLAG_IMMEDIATE alone, GASNET_ERR_NOT_READY: nothing was sent. What is wrong ends the job
 * ---- */
extern int GASNETC_(ex_request_short)(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler,
                                      gex_Flags_t flags, unsigned n, const gex_AM_Arg_t* args);
extern int GASNETC_(ex_request_medium)(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler,
                                       const void* source, size_t nbytes, gex_Event_t* lc_opt,
                                       gex_Flags_t flags, unsigned n, const gex_AM_Arg_t* args);
extern int GASNETC_(ex_request_long)(gex_TM_t tm, gex_Rank_t rank, gex_AM_Index_t handler,
                                     const void* source, size_t nbytes, void* dest_addr,
                                     gex_Event_t* lc_opt, gex_Flags_t flags, unsigned n,
                                     const gex_AM_Arg_t* args);
extern int GASNETC_(ex_reply_short)(gex_Token_t token, gex_AM_Index_t handler, gex_Flags_t flags,
                                    unsigned n, const gex_AM_Arg_t* args);
extern int GASNETC_(ex_reply_medium)(gex_Token_t token, gex_AM_Index_t handler, const void* source,
                                     size_t nbytes, gex_Event_t* lc_opt, gex_Flags_t flags,
                                     unsigned n, const gex_AM_Arg_t* args);
extern int GASNETC_(ex_reply_long)(gex_Token_t token, gex_AM_Index_t handler, const void* source,
                                   size_t nbytes, void* dest_addr, gex_Event_t* lc_opt,
                                   gex_Flags_t flags, unsigned n, const gex_AM_Arg_t* args);
/* kind: 0 a Medium, 1 a Long, 3 a Long reply. */
extern size_t GASNETC_(ex_max_payload)(int kind, int everything, gex_Flags_t flags);

/* ---- limits: the same for all peers, local completion and numbers of arguments ---- */
#define gex_AM_MaxArgs() (16u)
GASNETC_INLINE size_t gasnetc_max_payload(int kind, gex_Flags_t flags) {
  return GASNETC_(ex_max_payload)(kind, GASNETC_EVERYTHING, flags);
}
/* The largest payload of such a message in bytes, here and in the five below: the same number for
 * each call with the same flags. Any thread, also in a handler; no communication. */
GASNETC_INLINE size_t gex_AM_MaxRequestMedium(gex_TM_t tm, gex_Rank_t other,
                                              const gex_Event_t* lc_opt, gex_Flags_t flags,
                                              unsigned int numargs) {
  (void)tm, (void)other, (void)lc_opt, (void)numargs;
  return gasnetc_max_payload(0, flags);
}
/* The same of a reply. */
GASNETC_INLINE size_t gex_AM_MaxReplyMedium(gex_TM_t tm, gex_Rank_t other,
                                            const gex_Event_t* lc_opt, gex_Flags_t flags,
                                            unsigned int numargs) {
  return gex_AM_MaxRequestMedium(tm, other, lc_opt, flags, numargs);
}
/* The same of a Long. */
GASNETC_INLINE size_t gex_AM_MaxRequestLong(gex_TM_t tm, gex_Rank_t other,
                                            const gex_Event_t* lc_opt, gex_Flags_t flags,
                                            unsigned int numargs) {
  (void)tm, (void)other, (void)lc_opt, (void)numargs;
  return gasnetc_max_payload(1, flags);
}
/* The same of a Long's reply. */
GASNETC_INLINE size_t gex_AM_MaxReplyLong(gex_TM_t tm, gex_Rank_t other, const gex_Event_t* lc_opt,
                                          gex_Flags_t flags, unsigned int numargs) {
  (void)tm, (void)other, (void)lc_opt, (void)numargs;
  return gasnetc_max_payload(3, flags);
}
/* The same of a reply to the message whose handler runs. */
GASNETC_INLINE size_t gex_Token_MaxReplyMedium(gex_Token_t token, const gex_Event_t* lc_opt,
                                               gex_Flags_t flags, unsigned int numargs) {
  (void)token, (void)lc_opt, (void)numargs;
  return gasnetc_max_payload(0, flags);
}
/* The same of a Long that replies to it. */
GASNETC_INLINE size_t gex_Token_MaxReplyLong(gex_Token_t token, const gex_Event_t* lc_opt,
                                             gex_Flags_t flags, unsigned int numargs) {
  (void)token, (void)lc_opt, (void)numargs;
  return gasnetc_max_payload(3, flags);
}
#define gex_AM_LUBRequestMedium() gasnetc_max_payload(0, 0)
#define gex_AM_LUBReplyMedium() gasnetc_max_payload(0, 0)
#define gex_AM_LUBRequestLong() gasnetc_max_payload(1, 0)
#define gex_AM_LUBReplyLong() gasnetc_max_payload(3, 0)

/* ---- the functions ---- */
#define GASNETC_EX_DEFINE(name, n, params, call)                           \
  GASNETC_INLINE int name##n(params GASNETC_PARAMS##n) {                   \
    const gex_AM_Arg_t gasnetc_args[GASNETC_ROOM(n)] = {GASNETC_NAMES##n}; \
    return call;                                                           \
  }
#define GASNETC_EX_TO gex_TM_t tm GASNETC_COMMA gex_Rank_t rank GASNETC_COMMA gex_AM_Index_t handler
#define GASNETC_EX_BACK gex_Token_t token GASNETC_COMMA gex_AM_Index_t handler
#define GASNETC_EX_PAYLOAD const void* source GASNETC_COMMA size_t nbytes
#define GASNETC_EX_FLAGS gex_Event_t* lc_opt GASNETC_COMMA gex_Flags_t flags

#define GASNETC_EX_DEFINE_ALL(n)                                                                   \
  GASNETC_EX_DEFINE(gex_AM_RequestShort, n, GASNETC_EX_TO GASNETC_COMMA gex_Flags_t flags,         \
                    GASNETC_(ex_request_short)(tm, rank, handler, flags, n, gasnetc_args))         \
  GASNETC_EX_DEFINE(gex_AM_RequestMedium, n,                                                       \
                    GASNETC_EX_TO GASNETC_COMMA GASNETC_EX_PAYLOAD GASNETC_COMMA GASNETC_EX_FLAGS, \
                    GASNETC_(ex_request_medium)(tm, rank, handler, source, nbytes, lc_opt, flags,  \
                                                n, gasnetc_args))                                  \
  GASNETC_EX_DEFINE(gex_AM_RequestLong, n,                                                         \
                    GASNETC_EX_TO GASNETC_COMMA GASNETC_EX_PAYLOAD GASNETC_COMMA void* dest_addr   \
                        GASNETC_COMMA GASNETC_EX_FLAGS,                                            \
                    GASNETC_(ex_request_long)(tm, rank, handler, source, nbytes, dest_addr,        \
                                              lc_opt, flags, n, gasnetc_args))                     \
  GASNETC_EX_DEFINE(gex_AM_ReplyShort, n, GASNETC_EX_BACK GASNETC_COMMA gex_Flags_t flags,         \
                    GASNETC_(ex_reply_short)(token, handler, flags, n, gasnetc_args))              \
  GASNETC_EX_DEFINE(                                                                               \
      gex_AM_ReplyMedium, n,                                                                       \
      GASNETC_EX_BACK GASNETC_COMMA GASNETC_EX_PAYLOAD GASNETC_COMMA GASNETC_EX_FLAGS,             \
      GASNETC_(ex_reply_medium)(token, handler, source, nbytes, lc_opt, flags, n, gasnetc_args))   \
  GASNETC_EX_DEFINE(gex_AM_ReplyLong, n,                                                           \
                    GASNETC_EX_BACK GASNETC_COMMA GASNETC_EX_PAYLOAD GASNETC_COMMA void* dest_addr \
                        GASNETC_COMMA GASNETC_EX_FLAGS,                                            \
                    GASNETC_(ex_reply_long)(token, handler, source, nbytes, dest_addr, lc_opt,     \
                                            flags, n, gasnetc_args))

GASNETC_EX_DEFINE_ALL(0)
GASNETC_EX_DEFINE_ALL(1)
GASNETC_EX_DEFINE_ALL(2)
GASNETC_EX_DEFINE_ALL(3)
GASNETC_EX_DEFINE_ALL(4)
GASNETC_EX_DEFINE_ALL(5)
GASNETC_EX_DEFINE_ALL(6)
GASNETC_EX_DEFINE_ALL(7)
GASNETC_EX_DEFINE_ALL(8)
GASNETC_EX_DEFINE_ALL(9)
GASNETC_EX_DEFINE_ALL(10)
GASNETC_EX_DEFINE_ALL(11)
GASNETC_EX_DEFINE_ALL(12)
GASNETC_EX_DEFINE_ALL(13)
GASNETC_EX_DEFINE_ALL(14)
GASNETC_EX_DEFINE_ALL(15)
GASNETC_EX_DEFINE_ALL(16)

/* ---- the forms that count their arguments: what follows the fixed ones ---- */
#define GASNETC_AFTER2(a, b, ...) GASNETC_COUNT(__VA_ARGS__)
#define GASNETC_AFTER3(a, b, c, ...) GASNETC_COUNT(__VA_ARGS__)
#define GASNETC_AFTER4(a, b, c, d, ...) GASNETC_COUNT(__VA_ARGS__)
#define GASNETC_AFTER5(a, b, c, d, e, ...) GASNETC_COUNT(__VA_ARGS__)
#define GASNETC_AFTER6(a, b, c, d, e, f, ...) GASNETC_COUNT(__VA_ARGS__)
#define GASNETC_AFTER7(a, b, c, d, e, f, g, ...) GASNETC_COUNT(__VA_ARGS__)
#define gex_AM_RequestShort(...) \
  _CONCAT(gex_AM_RequestShort, GASNETC_AFTER3(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_RequestMedium(...) \
  _CONCAT(gex_AM_RequestMedium, GASNETC_AFTER6(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_RequestLong(...) \
  _CONCAT(gex_AM_RequestLong, GASNETC_AFTER7(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_ReplyShort(...) _CONCAT(gex_AM_ReplyShort, GASNETC_AFTER2(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_ReplyMedium(...) \
  _CONCAT(gex_AM_ReplyMedium, GASNETC_AFTER5(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_ReplyLong(...) _CONCAT(gex_AM_ReplyLong, GASNETC_AFTER6(__VA_ARGS__))(__VA_ARGS__)

GASNETT_END_EXTERNC

#endif
