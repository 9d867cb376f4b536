/* gasnet_fwd.h alone, as a client's public header includes it: without a mode or a library. Its
 * constants are numbers that the preprocessor compares (specification 0.19, "The gasnet_fwd.h
 * header"), and those that one call may be given together share no bit. */
#include <gasnet_fwd.h>
#include <string.h>

#include "check.h"

#define FWD_DT_ALL \
  (GEX_DT_I32 | GEX_DT_U32 | GEX_DT_I64 | GEX_DT_U64 | GEX_DT_FLT | GEX_DT_DBL | GEX_DT_USER)
#define FWD_OP_PLAIN                                                                          \
  (GEX_OP_AND | GEX_OP_OR | GEX_OP_XOR | GEX_OP_ADD | GEX_OP_SUB | GEX_OP_MULT | GEX_OP_MIN | \
   GEX_OP_MAX | GEX_OP_INC | GEX_OP_DEC | GEX_OP_SET | GEX_OP_CAS)
#define FWD_OP_FETCHING                                                                \
  (GEX_OP_FAND | GEX_OP_FOR | GEX_OP_FXOR | GEX_OP_FADD | GEX_OP_FSUB | GEX_OP_FMULT | \
   GEX_OP_FMIN | GEX_OP_FMAX | GEX_OP_FINC | GEX_OP_FDEC | GEX_OP_SWAP | GEX_OP_FCAS)
#if (FWD_OP_PLAIN & FWD_OP_FETCHING) != 0 || GEX_OP_TO_FETCHING(FWD_OP_PLAIN) != FWD_OP_FETCHING
#error operations and those that also fetch
#endif
#if GEX_OP_TO_NONFETCHING(GEX_OP_CSWAP) != GEX_OP_CAS || GEX_OP_FCAS != GEX_OP_CSWAP
#error compare and swap
#endif
#if ((FWD_OP_PLAIN | FWD_OP_FETCHING) & (GEX_OP_GET | GEX_OP_USER | GEX_OP_USER_NC)) != 0 || \
    !GEX_OP_GET || !GEX_OP_USER || !GEX_OP_USER_NC
#error operations that have no other side
#endif
#if !FWD_DT_ALL || \
    (GEX_EC_ALL & (GEX_EC_GET | GEX_EC_PUT | GEX_EC_RMW | GEX_EC_AM | GEX_EC_LC)) == 0
#error types and kinds of events
#endif
#if GEX_FLAG_AM_MEDLONG != (GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_LONG) ||  \
    GEX_FLAG_AM_REQREP != (GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_REPLY) || \
    (GEX_FLAG_AM_REQREP & (GEX_FLAG_AM_MEDLONG | GEX_FLAG_AM_SHORT)) != 0
#error flags of an entry in a table of handlers
#endif
#if (GEX_FLAG_PEER_NEVER_SELF & GEX_FLAG_PEER_NEVER_NBRHD) != 0 || \
    (GEX_FLAG_IMMEDIATE &                                          \
     (GEX_FLAG_PEER_NEVER_SELF | GEX_FLAG_PEER_NEVER_NBRHD | GEX_FLAG_ENABLE_LEAF_LC)) != 0
#error flags of a transfer
#endif
#if (GEX_FLAG_AM_PREPARE_LEAST_CLIENT & GEX_FLAG_AM_PREPARE_LEAST_ALLOC) != 0 || \
    !GEX_FLAG_AM_PREPARE_LEAST_CLIENT || !GEX_FLAG_AM_PREPARE_LEAST_ALLOC
#error flags of a question for the largest payload
#endif
#define FWD_AD_CALL (GEX_FLAG_AD_REL | GEX_FLAG_AD_ACQ | GEX_FLAG_AD_MY_RANK | GEX_FLAG_AD_MY_NBRHD)
#if (FWD_AD_CALL & (GEX_FLAG_IMMEDIATE | GEX_FLAG_RANK_IS_JOBRANK)) != 0 || \
    !GEX_FLAG_AD_FAVOR_MY_RANK || !GEX_FLAG_AD_FAVOR_MY_NBRHD || !GEX_FLAG_AD_FAVOR_REMOTE
#error flags of atomics
#endif
#define FWD_SELF_SEG                                                              \
  (GEX_FLAG_SELF_SEG_UNKNOWN | GEX_FLAG_SELF_SEG_SOME | GEX_FLAG_SELF_SEG_BOUND | \
   GEX_FLAG_SELF_SEG_OFFSET)
#define FWD_PEER_SEG                                                              \
  (GEX_FLAG_PEER_SEG_UNKNOWN | GEX_FLAG_PEER_SEG_SOME | GEX_FLAG_PEER_SEG_BOUND | \
   GEX_FLAG_PEER_SEG_OFFSET)
#if (FWD_SELF_SEG & FWD_PEER_SEG) != 0 || !GEX_FLAG_SCRATCH_SEG_OFFSET
#error where memory lies
#endif
#define FWD_SCRATCH                                                                         \
  (GEX_FLAG_TM_GLOBAL_SCRATCH | GEX_FLAG_TM_LOCAL_SCRATCH | GEX_FLAG_TM_SYMMETRIC_SCRATCH | \
   GEX_FLAG_TM_NO_SCRATCH)
#if (FWD_SCRATCH & (GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED | GEX_FLAG_TM_SCRATCH_SIZE_MIN | \
                    GEX_FLAG_RANK_IS_JOBRANK)) != 0 ||                                    \
    !GEX_FLAG_GLOBALLY_QUIESCED
#error flags of teams
#endif
#if (GEX_FLAG_USES_GASNET1 & GEX_FLAG_DEFER_THREADS) != 0 || !GEX_FLAG_USES_GASNET1
#error flags of clients
#endif
#if GEX_EP_CAPABILITY_ALL !=                                                    \
        (GEX_EP_CAPABILITY_RMA | GEX_EP_CAPABILITY_AM | GEX_EP_CAPABILITY_VIS | \
         GEX_EP_CAPABILITY_COLL | GEX_EP_CAPABILITY_AD) ||                      \
    GEX_FLAG_HINT_ACCEL_ALL != (GEX_FLAG_HINT_ACCEL_AD | GEX_FLAG_HINT_ACCEL_COLL)
#error capabilities and hints
#endif
#define FWD_TI (GEX_TI_SRCRANK | GEX_TI_EP | GEX_TI_ENTRY | GEX_TI_IS_REQ | GEX_TI_IS_LONG)
#if (GEX_TI_ALL & FWD_TI) != FWD_TI
#error what is known of a token
#endif

/* Every one of these is a set of single bits, all different. */
static int different(const uint32_t* bits, size_t n) {
  uint32_t seen = 0;
  size_t i;
  for (i = 0; i < n; ++i) {
    if (bits[i] == 0 || (bits[i] & (bits[i] - 1)) != 0 || (seen & bits[i]) != 0) return 0;
    seen |= bits[i];
  }
  return 1;
}

static int fwd_names(void) {
  const gex_DT_t types[] = {GEX_DT_I32, GEX_DT_U32, GEX_DT_I64, GEX_DT_U64,
                            GEX_DT_FLT, GEX_DT_DBL, GEX_DT_USER};
  const gex_Flags_t call[] = {
      GEX_FLAG_IMMEDIATE,       GEX_FLAG_AD_REL,           GEX_FLAG_AD_ACQ,
      GEX_FLAG_AD_MY_RANK,      GEX_FLAG_AD_MY_NBRHD,      GEX_FLAG_RANK_IS_JOBRANK,
      GEX_FLAG_PEER_NEVER_SELF, GEX_FLAG_PEER_NEVER_NBRHD, GEX_FLAG_ENABLE_LEAF_LC};
  const gex_TI_t known[] = {GEX_TI_SRCRANK, GEX_TI_EP, GEX_TI_ENTRY, GEX_TI_IS_REQ, GEX_TI_IS_LONG};
  const gex_EC_t kinds = GEX_EC_ALL;
  const gex_EP_Capabilities_t all = GEX_EP_CAPABILITY_ALL;
  const gex_OP_t add = GEX_OP_ADD;
  const gex_EP_Location_t at = {GEX_RANK_INVALID, (gex_EP_Index_t)3};
  gex_Addr_t here = NULL;
  const gex_Event_t done = GEX_EVENT_INVALID, none = GEX_EVENT_NO_OP;
  gex_Event_t* const ways[] = {GEX_EVENT_NOW, GEX_EVENT_DEFER, GEX_EVENT_GROUP};
  CHECK(different(types, sizeof types / sizeof *types));
  CHECK(different(call, sizeof call / sizeof *call));
  CHECK(different(known, sizeof known / sizeof *known));
  CHECK(kinds == (gex_EC_t) ~(gex_EC_t)0 && all == 31u);
  CHECK(GEX_OP_TO_FETCHING(add) == GEX_OP_FADD && GEX_OP_TO_NONFETCHING(GEX_OP_SWAP) == GEX_OP_SET);
  CHECK(at.gex_rank == GEX_RANK_INVALID && at.gex_ep_index == 3 && here == NULL);
  CHECK(done == NULL && none != done && ways[0] != ways[1] && ways[1] != ways[2]);
  return check_result();
}
