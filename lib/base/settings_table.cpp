// One row per setting. Defaults are the members' initializers in settings.hpp.
#include "lib/base/settings_table.hpp"

#include <algorithm>

namespace penstock {
namespace {

using s = settings;
using u = setting_unit;

constexpr double kib = 1024, mib = 1024 * kib, gib = 1024 * mib, tib = 1024 * gib;
constexpr double ms = 1e6, sec = 1e9, hour = 3600 * sec;

// Chunks have numbers of 16 bits, of which 0xffff is none; the progress thread has one of its own.
constexpr double most_chunks = 0xfffe;

constexpr setting_row rows[] = {
    // device
    {"DEVICE", "GASNET_HCA_ID GASNET_IBV_PORTS", &s::device, 0, 0, u::none,
     "This is the device for ranks that do not share memory (SUPERNODE_MAXSIZE, DIRECT); a job in "
     "which all do uses shm0. It is auto, shm0 (shared memory, this host only), tcp0 (over TCP, to "
     "any host), or a verbs device by its name, the name of its network interface or its PCI "
     "address; NAME:PORT names the port too, and of several, as in mlx5_0:1,2+mlx5_1, the first "
     "that can be used is taken. Several, as in mlx5_0,mlx5_1, are rails: the first carries all "
     "messages, and what is large (RAIL_MIN) is cut over all. One that fails is left out "
     "until it is back, unless it is the first; at start all must be there. auto takes a verbs "
     "device with an active port, and of several the first that is near this process's processors; "
     "without one it takes shm0, and tcp0 in a job of several hosts."},
    {"PORT", "GASNET_PORT_NUM", &s::port, 0, 255, u::none,
     "This is the port of the device, counted from 1; 0 takes the lowest active one."},
    {"GID_INDEX", "", &s::gid_index, -1, 1023, u::none,
     "This is the row of the port's GID table; -1 takes the best one (RoCE v2 before v1, "
     "IPv4-mapped addresses first)."},
    {"MTU", "GASNET_MAX_MTU", &s::mtu, -1, 4096, u::bytes,
     "This is the path MTU: 256, 512, 1024, 2048 or 4096; 0 and -1 take the port's active one, "
     "which caps the others.",
     queue_pairs},
    {"SERVICE_LEVEL", "", &s::service_level, 0, 15, u::none,
     "All paths have this service level, which is InfiniBand's, or the frame priority on RoCE.",
     queue_pairs},
    {"TRAFFIC_CLASS", "", &s::traffic_class, 0, 255, u::none,
     "All paths with a global header, as on RoCE, have this traffic class: the DSCP times 4.",
     queue_pairs},
    {"HOP_LIMIT", "", &s::hop_limit, 1, 255, u::none,
     "A message with a global header may pass this many routers; on RoCE the kernel takes the "
     "limit of the route instead.",
     queue_pairs},
    {"FLOW_LABEL", "", &s::flow_label, 0, 0xfffff, u::none,
     "All paths with a global header have this flow label; 0 leaves it to the device.",
     queue_pairs},
    {"FLOW_SPREAD", "", &s::flow_spread, 0, 0, u::none,
     "yes gives each connection a flow label of its own, from which RoCE v2 takes the UDP source "
     "port, so that routers spread connections over equal paths.",
     queue_pairs},
    {"PKEY", "GASNET_IBV_PKEY", &s::pkey, 0, 0xffff, u::none,
     "This is the partition key (0x8001), which the port's table must have; 0 takes its first.",
     queue_pairs},
    {"RETRY_COUNT", "GASNET_QP_RETRY_COUNT", &s::retry_count, 0, 7, u::none,
     "After this many retransmissions a peer counts as dead. Some devices never give up with 7.",
     queue_pairs},
    {"QP_TIMEOUT", "GASNET_QP_TIMEOUT", &s::qp_timeout, 1, 31, u::none,
     "An acknowledgement is waited for 4.096 us * 2^N; with N = 14 that is 67 ms.", queue_pairs},
    {"RNR_RETRY", "", &s::rnr_retry, 0, 7, u::none,
     "A sender tries this often again when the receiver has no buffer; 7 is for ever, as always "
     "without FLOW_CONTROL. Credits make it rare.",
     queue_pairs},
    {"RNR_TIMER", "", &s::rnr_timer, 0, 31, u::none,
     "This is the verbs code of the wait between such retries; 1 is 10 us.", queue_pairs},
    {"MAX_CQE", "", &s::max_cqe, 0, 1 << 30, u::none,
     "A completion queue has at most this many entries; 0 leaves it to the device."},
    {"INLINE_LIMIT", "GASNET_GNI_PUT_FMA_RDMA_CUTOVER GASNET_INLINESEND_LIMIT", &s::inline_limit,
     -1, 16384, u::bytes,
     "Up to this size the processor writes the payload into the send queue itself; the device's "
     "limit caps it, and -1 is that limit.",
     queue_pairs},
    {"RD_ATOM", "GASNET_QP_RD_ATOM", &s::rd_atom, 0, 16, u::none,
     "This many reads and atomics may be in flight to a peer, and from it; the devices' limits cap "
     "it, and 0 is those limits, up to 16.",
     queue_pairs},
    {"DIRECT", "", &s::direct, 0, 0, u::none,
     "yes lets ranks that share memory send messages through rings there, and copy to and from "
     "each other's segments; no takes the device and its verbs calls for them, too.",
     job_wide},
    {"SUPERNODE_MAXSIZE", "GASNET_SUPERNODE_MAXSIZE", &s::supernode_size, 0, 1 << 24, u::none,
     "At most this many processes of a host share memory with each other. The further ones form "
     "groups of their own, and groups speak through the device as hosts do; 0 makes one group of "
     "each host.",
     job_wide},
    {"HOST_DETECT", "GASNET_HOST_DETECT", &s::host_detect, 0, 0, u::none,
     "This is how ranks that share memory are told: conduit takes the launcher's word for which "
     "ranks are on a host; hostname and gethostid take only those of them that have the same name "
     "or number of a host, as in containers that are to be hosts of their own. All ranks must have "
     "the same value."},
    {"ANY_PTRACER", "", &s::any_ptracer, 0, 0, u::none,
     "yes lets all processes of this user read and write this one's memory, as debuggers do "
     "(PR_SET_PTRACER_ANY), where the kernel's ptrace_scope 1 allows it to parents only; through "
     "it shm0 copies what is not mapped. no leaves the kernel's rule as it is, and such copies go "
     "in pieces through messages or the other process's thread."},
    {"TCP_INTERFACE", "", &s::tcp_interface, 0, 0, u::none,
     "This is the address of tcp0: an IPv4 address of this host, or a network interface. auto "
     "takes the interface that leads to other networks, else the first that is up."},
    {"TCP_PORT", "", &s::tcp_port, 1024, 64512, u::none,
     "This is the first of the 1,023 ports of which each process that uses tcp0 takes one.",
     job_wide},
    {"TCP_SECRET", "", &s::tcp_secret, 0, 0, u::none,
     "By this text, or the text of this file where it begins with a slash, processes that use tcp0 "
     "outside of a job know each other; with none, they do not meet. Those of a job have the job's "
     "own secret."},
    {"TCP_TIMEOUT", "", &s::tcp_timeout_ns, ms, hour, u::seconds,
     "A peer on tcp0 that cannot be reached for this long counts as dead; until then its "
     "connection is made again, and nothing is lost."},
    {"MEM_CONSISTENCY", "GASNET_GNI_MEM_CONSISTENCY", &s::mem_consistency, 0, 0, u::none,
     "This is the PCIe ordering of registered memory. relaxed can be faster, but a program that "
     "polls memory written by puts may then see later bytes first, so barriers go by messages; "
     "strict and none keep the device's default.",
     job_wide | queue_pairs},
    {"SHM_PERSONALITY", "", &s::shm_personality, 0, 0, u::none,
     "shm0 takes the limits and manners of another adapter, for tests. They are named by words "
     "such as small, no_inline, no_srq, one_sge, overrun, rxe and entries_16383, and by limits "
     "such as cqe=32, separated by commas."},
    {"SHM_FAULT", "", &s::shm_fault, 0, 0, u::none,
     "These faults happen on shm0, for tests of verbs programs. They are named by words such as "
     "send=100:RETRY_EXC_ERR, reg_mr=3:ENOMEM, gone=2s, port_down=1s:200ms, lost=5%, any_order, "
     "delay=1us and rate=100Gbit, separated by commas. Rings (DIRECT) meet none."},

    // buffers and queues
    {"SB_CHUNKS", "GASNET_PORTAL_SB_CHUNKS GASNET_BBUF_COUNT", &s::sb_chunks, 8, most_chunks,
     u::none,
     "This many send chunks of this process are for requests, each of which holds one until its "
     "reply has come. They serve as bounce buffers, too; 0 is 256 for each domain.",
     queue_pairs | or_zero},
    {"RPL_CHUNKS", "GASNET_PORTAL_RPL_CHUNKS", &s::rpl_chunks, 8, most_chunks, u::none,
     "This many send chunks of this process are for replies, each of which holds one until it has "
     "left; 0 is 128 for each domain.",
     queue_pairs | or_zero},
    {"AMRECV_SPACE", "GASNET_PORTAL_AMRECV_SPACE", &s::amrecv_space, 0, tib, u::bytes,
     "This is the receive space of this process for requests, of which a credit is 256 bytes; 0 "
     "takes it from the table by job size, for each domain.",
     job_wide},
    {"RBUF_COUNT", "GASNET_RBUF_COUNT", &s::rbuf_count, 0, 1 << 20, u::none,
     "This is the receive space for requests as a number of messages of the largest size, where "
     "AMRECV_SPACE is 0; 0 leaves it to that setting.",
     job_wide},
    {"AM_SPARES", "GASNET_AM_SPARES", &s::am_spares, 0, 65536, u::none,
     "This many threads may handle requests at a time, each with spare buffers; 0 is 2 in each "
     "domain, and 4 in PAR.",
     queue_pairs},
    {"SAFE_LIMIT", "GASNET_PORTAL_SAFE_LIMIT", &s::safe_limit, 0, 65536, u::none,
     "A poll handles at most this many SAFE events (replies, completions); 0 is all."},
    {"AM_LIMIT", "GASNET_PORTAL_AM_LIMIT GASNET_GNI_AMPOLL_BURST", &s::am_limit, 0, 65536, u::none,
     "A poll handles at most this many requests; 0 is all."},
    {"SYS_LIMIT", "GASNET_PORTAL_SYS_LIMIT", &s::sys_limit, 0, 65536, u::none,
     "At most this many SYS events (datagrams that make connections) are handled at a stretch; 0 "
     "is all."},
    {"MSG_LIMIT", "GASNET_OP_OUST_LIMIT GASNET_PORTAL_MSG_LIMIT GASNET_GNI_NUM_PD", &s::msg_limit,
     32, most_chunks, u::none,
     "This process has at most this many messages in flight to all others, requests, replies and "
     "transfers each. A message through rings does not count.",
     queue_pairs},
    {"OP_OUST_PP", "GASNET_OP_OUST_PP GASNET_NETWORKDEPTH_PP", &s::op_oust_pp, 4, 32768, u::none,
     "At most this many messages of a kind (requests, replies, transfers) are in flight from a "
     "domain to one peer: it is the depth of each send queue to it.",
     queue_pairs},
    {"AM_OUST_PP", "GASNET_AM_OUST_PP GASNET_NETWORKDEPTH GASNET_AM_CREDITS_PP", &s::am_oust_pp, 0,
     32768, u::none,
     "At most this many requests are in flight to one peer, since no more credits are lent (but "
     "by each domain always those of a message of the largest size); 0 leaves it to "
     "MAX_CRED_PER_NODE.",
     job_wide},
    {"AM_OUST_LIMIT", "GASNET_AM_OUST_LIMIT GASNET_NETWORKDEPTH_TOTAL GASNET_AM_CREDITS_TOTAL",
     &s::am_oust_limit, 0, most_chunks, u::none,
     "This process has at most this many requests in flight to all others; 0 is MSG_LIMIT. A "
     "request through rings is at its target when it has been sent, and does not count.",
     queue_pairs},
    {"PACKED_LONG", "GASNET_PORTAL_PACKED_LONG", &s::packed_long, 0, 0, u::none,
     "yes sends short Longs together with their payload in one message.", queue_pairs},
    {"PACKED_LONG_CUTOVER", "GASNET_GNI_PACKEDLONG_CUTOVER", &s::packed_long_cutover, 0, 65536,
     u::bytes,
     "Up to this size, header and payload together, a Long is packed; a value larger than a chunk "
     "means a chunk.",
     queue_pairs},
    {"LONG_DEPTH", "GASNET_LONG_DEPTH", &s::long_depth, 0, 64, u::none,
     "At most this many unpacked Long requests are in flight to one peer; 0 is no limit.",
     queue_pairs},
    {"CONNECT_STATIC", "GASNET_CONNECT_STATIC", &s::connect_static, 0, 0, u::none,
     "yes connects each process to all others at start; no makes a connection when the first "
     "message needs it."},
    {"CONNECTFILE_IN", "GASNET_CONNECTFILE_IN", &s::connectfile_in, 0, 0, u::none,
     "Each process is connected at start to the ranks that this file names for it, as an earlier "
     "run's CONNECTFILE_OUT has written it; a % in the name stands for the rank. 0 is no file."},
    {"CONNECTFILE_OUT", "GASNET_CONNECTFILE_OUT", &s::connectfile_out, 0, 0, u::none,
     "At its end each process writes to this file which ranks it was connected to; a % in the name "
     "stands for the rank, and without one all ranks write to one file, which all must reach. 0 "
     "writes none."},
    {"MAX_CONNECTIONS", "", &s::max_connections, 0, 1'000'000, u::none,
     "With more connections by queue pairs than this, those that were idle longest are taken down, "
     "and made again when needed. Connections in use stay, so the limit may be passed; 0 is none.",
     queue_pairs},

    // credits
    {"FLOW_CONTROL", "GASNET_PORTAL_FLOW_CONTROL", &s::flow_control, 0, 0, u::none,
     "yes lets requests go only with credits. Without them, a receiver that is too slow makes "
     "senders try again, and the library says so, once a second at most.",
     job_wide},
    {"OVERFLOW_FATAL", "", &s::overflow_fatal, 0, 0, u::none,
     "yes ends the job when a message has found no receive buffer, with FLOW_CONTROL=no."},
    {"DYNAMIC_CREDITS", "GASNET_PORTAL_DYNAMIC_CREDITS", &s::dynamic_credits, 0, 0, u::none,
     "yes lets credits move to the peers that send; no keeps the loans made at start.", job_wide},
    {"MAX_CRED_PER_NODE", "GASNET_PORTAL_MAX_CRED_PER_NODE", &s::max_cred_per_node, 4, 65535,
     u::none,
     "At most this many credits are lent to one peer, at start and on demand together (but by each "
     "domain always those of a message of the largest size); 0 is 400 by each domain.",
     job_wide | or_zero},
    {"CRED_PER_NODE", "GASNET_PORTAL_CRED_PER_NODE", &s::cred_per_node, 4, 65535, u::none,
     "This many credits are lent to each peer at start; 0 takes the number from the table by job "
     "size, for each domain.",
     job_wide | or_zero},
    {"BANKED_CREDITS", "GASNET_PORTAL_BANKED_CREDITS", &s::banked_credits, 0, 1 << 24, u::none,
     "The bank keeps this many credits at start; 0 takes the number from the table by job size, "
     "for each domain.",
     job_wide},
    {"AM_CREDITS_SLACK", "GASNET_AM_CREDITS_SLACK", &s::am_credits_slack, -1, 65535, u::none,
     "At most this many credits of requests without a reply wait at the receiver for a message "
     "that goes back anyway, or for a pause, before a message is sent for them alone; -1 is a "
     "quarter of the loan, and 63 at most."},
    {"LENDER_LIMIT", "", &s::lender_limit, 1, 65535, u::none,
     "At most this many credits are lent to one peer within an epoch.", job_wide},
    {"REVOKE_LIMIT", "", &s::revoke_limit, 1, 65535, u::none,
     "At most this many credits are given back to one lender within an epoch.", job_wide},
    {"NUM_SCAVENGE", "", &s::num_scavenge, 0, 65535, u::none,
     "This many peers are asked to give credits back when the bank runs low; 0 takes the number "
     "from the table by job size.",
     job_wide},
    {"EPOCH_DURATION", "GASNET_PORTAL_EPOCH_DURATION", &s::epoch_duration, 1, 1 << 30, u::none,
     "An epoch, at whose end the credit statistics decay, has this many received requests.",
     job_wide},
    {"DECAY_LAST_CURR", "", &s::decay_last_curr, 0, 0, u::none,
     "yes keeps an epoch's last and current value of the credit statistics apart when they decay; "
     "no divides one value by four.",
     job_wide},
    {"LENDER_COUNTS_REVOKED", "", &s::lender_counts_revoked, 0, 0, u::none,
     "yes lets the lender count what a peer gave back in an epoch, and not ask beyond "
     "REVOKE_LIMIT; no leaves the count, and the answer 0, to the peer.",
     job_wide},
    {"CREDIT_STATS", "GASNET_PORTAL_CREDIT_STATS", &s::credit_stats, 0, 0, u::none,
     "Each process writes credit statistics for pencredit, at the end and on SIGUSR2: 0 writes "
     "none, 1 writes penstock_credits.RANK, and a path is written with .RANK behind it."},

    {"COUNTERS", "", &s::counters, 0, 0, u::none,
     "Each process writes its counters to this file, at the end and on SIGUSR2: 0 writes none, 1 "
     "writes penstock_counters.RANK, and - writes to stderr; in a path % stands for the rank, "
     "which otherwise follows behind a dot. A name that ends in .prom gets Prometheus's format, "
     "any other JSON."},
    {"COUNTERS_INTERVAL", "", &s::counters_interval_ns, 0, hour, u::seconds,
     "The file of COUNTERS is written each time this long has passed; 0 writes it at the end."},
    {"COUNTERS_HTTP", "", &s::counters_http, 0, 0, u::none,
     "Each process answers HTTP requests for /metrics with its counters in Prometheus's format: 0 "
     "answers none; a number is a port of 127.0.0.1, to which the process's place among those of "
     "its host is added; anything else is the path of a socket for this user alone, in which % "
     "stands for the rank, which otherwise follows behind a dot."},
    {"WATCH", "", &s::watch, 0, 0, u::none,
     "yes lets pentop ask this process for its counters, and other ranks ask whether it polls."},
    {"WAIT_WARNING", "", &s::wait_warning_ns, 0, hour, u::seconds,
     "When a call of the library has waited for this long, a line on stderr says for what it waits "
     "and, where that is known, for which rank, and which rank has not polled meanwhile; 0 prints "
     "no such line."},

    {"CHECKS", "", &s::checks, 0, 0, u::none,
     "yes looks at the thread of every call in the seq and parsync libraries, where otherwise only "
     "waits and calls that take long do, and prints a line for each message that is refused, with "
     "its handler, size and destination, and for a null pointer that a transfer gets. Messages "
     "take a longer way meanwhile, and transfers to mapped memory, which programs do without a "
     "call, are looked at, too."},
    {"TRACE", "GASNET_TRACEFILE", &s::trace, 0, 0, u::none,
     "Each process writes to this file when its messages were sent and handled, what they waited "
     "for and when connections were made, for Perfetto and chrome://tracing: 0 writes none, 1 "
     "writes penstock_trace.RANK; in a path % stands for the rank, which otherwise follows behind "
     "a dot. pentrace puts the files of a job together. Messages take a longer way meanwhile."},
    {"TRACE_EVENTS", "", &s::trace_events, 0, 1e12, u::none,
     "A process writes at most this many events, of about 250 bytes each, to the file of TRACE."},
    {"TRACE_MASK", "GASNET_TRACEMASK", &s::trace_mask, 0, 0, u::none,
     "These letters say what TRACE writes: A messages, P puts, G gets, B barriers, C connections, "
     "I waits; other letters are ignored, and * is all."},
    {"TRACE_NODES", "GASNET_TRACENODES", &s::trace_nodes, 0, 0, u::none,
     "These ranks write a file of TRACE, as in 0,4-7; * is all."},
    {"STATS_FILE", "GASNET_STATSFILE", &s::stats_file, 0, 0, u::none,
     "Each process of gasnet.h writes to this file at its end, for people, what it has done: puts, "
     "gets, barriers, messages; 0 writes none. A % stands for the rank, which otherwise follows "
     "behind a dot; - and stderr are stderr, and stdout is stdout. Puts and gets of mapped memory "
     "take a longer way meanwhile."},
    {"STATS_MASK", "GASNET_STATSMASK", &s::stats_mask, 0, 0, u::none,
     "These letters say what STATS_FILE has: P puts, G gets, B barriers, A messages, C what the "
     "conduit did; other letters are ignored, and * is all."},
    {"STATS_NODES", "GASNET_STATSNODES", &s::stats_nodes, 0, 0, u::none,
     "These ranks write a file of STATS_FILE, as in 0,4-7; * is all."},

    // put and get
    {"PUT_BOUNCE_LIMIT",
     "GASNET_PORTAL_PUT_BOUNCE_LIMIT GASNET_GNI_PUT_BOUNCE_REGISTER_CUTOVER "
     "GASNET_PORTAL_PUTGET_BOUNCE_LIMIT GASNET_NONBULKPUT_BOUNCE_LIMIT",
     &s::put_bounce_limit, 0, mib, u::bytes,
     "A put from outside the segment is copied through a chunk up to this size; the size of a "
     "chunk caps it.",
     queue_pairs},
    {"GET_BOUNCE_LIMIT",
     "GASNET_PORTAL_GET_BOUNCE_LIMIT GASNET_GNI_GET_BOUNCE_REGISTER_CUTOVER "
     "GASNET_PORTAL_PUTGET_BOUNCE_LIMIT",
     &s::get_bounce_limit, 0, mib, u::bytes,
     "A get to outside the segment is copied through a chunk up to this size; the size of a chunk "
     "caps it.",
     queue_pairs},
    {"RAIL_MIN", "", &s::rail_min, 8 * kib, 1024 * tib, u::bytes,
     "With several rails (DEVICE), puts, gets and Longs from this size on are cut over all.",
     queue_pairs},
    {"TMPMD_LIMIT", "GASNET_PORTAL_NUM_TMPMD GASNET_GNI_MEMREG", &s::tmpmd_limit, 1, 1 << 20,
     u::none, "At most this many temporary memory registrations exist at a time.", queue_pairs},

    // memory
    {"MAX_SEGSIZE", "GASNET_MAX_SEGSIZE", &s::max_segment, 4 * kib, 0, u::bytes,
     "A process's segment has at most this size: a share of the host's memory (0.85/H) or a size "
     "(16 GB), which is each process's (/P) unless /H says that the processes of the host share "
     "it; 0 leaves it to PHYSMEM_MAX.",
     or_zero},
    {"PHYSMEM_MAX", "GASNET_PHYSMEM_MAX", &s::physmem_max, mib, 0, u::bytes,
     "The processes of a host may pin this much memory together, of which each has an equal part: "
     "a share of the host's memory (0.8, 5/8) or a size (16 GB); /P behind it makes it each "
     "process's. 0 leaves it to PINNABLE_RATIO.",
     or_zero},
    {"PINNABLE_RATIO", "GASNET_PHYSMEM_PINNABLE_RATIO", &s::pinnable_ratio, mib, 0, u::bytes,
     "This share of the host's memory can be pinned at all: it bounds PHYSMEM_MAX. 0 is 0.8, or "
     "no bound where PHYSMEM_MAX is set.",
     or_zero},
    {"PHYSMEM_PROBE", "GASNET_PHYSMEM_PROBE", &s::physmem_probe, 0, 0, u::none,
     "yes lets each process try at start how much of its part of that it can pin, and pin no more; "
     "no believes the limits that the system names.",
     queue_pairs},
    {"PINNED_REGIONS_MAX", "GASNET_PINNED_REGIONS_MAX", &s::pinned_regions, 16, 0, u::none,
     "The processes of a host may keep this many regions registered in the firehose together: a "
     "share of the regions that the device allows, or a number.",
     queue_pairs},
    {"HUGEPAGES", "GASNET_USE_HUGEPAGES", &s::huge_pages, 0, 0, u::none,
     "yes lets segments take huge pages where enough are free, and else asks the kernel for "
     "transparent ones."},
    {"USE_FIREHOSE", "GASNET_USE_FIREHOSE GASNET_USE_UDREG", &s::use_firehose, 0, 0, u::none,
     "yes keeps registrations of memory outside the segment in a cache.", job_wide | queue_pairs},
    {"FIREHOSE_M", "GASNET_FIREHOSE_M", &s::firehose_m, 0, 1024 * tib, u::megabytes,
     "Peers may keep this much memory registered here (segment everything); 0 is a share of "
     "PHYSMEM_MAX.",
     job_wide | queue_pairs},
    {"FIREHOSE_R", "GASNET_FIREHOSE_R", &s::firehose_r, 0, 1 << 24, u::none,
     "Peers may keep this many regions registered here; 0 is FIREHOSE_M / FIREHOSE_MAXREGION_SIZE.",
     job_wide | queue_pairs},
    {"FIREHOSE_MAXVICTIM_M", "GASNET_FIREHOSE_MAXVICTIM_M", &s::firehose_maxvictim_m, 0, 1024 * tib,
     u::megabytes,
     "This much unused memory stays registered; 0 is FIREHOSE_MAXVICTIM_R * "
     "FIREHOSE_MAXREGION_SIZE.",
     queue_pairs},
    {"FIREHOSE_MAXVICTIM_R", "GASNET_FIREHOSE_MAXVICTIM_R", &s::firehose_maxvictim_r, 1, 1 << 24,
     u::none, "This many unused regions stay registered.", queue_pairs},
    {"FIREHOSE_MAXREGION_SIZE", "GASNET_FIREHOSE_MAXREGION_SIZE", &s::firehose_maxregion_size,
     4 * kib, gib, u::megabytes,
     "A region that is registered at once has at most this size, a multiple of the page size.",
     job_wide | queue_pairs},
    {"FIREHOSE_VERBOSE", "GASNET_FIREHOSE_VERBOSE", &s::firehose_verbose, 0, 0, u::none,
     "yes tells what the registration cache does.", queue_pairs},
    {"MEMORY_REPORT", "GASNET_GNI_AM_MEMORY_REPORT", &s::memory_report, 0, 0, u::none,
     "yes lets rank 0 print at start what memory is pinned for what."},

    // threads, waiting, progress
    {"WAIT_MODE", "", &s::wait, 0, 0, u::none,
     "This is how a call waits: spin polls; spinblock polls SPIN_COUNT times, then sleeps in short "
     "naps; block takes such a nap after a few polls that found nothing."},
    {"SPIN_COUNT", "", &s::spin_count, 0, 1 << 30, u::none,
     "After this many polls that found nothing spinblock sleeps, and at once where another program "
     "keeps the core at each yield."},
    {"DOMAIN_COUNT", "GASNET_DOMAIN_COUNT", &s::domain_count, 1, 64, u::none,
     "The threads of a process are spread over this many sets of queues and credits (PAR). What is "
     "set of chunks, credits, receive space and messages in flight is the process's, and each "
     "domain gets an equal part. Epochs, with the credits that move in one, are a domain's.",
     job_wide},
    {"THREADS_PER_DOMAIN", "GASNET_GNI_PTHREADS_PER_DOMAIN", &s::threads_per_domain, 1, 65536,
     u::none, "A domain gets this many threads before the next one gets its first."},
    {"POLL_MASK", "GASNET_AM_DOMAIN_POLL_MASK", &s::poll_mask, 0, 65535, u::none,
     "A thread polls other domains, whose own threads may not poll, once in this number + 1 of its "
     "polls."},
    {"MAX_THREADS", "GASNET_MAX_THREADS", &s::max_threads, 1, 65536, u::none,
     "At most this many threads of a process may use the library at a time (PAR); values above "
     "1,024 mean 1,024."},
    {"THREAD_STACK", "GASNET_THREAD_STACK_MIN", &s::thread_stack, 0, gib, u::bytes,
     "The library's own threads have a stack of at least this size; 0 is the system's usual one."},
    {"PROGRESS_THREAD", "GASNET_RCV_THREAD", &s::progress_thread, 0, 0, u::none,
     "yes starts a thread that sleeps until messages come, and handles them while the program "
     "computes; puts and gets of 512 KB and more that are not waited for go on there, too."},
    {"PROGRESS_INTERVAL", "", &s::progress_interval_ns, 0, sec, u::microseconds,
     "Between two wakes of the progress thread lies at least this time; 0 is none."},

    // barriers
    {"BARRIER", "GASNET_BARRIER", &s::barrier, 0, 0, u::none,
     "This is the algorithm of barriers. auto takes counter where the job's processes are all on "
     "one host and outnumber its cores. In a job of several hosts with several processes each, "
     "auto lets gasnet.h's barrier go in stages, on each host and between them. Elsewhere it takes "
     "dissemination.",
     job_wide},
    {"BARRIER_RADIX", "GASNET_GNI_CE_RADIX", &s::barrier_radix, 1, 64, u::none,
     "A node of the tree barrier has this many children.", job_wide},
    {"BARRIER_SHM", "GASNET_USE_CE_PSHM GASNET_PSHM_BARRIER_HIER", &s::barrier_shm, 0, 0, u::none,
     "yes lets the processes of a host meet in shared memory first.", job_wide},

    // collectives and many pieces
    {"COLL_SHARED", "", &s::coll_shared, 0, 0, u::none,
     "yes lets team barriers, and broadcasts, gathers and reductions of up to 48 bytes, go through "
     "shared memory where the team has up to 32 processes and all are on one host.",
     job_wide},
    {"COLL_SMALL", "", &s::coll_small, 0, mib, u::bytes,
     "Up to this many bytes in all, collectives that gather or reduce to all do it in few "
     "messages; above, they do it with few copies. Where 32 or more processes have one image each, "
     "they gather up to 256 bytes of each in few messages in any case.",
     job_wide},
    {"COLL_LARGE", "", &s::coll_large, 0, gib, u::bytes,
     "Below this size broadcasts go along a tree; from it on they go straight from the root on one "
     "host, and in pieces between hosts. Reductions of this size or more are done in pieces, one "
     "by each process, if a piece has 512 bytes or more.",
     job_wide},
    {"VIS_PACK_LIMIT", "", &s::vis_pack_limit, 0, mib, u::bytes,
     "A put or get of many pieces packs pieces that are shorter than this into messages; 0 is 512, "
     "or half of the largest eager Medium on a kernel's device."},

    // job
    {"EXITTIMEOUT", "GASNET_EXITTIMEOUT", &s::exit_timeout_ns, 0, hour, u::seconds,
     "This is the limit of a graceful exit; 0 is EXITTIMEOUT_MIN + processes * EXITTIMEOUT_FACTOR, "
     "and at most EXITTIMEOUT_MAX. A process of gasnet.h has 1 s at least. While messages still "
     "arrive an exit may take five times as "
     "long, and as long again while a busy host lets the process look seldom."},
    {"EXITTIMEOUT_MIN", "GASNET_EXITTIMEOUT_MIN", &s::exit_timeout_min_ns, ms, hour, u::seconds,
     "This is the fixed part of the limit of a graceful exit."},
    {"EXITTIMEOUT_MAX", "GASNET_EXITTIMEOUT_MAX", &s::exit_timeout_max_ns, ms, hour, u::seconds,
     "The limit of a graceful exit is at most this."},
    {"EXITTIMEOUT_FACTOR", "GASNET_EXITTIMEOUT_FACTOR", &s::exit_timeout_factor_ns, 0, hour,
     u::seconds, "The limit of a graceful exit grows by this for each process."},
    {"CONNECT_TIMEOUT", "", &s::connect_timeout_ns, ms, hour, u::seconds,
     "When a process has not answered for this long while a connection to it is made, a line warns "
     "of it; it is waited for all the same."},
    {"DEATH_GRACE", "", &s::death_grace_ns, 0, hour, u::seconds,
     "After a death or an abort the other processes have this long to end by themselves, and are "
     "then killed."},
    {"RSH", "", &s::rsh, 0, 0, u::none,
     "penrun --host reaches a host by this command: words that stand before HOST PROGRAM "
     "ARGUMENTS."},
    {"CONFIG", "", &s::config, 0, 0, u::none,
     "This names a file of settings, with lines NAME = VALUE and comments that begin with #. It "
     "stands above the user's file ($XDG_CONFIG_HOME/penstock.conf, or ~/.config/penstock.conf), "
     "this above the system's, /etc/penstock.conf, and the environment above them all. auto reads "
     "the user's and the system's alone, and none reads no file.",
     not_in_files},
    {"LOG", "", &s::log, 0, 0, u::none,
     "This is what the library says on stderr, one line a fact, with the rank and the time of day. "
     "error says what fails; warning also says what slows it or was asked for in vain; info also "
     "says which way was chosen and why; debug also says what was tried before."},
    {"VERBOSEENV", "GASNET_VERBOSEENV", &s::verbose_env, 0, 0, u::none,
     "yes lets rank 0 print the settings at start."},
    {"LAUNCH", "", &s::launch, 0, 0, u::none,
     "By this penrun tells a process its place in the job.", of_launchers},
    {"PMI_VERSION", "", &s::pmi_version, 0, 2, u::none,
     "This version of PMI is spoken with launchers that speak it (hydra, srun --mpi=pmi2); 0 tries "
     "1, then 2."},
    {"PMIX", "PMIX_NAMESPACE", &s::pmix, 0, 0, u::none, "A PMIx launcher gives the job this name.",
     of_launchers},
    {"PMI_FD", "PMI_FD", &s::pmi_fd, 0, 0, u::none,
     "This is the descriptor of the socket to a PMI launcher.", of_launchers},
    {"PMI_PORT", "PMI_PORT", &s::pmi_port, 0, 0, u::none,
     "A PMI launcher listens at this HOST:PORT.", of_launchers},
    {"PMI_ID", "PMI_ID", &s::pmi_id, 0, 0, u::none,
     "By this number a process tells the launcher at that port which one it is.", of_launchers},
    {"PMI_JOBID", "PMI_JOBID", &s::pmi_jobid, 0, 0, u::none,
     "A PMI launcher gives the job this name.", of_launchers},
    {"PMI_RANK", "PMI_RANK", &s::pmi_rank, 0, 0, u::none,
     "A PMI launcher gives the process this rank.", of_launchers},
    {"PMI_SIZE", "PMI_SIZE", &s::pmi_size, 0, 0, u::none,
     "A PMI launcher says that the job has this size.", of_launchers},
    {"LAUNCHER_SIZE",
     "SLURM_STEP_NUM_TASKS OMPI_COMM_WORLD_SIZE PMI_SIZE PALS_SIZE FLUX_JOB_SIZE "
     "MV2_COMM_WORLD_SIZE MPI_LOCALNRANKS",
     &s::launcher_size, 0, 0, u::none, "Some launcher has started this many processes.",
     of_launchers},
    {"LAUNCHER_RANK",
     "SLURM_PROCID OMPI_COMM_WORLD_RANK PMIX_RANK PMI_RANK PALS_RANKID FLUX_TASK_RANK "
     "MV2_COMM_WORLD_RANK MPI_LOCALRANKID",
     &s::launcher_rank, 0, 0, u::none,
     "This process is that one of the processes that a launcher has started.", of_launchers},
};

static_assert(std::ranges::count_if(rows, [](const setting_row& r) { return r.has(job_wide); }) ==
              settings_in_common);

}  // namespace

std::span<const setting_row> settings_table() noexcept { return rows; }

}  // namespace penstock
