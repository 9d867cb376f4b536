/* Tools that take types of gasnetex.h: constants as text, and the library's test of itself. Part of
 * gasnetex.h. */
#ifndef _IN_PENSTOCK_GASNET_EX_TOOLS_H
#define _IN_PENSTOCK_GASNET_EX_TOOLS_H
#ifndef _GASNETEX_H
#error include gasnetex.h
#endif

GASNETT_BEGIN_EXTERNC

/* ---- constants as text, names joined by |: writes it to buf, which may be NULL, and returns the
 * number of bytes that buf must have ---- */
extern size_t gasnett_format_dt(char* buf, gex_DT_t dt);
/* The same of operations. */
extern size_t gasnett_format_op(char* buf, gex_OP_t op);
/* The same of what a token tells. */
extern size_t gasnett_format_ti(char* buf, gex_TI_t ti);

/* ---- the library's test of itself ---- */
extern void GASNETC_(diagnostic_handlers)(void* table, int* count, size_t entry_bytes);
extern int GASNETC_(run_diagnostics)(int iters, int threads, const char* sections,
                                     gasnet_seginfo_t const* seginfo);
extern int GASNETC_(run_diagnostics_ex)(int iters, int threads, const char* sections, gex_TM_t tm,
                                        void* segment, gex_Rank_t peer, void* peer_segment,
                                        unsigned int seed);
/* void (TYPE** table, int* count), where TYPE is gex_AM_Entry_t or gasnet_handlerentry_t: the
 * handlers that the client must register for the test, beside its own. The table is the library's;
 * indices 254 and 255. */
#define gasnett_diagnostic_gethandlers(table, count) \
  GASNETC_(diagnostic_handlers)((void*)(table), (count), sizeof(**(table)))
/* int (int iters, int threads, const char* sections, gex_TM_t tm, void* segment, gex_Rank_t peer,
 * void* peer_segment, unsigned int seed), and, as GASNet-1 has it, int (int iters, int threads,
 * const char* sections, gasnet_seginfo_t const* seginfo), where peer is the next rank and seginfo
 * as gasnet_getSegmentInfo fills it: exchanges with peer, which is no other rank's, and checks
 * every byte; returns the number of errors seen, each of which is also written to stderr.
 * Collective, called by one thread of each process with the same sections, when the segments are
 * there; no other puts to them meanwhile. threads: that many take part here in PAR, one in the
 * other modes. sections: those named run, all if it is NULL or "": A puts and gets, B Mediums and
 * their answers, C barriers. seed: changes the bytes. */
#define gasnett_run_diagnostics(...)                                      \
  GASNETC_EIGHTH_NEXT(__VA_ARGS__, GASNETC_(run_diagnostics_ex), 7, 6, 5, \
                      GASNETC_(run_diagnostics), 3, 2, 1)                 \
  (__VA_ARGS__)
#define GASNETC_EIGHTH_NEXT(a, b, c, d, e, f, g, h, next, ...) next

GASNETT_END_EXTERNC

#endif
