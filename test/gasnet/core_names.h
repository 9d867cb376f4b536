/* The job: the calls that are allowed before gasnet_attach, handler indexes, segments, nodes,
 * versions, errors, locks, waiting, thread information. */
#include <string.h>

#include "job.h"

#include <gasnet_tools.h>

static void on_nothing(gasnet_token_t token) { (void)token; }
static void on_count(gasnet_token_t token) {
  (void)token;
  answers = answers + 1;
}

static void constants(void) {
  if_pf(GASNET_OK != 0) CHECK(0);
  if_pt(GASNET_OK == 0) CHECK(sizeof(int) == SIZEOF_INT);
  CHECK(strlen(_STRINGIFY(PLATFORM_COMPILER_FAMILYNAME)) > 2 &&
        strchr(PLATFORM_COMPILER_VERSION_STR, '.') != NULL);
  CHECK(GASNET_SPEC_VERSION_MAJOR == 1 && GASNET_SPEC_VERSION_MINOR == 8);
  CHECK(GASNET_VERSION == GASNET_SPEC_VERSION_MAJOR);
  CHECK(GASNET_RELEASE_VERSION_MAJOR == 2025 && GASNET_RELEASE_VERSION_MINOR == 8);
  CHECK(GASNET_RELEASE_VERSION_PATCH + 1 > 0);
  CHECK(strlen(GASNET_CONDUIT_NAME_STR) > 0 && strlen(_STRINGIFY(GASNET_CORE_NAME)) > 0);
  CHECK(_STRINGIFY(GASNET_CORE_VERSION)[0] >= '0' && _STRINGIFY(GASNET_CORE_VERSION)[0] <= '9');
#if GASNET_SEQ
  CHECK(strstr(GASNET_CONFIG_STRING, "THREADMODEL=SEQ") != NULL);
#elif GASNET_PARSYNC
  CHECK(strstr(GASNET_CONFIG_STRING, "THREADMODEL=PARSYNC") != NULL);
#elif GASNET_PAR
  CHECK(strstr(GASNET_CONFIG_STRING, "THREADMODEL=PAR,") != NULL);
#else
#error no thread mode
#endif
  CHECK(GASNET_PAGESIZE == GASNETT_PAGESIZE && GASNET_MAXNODES >= most_nodes);
  CHECK(GASNET_ALIGNED_SEGMENTS == 0 || GASNET_ALIGNED_SEGMENTS == 1);
  CHECK(sizeof(gasnet_register_value_t) == SIZEOF_GASNET_REGISTER_VALUE_T);
  CHECK(sizeof(gasnet_handlerarg_t) == 4 && (gasnet_handlerarg_t)-1 < 0);
  CHECK((gasnet_node_t)-1 > 0 && (gasnet_handler_t)255 == 255);
  CHECK(GASNET_OK == 0);
  CHECK(strcmp(gasnet_ErrorName(GASNET_OK), "GASNET_OK") == 0);
  CHECK(strcmp(gasnet_ErrorName(GASNET_ERR_NOT_READY), "GASNET_ERR_NOT_READY") == 0);
  CHECK(strcmp(gasnet_ErrorName(GASNET_ERR_BARRIER_MISMATCH), "GASNET_ERR_BARRIER_MISMATCH") == 0);
  CHECK(strlen(gasnet_ErrorDesc(GASNET_ERR_BAD_ARG)) > 0 && gasnet_ErrorDesc(4711) != NULL);
  CHECK(strlen(gasnet_ErrorDesc(GASNET_ERR_RESOURCE)) > 0);
  CHECK(strlen(gasnet_ErrorDesc(GASNET_ERR_NOT_INIT)) > 0);
  {
    gasnet_handle_t h;
    memset(&h, 0, sizeof h);
    CHECK(h == GASNET_INVALID_HANDLE);
  }
}

/* How many ranks share memory. */
static int supernode_size(void) {
  const char* const told = getenv("PENSTOCK_SUPERNODE_MAXSIZE");
  const char* const direct = getenv("PENSTOCK_DIRECT");
  if (direct != NULL && (strcmp(direct, "0") == 0 || strcmp(direct, "no") == 0)) return 1;
  return told != NULL ? atoi(told) : most_nodes;
}

static void before_attach(int* argc, char*** argv) {
  gasnet_nodeinfo_t nodes[most_nodes + 1];
  gasnet_node_t n;
  memset(nodes, 0x55, sizeof nodes);
  CHECK(gasnet_mynode() < gasnet_nodes() && gasnet_nodes() <= (gasnet_node_t)most_nodes);
#if GASNET_SEGMENT_EVERYTHING
  CHECK(gasnet_getMaxLocalSegmentSize() == (uintptr_t)-1);
  CHECK(gasnet_getMaxGlobalSegmentSize() == (uintptr_t)-1);
#else
  CHECK(gasnet_getMaxLocalSegmentSize() % GASNET_PAGESIZE == 0);
  CHECK(gasnet_getMaxGlobalSegmentSize() <= gasnet_getMaxLocalSegmentSize());
  CHECK(gasnet_getMaxGlobalSegmentSize() >= (uintptr_t)area_bytes);
#endif
  MUST(gasnet_getNodeInfo(nodes, (int)gasnet_nodes()));
  for (n = 0; n < gasnet_nodes(); ++n) /* all on this host */
    CHECK(nodes[n].host == 0 && nodes[n].supernode == n / (gasnet_node_t)supernode_size());
  CHECK(nodes[gasnet_nodes()].host == 0x55555555);
  CHECK(gasnet_getenv("PATH") != NULL && gasnet_getenv("PENSTOCK_TEST_ABSENT") == NULL);
  CHECK(gasnet_init(argc, argv) != GASNET_OK); /* once only */
}

static void segments(void) {
  gasnet_seginfo_t info[most_nodes];
  gasnet_node_t n;
  memset(info, 0, sizeof info);
  MUST(gasnet_getSegmentInfo(info, 1)); /* fewer than there are */
  CHECK(gasnet_nodes() == 1 || info[1].size == 0);
  MUST(gasnet_getSegmentInfo(info, most_nodes)); /* more than there are */
  for (n = 0; n < gasnet_nodes(); ++n) {
#if GASNET_SEGMENT_EVERYTHING
    CHECK(info[n].size == (uintptr_t)-1);
#else
    /* node n asked for n + 1 times the size */
    CHECK(info[n].size == (uintptr_t)area_bytes * (n + 1));
    CHECK((uintptr_t)info[n].addr % GASNET_PAGESIZE == 0 && info[n].addr != NULL);
#endif
  }
  CHECK(n == (gasnet_node_t)most_nodes || info[n].addr == NULL);
#if !GASNET_SEGMENT_EVERYTHING
  memset(info[gasnet_mynode()].addr, 1, info[gasnet_mynode()].size);
#endif
}

static gasnet_hsl_t a_lock = GASNET_HSL_INITIALIZER;
static void locks(void) {
  gasnet_hsl_t made;
  gasnet_hsl_init(&made);
  gasnet_hsl_lock(&made);
#if !GASNET_SEQ
  CHECK(gasnet_hsl_trylock(&a_lock) == GASNET_OK);
  CHECK(gasnet_hsl_trylock(&a_lock) == GASNET_ERR_NOT_READY);
  gasnet_hsl_unlock(&a_lock);
#endif
  gasnet_hsl_unlock(&made);
  CHECK(gasnet_hsl_trylock(&a_lock) == GASNET_OK);
  gasnet_hsl_unlock(&a_lock);
  gasnet_hsl_destroy(&made);
  gasnet_hold_interrupts();
  gasnet_resume_interrupts();
}

static int with_posted(gasnet_threadinfo_t info) {
  GASNET_POST_THREADINFO(info);
  return gasnet_AMPoll();
}
static int with_begun(void) {
  GASNET_BEGIN_FUNCTION();
  return gasnet_AMPoll();
}

static void waiting(int index) {
  const gasnet_node_t next = (gasnet_mynode() + 1) % gasnet_nodes();
  const int modes[3] = {GASNET_WAIT_SPIN, GASNET_WAIT_BLOCK, GASNET_WAIT_SPINBLOCK};
  int m;
  for (m = 0; m < 3; ++m) {
    CHECK(gasnet_set_waitmode(modes[m]) == GASNET_OK);
    answers = 0;
    meet();
    MUST(gasnet_AMRequestShort0(next, (gasnet_handler_t)index));
    GASNET_BLOCKUNTIL(answers == 1);
    meet();
  }
  CHECK(gasnet_set_waitmode(4711) == GASNET_ERR_BAD_ARG);
  CHECK(with_posted(GASNET_GET_THREADINFO()) == GASNET_OK && with_begun() == GASNET_OK);
}

static int core_names(int argc, char** argv) {
  gasnet_handlerentry_t table[5];
  uintptr_t size = area_bytes;
  const gasnet_handler_t fixed[5] = {0, 129, 0, 200, 0};
  int i;
  for (i = 0; i < 5; ++i) {
    table[i].index = fixed[i];
    table[i].fnptr = i == 3 ? HANDLER(&on_count) : HANDLER(&on_nothing);
  }
  constants();
  CHECK(gasnet_attach(NULL, 0, 0, 0) != GASNET_OK); /* not before gasnet_init */
  MUST(gasnet_init(&argc, &argv));
  before_attach(&argc, &argv);
  CHECK(gasnet_AMPoll() != GASNET_OK); /* not attached */
#if !GASNET_SEGMENT_EVERYTHING
  CHECK(gasnet_attach(table, 5, 1, 0) == GASNET_ERR_BAD_ARG); /* not whole pages */
  size *= gasnet_mynode() + 1;
#endif
  MUST(gasnet_attach(table, 5, size, 1 << 20));
  CHECK(gasnet_attach(table, 5, size, 0) != GASNET_OK); /* once only */
  for (i = 0; i < 5; ++i) {
    int k;
    CHECK(table[i].index >= 128 && (fixed[i] == 0 || table[i].index == fixed[i]));
    for (k = 0; k < i; ++k) CHECK(table[k].index != table[i].index);
  }
  segments();
  locks();
  waiting(table[3].index);
  finish();
  return 1;
}
