// The settings of other conduits that have no meaning here, and what replaces them.
#include "lib/base/settings_table.hpp"

namespace penstock {
namespace {

constexpr auto at_once =
    "connections are made on demand; PENSTOCK_CONNECT_STATIC makes all at start";
constexpr auto no_search = "collectives choose by size: PENSTOCK_COLL_SMALL, PENSTOCK_COLL_LARGE";
constexpr auto pieces = "PENSTOCK_VIS_PACK_LIMIT";
constexpr auto one_way =
    "messages of processes of a host go through rings, all others by queue pairs";

const setting_not_applicable gone[] = {
    {"GASNET_PORTAL_ACCEL", "the device does the work always; see PENSTOCK_DIRECT for shm0"},
    {"GASNET_GNI_AM_RVOUS_CUTOVER",
     "a Medium short of credits goes by rendezvous in a job of any size: "
     "PENSTOCK_MAX_CRED_PER_NODE"},
    {"GASNET_GNI_AM_RVOUS_BUFFERS", "the number of buffers of large Mediums is fixed; no setting"},
    {"GASNET_NETWORKDEPTH_SPACE", "PENSTOCK_MAX_CRED_PER_NODE, 256 bytes a credit"},
    {"GASNET_GNI_GET_FMA_RDMA_CUTOVER", "verbs reads have one engine; no setting"},
    {"GASNET_GNI_BOUNCE_SIZE", "bounce buffers are send chunks: PENSTOCK_SB_CHUNKS"},
    {"GASNET_GNI_FMA_SHARING", "threads have queues of their own: PENSTOCK_DOMAIN_COUNT"},
    {"GASNET_GNI_MDD_SHARING", "verbs memory keys need no sharing; no setting"},
    {"GASNET_GNI_BTE_MULTI_CHANNEL", "the device schedules its engines; no setting"},
    {"GASNET_USE_CE", "PENSTOCK_BARRIER"},
    // GASNet-EX's conduit on verbs
    {"GASNET_IBV_SPAWNER", "penrun, srun, mpirun and prterun start programs as they are"},
    {"GASNET_IBV_PORTS_TYPE", "PENSTOCK_DEVICE=auto takes a device near the process's processors"},
    {"GASNET_IBV_PORTS_VERBOSE", "PENSTOCK_LOG=info says which port was taken and why"},
    {"GASNET_IBV_LIST_PORTS", "peninfo lists devices and ports"},
    {"GASNET_NUM_QPS",
     "one port for each process, and the queue pairs to a peer that its messages need"},
    {"GASNET_CONNECT_DYNAMIC", at_once},
    {"GASNET_CONNECTFILE_BASE", "PENSTOCK_CONNECTFILE_OUT writes base 10, and any base is read"},
    {"GASNET_CONNECT_SNDS", at_once},
    {"GASNET_CONNECT_RCVS", at_once},
    {"GASNET_CONNECT_RETRANS_MIN",
     "a hello is sent again until it is answered; PENSTOCK_CONNECT_TIMEOUT warns"},
    {"GASNET_CONNECT_RETRANS_MAX",
     "a hello is sent again until it is answered; PENSTOCK_CONNECT_TIMEOUT warns"},
    {"GASNET_RCV_THREAD_RATE", "PENSTOCK_PROGRESS_INTERVAL, the time between two wakes"},
    {"GASNET_RCV_THREAD_POLL_MODE", "PENSTOCK_PROGRESS_THREAD"},
    {"GASNET_RCV_THREAD_IDLE", "PENSTOCK_PROGRESS_THREAD"},
    {"GASNET_SND_THREAD", "PENSTOCK_PROGRESS_THREAD, for requests and replies"},
    {"GASNET_SND_THREAD_POLL_MODE", "PENSTOCK_PROGRESS_THREAD"},
    {"GASNET_PHYSMEM_NOPROBE", "PENSTOCK_PHYSMEM_PROBE=no, which is the default"},
    {"GASNET_PHYSMEM_WARN", "a segment that cannot be pinned is refused by a line with the limit"},
    {"GASNET_PIN_MAXSZ",
     "a segment is one region; PENSTOCK_FIREHOSE_MAXREGION_SIZE for other memory"},
    {"GASNET_PACKEDLONG_LIMIT", "PENSTOCK_PACKED_LONG_CUTOVER, which counts the header, too"},
    {"GASNET_PUTINMOVE_LIMIT", "a put that has no key yet asks for one; no setting"},
    {"GASNET_USE_SRQ", "requests arrive in shared receive queues always: PENSTOCK_AMRECV_SPACE"},
    {"GASNET_USE_XRC", "PENSTOCK_MAX_CONNECTIONS bounds the queue pairs"},
    {"GASNET_USE_ODP", "memory outside the segment is registered by PENSTOCK_USE_FIREHOSE"},
    {"GASNET_ODP_VERBOSE", "memory outside the segment is registered by PENSTOCK_USE_FIREHOSE"},
    {"GASNET_USE_FENCED_PUTS", "PENSTOCK_MEM_CONSISTENCY"},
    {"GASNET_AM_GATHER_MIN", "a Medium's payload is copied once; no setting"},
    {"GASNET_AMRDMA_LIMIT", one_way},
    {"GASNET_AMRDMA_DEPTH", one_way},
    {"GASNET_AMRDMA_MAX_PEERS", one_way},
    {"GASNET_AMRDMA_CYCLE", one_way},
    // what all of GASNet-EX's conduits share
    {"GASNET_THREAD_STACK_PAD", "PENSTOCK_THREAD_STACK, the whole size"},
    {"GASNET_USE_PSHM_SINGLETON", "PENSTOCK_SUPERNODE_MAXSIZE"},
    {"GASNET_PSHM_BARRIER_RADIX", "PENSTOCK_BARRIER"},
    {"GASNET_PSHM_NETWORK_DEPTH", "PENSTOCK_MAX_CRED_PER_NODE: a ring is as long as its loan"},
    {"GASNET_PSHM_NODES", "penrun -n"},
    {"GASNET_NODEMAP_EXACT", "the launcher says which ranks share a host"},
    {"GASNET_SPAWN_VERBOSE", "PENSTOCK_LOG=debug"},
    {"GASNET_TMPDIR", "no files are made but those that are asked for"},
    {"GASNET_FS_SYNC", "files are left to the system at exit"},
    {"GASNET_CATCH_EXIT", "exit() ends the job in good order always"},
    {"GASNET_NO_CATCH_SIGNAL",
     "a program's own handlers of signals, and signals it ignores, are left alone"},
    {"GASNET_DISABLE_MUNMAP", "the cache of registrations notices unmapped memory"},
    {"GASNET_DISABLE_ENVDECODE", "values are passed on as they are"},
    {"GASNET_TRACEFLUSH", "PENSTOCK_TRACE; its file is whole when the process has ended"},
    {"GASNET_TRACELOCAL", "PENSTOCK_TRACE_MASK"},
    {"GASNET_HWLOC_QUERY", "PENSTOCK_DEVICE=auto looks at the processors of the process"},
    {"GASNET_BACKTRACE_MT", "GASNET_BACKTRACE_TYPE chooses the tool, which decides"},
    {"GASNET_VIS_AMPIPE", pieces},
    {"GASNET_VIS_MAXCHUNK", pieces},
    {"GASNET_VIS_PUT_MAXCHUNK", pieces},
    {"GASNET_VIS_GET_MAXCHUNK", pieces},
    {"GASNET_VIS_REMOTECONTIG", pieces},
    {"GASNET_COLL_SCRATCH_SIZE", "collectives take memory as they need it"},
    {"GASNET_COLL_ENABLE_SEARCH", no_search},
    {"GASNET_COLL_TUNING_FILE", no_search},
    {"GASNET_SD_INIT", "buffers of Prepare calls are not filled"},
    {"GASNET_SD_INITVAL", "buffers of Prepare calls are not filled"},
    {"GASNET_SD_INITLEN", "buffers of Prepare calls are not filled"},
    {"PMIRUN_CMD",
     "srun, mpirun or prterun start programs as they are; penrun --host, PENSTOCK_RSH"},
};

// Read by gasnet_tools.h's calls or meant for other programs; nothing is said about these.
const char* const elsewhere[] = {"GASNET_BACKTRACE",
                                 "GASNET_BACKTRACE_NODES",
                                 "GASNET_BACKTRACE_SIGNAL",
                                 "GASNET_BACKTRACE_TYPE",
                                 "GASNET_FREEZE",
                                 "GASNET_FREEZE_ON_ERROR",
                                 "GASNET_FREEZE_SIGNAL",
                                 "GASNET_VERBOSEENV",
                                 "GASNET_TEST_POLITE_SYNC",
                                 "GASNET_CONDUIT",
                                 "GASNET_ROOT",
                                 "GASNET_DIR",
                                 "GASNET_INSTALL",
                                 "GASNET_PREFIX"};

}  // namespace

std::span<const setting_not_applicable> settings_not_applicable() noexcept { return gone; }
std::span<const char* const> settings_read_elsewhere() noexcept { return elsewhere; }

}  // namespace penstock
