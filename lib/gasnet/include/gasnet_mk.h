/* Kinds of memory with the names of gasnetex.h. There is host memory only: gex_MK_Create
 * returns GASNET_ERR_RESOURCE for every other class, and the macros say so. */
#ifndef _GASNET_MK_H
#define _GASNET_MK_H

#include <gasnetex.h>

/* Not defined: GASNET_HAVE_MK_CLASS_CUDA_UVA, _HIP, _ZE, _MULTIPLE. */
#define GASNET_HAVE_MK_CLASS_HOST 1

typedef enum {
  GEX_MK_CLASS_HOST,
  GEX_MK_CLASS_CUDA_UVA,
  GEX_MK_CLASS_HIP,
  GEX_MK_CLASS_ZE
} gex_MK_Class_t;

typedef struct {
  uint64_t gex_flags;
  gex_MK_Class_t gex_class;
  union {
    struct {
      int gex_CUdevice;
    } gex_class_cuda_uva;
    struct {
      int gex_hipDevice;
    } gex_class_hip;
    struct {
      void* gex_zeDevice;
      void* gex_zeContext;
      uint32_t gex_zeMemoryOrdinal;
    } gex_class_ze;
  } gex_args;
} gex_MK_Create_args_t;

GASNETT_BEGIN_EXTERNC

/* kind_class: a gex_MK_Class_t. */
extern int GASNETC_(mk_create)(int kind_class, uint64_t class_flags, gex_MK_t* mk_p,
                               gex_Client_t client, gex_Flags_t flags);
extern void GASNETC_(mk_destroy)(gex_MK_t mk);
extern const void** GASNETC_(mk_data)(gex_MK_t mk);
extern gex_Client_t GASNETC_(mk_client)(gex_MK_t mk);

/* Makes a kind of memory. Only the host's is there, so it returns GASNET_ERR_BAD_ARG or
 * GASNET_ERR_RESOURCE and leaves *mk_p. */
GASNETC_INLINE int gex_MK_Create(gex_MK_t* mk_p, gex_Client_t client,
                                 const gex_MK_Create_args_t* args, gex_Flags_t flags) {
  if (args == NULL) return GASNET_ERR_BAD_ARG;
  return GASNETC_(mk_create)((int)args->gex_class, args->gex_flags, mk_p, client, flags);
}
/* Ends the job with a line: the host's memory, the only kind, is not destroyed. */
GASNETC_INLINE void gex_MK_Destroy(gex_MK_t mk, gex_Flags_t flags) {
  (void)flags;
  GASNETC_(mk_destroy)(mk);
}
/* Always GEX_MK_CLASS_HOST. Any thread, as all queries. */
GASNETC_INLINE gex_MK_Class_t gex_MK_QueryClass(gex_MK_t mk) {
  (void)mk;
  return GEX_MK_CLASS_HOST;
}
/* The client for which it was made. */
GASNETC_INLINE gex_Client_t gex_MK_QueryClient(gex_MK_t mk) { return GASNETC_(mk_client)(mk); }
/* No flag is kept: always 0. */
GASNETC_INLINE gex_Flags_t gex_MK_QueryFlags(gex_MK_t mk) {
  (void)mk;
  return 0;
}
/* Keeps a word of the client's own with the object; two threads that set it at a time are the
 * client's to order. */
GASNETC_INLINE void gex_MK_SetCData(gex_MK_t mk, const void* val) { *GASNETC_(mk_data)(mk) = val; }
/* The word that was set last; NULL before. */
GASNETC_INLINE void* gex_MK_QueryCData(gex_MK_t mk) { return (void*)*GASNETC_(mk_data)(mk); }

GASNETT_END_EXTERNC

#endif
