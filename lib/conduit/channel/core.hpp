// What every part of an engine reads: the ranks of the job, the handlers, the channels of all
// domains, the device, and the flags that say what has happened. Credits, connections and both
// paths stand on it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "credit/credit.hpp"
#include "lib/base/build_mode.hpp"
#include "lib/base/raised_flag.hpp"
#include "lib/base/settings.hpp"
#include "lib/base/thread_index.hpp"
#include "lib/base/trace.hpp"
#include "lib/base/zero_pages.hpp"
#include "lib/conduit/channel/callers.hpp"
#include "lib/conduit/channel/domain.hpp"
#include "lib/conduit/channel/large_buffers.hpp"
#include "lib/conduit/channel/long_wait.hpp"
#include "lib/conduit/channel/near_device.hpp"
#include "lib/conduit/channel/peer.hpp"
#include "lib/conduit/channel/poller.hpp"
#include "lib/conduit/channel/ports.hpp"
#include "lib/conduit/channel/rank_table.hpp"
#include "lib/conduit/message/codec.hpp"
#include "lib/conduit/message/handler_names.hpp"
#include "lib/conduit/message/handlers.hpp"
#include "lib/conduit/message/token.hpp"
#include "lib/job/job.hpp"
#include "memreg/memreg.hpp"
#include "nic/device.hpp"
#include "nic/thread_domain.hpp"
#include "penstock/penstock.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class credit_flow;
class connections;
class connector;
class transfers;
class everywhere;
class progress;
class departure;
class reporter;

/// The calling thread's tag for queue owners; in SEQ and PARSYNC they need none.
inline std::uint32_t my_tag() noexcept { return concurrent(build_mode) ? thread_tag() : 1; }

/// my_tag() if this thread has one already, else 0.
inline std::uint32_t known_tag() noexcept { return concurrent(build_mode) ? thread_tag_ : 1; }

/// Makes reads of fd answer EAGAIN instead of waiting. False, with errno: the kernel refuses.
bool never_waits(int fd) noexcept;

class core {
 public:
  core(const core&) = delete;
  core& operator=(const core&) = delete;

  [[nodiscard]] rank_id rank() const noexcept { return rank_; }
  [[nodiscard]] rank_id size() const noexcept { return size_; }
  [[nodiscard]] std::span<std::byte> segment() const noexcept {
    return segment_ ? std::span(segment_->base(), segment_->bytes()) : std::span<std::byte>();
  }
  /// The ranks that share memory with this one, in ascending order; this rank is one of them.
  [[nodiscard]] std::span<const std::uint32_t> neighbours() const noexcept { return neighbours_; }
  /// The first rank of each group of ranks that share memory, in ascending order. It is empty where
  /// all ranks are one group, or each rank is a group of its own. To be called after start().
  [[nodiscard]] const std::vector<std::uint32_t>& leaders() const noexcept { return leaders_; }
  [[nodiscard]] const settings& options() const noexcept { return settings_; }
  [[nodiscard]] job::job& membership() noexcept { return job_; }
  [[nodiscard]] bool has_started() const noexcept { return started_; }
  [[nodiscard]] const nic::device& device() const noexcept { return device_; }
  /// The trace of this endpoint (the setting TRACE), or null.
  [[nodiscard]] trace* drawn() const noexcept { return trace_.get(); }
  /// The list in which every wait of the library names itself.
  [[nodiscard]] long_waits& waits() noexcept { return waits_; }
  /// The object lives as long as the engine, as the job does.
  void keep(std::shared_ptr<void> object) { kept_.push_back(std::move(object)); }
  /// Any thread may make calls from here on, also in SEQ: the process leaves.
  void let_any_thread_call() noexcept { callers_.end(); }

 protected:
  template <way>
  friend class path_by;
  friend class credit_flow;
  friend class connections;
  friend class connector;
  friend class transfers;
  friend class everywhere;
  friend class progress;
  friend class departure;
  friend class reporter;
  friend class large_buffers;
  friend struct test_access;  // tests of peers that send malformed bytes

  core(engine& self, const ports& up, job::job& j, const settings& s);
  ~core();

  [[nodiscard]] static bool in_segment(const peer& p, const void* at, std::size_t bytes) noexcept {
    const auto offset =
        reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(p.segment_base);
    const std::size_t there = p.segment_bytes.load(std::memory_order_relaxed);
    return offset <= there && bytes <= there - offset;
  }
  // The calling thread's domain, after introduce(), and its channel to r.
  [[nodiscard]] domain& my_domain(std::uint32_t tag) noexcept {
    return concurrent(build_mode) ? *channels_of_[tag - 1]->home : domains_[0];
  }
  [[nodiscard]] peer& channel(rank_id r, std::uint32_t tag) noexcept {
    return concurrent(build_mode) ? channels_of_[tag - 1][r] : peers_[r];
  }
  // Peers begin when they are first needed, and these are how code comes to one that may not have
  // begun; after introduce(). A thread that finds another one beginning a peer waits for it; that
  // one waits for nothing.
  [[nodiscard]] static bool has_begun(const peer& p) noexcept {
    // A9 begun  acquire p.begun  <- R9 (core.cpp): rank, home, path, addresses
    return p.begun.load(std::memory_order_acquire);
  }
  peer& begun(peer& p) noexcept {
    if (!has_begun(p)) [[unlikely]]
      begin(p);
    return p;
  }
  [[gnu::cold, gnu::noinline]] void begin(peer& p) noexcept;
  [[nodiscard]] std::uint16_t return_batch(const peer& p) const noexcept;
  // All peers that have begun, of all domains; and their ranks, in ascending order.
  [[nodiscard]] begun_peers all_begun() const noexcept {
    // A10 last  acquire last_begun_  <- R10 (core.cpp): each peer is there, and the next one
    return begun_peers(last_begun_.load(std::memory_order_acquire));
  }
  [[nodiscard]] std::vector<std::uint32_t> ranks_begun() const;
  // The way to a rank, whether its peers have begun or not.
  [[nodiscard]] way way_to(rank_id r) const noexcept;

  poller& my_poller(std::uint32_t tag, const domain& d) noexcept;
  void share_core(std::uint32_t messages) noexcept;

  // Runs the handler of a message whose parts lie in the queue. False: the bytes are malformed.
  // chunk: the request's, if it travels with one. large: bytes of a large Medium's payload, which
  // its header does not have.
  template <class Counts>
  bool run_handler(token_state& t, codec::parts at, std::uint32_t chunk, std::size_t large,
                   Counts&& counts) noexcept;
  bool run_handler(token_state& t, codec::parts at, std::uint32_t chunk = 0,
                   std::size_t large = 0) noexcept;
  bool find_long(const token_state& t, codec::parts& at, std::size_t& bytes) noexcept;
  void count_run(const token_state& t, wire::kind k, std::size_t bytes) noexcept;
  void call_handler(const handler_entry& e, token_state& t, const std::byte* args,
                    std::byte* payload, std::size_t bytes) noexcept;

  // For the setting TRACE; called only where trace_ is set. No handler is plain then, so every
  // message takes the way that calls these. chunk: the one a request went out with, by queue pairs.
  static void trace_sending() noexcept;
  [[gnu::cold]] void trace_sent(const peer& p, const outgoing& m, std::uint32_t chunk,
                                bool reply) noexcept;
  [[gnu::cold]] void call_traced(const handler_entry& e, token_state& t, codec::parts at,
                                 std::size_t bytes, std::uint32_t chunk) noexcept;

  // Returns s, which is why m was not sent; prints why, if the setting CHECKS asks for it.
  [[gnu::cold, gnu::noinline]] status refused(rank_id to, const outgoing& m,
                                              status s) const noexcept;

  // True if slow_progress() has something to do.
  [[nodiscard]] bool attention() noexcept;
  [[nodiscard]] bool attention_to_device() const noexcept;
  [[nodiscard]] bool attention_to_kernel() noexcept;
  [[nodiscard]] bool attention_to_near() const noexcept;
  void slow_progress_in_wait() noexcept;
  // See ports.hpp.
  void slow_progress() noexcept { up_.slow_progress(self_); }
  [[nodiscard]] bool has_left(rank_id r) const noexcept { return up_.has_left(self_, r); }
  [[nodiscard]] bool is_gone(rank_id r) const noexcept { return up_.is_gone(self_, r); }
  void lost_contact(peer& p, const char* how) noexcept { up_.lost_contact(self_, p, how); }
  bool hold_source(const void* at, std::size_t bytes, long_source& out) noexcept {
    return up_.hold_source(self_, at, bytes, out);
  }
  void release_source(std::uint16_t held) noexcept { up_.release_source(self_, held); }
  [[nodiscard]] bool ends_soon() const noexcept;
  [[noreturn, gnu::cold]] void peer_failed(const peer& p, const char* how) noexcept;
  // Kernel devices raise no counter, and to look for their events takes a system call: one look in
  // looks_between_events does so.
  static constexpr std::uint32_t looks_between_events = 128;
  static constexpr const char* malformed = "sent bytes that make no sense";
  static constexpr const char* overdrawn = "sent a request of more credits than it was lent";

  // The sizes of each domain's queues in a job of that many ranks whose devices have room for so
  // many credits. bell: there is a progress thread.
  [[nodiscard]] queues::dimensions queue_dimensions(std::uint32_t ranks, bool bell,
                                                    credit::room room) const;
  // The room that this process's device has for credits: unlimited where the user has set them, or
  // where the queues of the table's credits fit. Fails if not even the least number fits.
  [[nodiscard]] result<credit::room> queue_room(std::uint32_t ranks, bool bell) const;
  // Makes the receive buffers for the loan to rank r, for meetings; by rings there are none.
  [[nodiscard]] auto room_for_loan(domain& d, std::uint32_t r) const noexcept {
    return [this, &d, r]() -> result<void> {
      if (d.queues == nullptr || !posts_messages(way_to(r))) return {};
      return d.queues->admit_peer();
    };
  }

  engine& self_;
  const ports& up_;
  std::vector<std::shared_ptr<void>>
      kept_;  // live as long as the engine: the job, unless the caller of open() keeps it
  job::job& job_;
  settings settings_;
  nic::device device_;
  credit::config credit_config_;
  credit::room credit_room_;  // the least of all ranks' devices
  ibv_pd* pd_ = nullptr;
  // In SEQ and PARSYNC: for the queue pairs of lanes, to which the thread inside the library alone
  // posts. In PAR each lane has an owner, but threads post to two lanes of a domain at a time, and
  // to those of other domains (poll_elsewhere), while a thread domain's queue pairs share a page.
  nic::thread_domain alone_;
  std::unique_ptr<near_device> near_;         // null: rings, if there are any, belong to device_
  std::unique_ptr<memreg::account> account_;  // all registrations but near_'s
  std::unique_ptr<memreg::segment> segment_;
  std::unique_ptr<trace> trace_;  // null: none is written

  // Messages and polls read these; they lie together.
  const rank_id rank_, size_;
  bool started_ = false;
  bool offers_ = false;                           // small Mediums may go by rendezvous
  std::uint8_t reads_ = 1;                        // reads and atomics in flight on a queue pair
  std::uint32_t am_limit_ = 8, safe_limit_ = 12;  // most events a poll takes, by the settings
  std::uint32_t domain_count_ = 0;
  std::uint32_t first_file_ = 0;  // the number of its first domain's files in this process
  std::unique_ptr<domain[]> domains_;
  zero_array<peer> peers_;  // by domain, then by rank; see begun()
  std::uint32_t spins_before_yield_ = 200;

  // True if p's lane is made on the near device. The lane of transfers never is.
  [[nodiscard]] bool is_near(const peer& p, unsigned lane) const noexcept {
    return near_ != nullptr && p.rings() && lane != lane_rma;
  }
  [[nodiscard]] nic::device& device_of(const peer& p, unsigned lane) noexcept {
    return is_near(p, lane) ? near_->device : device_;
  }
  // The device that all rings belong to.
  [[nodiscard]] nic::device& ring_device() noexcept { return near_ ? near_->device : device_; }
  // Bytes that queue pairs take inline.
  [[nodiscard]] std::uint32_t max_inline() const noexcept {
    return std::min(device_.max_inline, static_cast<std::uint32_t>(settings_.inline_limit));
  }
  // The sizes of each domain's queues, where there are some.
  [[nodiscard]] const queues::dimensions& queue_sizes() const noexcept {
    return domains_[0].queues->size;
  }

  // See neighbours(); the memory is the job's. shares_memory_: they are reached by rings.
  std::span<const std::uint32_t> neighbours_;
  std::vector<std::uint32_t> detected_;  // those that HOST_DETECT leaves of the launcher's
  bool shares_memory_ = false;
  rank_table known_;
  std::mutex beginning_;  // held while a peer begins, and while known_ changes after start
  std::atomic<peer*> last_begun_{nullptr};
  std::vector<std::uint32_t> leaders_;

  // Every poll reads these, by attention().
  const std::atomic<std::uint32_t>* events_ = nullptr;  // raised by the shared-memory device
  std::atomic<std::uint32_t> events_seen_{0};
  std::atomic<std::uint32_t> looks_{0};  // kernel devices: looks, see looks_between_events
  // System messages that wait for room, answers and credits that were put off (verbs_path), and
  // peers to which contact was lost.
  std::atomic<std::uint32_t> deferred_{0};
  std::atomic<std::uint32_t> handed_{0};  // requests that found a sending end held (PAR)
  std::atomic<std::uint32_t> handed_looks_{0};
  raised_flag intents_;  // the ledger may have something to say
  std::atomic<bool> closing_{false};
  std::atomic<bool> some_gone_{false};  // is_gone() is true of some rank; relaxed: a hint
  long_waits waits_;
  callers callers_;

  std::unique_ptr<poller[]> pollers_[max_threads];  // by thread, whose own it is; then by domain
  peer* channels_of_[max_threads] = {};             // by thread: the channels of its domain
  handler_table handlers_;
  handler_names names_;
  std::unique_ptr<large_buffers> large_ = std::make_unique<large_buffers>(*this);
};

}  // namespace penstock::conduit::PENSTOCK_ABI
