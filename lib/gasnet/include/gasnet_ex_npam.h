/* Active messages of gasnetex.h whose payload is negotiated: Prepare says how large the payload may
 * be and where the client writes it, Commit sends it, and Cancel gives it up. Between Prepare and
 * the other two the thread must make no call that communicates. */
#ifndef _IN_PENSTOCK_GASNET_EX_NPAM_H
#define _IN_PENSTOCK_GASNET_EX_NPAM_H
#ifndef _GASNETEX_H
#error include gasnetex.h
#endif

#define GASNET_SUPPORTS_AM_COMMIT_V2 20240906L
#define GASNET_SUPPORTS_AM_CANCEL 20240418L
/* What is prepared without a buffer of the client's lies where it is sent from. */
#define GASNET_NATIVE_NP_ALLOC_REQ_MEDIUM 1

GASNETT_BEGIN_EXTERNC

/* ---- what the library of this mode defines ---- */
/* A gex_AM_SrcDesc_t begins with these members. */
struct gasnetc_srcdesc {
  void* gasnetc_addr;
  size_t gasnetc_size;
};
/* is_long is 0 for a Medium. */
extern gex_AM_SrcDesc_t GASNETC_(prepare_request)(gex_TM_t tm, gex_Rank_t rank, int is_long,
                                                  const void* client_buf, size_t least, size_t most,
                                                  void* dest_addr, gex_Event_t* lc_opt,
                                                  gex_Flags_t flags, unsigned int numargs);
extern gex_AM_SrcDesc_t GASNETC_(prepare_reply)(gex_Token_t token, int is_long,
                                                const void* client_buf, size_t least, size_t most,
                                                void* dest_addr, gex_Event_t* lc_opt,
                                                gex_Flags_t flags, unsigned int numargs);
/* kind is 0 for a Medium request, 1 for a Long request, 2 for a Medium reply, 3 for a Long reply.
 */
extern int GASNETC_(commit)(gex_AM_SrcDesc_t sd, int kind, gex_AM_Index_t handler, size_t nbytes,
                            void* dest_addr, gex_Flags_t flags, unsigned n,
                            const gex_AM_Arg_t* args);
extern int GASNETC_(cancel)(gex_AM_SrcDesc_t sd, int kind, gex_Flags_t flags);

/* Prepares a Medium of least to most bytes to the rank. client_buf: where the payload lies, or NULL
 * for a place of the library's. It holds no credit and never waits, so GEX_FLAG_IMMEDIATE changes
 * nothing; the commit may wait. One message of a thread is prepared at a time. */
GASNETC_INLINE gex_AM_SrcDesc_t gex_AM_PrepareRequestMedium(gex_TM_t tm, gex_Rank_t rank,
                                                            const void* client_buf, size_t least,
                                                            size_t most, gex_Event_t* lc_opt,
                                                            gex_Flags_t flags,
                                                            unsigned int numargs) {
  return GASNETC_(prepare_request)(tm, rank, 0, client_buf, least, most, NULL, lc_opt, flags,
                                   numargs);
}
/* The same for a Long. dest_addr: where the payload will lie there, or NULL if the commit says it.
 */
GASNETC_INLINE gex_AM_SrcDesc_t gex_AM_PrepareRequestLong(gex_TM_t tm, gex_Rank_t rank,
                                                          const void* client_buf, size_t least,
                                                          size_t most, void* dest_addr,
                                                          gex_Event_t* lc_opt, gex_Flags_t flags,
                                                          unsigned int numargs) {
  return GASNETC_(prepare_request)(tm, rank, 1, client_buf, least, most, dest_addr, lc_opt, flags,
                                   numargs);
}
/* The same for a Medium that answers token, in its handler. */
GASNETC_INLINE gex_AM_SrcDesc_t gex_AM_PrepareReplyMedium(gex_Token_t token, const void* client_buf,
                                                          size_t least, size_t most,
                                                          gex_Event_t* lc_opt, gex_Flags_t flags,
                                                          unsigned int numargs) {
  return GASNETC_(prepare_reply)(token, 0, client_buf, least, most, NULL, lc_opt, flags, numargs);
}
/* The same for a Long that answers token. */
GASNETC_INLINE gex_AM_SrcDesc_t gex_AM_PrepareReplyLong(gex_Token_t token, const void* client_buf,
                                                        size_t least, size_t most, void* dest_addr,
                                                        gex_Event_t* lc_opt, gex_Flags_t flags,
                                                        unsigned int numargs) {
  return GASNETC_(prepare_reply)(token, 1, client_buf, least, most, dest_addr, lc_opt, flags,
                                 numargs);
}
/* Where the payload is to be written, or lies: the client_buf, or the library's place. */
GASNETC_INLINE void* gex_AM_SrcDescAddr(gex_AM_SrcDesc_t sd) { return sd->gasnetc_addr; }
/* The most bytes that may be committed. */
GASNETC_INLINE size_t gex_AM_SrcDescSize(gex_AM_SrcDesc_t sd) { return sd->gasnetc_size; }

/* Gives up what was prepared; GASNET_OK. No handler runs for it. */
GASNETC_INLINE int gex_AM_CancelRequestMedium(gex_AM_SrcDesc_t sd, gex_Flags_t flags) {
  return GASNETC_(cancel)(sd, 0, flags);
}
/* The same for a Long. */
GASNETC_INLINE int gex_AM_CancelRequestLong(gex_AM_SrcDesc_t sd, gex_Flags_t flags) {
  return GASNETC_(cancel)(sd, 1, flags);
}
/* The same for an answer; the handler may then answer otherwise. */
GASNETC_INLINE int gex_AM_CancelReplyMedium(gex_AM_SrcDesc_t sd, gex_Flags_t flags) {
  return GASNETC_(cancel)(sd, 2, flags);
}
/* The same for a Long that answers. */
GASNETC_INLINE int gex_AM_CancelReplyLong(gex_AM_SrcDesc_t sd, gex_Flags_t flags) {
  return GASNETC_(cancel)(sd, 3, flags);
}

/* ---- Commit, without and with flags. They differ in whether Longs name their place ---- */
#define GASNETC_COMMIT_ONE(name, n, dest_param, dest, kind)                                  \
  GASNETC_INLINE void name##n(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler,                   \
                              size_t nbytes dest_param GASNETC_PARAMS##n) {                  \
    const gex_AM_Arg_t gasnetc_args[GASNETC_ROOM(n)] = {GASNETC_NAMES##n};                   \
    (void)GASNETC_(commit)(sd, kind, handler, nbytes, dest, 0, n, gasnetc_args);             \
  }                                                                                          \
  GASNETC_INLINE int name##n##_v2(gex_AM_SrcDesc_t sd, gex_AM_Index_t handler,               \
                                  size_t nbytes dest_param,                                  \
                                  gex_Flags_t commit_flags GASNETC_PARAMS##n) {              \
    const gex_AM_Arg_t gasnetc_args[GASNETC_ROOM(n)] = {GASNETC_NAMES##n};                   \
    return GASNETC_(commit)(sd, kind, handler, nbytes, dest, commit_flags, n, gasnetc_args); \
  }
#define GASNETC_COMMIT_DEST GASNETC_COMMA void* dest_addr
#define GASNETC_COMMIT_ALL(n)                                                        \
  GASNETC_COMMIT_ONE(gex_AM_CommitRequestMedium, n, , NULL, 0)                       \
  GASNETC_COMMIT_ONE(gex_AM_CommitRequestLong, n, GASNETC_COMMIT_DEST, dest_addr, 1) \
  GASNETC_COMMIT_ONE(gex_AM_CommitReplyMedium, n, , NULL, 2)                         \
  GASNETC_COMMIT_ONE(gex_AM_CommitReplyLong, n, GASNETC_COMMIT_DEST, dest_addr, 3)

GASNETC_COMMIT_ALL(0)
GASNETC_COMMIT_ALL(1)
GASNETC_COMMIT_ALL(2)
GASNETC_COMMIT_ALL(3)
GASNETC_COMMIT_ALL(4)
GASNETC_COMMIT_ALL(5)
GASNETC_COMMIT_ALL(6)
GASNETC_COMMIT_ALL(7)
GASNETC_COMMIT_ALL(8)
GASNETC_COMMIT_ALL(9)
GASNETC_COMMIT_ALL(10)
GASNETC_COMMIT_ALL(11)
GASNETC_COMMIT_ALL(12)
GASNETC_COMMIT_ALL(13)
GASNETC_COMMIT_ALL(14)
GASNETC_COMMIT_ALL(15)
GASNETC_COMMIT_ALL(16)

#define gex_AM_CommitRequestMedium(...) \
  _CONCAT(gex_AM_CommitRequestMedium, GASNETC_AFTER2(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_CommitRequestMedium_v2(...) \
  _CONCAT(_CONCAT(gex_AM_CommitRequestMedium, GASNETC_AFTER3(__VA_ARGS__)), _v2)(__VA_ARGS__)
#define gex_AM_CommitRequestLong(...) \
  _CONCAT(gex_AM_CommitRequestLong, GASNETC_AFTER3(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_CommitRequestLong_v2(...) \
  _CONCAT(_CONCAT(gex_AM_CommitRequestLong, GASNETC_AFTER4(__VA_ARGS__)), _v2)(__VA_ARGS__)
#define gex_AM_CommitReplyMedium(...) \
  _CONCAT(gex_AM_CommitReplyMedium, GASNETC_AFTER2(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_CommitReplyMedium_v2(...) \
  _CONCAT(_CONCAT(gex_AM_CommitReplyMedium, GASNETC_AFTER3(__VA_ARGS__)), _v2)(__VA_ARGS__)
#define gex_AM_CommitReplyLong(...) \
  _CONCAT(gex_AM_CommitReplyLong, GASNETC_AFTER3(__VA_ARGS__))(__VA_ARGS__)
#define gex_AM_CommitReplyLong_v2(...) \
  _CONCAT(_CONCAT(gex_AM_CommitReplyLong, GASNETC_AFTER4(__VA_ARGS__)), _v2)(__VA_ARGS__)

GASNETT_END_EXTERNC

#endif
