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
#include "lib/conduit/message/codec.hpp"
#include "lib/conduit/message/handler_names.hpp"
#include "lib/conduit/message/handlers.hpp"
#include "lib/conduit/message/token.hpp"
#include "lib/conduit/peer/callers.hpp"
#include "lib/conduit/peer/domain.hpp"
#include "lib/conduit/peer/large_buffers.hpp"
#include "lib/conduit/peer/long_wait.hpp"
#include "lib/conduit/peer/near_device.hpp"
#include "lib/conduit/peer/peer.hpp"
#include "lib/conduit/peer/poller.hpp"
#include "lib/conduit/peer/ports.hpp"
#include "lib/conduit/peer/rank_table.hpp"
#include "lib/job/job.hpp"
#include "memreg/memreg.hpp"
#include "nic/device.hpp"
#include "penstock/penstock.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// The calling thread's tag for queue owners; in SEQ and PARSYNC they need none.
inline std::uint32_t my_tag() noexcept { return concurrent(build_mode) ? thread_tag() : 1; }

/// my_tag() if this thread has one already, else 0.
inline std::uint32_t known_tag() noexcept { return concurrent(build_mode) ? thread_tag_ : 1; }

/// Makes reads of fd answer EAGAIN instead of waiting. False, with errno: the kernel refuses.
bool never_waits(int fd) noexcept;

class core {
 public:
  /// self: the engine, which up's functions are called with.
  core(engine& self, const ports& up, job::job& j, const settings& s);
  ~core();
  core(const core&) = delete;
  core& operator=(const core&) = delete;

  // What set-up has fixed. Any thread may read it.
  [[nodiscard]] rank_id rank() const noexcept { return rank_; }
  [[nodiscard]] rank_id size() const noexcept { return size_; }
  [[nodiscard]] const settings& options() const noexcept { return settings_; }
  [[nodiscard]] job::job& membership() const noexcept { return job_; }
  [[nodiscard]] nic::device& device() noexcept { return device_; }
  [[nodiscard]] const nic::device& device() const noexcept { return device_; }
  [[nodiscard]] ibv_pd* pd() const noexcept { return pd_; }
  [[nodiscard]] memreg::account& account() const noexcept { return *account_; }
  /// The device of the rings where it is another one, else null.
  [[nodiscard]] near_device* near() const noexcept { return near_.get(); }
  /// This process's segment, or null.
  [[nodiscard]] memreg::segment* own_segment() const noexcept { return segment_.get(); }
  [[nodiscard]] std::span<std::byte> segment() const noexcept {
    return segment_ ? std::span(segment_->base(), segment_->bytes()) : std::span<std::byte>();
  }
  [[nodiscard]] const credit::config& credit_config() const noexcept { return credit_config_; }
  /// The least room of all ranks' devices.
  [[nodiscard]] credit::room credit_room() const noexcept { return credit_room_; }
  /// The trace of this endpoint (the setting TRACE), or null.
  [[nodiscard]] trace* drawn() const noexcept { return trace_.get(); }
  [[nodiscard]] bool has_started() const noexcept { return started_; }
  [[nodiscard]] bool offers() const noexcept { return offers_; }  ///< Mediums by rendezvous
  /// Reads and atomics in flight on a queue pair.
  [[nodiscard]] std::uint8_t reads() const noexcept { return reads_; }
  /// Payloads of Longs from this size on are puts that go ahead of their headers, over several
  /// rails.
  [[nodiscard]] std::size_t cut_from() const noexcept { return cut_from_; }
  /// The most events that a poll takes.
  [[nodiscard]] std::uint32_t am_limit() const noexcept { return am_limit_; }
  [[nodiscard]] std::uint32_t safe_limit() const noexcept { return safe_limit_; }
  [[nodiscard]] std::uint32_t spins_before_yield() const noexcept { return spins_before_yield_; }
  /// The number of the first domain's files in this process.
  [[nodiscard]] std::uint32_t first_file() const noexcept { return first_file_; }
  /// The ranks that share memory with this one, in ascending order; this rank is one of them.
  [[nodiscard]] std::span<const std::uint32_t> neighbours() const noexcept { return neighbours_; }
  /// True if they are reached by rings; the same in the whole job (SUPERNODE_MAXSIZE).
  [[nodiscard]] bool shares_memory() const noexcept { return shares_memory_; }
  /// The first rank of each group of ranks that share memory, in ascending order. It is empty where
  /// all ranks are one group, or each rank is a group of its own. To be called after start().
  [[nodiscard]] const std::vector<std::uint32_t>& leaders() const noexcept { return leaders_; }
  [[nodiscard]] const rank_table& known() const noexcept { return known_; }
  /// Notes that r's segment has grown. Any thread.
  void learn_segment(std::uint32_t r, std::uint64_t bytes, std::uint32_t rkey) noexcept;
  [[nodiscard]] engine& self() const noexcept { return self_; }
  [[nodiscard]] const ports& up() const noexcept { return up_; }
  [[nodiscard]] handler_table& handlers() noexcept { return handlers_; }
  [[nodiscard]] const handler_table& handlers() const noexcept { return handlers_; }
  [[nodiscard]] handler_names& names() noexcept { return names_; }
  [[nodiscard]] const handler_names& names() const noexcept { return names_; }
  /// The object lives as long as the engine, as the job does.
  void keep(std::shared_ptr<void> object) { kept_.push_back(std::move(object)); }

  // The channels.
  [[nodiscard]] std::uint32_t domain_count() const noexcept { return domain_count_; }
  [[nodiscard]] domain* domains() const noexcept { return domains_.get(); }
  /// By domain, then by rank; see begun().
  [[nodiscard]] peer* peers() const noexcept { return peers_.get(); }
  /// The calling thread's domain, after introduce(), and its channel to r.
  [[nodiscard]] domain& my_domain(std::uint32_t tag) noexcept {
    return concurrent(build_mode) ? *channels_of_[tag - 1]->home : domains_[0];
  }
  [[nodiscard]] peer& channel(rank_id r, std::uint32_t tag) noexcept {
    return concurrent(build_mode) ? channels_of_[tag - 1][r] : peers_[r];
  }
  /// Peers begin when they are first needed, and these are how code comes to one that may not have
  /// begun; after introduce(). A thread that finds another one beginning a peer waits for it; that
  /// one waits for nothing.
  [[nodiscard]] static bool has_begun(const peer& p) noexcept {
    // A9 begun  acquire p.begun  <- R9 (core.cpp): rank, home, path, addresses
    return p.begun.load(std::memory_order_acquire);
  }
  peer& begun(peer& p) noexcept {
    if (!has_begun(p)) [[unlikely]]
      begin(p);
    return p;
  }
  [[nodiscard]] std::uint16_t return_batch(const peer& p) const noexcept;
  /// All peers that have begun, of all domains; and their ranks, in ascending order.
  [[nodiscard]] begun_peers all_begun() const noexcept {
    // A10 last  acquire last_begun_  <- R10 (core.cpp): each peer is there, and the next one
    return begun_peers(last_begun_.load(std::memory_order_acquire));
  }
  [[nodiscard]] std::vector<std::uint32_t> ranks_begun() const;
  /// The way to a rank, whether its peers have begun or not.
  [[nodiscard]] way way_to(rank_id r) const noexcept;
  [[nodiscard]] static bool in_segment(const peer& p, const void* at, std::size_t bytes) noexcept {
    const auto offset =
        reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(p.segment_base);
    const std::size_t there = p.segment_bytes.load(std::memory_order_relaxed);
    return offset <= there && bytes <= there - offset;
  }

  // Queue pairs and the sizes of queues.
  /// True if p's lane is made on the near device. The lane of transfers never is.
  [[nodiscard]] bool is_near(const peer& p, unsigned lane) const noexcept {
    return near_ != nullptr && p.rings() && lane != lane_rma;
  }
  [[nodiscard]] nic::device& device_of(const peer& p, unsigned lane) noexcept {
    return is_near(p, lane) ? near_->device : device_;
  }
  [[nodiscard]] ibv_pd* pd_of(const peer& p, unsigned lane) const noexcept {
    if (is_near(p, lane)) return near_->pd;
    return p.home->alone.lock_free() ? p.home->alone.pd() : pd_;
  }
  /// The device that all rings belong to.
  [[nodiscard]] nic::device& ring_device() noexcept { return near_ ? near_->device : device_; }
  /// Bytes that queue pairs take inline.
  [[nodiscard]] std::uint32_t max_inline() const noexcept {
    return std::min(device_.max_inline, static_cast<std::uint32_t>(settings_.inline_limit));
  }
  /// The sizes of each domain's queues, where there are some.
  [[nodiscard]] const queues::dimensions& queue_sizes() const noexcept {
    return domains_[0].queues->size;
  }
  /// The same in a job of that many ranks whose devices have room for so many credits. bell: there
  /// is a progress thread.
  [[nodiscard]] queues::dimensions queue_dimensions(std::uint32_t ranks, bool bell,
                                                    credit::room room) const;
  /// The room that this process's device has for credits: unlimited where the user has set them, or
  /// where the queues of the table's credits fit. Fails if not even the least number fits.
  [[nodiscard]] result<credit::room> queue_room(std::uint32_t ranks, bool bell) const;
  /// Makes the receive buffers for the loan to rank r, for meetings; by rings there are none.
  [[nodiscard]] auto room_for_loan(domain& d, std::uint32_t r) const noexcept {
    return [this, &d, r]() -> result<void> {
      if (d.queues == nullptr || !facts_of(way_to(r)).posts_messages) return {};
      return d.queues->admit_peer();
    };
  }
  [[nodiscard]] large_buffers& large() const noexcept { return *large_; }

  // Threads.
  /// The list in which every wait of the library names itself.
  [[nodiscard]] long_waits& waits() noexcept { return waits_; }
  [[nodiscard]] callers& calling() noexcept { return callers_; }
  poller& my_poller(std::uint32_t tag, const domain& d) noexcept;
  void share_core(std::uint32_t messages) noexcept;

  // Handlers.
  /// Runs the handler of a message whose parts lie in the queue. False: the bytes are malformed.
  /// chunk: the request's, if it travels with one. large: bytes of a large Medium's payload, which
  /// its header does not have.
  template <class Counts>
  bool run_handler(token_state& t, codec::parts at, std::uint32_t chunk, std::size_t large,
                   Counts&& counts) noexcept;
  bool run_handler(token_state& t, codec::parts at, std::uint32_t chunk = 0,
                   std::size_t large = 0) noexcept;
  void call_handler(const handler_entry& e, token_state& t, const std::byte* args,
                    std::byte* payload, std::size_t bytes) noexcept;
  /// Where a message begins to be sent; for the setting TRACE. No handler is plain then, so every
  /// message takes the way that calls this.
  void note_sending() const noexcept {
    if (drawn() != nullptr) [[unlikely]]
      trace_sending();
  }
  /// Called only where drawn() is not null. chunk: the one a request went out with, by queue pairs.
  [[gnu::cold]] void trace_sent(const peer& p, const outgoing& m, std::uint32_t chunk,
                                bool reply) noexcept;
  /// Returns s, which is why m was not sent; prints why, if the setting CHECKS asks for it.
  [[gnu::cold, gnu::noinline]] status refused(rank_id to, const outgoing& m,
                                              status s) const noexcept;

  // What has happened, and what lower floors need of higher ones (ports.hpp).
  /// True if slow_progress() has something to do.
  [[nodiscard]] bool attention() noexcept;
  [[nodiscard]] bool attention_to_device() const noexcept;
  [[nodiscard]] bool attention_to_near() const noexcept;
  void slow_progress() noexcept { up_.slow_progress(self_); }
  void slow_progress_in_wait() noexcept;
  [[nodiscard]] bool has_left(rank_id r) const noexcept { return up_.has_left(self_, r); }
  [[nodiscard]] bool is_gone(rank_id r) const noexcept { return up_.is_gone(self_, r); }
  void lost_contact(peer& p, const char* how) noexcept { up_.lost_contact(self_, p, how); }
  bool hold_source(const void* at, std::size_t bytes, long_source& out) noexcept {
    return up_.hold_source(self_, at, bytes, out);
  }
  void release_source(std::uint16_t held) noexcept { up_.release_source(self_, held); }
  [[nodiscard]] bool ends_soon() const noexcept;
  /// True if the peer, to which contact was lost, has not left in good order, as far as the
  /// launcher knows. Waits for its word, for half a second at most.
  [[nodiscard]] bool has_died(const peer& p) const noexcept;
  [[noreturn, gnu::cold]] void peer_failed(const peer& p, const char* how) noexcept;
  /// The device did not take a work request for p. That is no sign of p's end, of which a
  /// completion tells: unless the job has ended, the line names the device. code: what the call
  /// returned.
  [[noreturn, gnu::cold]] void post_refused(const peer& p, int code) noexcept;
  static constexpr const char* malformed = "sent bytes that make no sense";
  static constexpr const char* overdrawn = "sent a request of more credits than it was lent";
  /// System messages that wait for room, answers and credits that were put off (verbs_path), and
  /// peers to which contact was lost.
  [[nodiscard]] std::atomic<std::uint32_t>& deferred() noexcept { return deferred_; }
  /// Requests that found a sending end held (PAR).
  [[nodiscard]] std::atomic<std::uint32_t>& handed() noexcept { return handed_; }
  [[nodiscard]] raised_flag& intents() noexcept { return intents_; }  ///< the ledger has news
  /// True from the moment on at which other ranks' ends are no errors; a hint.
  [[nodiscard]] bool closing() const noexcept { return closing_.load(std::memory_order_relaxed); }
  /// True if is_gone() is true of some rank; a hint.
  [[nodiscard]] bool some_gone() const noexcept {
    return some_gone_.load(std::memory_order_relaxed);
  }
  void note_some_gone() noexcept { some_gone_.store(true, std::memory_order_relaxed); }

 private:
  friend class engine;        // its set-up fills in what is fixed afterwards, and it hears events
  friend struct test_access;  // tests of peers that send malformed bytes

  [[gnu::cold]] static void trace_sending() noexcept;
  [[gnu::cold, gnu::noinline]] void begin(peer& p) noexcept;
  void count_run(const token_state& t, wire::kind k, std::size_t bytes) noexcept;
  [[gnu::cold]] void call_traced(const handler_entry& e, token_state& t, codec::parts at,
                                 std::size_t bytes, std::uint32_t chunk) noexcept;
  [[nodiscard]] bool attention_to_kernel() noexcept;
  // Ends all that set-up has made, but for the ranks and the handlers; queue pairs are gone before.
  void close() noexcept;
  // Kernel devices raise no counter, and to look for their events takes a system call: one look in
  // looks_between_events does so.
  static constexpr std::uint32_t looks_between_events = 128;

  engine& self_;
  const ports& up_;
  std::vector<std::shared_ptr<void>>
      kept_;  // live as long as the engine: the job, unless the caller of open() keeps it
  job::job& job_;
  settings settings_;
  nic::device device_;
  credit::config credit_config_;
  credit::room credit_room_;
  ibv_pd* pd_ = nullptr;
  std::unique_ptr<near_device> near_;
  std::unique_ptr<memreg::account> account_;  // all registrations but near_'s
  std::unique_ptr<memreg::segment> segment_;
  std::unique_ptr<trace> trace_;

  // Messages and polls read these; they lie together.
  const rank_id rank_, size_;
  bool started_ = false;
  bool offers_ = false;
  std::uint8_t reads_ = 1;
  std::size_t cut_from_ = ~std::size_t{0};
  std::uint32_t am_limit_ = 8, safe_limit_ = 12;
  std::uint32_t domain_count_ = 0;
  std::uint32_t first_file_ = 0;
  std::unique_ptr<domain[]> domains_;
  zero_array<peer> peers_;
  std::uint32_t spins_before_yield_ = 200;

  std::span<const std::uint32_t> neighbours_;  // the memory is the job's, or detected_
  std::vector<std::uint32_t> detected_;        // those that HOST_DETECT leaves of the launcher's
  bool shares_memory_ = false;
  rank_table known_;
  std::mutex beginning_;  // held while a peer begins, and while known_ changes after start
  std::atomic<peer*> last_begun_{nullptr};
  std::vector<std::uint32_t> leaders_;

  // Every poll reads these, by attention().
  const std::atomic<std::uint32_t>* events_ = nullptr;  // raised by the shared-memory device
  std::atomic<std::uint32_t> events_seen_{0};
  std::atomic<std::uint32_t> looks_{0};  // kernel devices: looks, see looks_between_events
  std::atomic<std::uint32_t> deferred_{0};
  std::atomic<std::uint32_t> handed_{0};
  raised_flag intents_;
  std::atomic<bool> closing_{false};
  std::atomic<bool> some_gone_{false};
  long_waits waits_;
  callers callers_;

  std::unique_ptr<poller[]> pollers_[max_threads];  // by thread, whose own it is; then by domain
  peer* channels_of_[max_threads] = {};             // by thread: the channels of its domain
  handler_table handlers_;
  handler_names names_;
  std::unique_ptr<large_buffers> large_ = std::make_unique<large_buffers>(*this);
};

}  // namespace penstock::conduit::PENSTOCK_ABI
