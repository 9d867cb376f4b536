/* The job by gasnetex.h: versions, types, constants, clients, endpoints, segments, teams, handlers'
 * tables, neighbours, locks, errors. */
#include <gasnet_fwd.h>
#include <gasnet_mk.h>

#include "ex_job.h"

static void on_nothing(gex_Token_t token) { (void)token; }
static void on_count(gex_Token_t token) {
  (void)token;
  answers = answers + 1;
}

static int one_bit(uint32_t x) { return x != 0 && (x & (x - 1)) == 0; }
static int different_bits(const uint32_t* bits, size_t n) {
  uint32_t all = 0;
  size_t i;
  for (i = 0; i < n; ++i) {
    if (!one_bit(bits[i]) || (all & bits[i]) != 0) return 0;
    all |= bits[i];
  }
  return 1;
}
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static void versions(void) {
  CHECK(GEX_SPEC_VERSION_MAJOR == 0 && GEX_SPEC_VERSION_MINOR == 19);
  CHECK(GASNET_RELEASE_VERSION_MAJOR * 10000 + GASNET_RELEASE_VERSION_MINOR * 100 +
            GASNET_RELEASE_VERSION_PATCH >
        20201100);
  CHECK(GASNET_SPEC_VERSION_MAJOR == 1 && GASNET_SPEC_VERSION_MINOR == 8);
  CHECK(strlen(GASNET_CONDUIT_NAME_STR) > 0);
#if defined(GASNET_DEBUG)
  CHECK(GASNET_DEBUG == 1);
#else
  CHECK(GASNET_NDEBUG == 1);
#endif
#if defined(GASNET_CONDUIT_PENSTOCK)
  CHECK(GASNET_CONDUIT_PENSTOCK == 1);
#endif
  CHECK(GASNET_SEGMENT_FAST == 1 && GASNET_PAGESIZE >= 4096 && GASNET_MAXNODES >= most_nodes);
  CHECK(strstr(GASNET_CONFIG_STRING, "RELEASE=") != NULL);
  CHECK(GASNET_SUPPORTS_TI_SRCRANK == 1 && GASNET_SUPPORTS_TI_EP == 1);
  CHECK(GASNET_SUPPORTS_TI_ENTRY == 1 && GASNET_SUPPORTS_TI_IS_REQ == 1);
  CHECK(GASNET_SUPPORTS_TI_IS_LONG == 1);
  CHECK(GASNET_SUPPORTS_AM_COMMIT_V2 == 20240906L && GASNET_SUPPORTS_AM_CANCEL == 20240418L);
}

static void types(void) {
  const gex_EP_Location_t at = {7, 0};
  const gex_Memvec_t piece = {NULL, 9};
  gex_EP_Index_t index = (gex_EP_Index_t)-1;
  CHECK(sizeof(gex_Rank_t) == 4 && sizeof(gex_EP_Index_t) == 2 && index > 0);
  CHECK((gex_Rank_t)-1 == GEX_RANK_INVALID && at.gex_rank == 7 && at.gex_ep_index == 0);
  CHECK(sizeof(gex_Event_t) == sizeof(void*) && sizeof(gex_Addr_t) == sizeof(void*));
  CHECK(sizeof(gex_Flags_t) == 4 && sizeof(gex_DT_t) == 4 && sizeof(gex_OP_t) == 4);
  CHECK(sizeof(gex_EP_Capabilities_t) == 4 && sizeof(gex_AM_Index_t) == 1);
  CHECK(sizeof(gex_AM_Arg_t) == 4 && (gex_AM_Arg_t)-1 < 0);
  CHECK(sizeof(gex_RMA_Value_t) == SIZEOF_GEX_RMA_VALUE_T && SIZEOF_GEX_RMA_VALUE_T == 8);
  CHECK(sizeof(gex_Client_t) == sizeof(void*) && sizeof(gex_TM_t) == sizeof(void*));
  CHECK(sizeof(gex_Segment_t) == sizeof(void*) && sizeof(gex_AM_SrcDesc_t) == sizeof(void*));
  CHECK(sizeof(gex_AD_t) == sizeof(void*) && sizeof(gex_EP_t) == sizeof(void*));
  CHECK(sizeof(gex_MK_t) == sizeof(void*) && sizeof(gex_Token_t) == sizeof(void*));
  CHECK(sizeof(gex_EC_t) >= 4 && sizeof(gex_TI_t) >= 4 && piece.gex_len == 9);
  CHECK(piece.gex_addr == NULL);
  CHECK(GEX_CLIENT_INVALID == NULL && GEX_EP_INVALID == NULL && GEX_TM_INVALID == NULL);
  CHECK(GEX_SEGMENT_INVALID == NULL && GEX_MK_INVALID == NULL && GEX_AD_INVALID == NULL);
  CHECK(GEX_AM_SRCDESC_NO_OP == NULL && GEX_MK_HOST != GEX_MK_INVALID);
  CHECK(GEX_EVENT_INVALID == NULL && GEX_EVENT_NO_OP != GEX_EVENT_INVALID);
  CHECK(GEX_EVENT_NOW != GEX_EVENT_DEFER && GEX_EVENT_DEFER != GEX_EVENT_GROUP);
  CHECK((uintptr_t)GEX_EVENT_NOW == 1 && GEX_AM_INDEX_BASE <= 128);
}

static void flags(void) {
  const uint32_t initiation[] = {GEX_FLAG_IMMEDIATE,
                                 GEX_FLAG_PEER_NEVER_SELF,
                                 GEX_FLAG_PEER_NEVER_NBRHD,
                                 GEX_FLAG_ENABLE_LEAF_LC,
                                 GEX_FLAG_RANK_IS_JOBRANK,
                                 GEX_FLAG_AM_PREPARE_LEAST_CLIENT,
                                 GEX_FLAG_AM_PREPARE_LEAST_ALLOC,
                                 GEX_FLAG_SELF_SEG_UNKNOWN,
                                 GEX_FLAG_SELF_SEG_SOME,
                                 GEX_FLAG_SELF_SEG_BOUND,
                                 GEX_FLAG_SELF_SEG_OFFSET,
                                 GEX_FLAG_PEER_SEG_UNKNOWN,
                                 GEX_FLAG_PEER_SEG_SOME,
                                 GEX_FLAG_PEER_SEG_BOUND,
                                 GEX_FLAG_PEER_SEG_OFFSET,
                                 GEX_FLAG_SCRATCH_SEG_OFFSET};
  const uint32_t entry[] = {GEX_FLAG_AM_SHORT, GEX_FLAG_AM_MEDIUM, GEX_FLAG_AM_LONG,
                            GEX_FLAG_AM_REQUEST, GEX_FLAG_AM_REPLY};
  const uint32_t client_flags[] = {GEX_FLAG_USES_GASNET1, GEX_FLAG_DEFER_THREADS};
  const uint32_t team[] = {GEX_FLAG_TM_GLOBAL_SCRATCH,    GEX_FLAG_TM_LOCAL_SCRATCH,
                           GEX_FLAG_TM_SYMMETRIC_SCRATCH, GEX_FLAG_TM_NO_SCRATCH,
                           GEX_FLAG_RANK_IS_JOBRANK,      GEX_FLAG_TM_SCRATCH_SIZE_RECOMMENDED,
                           GEX_FLAG_TM_SCRATCH_SIZE_MIN,  GEX_FLAG_GLOBALLY_QUIESCED};
  const uint32_t capability[] = {GEX_EP_CAPABILITY_RMA, GEX_EP_CAPABILITY_AM, GEX_EP_CAPABILITY_VIS,
                                 GEX_EP_CAPABILITY_COLL, GEX_EP_CAPABILITY_AD};
  const uint32_t hint[] = {GEX_FLAG_HINT_ACCEL_AD, GEX_FLAG_HINT_ACCEL_COLL};
  const uint32_t dt[] = {GEX_DT_I32, GEX_DT_U32, GEX_DT_I64, GEX_DT_U64,
                         GEX_DT_FLT, GEX_DT_DBL, GEX_DT_USER};
  const uint32_t op[] = {
      GEX_OP_ADD,   GEX_OP_SUB,  GEX_OP_MULT, GEX_OP_MIN,  GEX_OP_MAX,  GEX_OP_INC,    GEX_OP_DEC,
      GEX_OP_AND,   GEX_OP_OR,   GEX_OP_XOR,  GEX_OP_SET,  GEX_OP_CAS,  GEX_OP_FADD,   GEX_OP_FSUB,
      GEX_OP_FMULT, GEX_OP_FMIN, GEX_OP_FMAX, GEX_OP_FINC, GEX_OP_FDEC, GEX_OP_FAND,   GEX_OP_FOR,
      GEX_OP_FXOR,  GEX_OP_SWAP, GEX_OP_FCAS, GEX_OP_GET,  GEX_OP_USER, GEX_OP_USER_NC};
  const uint32_t ti[] = {GEX_TI_SRCRANK, GEX_TI_EP, GEX_TI_ENTRY, GEX_TI_IS_REQ, GEX_TI_IS_LONG};
  const uint32_t ec[] = {GEX_EC_GET, GEX_EC_PUT, GEX_EC_RMW, GEX_EC_AM, GEX_EC_LC};
  size_t i;
  CHECK(different_bits(initiation, COUNT(initiation)) && different_bits(entry, COUNT(entry)));
  CHECK(different_bits(client_flags, COUNT(client_flags)) && different_bits(team, COUNT(team)));
  CHECK(different_bits(capability, COUNT(capability)) && different_bits(hint, COUNT(hint)));
  CHECK(different_bits(dt, COUNT(dt)) && different_bits(op, COUNT(op)));
  CHECK(different_bits(ti, COUNT(ti)) && different_bits(ec, COUNT(ec)));
  CHECK(GEX_FLAG_AM_MEDLONG == (GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_LONG));
  CHECK(GEX_FLAG_AM_REQREP == (GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_REPLY));
  CHECK(GEX_FLAG_HINT_ACCEL_ALL == (GEX_FLAG_HINT_ACCEL_AD | GEX_FLAG_HINT_ACCEL_COLL));
  for (i = 0; i < COUNT(capability); ++i) CHECK((GEX_EP_CAPABILITY_ALL & capability[i]) != 0);
  for (i = 0; i < COUNT(ec); ++i) CHECK((GEX_EC_ALL & ec[i]) != 0);
  for (i = 0; i < 12; ++i) {
    CHECK(GEX_OP_TO_FETCHING(op[i]) == op[i + 12]);
    CHECK(GEX_OP_TO_NONFETCHING(op[i + 12]) == op[i]);
  }
  CHECK(GEX_OP_CSWAP == GEX_OP_FCAS);
  /* Values that programs in other languages have written down. */
  CHECK(GEX_DT_U64 == 1 << 3 && GEX_OP_ADD == 1 << 3 && GEX_EP_CAPABILITY_RMA == 1);
  CHECK(GEX_FLAG_IMMEDIATE == 1 && GEX_FLAG_AM_PREPARE_LEAST_CLIENT == 1 << 11);
  CHECK(GEX_FLAG_AM_PREPARE_LEAST_ALLOC == 1 << 12 && GASNET_ERR_NOT_READY == 10004);
}

static void clients(void) {
  static int word;
  gex_Client_t c;
  gex_EP_t e;
  gex_TM_t t;
  unsigned count = 9;
  const gex_ProgressThreadInfo_t* info = NULL;
  CHECK(gex_Client_Init(&c, &e, &t, "again", NULL, NULL, 0) != GASNET_OK); /* once only */
  CHECK(gex_Client_QueryFlags(client) == (GEX_FLAG_USES_GASNET1 | GEX_FLAG_DEFER_THREADS));
  CHECK(strcmp(gex_Client_QueryName(client), "core") == 0);
  CHECK(gex_Client_QueryCData(client) == NULL && gex_EP_QueryCData(ep) == NULL);
  CHECK(gex_TM_QueryCData(tm) == NULL);
  gex_Client_SetCData(client, &word);
  gex_EP_SetCData(ep, &word);
  gex_TM_SetCData(tm, &client);
  CHECK(gex_Client_QueryCData(client) == &word && gex_EP_QueryCData(ep) == &word);
  CHECK(gex_TM_QueryCData(tm) == (void*)&client);
  CHECK(gex_EP_QueryClient(ep) == client && gex_EP_QueryIndex(ep) == 0);
  CHECK(gex_EP_QueryFlags(ep) == 0 && gex_TM_QueryFlags(tm) == 0);
  CHECK(gex_TM_QueryClient(tm) == client && gex_TM_QueryEP(tm) == ep);
  CHECK(gex_TM_QueryRank(tm) == me && gex_TM_QuerySize(tm) == nodes && me < nodes);
  CHECK(gasnet_mynode() == me && gasnet_nodes() == nodes);
  CHECK(gex_System_QueryProgressThreads(client, &count, &info, 0) == GASNET_OK && count == 0);
  CHECK(gex_System_QueryProgressThreads(client, NULL, &info, 0) == GASNET_ERR_BAD_ARG);
  CHECK((GEX_THREAD_ROLE_RCV & GEX_THREAD_ROLE_SND) == 0);
  for (; count != 0; --count) { /* a client would run these */
    CHECK(info->gex_device_list != NULL && info->gex_thread_roles != 0);
    CHECK(info->gex_progress_fn(info->gex_progress_arg) == NULL);
  }
}

static void ranks(void) {
  const gex_TM_t pair = gex_TM_Pair(ep, 0);
  gex_Rank_t r;
  CHECK(pair != tm && pair == gex_TM_Pair(ep, 0) && pair != gex_TM_Pair(ep, 1));
  for (r = 0; r < nodes; ++r) {
    const gex_EP_Location_t at = gex_TM_TranslateRankToEP(tm, r, 0);
    CHECK(gex_TM_TranslateRankToJobrank(tm, r) == r && at.gex_rank == r && at.gex_ep_index == 0);
    CHECK(gex_TM_TranslateJobrankToRank(tm, r) == r);
  }
  CHECK(gex_TM_TranslateJobrankToRank(tm, nodes) == GEX_RANK_INVALID);
}

static void check_neighbours(gex_RankInfo_t* info, gex_Rank_t count, gex_Rank_t mine) {
  gex_Rank_t i;
  CHECK(mine < count && info[mine].gex_jobrank == me);
  for (i = 1; i < count; ++i) CHECK(info[i - 1].gex_jobrank < info[i].gex_jobrank);
}
static void neighbours(void) {
  gex_RankInfo_t *host, *nbrhd;
  gex_Rank_t on_host, my_host_index, near, my_near_index;
  gex_Rank_t hosts = 9, my_host = 9, nbrhds = 0, my_nbrhd = 9999;
  const char* const groups = getenv("PENSTOCK_SUPERNODE_MAXSIZE");
  static gasnet_nodeinfo_t places[most_nodes];
  gex_Rank_t r, same = 0;
  gex_System_QueryHostInfo(&host, &on_host, &my_host_index);
  gex_System_QueryNbrhdInfo(&nbrhd, &near, &my_near_index);
  check_neighbours(host, on_host, my_host_index);
  check_neighbours(nbrhd, near, my_near_index);
  CHECK(on_host >= near && on_host <= nodes);
  gex_System_QueryHostInfo(NULL, NULL, NULL);
  gex_System_QueryNbrhdInfo(NULL, &near, NULL);
  gex_System_QueryMyPosition(&nbrhds, &my_nbrhd, &hosts, &my_host);
  CHECK(my_host < hosts && my_nbrhd < nbrhds && nbrhds >= hosts);
  CHECK(hosts == 1 ? on_host == nodes : on_host < nodes);
  if (groups != NULL && hosts == 1)
    CHECK(nbrhds == (nodes + (gex_Rank_t)atoi(groups) - 1) / (gex_Rank_t)atoi(groups));
  else if (groups == NULL)
    CHECK(nbrhds * near == nodes);
  gex_System_QueryMyPosition(NULL, NULL, NULL, NULL);
  /* The table of gasnet.h says the same. */
  MUST(gasnet_getNodeInfo(places, (int)nodes));
  CHECK(places[me].supernode == my_nbrhd && places[me].host == my_host);
  for (r = 0; r < nodes; ++r) same += places[r].supernode == my_nbrhd;
  CHECK(same == near);
  for (r = 0; r < near; ++r) CHECK(places[nbrhd[r].gex_jobrank].supernode == my_nbrhd);
}

static void system_calls(void) {
  const int verbose = gex_System_GetVerboseErrors();
  gex_EP_t more = GEX_EP_INVALID;
  CHECK(verbose == 1);
  gex_System_SetVerboseErrors(0);
  CHECK(gex_System_GetVerboseErrors() == 0);
  CHECK(GASNET_MAXEPS >= 1);
  CHECK(gex_EP_Create(&more, client, (gex_EP_Capabilities_t)1 << 30, 0) == GASNET_ERR_BAD_ARG);
#if GASNET_SEQ
  CHECK(gex_System_QueryMaxThreads() == 1 && GASNETI_MAX_THREADS == 1);
#else
  CHECK(gex_System_QueryMaxThreads() > 1 && GASNETI_MAX_THREADS > 1);
#endif
  CHECK(gex_System_QueryHiddenAMConcurrencyLevel() <= GASNET_HIDDEN_AM_CONCURRENCY_LEVEL);
  CHECK(gasnet_getenv("PATH") != NULL && gasnet_AMPoll() == GASNET_OK);
  CHECK(gasnet_set_waitmode(GASNET_WAIT_SPINBLOCK) == GASNET_OK);
  CHECK(strcmp(gasnet_ErrorName(GASNET_ERR_BAD_ARG), "GASNET_ERR_BAD_ARG") == 0);
  CHECK(strlen(gasnet_ErrorDesc(GASNET_ERR_NOT_INIT)) > 0);
}

static int hooked = 0;
static void on_attach(void* base, uintptr_t size) {
  CHECK(base != NULL && size >= (uintptr_t)segment_bytes);
  ++hooked;
}

static void segments(void) {
  gasnet_seginfo_t info[most_nodes];
  gasnet_nodeinfo_t places[most_nodes];
  const uintptr_t size = (uintptr_t)segment_bytes * (me + 1);
  gex_Segment_t made = GEX_SEGMENT_INVALID, bad = GEX_SEGMENT_INVALID;
  void *owner = &owner, *here = NULL;
  uintptr_t bytes = 7;
  gex_Rank_t r;
  CHECK(gasnet_getMaxLocalSegmentSize() >= gasnet_getMaxGlobalSegmentSize());
  CHECK(gasnet_getMaxGlobalSegmentSize() >= (uintptr_t)segment_bytes * nodes);
  CHECK(gex_EP_QuerySegment(ep) == GEX_SEGMENT_INVALID);
  CHECK(gex_Segment_QueryBound(tm, next_rank, &owner, &here, &bytes) != 0);
  CHECK(owner == &owner && bytes == 7);
  gex_Event_Wait(gex_EP_QueryBoundSegmentNB(tm, next_rank, NULL, NULL, &bytes, 0));
  CHECK(bytes == 0);
  /* A message before there is a segment. */
  answers = 0;
  meet();
  gex_AM_RequestShort0(tm, next_rank, 200, 0);
  GASNET_BLOCKUNTIL(answers == 1);
  /* A segment that is never bound. */
  CHECK(gex_Segment_Create(&bad, client, NULL, 0, GEX_MK_HOST, 0) == GASNET_ERR_BAD_ARG);
  CHECK(gex_Segment_Create(&bad, client, NULL, 4096, GEX_MK_INVALID, 0) == GASNET_ERR_BAD_ARG);
  MUST(gex_Segment_Create(&made, client, NULL, 10000, GEX_MK_HOST, 0));
  CHECK(gex_Segment_QuerySize(made) == 10000 && gex_Segment_QueryAddr(made) != NULL);
  memset(gex_Segment_QueryAddr(made), 1, 10000);
  CHECK(gex_EP_BindSegment(ep, GEX_SEGMENT_INVALID, 0) == GASNET_ERR_BAD_ARG);
  CHECK(gex_EP_BindSegment(GEX_EP_INVALID, made, 0) == GASNET_ERR_BAD_ARG);
  CHECK(gex_EP_BindSegment(ep, made, 1) == GASNET_ERR_BAD_ARG);
  gex_Segment_Destroy(made, 0);

  gasnet_client_attach_hook = &on_attach;
  MUST(gex_Segment_Attach(&segment, tm, size));
  CHECK(hooked == 1);
  CHECK(gex_Segment_Attach(&bad, tm, size) != GASNET_OK); /* once only */
  CHECK(gex_EP_QuerySegment(ep) == segment && gex_Segment_QueryClient(segment) == client);
  CHECK(gex_Segment_QuerySize(segment) == size && gex_Segment_QueryFlags(segment) == 0);
  CHECK((uintptr_t)gex_Segment_QueryAddr(segment) % GASNET_PAGESIZE == 0);
  CHECK(gex_Segment_QueryCData(segment) == NULL);
  gex_Segment_SetCData(segment, &hooked);
  CHECK(gex_Segment_QueryCData(segment) == &hooked);
  memset(gex_Segment_QueryAddr(segment), 1, size);
  MUST(gasnet_getSegmentInfo(info, most_nodes));
  MUST(gasnet_getNodeInfo(places, (int)nodes));
  meet();
  for (r = 0; r < nodes; ++r) {
    gex_Event_t ev;
    CHECK(gex_Segment_QueryBound(gex_TM_Pair(ep, 0), r, &owner, &here, &bytes) == 0);
    CHECK(owner == info[r].addr && bytes == info[r].size);
    CHECK(bytes == (uintptr_t)segment_bytes * (r + 1) && places[r].host <= r);
    CHECK(r != me || (here == owner && here == gex_Segment_QueryAddr(segment)));
    if (here != NULL) CHECK(*(char*)here == 1); /* mapped here */
    ev = gex_EP_QueryBoundSegmentNB(tm, r, &owner, &here, &bytes, GEX_FLAG_IMMEDIATE);
    CHECK(ev == GEX_EVENT_INVALID || (ev == GEX_EVENT_NO_OP && r != me));
  }
  MUST(gex_EP_PublishBoundSegment(tm, &ep, 1, 0)); /* again: nothing changes */
  CHECK(gex_Segment_QueryBound(tm, next_rank, NULL, NULL, NULL) == 0);
  MUST(gex_EP_PublishBoundSegment(tm, NULL, 0, 0));
}

static void handlers(void) {
  gex_AM_Entry_t table[] = {
      {0, HANDLER(&on_nothing), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQREP, 0, NULL, NULL},
      {200, HANDLER(&on_count), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, "count"},
      {255, HANDLER(&on_nothing), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, &client, "highest"},
      {0, HANDLER(&on_nothing), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REQUEST, 0, NULL, NULL},
  };
  gex_AM_Entry_t more = {
      0, HANDLER(&on_nothing), GEX_FLAG_AM_SHORT | GEX_FLAG_AM_REPLY, 0, NULL, "more"};
  MUST(gex_EP_RegisterHandlers(ep, table, 4));
  CHECK(strcmp(table[1].gex_name, "count") == 0 && table[1].gex_fnptr == HANDLER(&on_count));
  CHECK(table[0].gex_index == 254 && table[3].gex_index == 253 && table[1].gex_index == 200);
  MUST(gex_EP_RegisterHandlers(ep, &more, 1));
  CHECK(more.gex_index == 252);
  CHECK(gex_EP_RegisterHandlers(ep, &more, 1) != GASNET_OK); /* taken */
  more.gex_index = 127;
  CHECK(gex_EP_RegisterHandlers(ep, &more, 1) != GASNET_OK); /* the library's */
  MUST(gex_EP_RegisterHandlers(ep, NULL, 0));
}

static gex_HSL_t a_lock = GEX_HSL_INITIALIZER;
static void locks(void) {
  gex_HSL_t made;
  gex_HSL_Init(&made);
  gex_HSL_Lock(&made);
  gex_HSL_Unlock(&made);
  CHECK(gex_HSL_Trylock(&a_lock) == 0);
#if !GASNET_SEQ
  CHECK(gex_HSL_Trylock(&a_lock) != 0);
#endif
  gex_HSL_Unlock(&a_lock);
  gex_HSL_Destroy(&made);
}

/* There is host memory only, and the library says so. */
static void kinds_of_memory(void) {
  gex_MK_Create_args_t args;
  gex_MK_t kind = GEX_MK_INVALID;
  static int word;
  int c;
  const gex_MK_Class_t classes[] = {GEX_MK_CLASS_CUDA_UVA, GEX_MK_CLASS_HIP, GEX_MK_CLASS_ZE};
  CHECK(GASNET_HAVE_MK_CLASS_HOST == 1);
#if defined(GASNET_HAVE_MK_CLASS_CUDA_UVA) || defined(GASNET_HAVE_MK_CLASS_HIP) || \
    defined(GASNET_HAVE_MK_CLASS_ZE) || defined(GASNET_HAVE_MK_CLASS_MULTIPLE)
#error no such memory here
#endif
  for (c = 0; c < 3; ++c) {
    memset(&args, 0, sizeof args);
    args.gex_class = classes[c];
    args.gex_args.gex_class_cuda_uva.gex_CUdevice = 0;
    CHECK(gex_MK_Create(&kind, client, &args, 0) != GASNET_OK);
  }
  memset(&args, 0, sizeof args);
  args.gex_args.gex_class_hip.gex_hipDevice = 1;
  args.gex_args.gex_class_ze.gex_zeMemoryOrdinal = 1;
  args.gex_args.gex_class_ze.gex_zeDevice = args.gex_args.gex_class_ze.gex_zeContext = NULL;
  args.gex_class = GEX_MK_CLASS_HOST;
  CHECK(args.gex_flags == 0 && gex_MK_Create(&kind, client, &args, 1) == GASNET_ERR_BAD_ARG);
  CHECK(gex_MK_Create(&kind, client, &args, 0) != GASNET_OK);
  CHECK(gex_MK_QueryClass(GEX_MK_HOST) == GEX_MK_CLASS_HOST);
  CHECK(gex_MK_QueryClient(GEX_MK_HOST) == client && gex_MK_QueryFlags(GEX_MK_HOST) == 0);
  gex_MK_SetCData(GEX_MK_HOST, &word);
  CHECK(gex_MK_QueryCData(GEX_MK_HOST) == &word);
  if (kind != GEX_MK_INVALID) gex_MK_Destroy(kind, 0); /* it would be a kind of its own */
  CHECK(kind == GEX_MK_INVALID);
}

/* The barrier is in gasnetex.h itself, and what that header brings along is there. */
static void barriers(void) {
  static const gex_DT_t types[] = {0, GEX_DT_FLT, GEX_DT_U64 | GEX_DT_I32};
  char text[256];
  int i;
  for (i = 0; i < 3; ++i) {
    gex_Event_t first = gex_Coll_BarrierNB(tm, 0);
    gex_Event_Wait(first);
    gex_Coll_BarrierBlocking(tm, 0);
  }
  CHECK(INT_MAX > 0 && atol("12") == 12);
  for (i = 0; i < 3; ++i) {
    const size_t room = gasnett_format_dt(NULL, types[i]);
    CHECK(room <= sizeof text && gasnett_format_dt(text, types[i]) <= room && strlen(text) < room);
  }
  CHECK(strstr(text, "U64") != NULL && strstr(text, "I32") != NULL && strstr(text, "FLT") == NULL);
  CHECK(gasnett_format_op(text, GEX_OP_FADD) <= sizeof text && strstr(text, "FADD") != NULL);
  CHECK(gasnett_format_ti(text, GEX_TI_EP) <= sizeof text && strstr(text, "EP") != NULL);
  CHECK(gasnett_format_ti(text, GEX_TI_ALL) <= sizeof text && strstr(text, "IS_LONG") != NULL);
#if GASNET_NATIVE_NP_ALLOC_REQ_MEDIUM != 1
#error what is prepared without a buffer is written in place
#endif
}

static int ex_core_names(void) {
  versions();
  types();
  flags();
  join_job("core", GEX_FLAG_USES_GASNET1 | GEX_FLAG_DEFER_THREADS);
  clients();
  ranks();
  neighbours();
  system_calls();
  handlers();
  locks();
  kinds_of_memory();
  barriers();
  meet();
  segments();
  finish();
  return 1;
}
