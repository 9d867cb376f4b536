/* The types and constants of gasnetex.h that a client may show in public headers of its own: needs
 * only integers of fixed width, no mode, and no library. */
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

#endif
