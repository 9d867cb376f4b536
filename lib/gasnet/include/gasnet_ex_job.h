/* Clients, endpoints, segments, teams, handlers, tokens, and what can be asked about the job: the
 * part of gasnetex.h that sets up. */
#ifndef _IN_PENSTOCK_GASNET_EX_JOB_H
#define _IN_PENSTOCK_GASNET_EX_JOB_H
#ifndef _GASNETEX_H
#error include gasnetex.h
#endif

GASNETT_BEGIN_EXTERNC

/* ---- what the library of this mode defines ---- */
/* The team of all processes, whose ranks are the job's. It is there from the start, though clients
 * learn of it by gex_Client_Init, and never moves. */
extern gex_TM_t const GASNETC_(world);
extern int GASNETC_(client_init)(gex_Client_t* client_p, gex_EP_t* ep_p, gex_TM_t* tm_p,
                                 const char* name, int* argc, char*** argv, gex_Flags_t flags,
                                 int how); /* GASNETC_EVERYTHING | GASNETC_CHECKED */
extern int GASNETC_(segment_attach)(gex_Segment_t* segment_p, gex_TM_t tm, uintptr_t size);
extern int GASNETC_(segment_create)(gex_Segment_t* segment_p, gex_Client_t client,
                                    gex_Addr_t address, uintptr_t length, gex_MK_t kind,
                                    gex_Flags_t flags);
extern void GASNETC_(segment_destroy)(gex_Segment_t segment, gex_Flags_t flags);
extern int GASNETC_(ep_create)(gex_EP_t* ep_p, gex_Client_t client, gex_EP_Capabilities_t caps,
                               gex_Flags_t flags, size_t most); /* GASNET_MAXEPS */
extern int GASNETC_(ep_bind)(gex_EP_t ep, gex_Segment_t segment, gex_Flags_t flags);
extern int GASNETC_(ep_publish)(gex_TM_t tm, gex_EP_t* eps, size_t count, gex_Flags_t flags);
extern int GASNETC_(bound_segment)(gex_TM_t tm, gex_Rank_t rank, void** owneraddr, void** localaddr,
                                   uintptr_t* size, gex_Flags_t flags);
extern int GASNETC_(register_handlers)(gex_EP_t ep, gex_AM_Entry_t* table, size_t count);
extern gex_TI_t GASNETC_(token_info)(gex_Token_t token, gex_Token_Info_t* info, gex_TI_t mask);

extern gex_Client_t GASNETC_(client_of_segment)(gex_Segment_t segment);
extern void* GASNETC_(segment_addr)(gex_Segment_t segment);
extern uintptr_t GASNETC_(segment_size)(gex_Segment_t segment);
extern const char* GASNETC_(client_name)(gex_Client_t client);
extern gex_Flags_t GASNETC_(client_flags)(gex_Client_t client);
extern gex_Client_t GASNETC_(client_of_ep)(gex_EP_t ep);
extern gex_EP_Index_t GASNETC_(ep_index)(gex_EP_t ep);
extern gex_Segment_t GASNETC_(segment_of_ep)(gex_EP_t ep);
extern gex_EP_t GASNETC_(ep_of_team)(gex_TM_t tm);
extern gex_EP_Index_t GASNETC_(ep_index_of_rank)(gex_TM_t tm, gex_Rank_t rank);
extern gex_Flags_t GASNETC_(ex_team_flags)(gex_TM_t tm);

/* Where the client's own word on each object lies (SetCData, QueryCData). */
extern const void** GASNETC_(client_data)(gex_Client_t client);
extern const void** GASNETC_(segment_data)(gex_Segment_t segment);
extern const void** GASNETC_(ep_data)(gex_EP_t ep);
extern const void** GASNETC_(ex_team_data)(gex_TM_t tm);

extern size_t GASNETC_(ex_team_split)(gex_TM_t* new_p, gex_TM_t parent, int color, int key,
                                      void* scratch_addr, size_t scratch_size, gex_Flags_t flags);
extern size_t GASNETC_(ex_team_create)(gex_TM_t* new_tms, size_t new_count, gex_TM_t parent,
                                       gex_EP_Location_t* members, size_t member_count,
                                       gex_Addr_t* scratch, size_t scratch_size, gex_Flags_t flags);
extern int GASNETC_(ex_team_destroy)(gex_TM_t tm, gex_Memvec_t* scratch_p, gex_Flags_t flags);
/* Also for pairs. Ends the job where there is no such rank, with a line that names the call. */
extern gex_Rank_t GASNETC_(jobrank)(gex_TM_t tm, gex_Rank_t rank, const char* call);
extern gex_Rank_t GASNETC_(rank_of_jobrank)(gex_TM_t tm, gex_Rank_t jobrank);
extern gex_Rank_t GASNETC_(ex_team_rank)(gex_TM_t tm);
extern gex_Rank_t GASNETC_(ex_team_size)(gex_TM_t tm);
extern gex_TM_t GASNETC_(ex_team_pair)(gex_EP_t local, gex_EP_Index_t remote_index);

extern void GASNETC_(nbrhd)(gex_RankInfo_t** info, gex_Rank_t* count, gex_Rank_t* my_index);
extern void GASNETC_(host)(gex_RankInfo_t** info, gex_Rank_t* count, gex_Rank_t* my_index);
extern void GASNETC_(position)(gex_Rank_t* nbrhds, gex_Rank_t* my_nbrhd, gex_Rank_t* hosts,
                               gex_Rank_t* my_host);
extern int GASNETC_(verbose_errors);
extern int GASNETC_(hidden_concurrency)(void);
extern int GASNETC_(progress_threads)(gex_Client_t client, unsigned int* count,
                                      const gex_ProgressThreadInfo_t** info, gex_Flags_t flags);

/* The rank in the job of a rank in a team. In the team of all a rank beyond it is returned as it
 * is: what is done with it then complains. */
GASNETC_INLINE gex_Rank_t gasnetc_jobrank(gex_TM_t tm, gex_Rank_t rank, const char* call) {
  return GASNETT_PREDICT_TRUE(tm == GASNETC_(world)) ? rank : GASNETC_(jobrank)(tm, rank, call);
}
/* The same, checked in every team. */
GASNETC_INLINE gex_Rank_t gasnetc_checked_jobrank(gex_TM_t tm, gex_Rank_t rank, const char* call) {
  return GASNETT_PREDICT_TRUE(tm == GASNETC_(world) && rank < GASNETC_(nodes))
             ? rank
             : GASNETC_(jobrank)(tm, rank, call);
}

/* ---- clients. gex_Client_Init is collective over the job and is called once; when it returns, all
 * processes have called it ---- */
/* Starts the library, or fails and leaves the outputs as they are: 0 or an error. The client lasts
 * as long as the process. argc and argv may be NULL. */
GASNETC_INLINE int gex_Client_Init(gex_Client_t* client_p, gex_EP_t* ep_p, gex_TM_t* tm_p,
                                   const char* name, int* argc, char*** argv, gex_Flags_t flags) {
  return GASNETC_(client_init)(client_p, ep_p, tm_p, name, argc, argv, flags,
                               GASNETC_EVERYTHING | GASNETC_CHECKED);
}
/* The flags of gex_Client_Init. Any thread. */
GASNETC_INLINE gex_Flags_t gex_Client_QueryFlags(gex_Client_t client) {
  return GASNETC_(client_flags)(client);
}
/* The client's name, which lasts as long as the client. Any thread. */
GASNETC_INLINE const char* gex_Client_QueryName(gex_Client_t client) {
  return GASNETC_(client_name)(client);
}
/* Keeps a word of the client's own with the object; two threads that set it at a time are the
 * client's to order. All SetCData and QueryCData below are like this pair. */
GASNETC_INLINE void gex_Client_SetCData(gex_Client_t client, const void* val) {
  *GASNETC_(client_data)(client) = val;
}
/* The word that was set last; NULL before. */
GASNETC_INLINE void* gex_Client_QueryCData(gex_Client_t client) {
  return (void*)*GASNETC_(client_data)(client);
}

/* ---- segments ---- */
/* Makes this process's segment, whose size may differ from others'. It is collective over all
 * processes and is called once. */
GASNETC_INLINE int gex_Segment_Attach(gex_Segment_t* segment_p, gex_TM_t tm, uintptr_t size) {
  return GASNETC_(segment_attach)(segment_p, tm, size);
}
/* Makes a segment of the library's memory (address NULL), or of the client's own where it lies. Not
 * collective. Nobody writes to that memory while it is created or destroyed (README.md). */
GASNETC_INLINE int gex_Segment_Create(gex_Segment_t* segment_p, gex_Client_t client,
                                      gex_Addr_t address, uintptr_t length, gex_MK_t kind,
                                      gex_Flags_t flags) {
  return GASNETC_(segment_create)(segment_p, client, address, length, kind, flags);
}
/* Gives the memory of a segment that gex_Segment_Create has made back, to the library or to the
 * client. No operation may be under way on it. Ends the job, with a line, for any other segment. */
GASNETC_INLINE void gex_Segment_Destroy(gex_Segment_t segment, gex_Flags_t flags) {
  GASNETC_(segment_destroy)(segment, flags);
}
/* Where the segment begins in this process. Any thread, as all queries of segments. */
GASNETC_INLINE void* gex_Segment_QueryAddr(gex_Segment_t segment) {
  return GASNETC_(segment_addr)(segment);
}
/* The segment's bytes. */
GASNETC_INLINE uintptr_t gex_Segment_QuerySize(gex_Segment_t segment) {
  return GASNETC_(segment_size)(segment);
}
/* The client for which it was made. */
GASNETC_INLINE gex_Client_t gex_Segment_QueryClient(gex_Segment_t segment) {
  return GASNETC_(client_of_segment)(segment);
}
/* No flag is kept: always 0. */
GASNETC_INLINE gex_Flags_t gex_Segment_QueryFlags(gex_Segment_t segment) {
  (void)segment;
  return 0;
}
/* As gex_Client_SetCData. */
GASNETC_INLINE void gex_Segment_SetCData(gex_Segment_t segment, const void* val) {
  *GASNETC_(segment_data)(segment) = val;
}
/* As gex_Client_QueryCData. */
GASNETC_INLINE void* gex_Segment_QueryCData(gex_Segment_t segment) {
  return (void*)*GASNETC_(segment_data)(segment);
}
/* As gex_EP_QueryBoundSegmentNB without flags, but it says what failed: 0 or an error. */
GASNETC_INLINE int gex_Segment_QueryBound(gex_TM_t tm, gex_Rank_t rank, void** owneraddr,
                                          void** localaddr, uintptr_t* size) {
  return GASNETC_(bound_segment)(tm, rank, owneraddr, localaddr, size, 0);
}

/* ---- endpoints ---- */
/* Makes a further endpoint with the next free index; any thread, several at once.
 * GASNET_ERR_RESOURCE: there are as many as GASNET_MAXEPS, or as may have messages;
 * GASNET_ERR_BAD_ARG: capabilities or flags are not known. */
GASNETC_INLINE int gex_EP_Create(gex_EP_t* ep_p, gex_Client_t client,
                                 gex_EP_Capabilities_t capabilities, gex_Flags_t flags) {
  return GASNETC_(ep_create)(ep_p, client, capabilities, flags, GASNET_MAXEPS);
}
/* Gives an endpoint its segment, once, before it is published. GASNET_ERR_BAD_ARG: it has one, or
 * had one that was destroyed. */
GASNETC_INLINE int gex_EP_BindSegment(gex_EP_t ep, gex_Segment_t segment, gex_Flags_t flags) {
  return GASNETC_(ep_bind)(ep, segment, flags);
}
/* Tells all members of tm the segments of these endpoints. Collective over tm, which waits; the
 * numbers may differ, and 0 is allowed. GASNET_ERR_BAD_ARG at all members where one has passed what
 * is no endpoint. */
GASNETC_INLINE int gex_EP_PublishBoundSegment(gex_TM_t tm, gex_EP_t* eps, size_t count,
                                              gex_Flags_t flags) {
  return GASNETC_(ep_publish)(tm, eps, count, flags);
}
/* Its segment, or GEX_SEGMENT_INVALID. Any thread, as all queries of endpoints. */
GASNETC_INLINE gex_Segment_t gex_EP_QuerySegment(gex_EP_t ep) {
  return GASNETC_(segment_of_ep)(ep);
}
/* Its index in this process, from 0. */
GASNETC_INLINE gex_EP_Index_t gex_EP_QueryIndex(gex_EP_t ep) { return GASNETC_(ep_index)(ep); }
/* The client for which it was made. */
GASNETC_INLINE gex_Client_t gex_EP_QueryClient(gex_EP_t ep) { return GASNETC_(client_of_ep)(ep); }
/* No flag is kept: always 0. */
GASNETC_INLINE gex_Flags_t gex_EP_QueryFlags(gex_EP_t ep) {
  (void)ep;
  return 0;
}
/* As gex_Client_SetCData. */
GASNETC_INLINE void gex_EP_SetCData(gex_EP_t ep, const void* val) { *GASNETC_(ep_data)(ep) = val; }
/* As gex_Client_QueryCData. */
GASNETC_INLINE void* gex_EP_QueryCData(gex_EP_t ep) { return (void*)*GASNETC_(ep_data)(ep); }
/* Answers from a table, so that it is complete on return. With GEX_FLAG_IMMEDIATE it returns
 * GEX_EVENT_NO_OP where localaddr needs a connection that has not been made. */
GASNETC_INLINE gex_Event_t gex_EP_QueryBoundSegmentNB(gex_TM_t tm, gex_Rank_t rank,
                                                      void** owneraddr, void** localaddr,
                                                      uintptr_t* size, gex_Flags_t flags) {
  const int rc = GASNETC_(bound_segment)(tm, rank, owneraddr, localaddr, size, flags);
  if (rc == 0) return GEX_EVENT_INVALID;
  if (rc == GASNET_ERR_NOT_READY) return GEX_EVENT_NO_OP;
  if (size != NULL) *size = 0;
  return GEX_EVENT_INVALID;
}
/* Registers handlers in this process only: the client sees to it that nobody sends to a handler
 * before the target has registered it. */
GASNETC_INLINE int gex_EP_RegisterHandlers(gex_EP_t ep, gex_AM_Entry_t* table, size_t count) {
  return GASNETC_(register_handlers)(ep, table, count);
}
/* What is known of the message whose handler runs, as far as mask asks; returns what was filled in.
 * On the handler's thread, until it returns. It does not communicate. */
GASNETC_INLINE gex_TI_t gex_Token_Info(gex_Token_t token, gex_Token_Info_t* info, gex_TI_t mask) {
  return GASNETC_(token_info)(token, info, mask);
}

/* ---- teams ---- */
/* This process's rank in tm, from 0. Any thread, as all queries of teams; tm is no pair. */
GASNETC_INLINE gex_Rank_t gex_TM_QueryRank(gex_TM_t tm) { return GASNETC_(ex_team_rank)(tm); }
/* The number of tm's members. */
GASNETC_INLINE gex_Rank_t gex_TM_QuerySize(gex_TM_t tm) { return GASNETC_(ex_team_size)(tm); }
/* This process's endpoint in tm. */
GASNETC_INLINE gex_EP_t gex_TM_QueryEP(gex_TM_t tm) { return GASNETC_(ep_of_team)(tm); }
/* The client for which it was made. */
GASNETC_INLINE gex_Client_t gex_TM_QueryClient(gex_TM_t tm) {
  return GASNETC_(client_of_ep)(GASNETC_(ep_of_team)(tm));
}
/* The flags with which tm was made. */
GASNETC_INLINE gex_Flags_t gex_TM_QueryFlags(gex_TM_t tm) { return GASNETC_(ex_team_flags)(tm); }
/* As gex_Client_SetCData. */
GASNETC_INLINE void gex_TM_SetCData(gex_TM_t tm, const void* val) {
  *GASNETC_(ex_team_data)(tm) = val;
}
/* As gex_Client_QueryCData. */
GASNETC_INLINE void* gex_TM_QueryCData(gex_TM_t tm) { return (void*)*GASNETC_(ex_team_data)(tm); }
/* The rank in the job of a rank in tm. Ends the job, with a line, where there is no such rank. */
GASNETC_INLINE gex_Rank_t gex_TM_TranslateRankToJobrank(gex_TM_t tm, gex_Rank_t rank) {
  return gasnetc_checked_jobrank(tm, rank, "gex_TM_TranslateRankToJobrank");
}
/* The rank in tm of a rank in the job, or GEX_RANK_INVALID. It looks through the members. */
GASNETC_INLINE gex_Rank_t gex_TM_TranslateJobrankToRank(gex_TM_t tm, gex_Rank_t jobrank) {
  return GASNETC_(rank_of_jobrank)(tm, jobrank);
}
/* The rank in the job, and the index of the endpoint, of a rank in tm. Flags are 0. */
GASNETC_INLINE gex_EP_Location_t gex_TM_TranslateRankToEP(gex_TM_t tm, gex_Rank_t rank,
                                                          gex_Flags_t flags) {
  gex_EP_Location_t at;
  (void)flags;
  at.gex_rank = gasnetc_checked_jobrank(tm, rank, "gex_TM_TranslateRankToEP");
  at.gex_ep_index =
      tm == GASNETC_(world) ? (gex_EP_Index_t)0 : GASNETC_(ep_index_of_rank)(tm, rank);
  return at;
}
/* A team of two endpoints for one operation, without any cost or memory: local, and that of
 * remote_index of the rank that the operation names, which is a rank in the job. */
GASNETC_INLINE gex_TM_t gex_TM_Pair(gex_EP_t local, gex_EP_Index_t remote_index) {
  return GASNETC_(ex_team_pair)(local, remote_index);
}
/* Makes a team of the members of parent with the same color (0 and more), ordered by key, and
 * returns 0; new_p is NULL where this process joins none. Collective over parent. With a flag that
 * asks for the size of scratch memory it only returns these bytes. */
GASNETC_INLINE size_t gex_TM_Split(gex_TM_t* new_p, gex_TM_t parent, int color, int key,
                                   void* scratch_addr, size_t scratch_size, gex_Flags_t flags) {
  return GASNETC_(ex_team_split)(new_p, parent, color, key, scratch_addr, scratch_size, flags);
}
/* Makes a team of the listed members, the same list at each of them, and returns 0; all members of
 * parent call it, those that join none without members. Asking for the size of scratch memory is as
 * in gex_TM_Split. A wrong list ends the job with a line. */
GASNETC_INLINE size_t gex_TM_Create(gex_TM_t* new_tms, size_t new_count, gex_TM_t parent,
                                    gex_EP_Location_t* members, size_t member_count,
                                    gex_Addr_t* scratch, size_t scratch_size, gex_Flags_t flags) {
  return GASNETC_(ex_team_create)(new_tms, new_count, parent, members, member_count, scratch,
                                  scratch_size, flags);
}
/* Ends a team. Collective over it, after its operations. Returns 1 and fills in *scratch_p where
 * the client gets scratch memory back, else 0. */
GASNETC_INLINE int gex_TM_Destroy(gex_TM_t tm, gex_Memvec_t* scratch_p, gex_Flags_t flags) {
  return GASNETC_(ex_team_destroy)(tm, scratch_p, flags);
}

/* ---- the job. Where a pointer is NULL that answer is not wanted; the library owns the tables ----
 */
#define gex_System_QueryJobRank() ((gex_Rank_t)GASNETC_(mynode))
#define gex_System_QueryJobSize() ((gex_Rank_t)GASNETC_(nodes))
/* The ranks whose memory may be mapped here, how many they are, and which is this one. Any thread.
 */
GASNETC_INLINE void gex_System_QueryNbrhdInfo(gex_RankInfo_t** info, gex_Rank_t* count,
                                              gex_Rank_t* my_index) {
  GASNETC_(nbrhd)(info, count, my_index);
}
/* The same for the ranks on this host. */
GASNETC_INLINE void gex_System_QueryHostInfo(gex_RankInfo_t** info, gex_Rank_t* count,
                                             gex_Rank_t* my_index) {
  GASNETC_(host)(info, count, my_index);
}
/* How many neighbourhoods and hosts the job has, and the numbers of this process's. Any thread. */
GASNETC_INLINE void gex_System_QueryMyPosition(gex_Rank_t* nbrhds, gex_Rank_t* my_nbrhd,
                                               gex_Rank_t* hosts, gex_Rank_t* my_host) {
  GASNETC_(position)(nbrhds, my_nbrhd, hosts, my_host);
}
#define gex_System_GetVerboseErrors() (GASNETC_(verbose_errors))
#define gex_System_SetVerboseErrors(enable) ((void)(GASNETC_(verbose_errors) = !!(enable)))
#define gex_System_QueryMaxThreads() ((uint64_t)GASNETI_MAX_THREADS)
#define gex_System_QueryHiddenAMConcurrencyLevel() GASNETC_(hidden_concurrency)()
/* The library's threads that a client may place: their number and a table. 0 or an error. */
GASNETC_INLINE int gex_System_QueryProgressThreads(gex_Client_t client, unsigned int* count,
                                                   const gex_ProgressThreadInfo_t** info,
                                                   gex_Flags_t flags) {
  return GASNETC_(progress_threads)(client, count, info, flags);
}

GASNETT_END_EXTERNC

#endif
