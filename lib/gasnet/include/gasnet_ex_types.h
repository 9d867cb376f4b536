/* Types and limits of gasnetex.h beyond those of gasnet_fwd.h. */
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
typedef gasneti_any_function_t gex_AM_Fn_t;
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

/* The first endpoint of a process, and 32 more, which have memory of their own; the first 7 of
 * these may have messages. GASNet's testtmpair, which knows no conduit of this name, sends messages
 * to as many endpoints as GASNET_MAXEPS allows, and registers its handlers with the first one
 * alone. So clients that know none have one. */
#define GASNETC_MOST_ENDPOINTS 33
#if defined(GASNET_SEGMENT_EVERYTHING) || \
    !(defined(GASNET_CONDUIT_IBV) || defined(GASNET_CONDUIT_OFI) || defined(GASNET_CONDUIT_UCX))
#define GASNET_MAXEPS 1
#else
#define GASNET_MAXEPS GASNETC_MOST_ENDPOINTS
#endif

/* ---- what is known of a token ---- */
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
