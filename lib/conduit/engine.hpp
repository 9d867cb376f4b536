// The engine of one endpoint: active messages, one-sided transfers and barriers. The C++ interface
// (endpoint.cpp) and lib/gasnet use it; message/wire.hpp has the messages between two engines. It
// owns all parts, and asks a peer for the path that its messages take.
//
// Its own code: requests.cpp, pending.cpp (messages); setup.cpp, paths.cpp,
// introduce.cpp (open, start, close); report/; progress/poll.cpp and progress/events.cpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/forked.hpp"
#include "lib/base/raised_flag.hpp"
#include "lib/conduit/connecting/connections.hpp"
#include "lib/conduit/drafts.hpp"
#include "lib/conduit/message/codec.hpp"
#include "lib/conduit/pending.hpp"
#include "lib/conduit/ways/large_mediums.hpp"
#include "penstock/counters.hpp"
#include "penstock/penstock.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class departure;
class event_descriptor;
class host_page;
class meeting;
class open_engine;
class progress;
class quiescence;
class reporter;
class transfers;

class engine final {
 public:
  static result<std::unique_ptr<engine>> open(job::job& j, const settings& s);
  /// The largest segment of each process of a job on this host (per_process), and the limit that
  /// decides it: the process's share of what the device can register, less an eighth for queues.
  static memreg::pin_budget segment_budget(const settings& s, unsigned processes_on_host);
  ~engine();

  // Set-up.
  /// Registers a user's handler at `index`. Before start(). False: the index is taken.
  bool add_handler(std::uint8_t index, const handler_entry& h) noexcept;
  /// What handlers of the user are called; any thread, at any time.
  [[nodiscard]] handler_names& names() noexcept { return core_.names(); }
  std::uint8_t next_handler() const noexcept;
  void add_system_handler(std::uint8_t index, const handler_entry& h) noexcept;
  /// Collective; see endpoint::start(). No handler runs before this process polls. reserve_bytes:
  /// the size up to which the segment may grow (segment_growth.hpp).
  result<void> start(std::size_t segment_bytes, std::size_t reserve_bytes = 0);
  /// The progress thread's step after its polls (progress.hpp). Before start_progress().
  void step_in_progress(bool (*step)() noexcept) noexcept { progress_step_ = step; }
  void wake_progress() noexcept;  ///< if there is such a thread, it steps soon
  /// After start(): starts the progress thread, if the settings ask for one; it runs handlers, too.
  result<void> start_progress();
  result<int> event_fd();  ///< see endpoint
  status arm() noexcept;   ///< see endpoint
  /// Writes the files of CREDIT_STATS, once, when nothing more is sent; close() does so.
  void write_credit_statistics() noexcept;
  void write_connections() noexcept;  ///< the line of CONNECTFILE_OUT, before close() or leaving
  /// Collective; waits for all, polling, within the exit limit. Later calls answer shut_down.
  void close() noexcept;
  /// Ends the progress thread, if there is one. It waits for its handler for limit_ns at most
  /// (false: it still runs), and not in that handler. Other ranks' ends are no errors from here on.
  bool stop_progress(std::uint64_t limit_ns) noexcept;
  void end_progress() noexcept;  ///< and waits for a handler that it runs

  /// The status of calls where the endpoint is closed, not yet started, or the parent process's.
  [[gnu::cold, gnu::noinline]] static status over() noexcept;

  // Messages. Requests wait by polling (see endpoint); replies do not.
  status request(rank_id to, const outgoing& m) noexcept;
  status reply(token_state& t, const outgoing& m) noexcept;
  /// The same with a Short or a Medium to a user's handler, by the shortest way. args as in
  /// request_short().
  static status reply_short(token_state& t, std::uint8_t handler, const std::uint32_t* args,
                            unsigned nargs) noexcept;
  static status reply_medium(token_state& t, std::uint8_t handler, const std::uint32_t* args,
                             unsigned nargs, const void* payload, std::size_t bytes) noexcept;
  /// A hint: `messages` Mediums of `bytes` each will be under way to r at a time. Never waits.
  status expect(rank_id r, std::uint32_t messages, std::size_t bytes) noexcept;
  /// request() to a user's handler, by the shortest way. args is read in pairs, so it must have
  /// room for an even number of words.
  status request_short(rank_id to, std::uint8_t handler, const std::uint32_t* args,
                       unsigned nargs) noexcept;
  status request_medium(rank_id to, std::uint8_t handler, const std::uint32_t* args, unsigned nargs,
                        const void* payload, std::size_t bytes) noexcept;
  /// As request(), but it answers what is short (is_short()) instead of waiting.
  status try_request(rank_id to, const outgoing& m) noexcept;
  [[nodiscard]] drafts& in_place() noexcept { return drafts_; }  ///< requests and answers
  /// Polls all queues once; adds the number of messages handled to *n, unless n is null.
  status poll(unsigned* n = nullptr) noexcept;
  /// The same, but it looks at every peer; for a thread that is about to yield.
  status poll_widely(unsigned* n) noexcept;
  unsigned poll_domain(domain& d, std::uint32_t tag) noexcept;  ///< returns messages handled
  /// Polls domains whose own threads do not, now or when that is due; returns the same.
  unsigned poll_elsewhere(std::uint32_t tag, bool now) noexcept;
  /// One step of a wait: polls, and yields the core when no message has come for a while. empty
  /// counts the fruitless polls; the caller sets it to 0 at first.
  status wait_step(unsigned& empty) noexcept;
  /// The same where a time_limit of this thread ends the wait (timed_out), not before it has polled
  /// and looked once. told: a message or completion brings what is waited for.
  status limited_step(unsigned& empty, bool told) noexcept;
  /// Every step of a wait calls heed first while news is up. The waiting thread holds nothing
  /// then, and heed need not return. Before start().
  void heed_in_waits(const raised_flag& news, void (*heed)()) noexcept;
  void expect_ends() noexcept;  ///< other ranks' ends are no errors: for one that leaves, and polls

  [[nodiscard]] transfers& one_sided() noexcept { return *transfers_; }
  [[nodiscard]] const transfers& one_sided() const noexcept { return *transfers_; }

  /// Blocking barrier over all processes; handlers run meanwhile. One thread at a time.
  status barrier() noexcept;
  [[nodiscard]] std::uint32_t barriers_begun() const noexcept;
  [[nodiscard]] host_page* page() const noexcept { return page_.get(); }  ///< of barriers, or null
  status quiet() noexcept;                                                ///< see endpoint
  [[nodiscard]] departure& who_left() noexcept { return *departure_; }    ///< early; waits ask it

  [[nodiscard]] std::span<std::byte> segment_of(rank_id r) const noexcept;
  /// True if r's segment is, or can be, mapped in this process.
  [[nodiscard]] bool maps(rank_id r) const noexcept {
    const peer& p = core_.peers()[r];
    return facts_of(core::has_begun(p) ? p.path : core_.way_to(r)).maps_memory;
  }
  /// Where r's segment is mapped here, or null; connects when needed.
  [[nodiscard]] std::byte* segment_here(rank_id r) noexcept;
  [[nodiscard]] endpoint_statistics statistics() const noexcept;
  /// For report/. Any thread; the counts of messages under way may be a moment old.
  [[nodiscard]] endpoint_counters counters() const;
  [[nodiscard]] peer_counters counters_of(std::uint32_t rank, double ns_a_tick) const;
  void write_credit_files() const noexcept { credits_.write_files(); }
  [[nodiscard]] bool posts() const noexcept { return ways_.some_post(); }  ///< to some ranks
  [[nodiscard]] std::uint64_t polls() const noexcept;  ///< of all threads; any thread may ask
  [[nodiscard]] result<std::string> memory_report(std::size_t for_ranks) const;
  /// What set-up has fixed; and what of it is asked for most.
  [[nodiscard]] const core& fixed() const noexcept { return core_; }
  [[nodiscard]] rank_id rank() const noexcept { return core_.rank(); }
  [[nodiscard]] rank_id size() const noexcept { return core_.size(); }
  [[nodiscard]] std::span<std::byte> segment() const noexcept { return core_.segment(); }
  [[nodiscard]] const settings& options() const noexcept { return core_.options(); }
  [[nodiscard]] job::job& membership() const noexcept { return core_.membership(); }
  [[nodiscard]] const nic::device& device() const noexcept { return core_.device(); }
  [[nodiscard]] trace* drawn() const noexcept { return core_.drawn(); }
  [[nodiscard]] long_waits& waits() noexcept { return core_.waits(); }
  void keep(std::shared_ptr<void> object) { core_.keep(std::move(object)); }
  /// Any thread may make calls from here on, also in SEQ: the process leaves.
  void let_any_thread_call() noexcept { core_.calling().end(); }

  /// The C++ interface's object over this engine, which tokens name.
  void set_owner(endpoint* e) noexcept { endpoint_ = e; }
  [[nodiscard]] endpoint* owner_endpoint() const noexcept { return endpoint_; }

 private:
  friend struct test_access;     // tests of peers that send malformed bytes
  friend struct segment_growth;  // the part of set-up that comes after the start
  engine(job::job& j, const settings& s);

  // requests.cpp
  status request_self(const outgoing& m) noexcept;
  void look_for_credits(peer& p) noexcept;
  status check_request(rank_id to, const outgoing& m) noexcept;
  status try_at_once(rank_id to, const outgoing& m) noexcept;
  // A user's Short (handler, words) or Medium (and payload) by the shortest way, then by others.
  template <class... What>
  status request_user(rank_id to, What... what) noexcept;
  template <class... What>
  [[gnu::noinline]] status request_user_slow(rank_id to, What... what) noexcept;
  template <class... What>
  static status reply_user(token_state& t, What... what) noexcept;
  template <class... What>
  [[gnu::noinline]] static status reply_user_slow(token_state& t, What... what) noexcept;
  // progress/poll.cpp
  [[gnu::noinline]] status poll_posted(unsigned* n, std::uint32_t tag) noexcept;
  [[gnu::noinline]] status poll_all(unsigned* n, std::uint32_t tag) noexcept;
  void note_attendance(std::uint32_t tag) noexcept;
  template <class Path>
  unsigned poll_path(Path& path, domain& d, std::uint32_t tag, bool busy) noexcept;

  // paths.cpp, setup.cpp and introduce.cpp
  result<void> use_device(const settings& s);
  void open_domains();
  result<void> plan_credits(credit::room room);
  void choose_paths(bool may) noexcept;
  result<void> agree_on_paths();
  result<void> try_neighbours();
  result<void> open_device();
  result<void> open_queues();
  result<void> introduce();
  result<void> begin_connect_file() const;
  void connect_at_start();
  [[nodiscard]] bool counts_barriers() const noexcept;
  [[nodiscard]] bool may_sleep() const noexcept;  // until messages come, which need a channel then
  void set_quick(bool started) noexcept;
  void stop_calls() noexcept;
  static void leave_to_parent(void* self) noexcept;

  // What the floors below call.
  static const ports up;  // setup.cpp
  void slow_progress() noexcept;
  void hear_event(nic::device& dev, const std::atomic<std::uint32_t>* raised,
                  std::atomic<std::uint32_t>& taken) noexcept;
  static void lost_contact(engine& e, peer& p, const char* how) noexcept;
  inline static const raised_flag no_news_{false};

  core core_;
  bool quick_polls_ = false;  // started, and all peers are by rings; attendance is not noted
  bool quick_verbs_ = false;  // started, and a poll has queue pairs alone to look at
  bool attendance_ = false;   // polls are noted, for other domains or the progress thread
  const raised_flag* wait_news_ = &no_news_;
  void (*heed_in_wait_)() = nullptr;
  bool (*progress_step_)() noexcept = nullptr;
  const std::unique_ptr<poll_count[]> poll_counts_{
      new poll_count[concurrent(build_mode) ? max_threads : 1]};
  credit_flow credits_{core_};
  connections connections_{core_};
  ways ways_{core_, credits_, connections_};
  large_mediums large_{core_, ways_};
  pending_requests pending_{*this, core_, credits_, ways_, large_};
  drafts drafts_{*this, core_, ways_, large_};
  std::unique_ptr<host_page> page_;
  fork_notice in_child_{&leave_to_parent, this};
  std::unique_ptr<meeting> meeting_;
  std::unique_ptr<departure> departure_;
  std::unique_ptr<quiescence> quiescence_;
  std::unique_ptr<transfers> transfers_;
  std::unique_ptr<progress> progress_;
  std::unique_ptr<event_descriptor> events_fd_;  // null: nobody asked for it
  endpoint* endpoint_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;  // where somebody sleeps until messages come
  std::unique_ptr<reporter> reporter_;   // reads all members above
  std::unique_ptr<open_engine> listed_;
};

inline std::uint32_t token_state::source() const noexcept {
  return from != nullptr ? from->rank : engine->rank();
}

}  // namespace penstock::conduit::PENSTOCK_ABI
