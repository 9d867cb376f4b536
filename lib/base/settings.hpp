// Every setting of the library, read once into one immutable struct that is passed by const
// reference. The defaults stand here; names, ranges and help stand in settings_table.cpp, one row
// for each setting. No other code reads the environment.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/log.hpp"
#include "lib/base/result.hpp"

namespace penstock {

/// How a call that has to wait does so.
enum class wait_mode : std::uint8_t {
  spin,       ///< poll and yield without end; never sleep
  spinblock,  ///< poll `spin_count` times, then sleep in short naps between polls
  block,      ///< sleep in such naps after a few polls that found nothing
};

/// Barrier algorithm; automatic takes the fastest known for the job.
enum class barrier_kind : std::uint8_t {
  automatic,
  am_dissemination,
  put_dissemination,
  tree,
  counter
};

/// By what ranks of one host are told: the launcher's word, and with the others only those of them
/// that have the same name or number of a host.
enum class host_sign : std::uint8_t { launcher, hostname, hostid };

/// PCIe ordering asked for when memory is registered.
enum class memory_ordering : std::uint8_t { strict, relaxed, none };

/// A limit on memory: a share of what the host has, or bytes (share is 0 then), for each process or
/// for all processes of the host together.
struct memory_limit {
  double share = 0;
  std::uint64_t bytes = 0;
  bool each = false;
  /// The limit of all together, on a host with `physical` bytes and that many processes.
  [[nodiscard]] std::uint64_t of(std::uint64_t physical, unsigned processes) const noexcept {
    return one(physical) * (each ? processes : 1);
  }
  /// That of one process.
  [[nodiscard]] std::uint64_t of_each(std::uint64_t physical, unsigned processes) const noexcept {
    return one(physical) / (each ? 1 : processes);
  }

 private:
  [[nodiscard]] std::uint64_t one(std::uint64_t physical) const noexcept {
    return share > 0 ? static_cast<std::uint64_t>(share * static_cast<double>(physical)) : bytes;
  }
};

/// Immutable after read_settings(). 0 means "chosen by the library" where a comment says so.
/// Durations are nanoseconds, sizes bytes.
struct settings {
  // device
  std::string device = "auto";  ///< "auto", "shm0", "tcp0", or a verbs device ("mlx5_0", "rxe0"),
                                ///< with optional ":port"; or several rails, "mlx5_0,mlx5_1"
  std::uint32_t port = 0;       ///< 0: lowest active port
  std::int32_t gid_index = -1;  ///< -1: best GID of the port
  std::int32_t mtu = 0;         ///< path MTU in bytes; 0, -1: the port's active MTU
  std::uint32_t service_level = 0;     ///< of InfiniBand; the priority of RoCE's frames
  std::uint32_t traffic_class = 0;     ///< of the global header: 4 * DSCP
  std::uint32_t hop_limit = 64;        ///< of the global header
  std::uint32_t flow_label = 0;        ///< of the global header; 0: the device decides
  bool flow_spread = false;            ///< each connection has a flow label of its own
  std::uint32_t pkey = 0;              ///< partition; 0: the first row of the port's table
  std::uint32_t retry_count = 6;       ///< 7 would never notice a dead peer on some devices
  std::uint32_t rnr_retry = 7;         ///< 7: for ever
  std::uint32_t rnr_timer = 1;         ///< verbs code of the minimum RNR timer (1: 10 µs)
  std::uint32_t qp_timeout = 14;       ///< verbs code: 4.096 µs · 2^14 = 67 ms
  std::uint32_t max_cqe = 0;           ///< entries of a completion queue; 0: what the device allows
  std::int32_t inline_limit = -1;      ///< largest payload handed over inline; -1: the device's
  std::uint32_t rd_atom = 0;           ///< reads and atomics in flight to a peer; 0: the device's
  bool direct = true;                  ///< inline path of the shared-memory device
  std::uint32_t supernode_size = 0;    ///< processes of a host that share memory; 0: all of them
  std::string tcp_interface = "auto";  ///< of tcp0: an address or an interface; "auto": the best
  std::uint32_t tcp_port = 21000;      ///< the first of the ports at which tcp0's processes listen
  std::string tcp_secret = "none";     ///< of tcp0 outside of a job; "/...": the file that has it
  std::uint64_t tcp_timeout_ns = 15'000'000'000;  ///< until a peer that cannot be reached is dead
  host_sign host_detect = host_sign::launcher;
  bool any_ptracer = true;  ///< on it, processes of this user may read this one's memory
  memory_ordering mem_consistency = memory_ordering::strict;
  std::string shm_personality = "plain";  ///< limits and manners that shm0 pretends to have
  std::string shm_fault = "none";         ///< what is to go wrong on shm0

  // buffers and queues
  std::uint32_t sb_chunks = 0;      ///< request send chunks (also bounce buffers); 0: 256 a domain
  std::uint32_t rpl_chunks = 0;     ///< reply send chunks; 0: 128 a domain
  std::uint64_t amrecv_space = 0;   ///< receive space of requests; 0: from the table
  std::uint32_t rbuf_count = 0;     ///< the same as a number of largest messages; 0: amrecv_space
  std::uint32_t am_spares = 0;      ///< threads that handle requests at a time; 0: 2, in PAR 4
  std::uint32_t safe_limit = 12;    ///< SAFE events a poll; 0: all
  std::uint32_t am_limit = 8;       ///< AM events a poll; 0: all
  std::uint32_t sys_limit = 0;      ///< SYS events a poll; 0: all
  std::uint32_t msg_limit = 1024;   ///< messages in flight from this process
  std::uint32_t op_oust_pp = 64;    ///< messages in flight to one peer: depth of its send queue
  std::uint32_t am_oust_pp = 0;     ///< requests in flight to one peer; 0: the credits decide
  std::uint32_t am_oust_limit = 0;  ///< requests in flight from this process; 0: msg_limit
  bool packed_long = true;          ///< short Longs travel in one message
  std::uint32_t packed_long_cutover = 4096;  ///< header and payload of the largest packed Long
  std::uint32_t long_depth = 0;              ///< unpacked Longs in flight to one peer; 0: no limit
  bool connect_static = false;               ///< connect to all ranks at start
  std::string connectfile_in = "0",
              connectfile_out = "0";  ///< files that say whom each rank connects to
  std::uint32_t max_connections = 0;  ///< by queue pairs, above which idle ones go; 0: no limit

  // credits
  bool flow_control = true;
  bool overflow_fatal = false;  ///< without flow control
  bool dynamic_credits = true;
  std::uint32_t max_cred_per_node = 0;  ///< most credits lent to one peer; 0: 400 by a domain
  std::uint32_t cred_per_node = 0;      ///< lent to each peer at start; 0: from the table
  std::uint32_t banked_credits = 0;     ///< kept in the bank at start; 0: from the table
  std::int32_t am_credits_slack = -1;   ///< credits kept back for a later message; -1: by the loan
  std::uint32_t lender_limit = 400;     ///< most credits lent to one peer in an epoch
  std::uint32_t revoke_limit = 64;      ///< most credits given back to one lender in an epoch
  std::uint32_t num_scavenge = 0;       ///< peers asked for credits at a time; 0: from the table
  std::uint32_t epoch_duration = 1024;  ///< requests received per epoch
  bool decay_last_curr = false;         ///< statistics fade from two states instead of by >> 2
  bool lender_counts_revoked = false;   ///< a peer that has given back enough is not asked again
  std::string credit_stats = "0";  ///< "0": none, "1": penstock_credits.RANK, else a path prefix

  // what is reported
  std::string counters = "0";              ///< "0": none, "1": penstock_counters.RANK, else a path
  std::uint64_t counters_interval_ns = 0;  ///< between two such files; 0: at the end only
  std::string counters_http = "0";         ///< "0": none, a port, or the path of a socket
  bool watch = true;                       ///< pentop may ask
  std::uint64_t wait_warning_ns = 10'000'000'000;  ///< of a wait; 0: none
  bool checks = false;                             ///< every call is looked at
  std::string trace = "0";                 ///< "0": none, "1": penstock_trace.RANK, else a path
  std::uint64_t trace_events = 1'000'000;  ///< most that a process writes
  std::string trace_mask = "*";            ///< letters of what is written
  std::string trace_nodes = "*";           ///< ranks that write one
  // for programs that use gasnet.h
  std::string stats_file = "0", stats_mask = "*", stats_nodes = "*";

  // put and get
  std::uint64_t put_bounce_limit = 2048;  ///< larger puts from outside the segment register memory
  std::uint64_t get_bounce_limit = 2048;
  std::uint64_t rail_min = 128 << 10;  ///< smaller transfers go by the first rail alone
  std::uint32_t tmpmd_limit = 1024;    ///< temporary registrations at a time

  // memory
  memory_limit max_segment{.each = true};  ///< largest segment; 0: no limit but physmem_max
  memory_limit physmem_max;      ///< what the processes of a host may pin together; 0: as below
  memory_limit pinnable_ratio;   ///< what can be pinned of the host's memory; 0: see pinnable()
  bool physmem_probe = false;    ///< each process tries how much of its share it can pin
  bool use_firehose = true;      ///< cache registrations of out-of-segment memory
  std::uint64_t firehose_m = 0;  ///< memory for remote firehoses; 0: chosen
  std::uint32_t firehose_r = 0;  ///< regions for remote firehoses; 0: chosen
  std::uint64_t firehose_maxvictim_m = 0;  ///< memory of the victim pool; 0: R · region size
  std::uint32_t firehose_maxvictim_r = 1024;
  std::uint64_t firehose_maxregion_size = 128 << 10;
  bool firehose_verbose = false;
  memory_limit pinned_regions{.share = 0.8};  ///< of the device's, that a host's processes may have
  bool huge_pages = true;                     ///< segments take huge pages where they can
  bool memory_report = false;                 ///< say at start-up what is pinned for what

  // threads, waiting, progress
  wait_mode wait = wait_mode::spinblock;
  std::uint32_t spin_count = 2000;  ///< polls before sleeping
  std::uint32_t domain_count = 1;   ///< sets of queues the threads are spread over
  std::uint32_t threads_per_domain = 1;
  std::uint32_t poll_mask = 255;  ///< other domains are polled once in mask + 1 polls
  bool progress_thread = false;
  std::uint32_t max_threads = 1024;  ///< threads that use the library at a time
  std::uint64_t thread_stack = 0;    ///< bytes of stack of the library's own threads; 0: the usual
  std::uint64_t progress_interval_ns = 0;  ///< least time between two wakes of it; 0: none

  // barriers
  barrier_kind barrier = barrier_kind::automatic;
  std::uint32_t barrier_radix = 2;  ///< of the tree
  bool barrier_shm = true;          ///< combine within a host first

  // collectives and many pieces
  bool coll_shared = true;               ///< small ones from all to all by memory that all share
  std::uint32_t coll_small = 2048;       ///< bytes up to which few messages matter most
  std::uint32_t coll_large = 64 * 1024;  ///< bytes from which copies matter most
  std::uint32_t vis_pack_limit = 0;      ///< shorter pieces are packed; 0: by the device

  // job
  std::uint64_t exit_timeout_ns =
      0;  ///< limit of a graceful exit; 0: min + processes · factor, at most max
  std::uint64_t exit_timeout_min_ns = 2'000'000'000;
  std::uint64_t exit_timeout_max_ns = 60'000'000'000;
  std::uint64_t exit_timeout_factor_ns = 5'000'000;
  std::uint64_t connect_timeout_ns = 30'000'000'000;
  std::uint64_t death_grace_ns = 5'000'000'000;  ///< between a death and the end of the survivors
  std::string rsh = "ssh -x -oBatchMode=yes -oServerAliveInterval=5";  ///< penrun's way to a host
  std::string config = "auto";  ///< a file of settings; "auto": the system's and the user's alone
  log_level log = log_level::warning;
  bool verbose_env = false;  ///< rank 0 prints the settings at start-up
  std::string launch;        ///< written by penrun for its children
  std::string pmix;          ///< set by PMIx launchers for theirs
  std::string pmi_fd, pmi_port, pmi_id,
      pmi_jobid;                   ///< set by PMI-1 and PMI-2 launchers: how they are reached
  std::string pmi_rank, pmi_size;  ///< and this process's place
  std::uint32_t pmi_version = 0;   ///< 1, 2; 0: the first that the launcher speaks
  std::string launcher_size;       ///< processes that some launcher has started, if it says so
  std::string launcher_rank;       ///< which of them this one is

  /// Where each row's value comes from, by index into settings_table(); "default", "override", the
  /// environment name, or the file and the number of the line.
  std::vector<std::string> sources;
  std::vector<std::string> files;  ///< of settings, that were read

  /// What so many processes of a host with `physical` bytes may pin together: PHYSMEM_MAX, but no
  /// more than PINNABLE_RATIO; 0.8 of the memory if neither is set.
  [[nodiscard]] std::uint64_t pinnable(std::uint64_t physical, unsigned processes) const noexcept {
    const std::uint64_t may = physmem_max.of(physical, processes);
    const std::uint64_t can = pinnable_ratio.of(physical, processes);
    if (may == 0 && can == 0) return memory_limit{.share = 0.8}.of(physical, processes);
    return may == 0 || (can != 0 && can < may) ? can : may;
  }
  /// exit_timeout_ns, or what the three others make of it in a job of `processes`.
  [[nodiscard]] std::uint64_t exit_limit_ns(std::uint32_t processes) const noexcept {
    if (exit_timeout_ns != 0) return exit_timeout_ns;
    const std::uint64_t t = exit_timeout_min_ns + exit_timeout_factor_ns * processes;
    return t < exit_timeout_max_ns ? t : exit_timeout_max_ns;
  }
};

/// A setting by name ("PENSTOCK_SB_CHUNKS", "SB_CHUNKS" or an alias) and its text.
using setting_override = std::pair<std::string, std::string>;

/// Reads the files of settings (setting_files.hpp), the environment above them, and applies
/// `overrides` above both. Fails with one line naming the setting, its value, what is allowed, and
/// of a file its path and line. Unknown names in a file, and unknown PENSTOCK_ names, are logged
/// with the nearest known one, and so are names that mean nothing to this conduit. Cost: one pass
/// over the files and the environment; to be called once, at start.
result<settings> read_settings(std::span<const setting_override> overrides = {});

/// The same with the environment given ("NAME=VALUE" each), and the system's file: for tests.
result<settings> read_settings(std::span<const setting_override> overrides,
                               std::span<const char* const> environment,
                               const std::string& system_file);

}  // namespace penstock
