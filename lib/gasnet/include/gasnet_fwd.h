/* The types and constants of gasnetex.h that a client may show in public headers of its own: needs
 * only integers of fixed width, no mode, and no library. Constants of bits are numbers that #if can
 * read; what one call may be given together never shares a bit. */
#ifndef _GASNET_FWD_H
#define _GASNET_FWD_H

#include <stdint.h>

/* ---- places ---- */
typedef uint32_t gex_Rank_t;
#define GEX_RANK_INVALID ((gex_Rank_t) ~(gex_Rank_t)0)
typedef uint16_t gex_EP_Index_t;
typedef struct {
  gex_Rank_t gex_rank;
  gex_EP_Index_t gex_ep_index;
} gex_EP_Location_t;
typedef void* gex_Addr_t;

/* ---- bits ---- */
typedef uint32_t gex_Flags_t;
typedef uint32_t gex_DT_t;
typedef uint32_t gex_OP_t;
typedef uint32_t gex_EP_Capabilities_t;

/* ---- events: an operation in flight. The constants that point to events say what becomes of local
 * completion, where a call asks for it ---- */
typedef struct gasnetc_op* gex_Event_t;
#define GEX_EVENT_INVALID ((gex_Event_t)(uintptr_t)0) /* complete */
#define GEX_EVENT_NO_OP ((gex_Event_t)(uintptr_t)1)   /* nothing was started */
#define GEX_EVENT_NOW ((gex_Event_t*)(uintptr_t)1)    /* before the call returns */
#define GEX_EVENT_DEFER \
  ((gex_Event_t*)(uintptr_t)2) /* at the latest when the operation is complete */
#define GEX_EVENT_GROUP ((gex_Event_t*)(uintptr_t)3) /* joins the implicit operations */

/* ---- flags of operations ---- */
#define GEX_FLAG_IMMEDIATE (1u << 0)       /* rather not at all than wait */
#define GEX_FLAG_PEER_NEVER_SELF (1u << 1) /* promises, not needed here */
#define GEX_FLAG_PEER_NEVER_NBRHD (1u << 2)
#define GEX_FLAG_ENABLE_LEAF_LC (1u << 3) /* local completion can be asked for */
#define GEX_FLAG_RANK_IS_JOBRANK (1u << 4)
#define GEX_FLAG_AM_PREPARE_LEAST_CLIENT (1u << 11)
#define GEX_FLAG_AM_PREPARE_LEAST_ALLOC (1u << 12)
#define GEX_FLAG_SELF_SEG_UNKNOWN (1u << 16)
#define GEX_FLAG_SELF_SEG_SOME (1u << 17)
#define GEX_FLAG_SELF_SEG_BOUND (1u << 18)
#define GEX_FLAG_SELF_SEG_OFFSET (1u << 19)
#define GEX_FLAG_PEER_SEG_UNKNOWN (1u << 20)
#define GEX_FLAG_PEER_SEG_SOME (1u << 21)
#define GEX_FLAG_PEER_SEG_BOUND (1u << 22)
#define GEX_FLAG_PEER_SEG_OFFSET (1u << 23)
#define GEX_FLAG_SCRATCH_SEG_OFFSET (1u << 24)

#define GEX_FLAG_AD_REL (1u << 5)
#define GEX_FLAG_AD_ACQ (1u << 6)
#define GEX_FLAG_AD_MY_RANK (1u << 7)
#define GEX_FLAG_AD_MY_NBRHD (1u << 8)

/* ---- of an entry in a table of handlers ---- */
#define GEX_FLAG_AM_SHORT (1u << 0)
#define GEX_FLAG_AM_MEDIUM (1u << 1)
#define GEX_FLAG_AM_LONG (1u << 2)
#define GEX_FLAG_AM_MEDLONG (GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_LONG)
#define GEX_FLAG_AM_REQUEST (1u << 3)
#define GEX_FLAG_AM_REPLY (1u << 4)
#define GEX_FLAG_AM_REQREP (GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_REPLY)

/* ---- hints when a domain of atomics is made, which change nothing here ---- */
#define GEX_FLAG_AD_FAVOR_MY_RANK (1u << 0)
#define GEX_FLAG_AD_FAVOR_MY_NBRHD (1u << 1)
#define GEX_FLAG_AD_FAVOR_REMOTE (1u << 2)

/* ---- of clients, endpoints and teams ---- */
#define GEX_FLAG_USES_GASNET1 (1u << 0)
#define GEX_FLAG_DEFER_THREADS (1u << 1)
#define GEX_EP_CAPABILITY_RMA (1u << 0)
#define GEX_EP_CAPABILITY_AM (1u << 1)
#define GEX_EP_CAPABILITY_VIS (1u << 2)
#define GEX_EP_CAPABILITY_COLL (1u << 3)
#define GEX_EP_CAPABILITY_AD (1u << 4)
#define GEX_EP_CAPABILITY_ALL 0x1fu
#define GEX_FLAG_HINT_ACCEL_AD (1u << 0)
#define GEX_FLAG_HINT_ACCEL_COLL (1u << 1)
#define GEX_FLAG_HINT_ACCEL_ALL (GEX_FLAG_HINT_ACCEL_AD | GEX_FLAG_HINT_ACCEL_COLL)
#define GEX_FLAG_GLOBALLY_QUIESCED (1u << 0)
#define GEX_FLAG_TM_GLOBAL_SCRATCH (1u << 5)
#define GEX_FLAG_TM_LOCAL_SCRATCH (1u << 6)
#define GEX_FLAG_TM_SYMMETRIC_SCRATCH (1u << 7)
#define GEX_FLAG_TM_NO_SCRATCH (1u << 8)
#define GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED (1u << 9)
#define GEX_FLAG_TM_SCRATCH_SIZE_MIN (1u << 10)

/* ---- data types and operations of atomics and reductions. An operation that also fetches is the
 * other one's bit, 12 places up ---- */
#define GEX_DT_I32 (1u << 0)
#define GEX_DT_U32 (1u << 1)
#define GEX_DT_I64 (1u << 2)
#define GEX_DT_U64 (1u << 3)
#define GEX_DT_FLT (1u << 4)
#define GEX_DT_DBL (1u << 5)
#define GEX_DT_USER (1u << 6)
#define GEX_OP_AND (1u << 0)
#define GEX_OP_OR (1u << 1)
#define GEX_OP_XOR (1u << 2)
#define GEX_OP_ADD (1u << 3)
#define GEX_OP_SUB (1u << 4)
#define GEX_OP_MULT (1u << 5)
#define GEX_OP_MIN (1u << 6)
#define GEX_OP_MAX (1u << 7)
#define GEX_OP_INC (1u << 8)
#define GEX_OP_DEC (1u << 9)
#define GEX_OP_SET (1u << 10)
#define GEX_OP_CAS (1u << 11)
#define GEX_OP_TO_FETCHING(op) ((op) << 12)
#define GEX_OP_TO_NONFETCHING(op) ((op) >> 12)
#define GEX_OP_FAND GEX_OP_TO_FETCHING(GEX_OP_AND)
#define GEX_OP_FOR GEX_OP_TO_FETCHING(GEX_OP_OR)
#define GEX_OP_FXOR GEX_OP_TO_FETCHING(GEX_OP_XOR)
#define GEX_OP_FADD GEX_OP_TO_FETCHING(GEX_OP_ADD)
#define GEX_OP_FSUB GEX_OP_TO_FETCHING(GEX_OP_SUB)
#define GEX_OP_FMULT GEX_OP_TO_FETCHING(GEX_OP_MULT)
#define GEX_OP_FMIN GEX_OP_TO_FETCHING(GEX_OP_MIN)
#define GEX_OP_FMAX GEX_OP_TO_FETCHING(GEX_OP_MAX)
#define GEX_OP_FINC GEX_OP_TO_FETCHING(GEX_OP_INC)
#define GEX_OP_FDEC GEX_OP_TO_FETCHING(GEX_OP_DEC)
#define GEX_OP_SWAP GEX_OP_TO_FETCHING(GEX_OP_SET)
#define GEX_OP_FCAS GEX_OP_TO_FETCHING(GEX_OP_CAS)
#define GEX_OP_CSWAP GEX_OP_FCAS
#define GEX_OP_GET (1u << 24)
#define GEX_OP_USER (1u << 25)
#define GEX_OP_USER_NC (1u << 26)

/* ---- kinds of events, and what may be known of a token ---- */
typedef uint32_t gex_EC_t;
#define GEX_EC_PUT (1u << 0)
#define GEX_EC_GET (1u << 1)
#define GEX_EC_RMW (1u << 2)
#define GEX_EC_AM (1u << 3)
#define GEX_EC_LC (1u << 4)
#define GEX_EC_ALL 0xffffffffu
typedef uint32_t gex_TI_t;
#define GEX_TI_SRCRANK (1u << 0)
#define GEX_TI_EP (1u << 1)
#define GEX_TI_ENTRY (1u << 2)
#define GEX_TI_IS_REQ (1u << 3)
#define GEX_TI_IS_LONG (1u << 4)
#define GEX_TI_ALL 0xffffffffu

#endif
