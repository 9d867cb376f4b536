// One row per setting. Defaults are the members' initializers in settings.hpp.
#include "lib/base/settings_table.hpp"

namespace penstock {
namespace {

using s = settings;
using u = setting_unit;

constexpr double kib = 1024, mib = 1024 * kib, gib = 1024 * mib, tib = 1024 * gib;
constexpr double ms = 1e6, sec = 1e9, hour = 3600 * sec;

// Chunks have numbers of 16 bits, of which 0xffff is none; the progress thread has one of its own.
constexpr double most_chunks = 0xfffe;

const setting_row rows[] = {
    // device
    {"DEVICE", "GASNET_HCA_ID", &s::device, 0, 0, u::none,
     "Device to use for ranks that do not share memory (SUPERNODE_MAXSIZE, DIRECT); a job in which "
     "all do uses shm0. It is auto, shm0 (shared memory, this host only), or a verbs device by its "
     "name, the name of its network interface or its PCI address; NAME:PORT names the port too. "
     "auto takes a verbs device with an active port, of several the first that is near this "
     "process's processors, else shm0."},
    {"PORT", "GASNET_PORT_NUM", &s::port, 0, 255, u::none,
     "Port of the device, counted from 1; 0 takes the lowest active one."},
    {"GID_INDEX", "", &s::gid_index, -1, 1023, u::none,
     "Row of the port's GID table; -1 takes the best (RoCE v2 before v1, IPv4-mapped first)."},
    {"MTU", "", &s::mtu, 0, 4096, u::bytes,
     "Path MTU: 256, 512, 1024, 2048 or 4096; 0 takes the port's active one."},
    {"SERVICE_LEVEL", "", &s::service_level, 0, 15, u::none,
     "Service level of all paths: InfiniBand's, or the frame priority on RoCE."},
    {"TRAFFIC_CLASS", "", &s::traffic_class, 0, 255, u::none,
     "Traffic class of all paths that have a global header (RoCE has): DSCP times 4."},
    {"HOP_LIMIT", "", &s::hop_limit, 1, 255, u::none,
     "Routers that a message may pass, where it has a global header; of RoCE the kernel takes the "
     "route's."},
    {"FLOW_LABEL", "", &s::flow_label, 0, 0xfffff, u::none,
     "Flow label of all paths that have a global header; 0 leaves it to the device."},
    {"FLOW_SPREAD", "", &s::flow_spread, 0, 0, u::none,
     "Gives each connection a flow label of its own, from which RoCE v2 takes the UDP source port, "
     "so that routers spread connections over equal paths."},
    {"PKEY", "", &s::pkey, 0, 0xffff, u::none,
     "Partition key, as in 0x8001, which the port's table must have; 0 takes the table's first."},
    {"RETRY_COUNT", "", &s::retry_count, 0, 7, u::none,
     "Retransmissions before a peer counts as dead. 7 never gives up on some devices."},
    {"QP_TIMEOUT", "GASNET_QP_TIMEOUT", &s::qp_timeout, 1, 31, u::none,
     "Acknowledgement timeout as 4.096 us * 2^N: 14 is 67 ms."},
    {"RNR_RETRY", "", &s::rnr_retry, 0, 7, u::none,
     "Retries when a receiver has no buffer; 7 is for ever. Credits make this rare."},
    {"RNR_TIMER", "", &s::rnr_timer, 0, 31, u::none,
     "Verbs code of the wait between such retries; 1 is 10 us."},
    {"MAX_CQE", "", &s::max_cqe, 0, 1 << 30, u::none,
     "Most entries of a completion queue, where the device allows more; 0 is the device's limit."},
    {"INLINE_LIMIT", "GASNET_GNI_PUT_FMA_RDMA_CUTOVER", &s::inline_limit, 0, 16384, u::bytes,
     "Largest payload the processor writes into the send queue itself; the device's limit caps "
     "it."},
    {"DIRECT", "", &s::direct, 0, 0, u::none,
     "Ranks that share memory send messages through rings there, and copy to and from each other's "
     "segments; no takes the device and its verbs calls for them, too."},
    {"SUPERNODE_MAXSIZE", "GASNET_SUPERNODE_MAXSIZE", &s::supernode_size, 0, 1 << 24, u::none,
     "Most processes of a host that share memory with each other. A host's further ones form "
     "groups of their own, and groups speak through the device as hosts do; 0 is one group a "
     "host."},
    {"ANY_PTRACER", "", &s::any_ptracer, 0, 0, u::none,
     "Lets all processes of this user read and write this one's memory, as debuggers do "
     "(PR_SET_PTRACER_ANY), where the kernel's ptrace_scope 1 allows it to parents only; shm0 "
     "copies through it what is not mapped. no leaves the kernel's rule as it is, and such copies "
     "go in pieces through messages or the other process's thread."},
    {"MEM_CONSISTENCY", "GASNET_GNI_MEM_CONSISTENCY", &s::mem_consistency, 0, 0, u::none,
     "PCIe ordering of registered memory. relaxed can be faster, but a program that polls memory "
     "written by puts may then see later bytes first; strict and none keep the device's default."},
    {"SHM_PERSONALITY", "", &s::shm_personality, 0, 0, u::none,
     "Limits and manners of another adapter that shm0 pretends to have, for tests: names such as "
     "small, no_inline, no_srq, one_sge, overrun, rxe, entries_16383, and limits such as cqe=32, "
     "separated by commas."},
    {"SHM_FAULT", "", &s::shm_fault, 0, 0, u::none,
     "What is to go wrong on shm0, for tests of verbs programs: words such as "
     "send=100:RETRY_EXC_ERR, "
     "reg_mr=3:ENOMEM, gone=2s, port_down=1s:200ms, lost=5%, any_order, delay=1us, rate=100Gbit, "
     "separated by commas. Messages through rings (DIRECT) do not meet them."},

    // buffers and queues
    {"SB_CHUNKS", "GASNET_PORTAL_SB_CHUNKS", &s::sb_chunks, 8, most_chunks, u::none,
     "Request send chunks; one is held from a request to its reply. Also bounce buffers."},
    {"RPL_CHUNKS", "GASNET_PORTAL_RPL_CHUNKS", &s::rpl_chunks, 8, most_chunks, u::none,
     "Reply send chunks; one is held until the reply has left."},
    {"AMRECV_SPACE", "GASNET_PORTAL_AMRECV_SPACE", &s::amrecv_space, 0, tib, u::bytes,
     "Receive space for requests, 256 bytes a credit; 0 takes it from the table by job size."},
    {"AM_SPARES", "GASNET_AM_SPARES", &s::am_spares, 0, 65536, u::none,
     "Threads that may handle requests at a time, each with spare buffers; 0 is 2, in PAR 4."},
    {"SAFE_LIMIT", "GASNET_PORTAL_SAFE_LIMIT", &s::safe_limit, 0, 65536, u::none,
     "Most SAFE events (replies, completions) a poll handles; 0 is all."},
    {"AM_LIMIT", "GASNET_PORTAL_AM_LIMIT GASNET_GNI_AMPOLL_BURST", &s::am_limit, 0, 65536, u::none,
     "Most requests a poll handles; 0 is all."},
    {"SYS_LIMIT", "GASNET_PORTAL_SYS_LIMIT", &s::sys_limit, 0, 65536, u::none,
     "Most SYS events (datagrams that make connections) handled at a stretch; 0 is all."},
    {"MSG_LIMIT", "GASNET_OP_OUST_LIMIT GASNET_PORTAL_MSG_LIMIT GASNET_GNI_NUM_PD", &s::msg_limit,
     32, most_chunks, u::none,
     "Messages in flight from this process to all others, requests, replies and transfers each; on "
     "shm0's direct path a message is there when it is sent."},
    {"OP_OUST_PP", "GASNET_OP_OUST_PP", &s::op_oust_pp, 4, 32768, u::none,
     "Messages in flight to one peer: the depth of its send queue."},
    {"AM_OUST_PP", "GASNET_AM_OUST_PP GASNET_NETWORKDEPTH", &s::am_oust_pp, 0, 32768, u::none,
     "Requests in flight to one peer, by lending no more credits (a full message's at least); 0 "
     "leaves it to MAX_CRED_PER_NODE."},
    {"AM_OUST_LIMIT", "GASNET_AM_OUST_LIMIT GASNET_NETWORKDEPTH_TOTAL", &s::am_oust_limit, 0,
     most_chunks, u::none,
     "Requests in flight from this process to all others; 0 is MSG_LIMIT. Not 0 takes the verbs "
     "path "
     "on shm0 too."},
    {"PACKED_LONG", "GASNET_PORTAL_PACKED_LONG", &s::packed_long, 0, 0, u::none,
     "Short Longs travel with their payload in one message."},
    {"PACKED_LONG_CUTOVER", "GASNET_GNI_PACKEDLONG_CUTOVER", &s::packed_long_cutover, 0, 65536,
     u::bytes, "Header and payload of the largest packed Long; larger than a chunk means a chunk."},
    {"LONG_DEPTH", "GASNET_LONG_DEPTH", &s::long_depth, 0, 64, u::none,
     "Unpacked Long requests in flight to one peer; 0 is no limit."},

    // credits
    {"FLOW_CONTROL", "GASNET_PORTAL_FLOW_CONTROL", &s::flow_control, 0, 0, u::none,
     "Credits for requests. Without, a receiver that is too slow makes senders retry."},
    {"DYNAMIC_CREDITS", "GASNET_PORTAL_DYNAMIC_CREDITS", &s::dynamic_credits, 0, 0, u::none,
     "Credits move to the peers that send; no keeps the loans made at start."},
    {"MAX_CRED_PER_NODE", "GASNET_PORTAL_MAX_CRED_PER_NODE", &s::max_cred_per_node, 4, 65535,
     u::none, "Most credits lent to one peer."},
    {"CRED_PER_NODE", "GASNET_PORTAL_CRED_PER_NODE", &s::cred_per_node, 0, 65535, u::none,
     "Credits lent to each peer at start (at least 4); 0 takes it from the table by job size."},
    {"BANKED_CREDITS", "GASNET_PORTAL_BANKED_CREDITS", &s::banked_credits, 0, 1 << 24, u::none,
     "Credits kept in the bank at start; 0 takes it from the table by job size."},
    {"LENDER_LIMIT", "", &s::lender_limit, 1, 65535, u::none,
     "Most credits lent to one peer within an epoch."},
    {"REVOKE_LIMIT", "", &s::revoke_limit, 1, 65535, u::none,
     "Most credits given back to one lender within an epoch."},
    {"NUM_SCAVENGE", "", &s::num_scavenge, 1, 65535, u::none,
     "Peers asked to give credits back when the bank runs low."},
    {"EPOCH_DURATION", "GASNET_PORTAL_EPOCH_DURATION", &s::epoch_duration, 1, 1 << 30, u::none,
     "Requests received in an epoch, at whose end the credit statistics decay."},
    {"DECAY_LAST_CURR", "", &s::decay_last_curr, 0, 0, u::none,
     "Credit statistics keep an epoch's last and current value apart when they decay; no divides "
     "one value by four."},
    {"LENDER_COUNTS_REVOKED", "", &s::lender_counts_revoked, 0, 0, u::none,
     "The lender counts what a peer gave back in an epoch and does not ask beyond REVOKE_LIMIT; no "
     "leaves the count, and the answer 0, to the peer."},
    {"CREDIT_STATS", "GASNET_PORTAL_CREDIT_STATS", &s::credit_stats, 0, 0, u::none,
     "Writes credit statistics: 0 no, 1 to penstock_credits.RANK, else to that path with .RANK."},

    {"COUNTERS", "", &s::counters, 0, 0, u::none,
     "File to which each process writes what it has counted, at the end and on SIGUSR2: 0 writes "
     "none, 1 penstock_counters.RANK, - to stderr; in a path % stands for the rank, which else "
     "follows behind a dot. A name that ends in .prom gets Prometheus's format, any other JSON."},
    {"COUNTERS_INTERVAL", "", &s::counters_interval_ns, 0, hour, u::seconds,
     "Time after which the file of COUNTERS is written anew; 0 writes it at the end only."},
    {"WATCH", "", &s::watch, 0, 0, u::none,
     "Lets pentop ask this process for its counters, and other ranks ask whether it polls."},
    {"WAIT_WARNING", "", &s::wait_warning_ns, 0, hour, u::seconds,
     "Time for which a call of the library waits before a line on stderr says for what and, where "
     "it is known, for whom, and who has not polled meanwhile; 0 says nothing."},

    {"TRACE", "GASNET_TRACEFILE", &s::trace, 0, 0, u::none,
     "File to which each process writes when its messages were sent and handled, what they waited "
     "for and when connections were made, for Perfetto and chrome://tracing: 0 writes none, 1 "
     "penstock_trace.RANK; in a path % stands for the rank, which else follows behind a dot. "
     "pentrace puts the files of a job together. Messages take a longer way meanwhile."},
    {"TRACE_EVENTS", "", &s::trace_events, 0, 1e12, u::none,
     "Most events that a process writes to the file of TRACE, of about 250 bytes each; later ones "
     "are only counted."},
    {"TRACE_MASK", "GASNET_TRACEMASK", &s::trace_mask, 0, 0, u::none,
     "Letters of what TRACE writes: A messages, P puts, G gets, B barriers, C connections, I "
     "waits; other letters are ignored, and * is all."},
    {"TRACE_NODES", "GASNET_TRACENODES", &s::trace_nodes, 0, 0, u::none,
     "Ranks that write a file of TRACE, as in 0,4-7; * is all."},
    {"STATS_FILE", "GASNET_STATSFILE", &s::stats_file, 0, 0, u::none,
     "File to which each process of gasnet.h writes at its end, for people, what it has done: "
     "puts, gets, barriers, messages; 0 writes none. A % stands for the rank, which else follows "
     "behind a dot; - and stderr are stderr, stdout is stdout. Puts and gets of mapped memory take "
     "a longer way "
     "meanwhile."},
    {"STATS_MASK", "GASNET_STATSMASK", &s::stats_mask, 0, 0, u::none,
     "Letters of what STATS_FILE has: P puts, G gets, B barriers, A messages, C what the conduit "
     "did; other letters are ignored, and * is all."},
    {"STATS_NODES", "GASNET_STATSNODES", &s::stats_nodes, 0, 0, u::none,
     "Ranks that write a file of STATS_FILE, as in 0,4-7; * is all."},

    // put and get
    {"PUT_BOUNCE_LIMIT",
     "GASNET_PORTAL_PUT_BOUNCE_LIMIT GASNET_GNI_PUT_BOUNCE_REGISTER_CUTOVER "
     "GASNET_PORTAL_PUTGET_BOUNCE_LIMIT",
     &s::put_bounce_limit, 0, 32 * kib, u::bytes,
     "Largest put from outside the segment that is copied through a chunk; the chunk caps it."},
    {"GET_BOUNCE_LIMIT",
     "GASNET_PORTAL_GET_BOUNCE_LIMIT GASNET_GNI_GET_BOUNCE_REGISTER_CUTOVER "
     "GASNET_PORTAL_PUTGET_BOUNCE_LIMIT",
     &s::get_bounce_limit, 0, 32 * kib, u::bytes,
     "Largest get to outside the segment that is copied through a chunk; the chunk caps it."},
    {"TMPMD_LIMIT", "GASNET_PORTAL_NUM_TMPMD GASNET_GNI_MEMREG", &s::tmpmd_limit, 1, 1 << 20,
     u::none, "Temporary memory registrations at a time."},

    // memory
    {"MAX_SEGSIZE", "GASNET_MAX_SEGSIZE", &s::max_segment, 0, 1024 * tib, u::bytes,
     "Largest segment of a process; 0 leaves it to PHYSMEM_MAX."},
    {"PHYSMEM_MAX", "GASNET_PHYSMEM_MAX GASNET_PHYSMEM_PINNABLE_RATIO", &s::physmem_max, 0, 0,
     u::bytes,
     "What the processes of a host may pin together: a share of memory (0.8, 5/8) or a size "
     "(16G)."},
    {"USE_FIREHOSE", "GASNET_USE_FIREHOSE GASNET_USE_UDREG", &s::use_firehose, 0, 0, u::none,
     "Caches registrations of memory outside the segment."},
    {"FIREHOSE_M", "GASNET_FIREHOSE_M", &s::firehose_m, 0, 1024 * tib, u::megabytes,
     "Memory that peers may keep registered here (segment everything); 0 is a share of "
     "PHYSMEM_MAX."},
    {"FIREHOSE_R", "GASNET_FIREHOSE_R", &s::firehose_r, 0, 1 << 24, u::none,
     "Regions that peers may keep registered here; 0 is FIREHOSE_M / FIREHOSE_MAXREGION_SIZE."},
    {"FIREHOSE_MAXVICTIM_M", "GASNET_FIREHOSE_MAXVICTIM_M", &s::firehose_maxvictim_m, 0, 1024 * tib,
     u::megabytes,
     "Unused memory kept registered; 0 is FIREHOSE_MAXVICTIM_R * FIREHOSE_MAXREGION_SIZE."},
    {"FIREHOSE_MAXVICTIM_R", "GASNET_FIREHOSE_MAXVICTIM_R", &s::firehose_maxvictim_r, 1, 1 << 24,
     u::none, "Unused regions kept registered."},
    {"FIREHOSE_MAXREGION_SIZE", "GASNET_FIREHOSE_MAXREGION_SIZE", &s::firehose_maxregion_size,
     4 * kib, gib, u::megabytes, "Largest region registered at once; a multiple of the page size."},
    {"FIREHOSE_VERBOSE", "GASNET_FIREHOSE_VERBOSE", &s::firehose_verbose, 0, 0, u::none,
     "Tells what the registration cache does."},
    {"MEMORY_REPORT", "GASNET_GNI_AM_MEMORY_REPORT", &s::memory_report, 0, 0, u::none,
     "Rank 0 prints at start what memory is pinned for what."},

    // threads, waiting, progress
    {"WAIT_MODE", "", &s::wait, 0, 0, u::none,
     "How a call waits: spin, spinblock (spin, then sleep) or block."},
    {"SPIN_COUNT", "", &s::spin_count, 0, 1 << 30, u::none, "Polls before spinblock sleeps."},
    {"DOMAIN_COUNT", "GASNET_DOMAIN_COUNT", &s::domain_count, 1, 64, u::none,
     "Sets of queues and credits that the threads of a process are spread over (PAR)."},
    {"THREADS_PER_DOMAIN", "GASNET_GNI_PTHREADS_PER_DOMAIN", &s::threads_per_domain, 1, 65536,
     u::none, "Threads given to a domain before the next one gets its first."},
    {"POLL_MASK", "GASNET_AM_DOMAIN_POLL_MASK", &s::poll_mask, 0, 65535, u::none,
     "A thread looks at other domains, whose own threads may not poll, once in this + 1 polls."},
    {"PROGRESS_THREAD", "GASNET_RCV_THREAD", &s::progress_thread, 0, 0, u::none,
     "A thread that sleeps until messages come and handles them while the program computes."},
    {"PROGRESS_INTERVAL", "", &s::progress_interval_ns, 0, sec, u::microseconds,
     "Least time between two wakes of that thread; 0 is none."},

    // barriers
    {"BARRIER", "GASNET_BARRIER", &s::barrier, 0, 0, u::none,
     "Barrier algorithm. auto takes counter, which is for the processes of one host, where they "
     "outnumber its cores; in a job of several hosts with several processes gasnet.h's barrier "
     "then goes in stages, on each host and between them; elsewhere dissemination."},
    {"BARRIER_RADIX", "GASNET_GNI_CE_RADIX", &s::barrier_radix, 1, 64, u::none,
     "Children of a node of the tree barrier."},
    {"BARRIER_SHM", "GASNET_USE_CE_PSHM", &s::barrier_shm, 0, 0, u::none,
     "Processes of a host meet in shared memory first."},

    // collectives and many pieces
    {"COLL_SHARED", "", &s::coll_shared, 0, 0, u::none,
     "Reductions to all of up to 48 bytes and team barriers, of up to 32 processes of one host, go "
     "through memory that they share."},
    {"COLL_SMALL", "", &s::coll_small, 0, mib, u::bytes,
     "Collectives that gather or reduce to all do so in few messages up to so many bytes in all, "
     "and with few copies above."},
    {"COLL_LARGE", "", &s::coll_large, 0, gib, u::bytes,
     "Broadcasts go along a tree below so many bytes, and from there on straight from the root on "
     "one host, in pieces beyond. Reductions of so many bytes are done in pieces, one by each "
     "process."},
    {"VIS_PACK_LIMIT", "", &s::vis_pack_limit, 0, mib, u::bytes,
     "Pieces of a put or get of many that are shorter are packed into messages; 0 is 512, and half "
     "a Medium on devices of the kernel."},

    // job
    {"EXITTIMEOUT", "GASNET_EXITTIMEOUT", &s::exit_timeout_ns, 0, hour, u::seconds,
     "Limit of a graceful exit; 0 is EXITTIMEOUT_MIN + processes * EXITTIMEOUT_FACTOR, at most "
     "EXITTIMEOUT_MAX."},
    {"EXITTIMEOUT_MIN", "GASNET_EXITTIMEOUT_MIN", &s::exit_timeout_min_ns, ms, hour, u::seconds,
     "Fixed part of that limit."},
    {"EXITTIMEOUT_MAX", "GASNET_EXITTIMEOUT_MAX", &s::exit_timeout_max_ns, ms, hour, u::seconds,
     "Most it can be."},
    {"EXITTIMEOUT_FACTOR", "GASNET_EXITTIMEOUT_FACTOR", &s::exit_timeout_factor_ns, 0, hour,
     u::seconds, "Part of it for each process."},
    {"CONNECT_TIMEOUT", "", &s::connect_timeout_ns, ms, hour, u::seconds,
     "Time after which a process that does not answer is warned of when a connection to it is "
     "made; "
     "it is waited for all the same."},
    {"DEATH_GRACE", "", &s::death_grace_ns, 0, hour, u::seconds,
     "Time that the survivors of a death or abort have to end by themselves."},
    {"RSH", "", &s::rsh, 0, 0, u::none,
     "How penrun --host reaches a host: words before HOST PROGRAM ARGUMENTS."},
    {"LOG", "", &s::log, 0, 0, u::none,
     "What is said on stderr, one line a fact, with the rank and the time of day: error what "
     "fails, warning also what slows it or was asked for in vain, info also which way was "
     "chosen and why, debug also what was tried before."},
    {"VERBOSEENV", "GASNET_VERBOSEENV", &s::verbose_env, 0, 0, u::none,
     "Rank 0 prints the settings at start."},
    {"LAUNCH", "", &s::launch, 0, 0, u::none, "How penrun tells a process its place in the job.",
     true},
    {"PMI_VERSION", "", &s::pmi_version, 0, 2, u::none,
     "Version of PMI spoken with launchers that speak it (hydra, srun --mpi=pmi2); 0 tries 1, then "
     "2."},
    {"PMIX", "PMIX_NAMESPACE", &s::pmix, 0, 0, u::none, "Job name given by a PMIx launcher.", true},
    {"PMI_FD", "PMI_FD", &s::pmi_fd, 0, 0, u::none, "Socket to a PMI launcher.", true},
    {"PMI_PORT", "PMI_PORT", &s::pmi_port, 0, 0, u::none, "HOST:PORT of a PMI launcher.", true},
    {"PMI_ID", "PMI_ID", &s::pmi_id, 0, 0, u::none, "Who calls that port.", true},
    {"PMI_JOBID", "PMI_JOBID", &s::pmi_jobid, 0, 0, u::none, "Job name given by a PMI launcher.",
     true},
    {"PMI_RANK", "PMI_RANK", &s::pmi_rank, 0, 0, u::none, "Rank given by a PMI launcher.", true},
    {"PMI_SIZE", "PMI_SIZE", &s::pmi_size, 0, 0, u::none, "Size given by a PMI launcher.", true},
    {"LAUNCHER_SIZE",
     "SLURM_STEP_NUM_TASKS OMPI_COMM_WORLD_SIZE PMI_SIZE PALS_SIZE FLUX_JOB_SIZE "
     "MV2_COMM_WORLD_SIZE MPI_LOCALNRANKS",
     &s::launcher_size, 0, 0, u::none, "Processes started by any launcher.", true},
    {"LAUNCHER_RANK",
     "SLURM_PROCID OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK PALS_RANKID FLUX_TASK_RANK "
     "MV2_COMM_WORLD_RANK MPI_LOCALRANKID",
     &s::launcher_rank, 0, 0, u::none, "Which of them this is.", true},
};

const setting_not_applicable gone[] = {
    {"GASNET_PORTAL_ACCEL", "the device does the work always; see PENSTOCK_DIRECT for shm0"},
    {"GASNET_GNI_AM_RVOUS_CUTOVER",
     "receive memory is bounded by credits at any scale: PENSTOCK_AMRECV_SPACE"},
    {"GASNET_GNI_AM_RVOUS_BUFFERS", "PENSTOCK_AMRECV_SPACE"},
    {"GASNET_NETWORKDEPTH_SPACE", "PENSTOCK_MAX_CRED_PER_NODE, 256 bytes a credit"},
    {"GASNET_GNI_GET_FMA_RDMA_CUTOVER", "verbs reads have one engine; no setting"},
    {"GASNET_GNI_BOUNCE_SIZE", "bounce buffers are send chunks: PENSTOCK_SB_CHUNKS"},
    {"GASNET_GNI_FMA_SHARING", "threads have queues of their own: PENSTOCK_DOMAIN_COUNT"},
    {"GASNET_GNI_MDD_SHARING", "verbs memory keys need no sharing; no setting"},
    {"GASNET_GNI_BTE_MULTI_CHANNEL", "the device schedules its engines; no setting"},
    {"GASNET_USE_CE", "PENSTOCK_BARRIER"},
    {"PMIRUN_CMD",
     "srun, mpirun or prterun start programs as they are; penrun --host, PENSTOCK_RSH"},
};

}  // namespace

std::span<const setting_row> settings_table() noexcept { return rows; }
std::span<const setting_not_applicable> settings_not_applicable() noexcept { return gone; }

}  // namespace penstock
