/* Types, flags and limits of gasnetex.h. What one call may be given together never shares a bit. */
#ifndef _IN_PENSTOCK_GASNET_EX_TYPES_H
#define _IN_PENSTOCK_GASNET_EX_TYPES_H
#ifndef _GASNETEX_H
#error include gasnetex.h
#endif

/* ---- objects ---- */
typedef struct gasnetc_client* gex_Client_t;
typedef struct gasnetc_ep* gex_EP_t;
typedef struct gasnetc_tm* gex_TM_t;
typedef struct gasnetc_segment* gex_Segment_t;
typedef struct gasnetc_mk* gex_MK_t;
typedef struct gasnetc_ad* gex_AD_t;
typedef struct gasnetc_srcdesc* gex_AM_SrcDesc_t;
typedef gasnet_token_t gex_Token_t;
#define GEX_CLIENT_INVALID ((gex_Client_t)0)
#define GEX_EP_INVALID ((gex_EP_t)0)
#define GEX_TM_INVALID ((gex_TM_t)0)
#define GEX_SEGMENT_INVALID ((gex_Segment_t)0)
#define GEX_MK_INVALID ((gex_MK_t)0)
#define GEX_MK_HOST ((gex_MK_t)(uintptr_t)1)
#define GEX_AD_INVALID ((gex_AD_t)0)
#define GEX_AM_SRCDESC_NO_OP ((gex_AM_SrcDesc_t)0)

typedef gasnet_handler_t gex_AM_Index_t;
typedef gasnet_handlerarg_t gex_AM_Arg_t;
#define GEX_AM_INDEX_BASE 128
typedef void (*gex_AM_Fn_t)();
typedef uint64_t gex_RMA_Value_t;
#define SIZEOF_GEX_RMA_VALUE_T 8
typedef struct {
  void* gex_addr;
  size_t gex_len;
} gex_Memvec_t;
typedef const struct { gex_Rank_t gex_jobrank; } gex_RankInfo_t;

typedef struct {
  gex_AM_Index_t gex_index; /* 0: the library chooses, and writes its choice here */
  gex_AM_Fn_t gex_fnptr;
  gex_Flags_t gex_flags; /* which messages it takes */
  unsigned int gex_nargs;
  const void* gex_cdata;
  const char* gex_name;
} gex_AM_Entry_t;

/* ---- locks ---- */
typedef gasnet_hsl_t gex_HSL_t;
#define GEX_HSL_INITIALIZER GASNET_HSL_INITIALIZER
#define gex_HSL_Init(hsl) gasnet_hsl_init(hsl)
#define gex_HSL_Destroy(hsl) gasnet_hsl_destroy(hsl)
#define gex_HSL_Lock(hsl) gasnet_hsl_lock(hsl)
#define gex_HSL_Unlock(hsl) gasnet_hsl_unlock(hsl)
#define gex_HSL_Trylock(hsl) gasnet_hsl_trylock(hsl)

/* ---- flags of operations ---- */
#define GEX_FLAG_IMMEDIATE ((gex_Flags_t)1 << 0)       /* rather not at all than wait */
#define GEX_FLAG_PEER_NEVER_SELF ((gex_Flags_t)1 << 1) /* promises, not needed here */
#define GEX_FLAG_PEER_NEVER_NBRHD ((gex_Flags_t)1 << 2)
#define GEX_FLAG_ENABLE_LEAF_LC ((gex_Flags_t)1 << 3) /* local completion can be asked for */
#define GEX_FLAG_RANK_IS_JOBRANK ((gex_Flags_t)1 << 4)
#define GEX_FLAG_AM_PREPARE_LEAST_CLIENT ((gex_Flags_t)1 << 11)
#define GEX_FLAG_AM_PREPARE_LEAST_ALLOC ((gex_Flags_t)1 << 12)
#define GEX_FLAG_SELF_SEG_UNKNOWN ((gex_Flags_t)1 << 16)
#define GEX_FLAG_SELF_SEG_SOME ((gex_Flags_t)1 << 17)
#define GEX_FLAG_SELF_SEG_BOUND ((gex_Flags_t)1 << 18)
#define GEX_FLAG_SELF_SEG_OFFSET ((gex_Flags_t)1 << 19)
#define GEX_FLAG_PEER_SEG_UNKNOWN ((gex_Flags_t)1 << 20)
#define GEX_FLAG_PEER_SEG_SOME ((gex_Flags_t)1 << 21)
#define GEX_FLAG_PEER_SEG_BOUND ((gex_Flags_t)1 << 22)
#define GEX_FLAG_PEER_SEG_OFFSET ((gex_Flags_t)1 << 23)
#define GEX_FLAG_SCRATCH_SEG_OFFSET ((gex_Flags_t)1 << 24)

/* ---- of an entry in a table of handlers ---- */
#define GEX_FLAG_AM_SHORT ((gex_Flags_t)1 << 0)
#define GEX_FLAG_AM_MEDIUM ((gex_Flags_t)1 << 1)
#define GEX_FLAG_AM_LONG ((gex_Flags_t)1 << 2)
#define GEX_FLAG_AM_MEDLONG (GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_LONG)
#define GEX_FLAG_AM_REQUEST ((gex_Flags_t)1 << 3)
#define GEX_FLAG_AM_REPLY ((gex_Flags_t)1 << 4)
#define GEX_FLAG_AM_REQREP (GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_REPLY)

/* ---- of clients, endpoints and teams ---- */
#define GEX_FLAG_USES_GASNET1 ((gex_Flags_t)1 << 0)
#define GEX_FLAG_DEFER_THREADS ((gex_Flags_t)1 << 1)
#define GEX_EP_CAPABILITY_RMA ((gex_EP_Capabilities_t)1 << 0)
#define GEX_EP_CAPABILITY_AM ((gex_EP_Capabilities_t)1 << 1)
#define GEX_EP_CAPABILITY_VIS ((gex_EP_Capabilities_t)1 << 2)
#define GEX_EP_CAPABILITY_COLL ((gex_EP_Capabilities_t)1 << 3)
#define GEX_EP_CAPABILITY_AD ((gex_EP_Capabilities_t)1 << 4)
#define GEX_EP_CAPABILITY_ALL ((gex_EP_Capabilities_t)0x1f)
#define GEX_FLAG_HINT_ACCEL_AD ((gex_Flags_t)1 << 0)
#define GEX_FLAG_HINT_ACCEL_COLL ((gex_Flags_t)1 << 1)
#define GEX_FLAG_HINT_ACCEL_ALL (GEX_FLAG_HINT_ACCEL_AD | GEX_FLAG_HINT_ACCEL_COLL)
#define GEX_FLAG_GLOBALLY_QUIESCED ((gex_Flags_t)1 << 0)
#define GEX_FLAG_TM_GLOBAL_SCRATCH ((gex_Flags_t)1 << 5)
#define GEX_FLAG_TM_LOCAL_SCRATCH ((gex_Flags_t)1 << 6)
#define GEX_FLAG_TM_SYMMETRIC_SCRATCH ((gex_Flags_t)1 << 7)
#define GEX_FLAG_TM_NO_SCRATCH ((gex_Flags_t)1 << 8)
#define GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED ((gex_Flags_t)1 << 9)
#define GEX_FLAG_TM_SCRATCH_SIZE_MIN ((gex_Flags_t)1 << 10)
/* One endpoint for each process: gex_EP_Create says that there are no more. */
#define GASNET_MAXEPS 1

/* ---- data types and operations of atomics and reductions. An operation that also fetches is the
 * other one's bit, 12 places up ---- */
#define GEX_DT_I32 ((gex_DT_t)1 << 0)
#define GEX_DT_U32 ((gex_DT_t)1 << 1)
#define GEX_DT_I64 ((gex_DT_t)1 << 2)
#define GEX_DT_U64 ((gex_DT_t)1 << 3)
#define GEX_DT_FLT ((gex_DT_t)1 << 4)
#define GEX_DT_DBL ((gex_DT_t)1 << 5)
#define GEX_DT_USER ((gex_DT_t)1 << 6)
#define GEX_OP_AND ((gex_OP_t)1 << 0)
#define GEX_OP_OR ((gex_OP_t)1 << 1)
#define GEX_OP_XOR ((gex_OP_t)1 << 2)
#define GEX_OP_ADD ((gex_OP_t)1 << 3)
#define GEX_OP_SUB ((gex_OP_t)1 << 4)
#define GEX_OP_MULT ((gex_OP_t)1 << 5)
#define GEX_OP_MIN ((gex_OP_t)1 << 6)
#define GEX_OP_MAX ((gex_OP_t)1 << 7)
#define GEX_OP_INC ((gex_OP_t)1 << 8)
#define GEX_OP_DEC ((gex_OP_t)1 << 9)
#define GEX_OP_SET ((gex_OP_t)1 << 10)
#define GEX_OP_CAS ((gex_OP_t)1 << 11)
#define GEX_OP_TO_FETCHING(op) ((gex_OP_t)(op) << 12)
#define GEX_OP_TO_NONFETCHING(op) ((gex_OP_t)(op) >> 12)
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
#define GEX_OP_GET ((gex_OP_t)1 << 24)
#define GEX_OP_USER ((gex_OP_t)1 << 25)
#define GEX_OP_USER_NC ((gex_OP_t)1 << 26)

/* ---- kinds of events, and what may be known of a token ---- */
typedef uint32_t gex_EC_t;
#define GEX_EC_PUT ((gex_EC_t)1 << 0)
#define GEX_EC_GET ((gex_EC_t)1 << 1)
#define GEX_EC_RMW ((gex_EC_t)1 << 2)
#define GEX_EC_AM ((gex_EC_t)1 << 3)
#define GEX_EC_LC ((gex_EC_t)1 << 4)
#define GEX_EC_ALL ((gex_EC_t) ~(gex_EC_t)0)
typedef uint32_t gex_TI_t;
#define GEX_TI_SRCRANK ((gex_TI_t)1 << 0)
#define GEX_TI_EP ((gex_TI_t)1 << 1)
#define GEX_TI_ENTRY ((gex_TI_t)1 << 2)
#define GEX_TI_IS_REQ ((gex_TI_t)1 << 3)
#define GEX_TI_IS_LONG ((gex_TI_t)1 << 4)
#define GEX_TI_ALL ((gex_TI_t) ~(gex_TI_t)0)
typedef struct {
  gex_Rank_t gex_srcrank;
  gex_EP_t gex_ep;
  const gex_AM_Entry_t* gex_entry;
  int gex_is_req;
  int gex_is_long;
} gex_Token_Info_t;
#define GASNET_SUPPORTS_TI_SRCRANK 1
#define GASNET_SUPPORTS_TI_EP 1
#define GASNET_SUPPORTS_TI_ENTRY 1
#define GASNET_SUPPORTS_TI_IS_REQ 1
#define GASNET_SUPPORTS_TI_IS_LONG 1

/* ---- threads. In PAR handlers may run in a thread of the library's (PENSTOCK_PROGRESS_THREAD)
 * ---- */
#if GASNET_PAR
#define GASNET_HIDDEN_AM_CONCURRENCY_LEVEL 1
#else
#define GASNET_HIDDEN_AM_CONCURRENCY_LEVEL 0
#endif
#if GASNET_SEQ
#define GASNETI_MAX_THREADS 1
#else
#define GASNETI_MAX_THREADS 1023
#endif
#define GEX_THREAD_ROLE_RCV 1u
#define GEX_THREAD_ROLE_SND 2u
typedef struct {
  const char* gex_device_list;
  unsigned int gex_thread_roles;
  void* (*gex_progress_fn)(void*);
  void* gex_progress_arg;
} gex_ProgressThreadInfo_t;

#endif
