// The engine of one endpoint: active messages over the queues of one device. Used by the C++
// interface (endpoint.cpp) and by lib/gasnet; speaks to other engines in the words of wire.hpp.
// Parts: setup.cpp (open, start, close), connect.cpp, request.cpp, poll.cpp, direct.cpp
// and verbs.cpp with verbs_receive.cpp (the two ways a message travels), events.cpp (deaths),
// report.cpp.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "credit/credit.hpp"
#include "lib/base/build_mode.hpp"
#include "lib/base/forked.hpp"
#include "lib/base/settings.hpp"
#include "lib/base/thread_index.hpp"
#include "lib/conduit/channel/connector.hpp"
#include "lib/conduit/channel/datagrams.hpp"
#include "lib/conduit/channel/domain.hpp"
#include "lib/conduit/channel/peer.hpp"
#include "lib/conduit/collective/departure.hpp"
#include "lib/conduit/collective/host_page.hpp"
#include "lib/conduit/collective/meeting.hpp"
#include "lib/conduit/message/codec.hpp"
#include "lib/conduit/message/handlers.hpp"
#include "lib/conduit/message/token.hpp"
#include "lib/conduit/message/wire.hpp"
#include "lib/conduit/one_sided/rma.hpp"
#include "lib/conduit/progress/progress.hpp"
#include "lib/job/job.hpp"
#include "memreg/memreg.hpp"
#include "nic/device.hpp"
#include "penstock/penstock.hpp"
#include "queues/queues.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// What a thread keeps from poll to poll of a domain. Who sends: with more than a few connections
/// it looks at the hot ones each time, and at the others in turn; who has sent nothing for a while
/// is hot no longer. And, on the verbs path, what it must hold to take a request: where a reply is
/// built, and a spare for either size of buffer; and the buffers that it holds back for that.
struct poller {
  static constexpr std::uint32_t few_peers = 3;  ///< are all looked at, each time
  static constexpr std::uint32_t hot_peers = 12, cold_a_poll = 2, polls_a_cooling = 512;
  static constexpr std::uint32_t messages_a_turn = 256;  ///< where processes outnumber cores
  peer* hot[hot_peers] = {};
  std::uint32_t hot_count = 0, sent_lately = 0, until_cooling = polls_a_cooling;
  std::uint32_t victim = 0, cursor = 0, since_look = 0, replies_due = 0;
  std::optional<std::uint32_t> reply_chunk, spare[2];
  queues::held_back held[2];
  std::uint32_t late_receives = 0;  ///< for replies, yet to be put back

  [[nodiscard]] bool equipped() const noexcept { return reply_chunk && spare[0] && spare[1]; }
  std::uint32_t busy = 0;       ///< messages sent and handled in this turn
  bool keeps = false;           ///< what it holds, whatever others lack: the progress thread
  std::uint64_t probed_ns = 0;  ///< when it last asked whether peers are still reached
  std::uint32_t polls = 0;      ///< of its own domain; where attendance is noted only
  std::uint32_t helps = 0;      ///< polls for which it looks elsewhere each time
  std::uint32_t attended = 0;   ///< of another's domain, as last seen

  void warm(peer* p) noexcept;
  void cool() noexcept;
};

/// Reads of fd answer EAGAIN instead of waiting. False, with errno: the kernel refuses.
bool never_waits(int fd) noexcept;

class engine {
 public:
  static result<std::unique_ptr<engine>> open(job::job& j, const settings& s);
  /// The largest segment that each of this host's processes of a job may have (per_process), and
  /// which limit says so; before there is an engine. It is the process's share of what can be
  /// registered with the device in use, but for the queues' eighth.
  static memreg::pin_budget segment_budget(const settings& s, unsigned processes_on_host);
  ~engine();
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;

  // Set-up.
  /// Registers at the next free user index (from 1), or at `index`. Before start(). False: taken or
  /// full.
  bool add_handler(std::uint8_t index, const handler_entry& h) noexcept;
  std::uint8_t next_handler() const noexcept;
  /// Registers one of the engine's own kind, for barriers and the like. Before start().
  void add_system_handler(std::uint8_t index, const handler_entry& h) noexcept;
  /// Collective; see endpoint::start(). No handler runs before this process polls.
  result<void> start(std::size_t segment_bytes);
  /// After start(): from here on the progress thread, if there is to be one, runs handlers too.
  result<void> start_progress();
  /// The files of the setting CREDIT_STATS; close() writes them. For a process that leaves
  /// otherwise: once, when it sends nothing more.
  void write_credit_statistics() noexcept;
  /// Collective; waits (polling) for all, within the exit limit (departure.hpp). From here on every
  /// call says that it is over.
  void close() noexcept;
  /// Waits until what was sent has been sent, for limit_ns at most.
  void finish_sends(std::uint64_t limit_ns) noexcept;
  /// Ends the progress thread, and waits for a handler that it runs.
  void end_progress() noexcept { progress_.reset(); }
  /// Ends the progress thread, if there is one, waiting for a handler that it runs, for limit_ns at
  /// most. False: it still runs. From a handler on that thread: it does not poll any more. From
  /// here on others may leave.
  bool stop_progress(std::uint64_t limit_ns) noexcept {
    if (connector_ != nullptr) connector_->hush();
    return progress_ == nullptr || progress_->stop(limit_ns);
  }

  // Messages. Requests wait by polling; see endpoint. Replies do not wait.
  status request(rank_id to, const outgoing& m) noexcept;
  status reply(token_state& t, const outgoing& m) noexcept;
  /// reply() with a Short of a user's handler; the shortest way there is. args as in
  /// request_short().
  static status reply_short(token_state& t, std::uint8_t handler, const std::uint32_t* args,
                            unsigned nargs) noexcept;
  /// reply() with a Medium of a user's handler. args as in request_short().
  static status reply_medium(token_state& t, std::uint8_t handler, const std::uint32_t* args,
                             unsigned nargs, const void* payload, std::size_t bytes) noexcept {
    return t.lane != nullptr ? reply_medium_direct(t, handler, args, nargs, payload, bytes)
                             : reply_medium_verbs(t, handler, args, nargs, payload, bytes);
  }
  /// A hint: `messages` Mediums of `bytes` each will be on their way to r at a time. Waits for
  /// nothing.
  status expect(rank_id r, std::uint32_t messages, std::size_t bytes) noexcept;
  /// request() of a Short of a user's handler; the shortest way there is. args is read in pairs: it
  /// has room for an even number of words.
  status request_short(rank_id to, std::uint8_t handler, const std::uint32_t* args,
                       unsigned nargs) noexcept;
  /// request() of a Medium of a user's handler. args as in request_short().
  status request_medium(rank_id to, std::uint8_t handler, const std::uint32_t* args, unsigned nargs,
                        const void* payload, std::size_t bytes) noexcept {
    return direct_ ? request_medium_direct(to, handler, args, nargs, payload, bytes)
                   : request_medium_verbs(to, handler, args, nargs, payload, bytes);
  }
  /// As request(), but answers status::no_credit and its kin instead of waiting.
  status try_request(rank_id to, const outgoing& m) noexcept;

  /// One round over all queues; adds the number of messages handled to *n, if that is asked for.
  status poll(unsigned* n = nullptr) noexcept;
  /// The same, and every peer is looked at, however many there are: for who stops polling next.
  status poll_widely(unsigned* n) noexcept;
  /// One step of a wait: polls, and gives the core away when nothing has come for a while. empty
  /// counts the fruitless polls; starts at 0.
  status wait_step(unsigned& empty) noexcept;
  /// What every step of a wait does first while *news is not 0; heed need not return. Who waits
  /// holds nothing then. Before start().
  void heed_in_waits(const std::atomic<std::uint32_t>& news, void (*heed)()) noexcept {
    wait_news_ = &news;
    heed_in_wait_ = heed;
  }
  /// From here on the others' ends are no news: for who is about to leave, and still polls.
  void expect_ends() noexcept {
    closing_.store(true, std::memory_order_relaxed);
    if (connector_ != nullptr) connector_->hush();
  }

  /// Puts, gets and what belongs to them (rma.hpp).
  [[nodiscard]] transfers& one_sided() noexcept { return transfers_; }
  [[nodiscard]] const transfers& one_sided() const noexcept { return transfers_; }

  /// Blocking barrier over all processes; handlers run meanwhile. One thread at a time.
  status barrier() noexcept { return started_ ? meeting_.run() : over(); }
  [[nodiscard]] std::uint32_t barriers_begun() const noexcept { return meeting_.begun(); }
  /// What barriers count in, or null: after start().
  [[nodiscard]] host_page* page() const noexcept { return page_.get(); }
  /// Who has left early; barriers and waits ask.
  [[nodiscard]] departure& who_left() noexcept { return departure_; }

  // What there is.
  [[nodiscard]] rank_id rank() const noexcept { return rank_; }
  [[nodiscard]] rank_id size() const noexcept { return size_; }
  [[nodiscard]] std::span<std::byte> segment() const noexcept;
  [[nodiscard]] std::span<std::byte> segment_of(rank_id r) const noexcept;
  /// Where r's segment is mapped in this process (its own for itself), or null; connects when
  /// needed.
  [[nodiscard]] std::byte* segment_here(rank_id r) noexcept;
  [[nodiscard]] const settings& options() const noexcept { return settings_; }
  [[nodiscard]] job::job& membership() noexcept { return job_; }
  [[nodiscard]] endpoint_statistics statistics() const noexcept;
  [[nodiscard]] std::string memory_report(std::size_t for_ranks) const;
  [[nodiscard]] const nic::device& device() const noexcept { return device_; }
  /// The C++ interface's object over this engine, which tokens name.
  void set_owner(endpoint* e) noexcept { endpoint_ = e; }
  [[nodiscard]] endpoint* owner_endpoint() const noexcept { return endpoint_; }

 private:
  friend struct test_access;  // tests that play a peer gone mad
  engine(job::job& j, const settings& s);
  // request.cpp
  status request_self(const outgoing& m) noexcept;
  [[nodiscard]] std::uint32_t cost_of(const outgoing& m) const noexcept;
  [[nodiscard]] static bool in_segment(const peer& p, const void* at, std::size_t bytes) noexcept;
  // The parts lie in the queue; false: the bytes made no sense.
  bool run_handler(token_state& t, codec::parts at) noexcept;
  void call_handler(const handler_entry& e, token_state& t, const std::byte* args,
                    std::byte* payload, std::size_t bytes) noexcept;

  // credits.cpp
  [[nodiscard]] status take_credits(peer& p, std::uint32_t cost, std::uint32_t most = ~0u) noexcept;
  void stall(peer& p, std::uint32_t cost, bool first) noexcept;
  std::uint8_t request_credit_byte(peer& p, std::uint32_t cost) noexcept;
  bool note_request(peer& p, token_state& t) noexcept;
  bool grant_more(peer& p, token_state& t) noexcept;
  void look_for_credits(peer& p) noexcept;
  void give_back_lease(peer& p) noexcept;
  void loan_changed(peer& p, std::uint32_t lent, std::uint32_t revoked) noexcept;
  static void owe(peer& p, std::uint32_t cost, std::uint32_t grant) noexcept;
  wire::header reply_header(peer& p, const token_state& t, std::uint32_t returned) noexcept;
  wire::header credits_header(peer& p) noexcept;
  void absorb_credits(peer& p, const wire::header& h, std::uint32_t returned,
                      std::uint32_t tag) noexcept;
  void absorb_reply(peer& p, const wire::header& h, std::uint32_t tag) noexcept;
  void tell_returned(peer& p) noexcept;
  void note_returned(peer& p, std::uint32_t n) noexcept;
  bool try_note_returned(peer& p, std::uint32_t n, std::uint32_t tag) noexcept;
  void collect_returned(peer& p, std::uint32_t tag) noexcept;
  void settle_returned(peer& p, std::uint32_t tag) noexcept;
  bool system_message(peer& p, const wire::header& h) noexcept;
  void follow_intents() noexcept;
  // R4 intents  release intents_  -> A4 (follow_intents): after the ledger was told
  void say_intents() noexcept { intents_.store(true, std::memory_order_release); }
  void send_system(peer& p, wire::system_op op, std::uint32_t count, bool epoch,
                   bool urgent) noexcept;
  void send_deferred() noexcept;
  bool push_system(peer& p, const wire::header& h) noexcept;

  // direct.cpp
  template <bool quick, class Push>
  bool push_leased(rank_id to, const outgoing& m, Push&& push) noexcept;
  template <bool quick>
  bool push_short(rank_id to, const outgoing& m) noexcept;
  template <bool quick>
  bool push_medium(rank_id to, const outgoing& m) noexcept;
  template <class Push>
  static status push_reply(token_state& t, Push&& push) noexcept;
  static void note_replied(peer& p, token_state& t) noexcept;
  status request_medium_direct(rank_id to, std::uint8_t handler, const std::uint32_t* args,
                               unsigned nargs, const void* payload, std::size_t bytes) noexcept;
  static status reply_medium_direct(token_state& t, std::uint8_t handler, const std::uint32_t* args,
                                    unsigned nargs, const void* payload,
                                    std::size_t bytes) noexcept;
  // Where the short way does not go.
  [[gnu::noinline]] status request_short_slow(rank_id to, std::uint8_t handler,
                                              const std::uint32_t* args, unsigned nargs) noexcept;
  [[gnu::noinline]] status request_medium_slow(rank_id to, std::uint8_t handler,
                                               const std::uint32_t* args, unsigned nargs,
                                               const void* payload, std::size_t bytes) noexcept;
  bool run_plain_medium(nic::shm::ring_rx& rx, token_state& t) noexcept;
  bool run_direct(const nic::shm::ring_rx::message& m, token_state& t) noexcept;
  status lease_direct(peer& p, std::uint32_t cost, std::uint32_t tag) noexcept;
  status request_direct(peer& p, const outgoing& m) noexcept;
  status reply_direct(token_state& t, const outgoing& m) noexcept;
  [[nodiscard]] static std::uint32_t cost_of(const wire::header& h) noexcept;
  static bool find_reply_room(peer& p) noexcept;
  static bool push_word_direct(peer& p, const wire::header& h) noexcept;
  void push_credits_direct(peer& p) noexcept;
  void wake(peer& p) noexcept;
  [[gnu::noinline]] bool take_request_direct(peer& p, nic::shm::ring_rx& rx,
                                             std::uint64_t word) noexcept;
  [[gnu::noinline]] void take_reply_direct(peer& p, nic::shm::ring_rx& rx,
                                           std::uint64_t word) noexcept;
  static void rest_in_stream(peer& p, unsigned n) noexcept;
  unsigned take_requests(peer& p, std::uint32_t tag) noexcept;
  unsigned take_replies(peer& p, std::uint32_t tag) noexcept;
  unsigned poll_requests_direct(peer& p, std::uint32_t tag) noexcept;
  unsigned poll_replies_direct(peer& p, std::uint32_t tag) noexcept;
  [[gnu::noinline]] status poll_replies_news(unsigned* n, peer& p, std::uint32_t first) noexcept;
  [[gnu::noinline]] status poll_requests_news(unsigned* n, peer& p, std::uint32_t first) noexcept;
  status poll_behind(unsigned* n, peer& p, std::uint32_t first, unsigned got) noexcept;

  // poll.cpp
  poller& my_poller(std::uint32_t tag, const domain& d) noexcept;
  unsigned poll_peer_direct(peer& p, std::uint32_t tag) noexcept;
  unsigned poll_from_direct(domain& d, std::uint32_t tag, std::uint32_t first,
                            std::uint32_t all) noexcept;
  unsigned poll_direct(domain& d, std::uint32_t tag) noexcept;
  unsigned poll_in_turn(domain& d, std::uint32_t tag, std::uint32_t all) noexcept;
  [[gnu::noinline]] status poll_all(unsigned* n, std::uint32_t tag) noexcept;
  unsigned poll_domain(domain& d, std::uint32_t tag) noexcept;
  unsigned poll_elsewhere(std::uint32_t tag, bool now) noexcept;
  void note_attendance(std::uint32_t tag) noexcept;
  void probe_peers() noexcept;
  void share_core(std::uint32_t messages) noexcept;
  status poll_verbs(unsigned* got, domain& d, std::uint32_t tag) noexcept;
  void return_idle_credits(domain& d, poller& mine, std::uint32_t tag) noexcept;

  // verbs.cpp and verbs_receive.cpp
  [[nodiscard]] bool packs(const outgoing& m) const noexcept;
  result<std::uint32_t> key_for(const void* payload, std::size_t bytes,
                                ibv_mr*& temporary) noexcept;
  status write_payload(peer& p, unsigned lane, const outgoing& m, std::uint64_t& number) noexcept;
  [[nodiscard]] bool long_may_go(const peer& p, unsigned lane) const noexcept;
  void long_went(const peer& p, std::uint64_t number) noexcept;
  [[nodiscard]] bool is_plain(const outgoing& m) const noexcept;
  template <class Write, class Before>
  status post_request(peer& p, std::uint32_t tag, unsigned lane, std::uint32_t cost,
                      std::uint32_t n, bool copied, Write&& write, Before&& before) noexcept;
  bool post_plain_request(rank_id to, const outgoing& m) noexcept;
  status request_short_verbs(rank_id to, std::uint8_t handler, const std::uint32_t* args,
                             unsigned nargs) noexcept;
  status request_medium_verbs(rank_id to, std::uint8_t handler, const std::uint32_t* args,
                              unsigned nargs, const void* payload, std::size_t bytes) noexcept;
  status request_verbs(peer& p, const outgoing& m) noexcept;
  template <class Write>
  void post_reply(token_state& t, std::uint32_t n, bool copied, Write&& write) noexcept;
  bool post_plain_reply(token_state& t, const outgoing& m) noexcept;
  static status reply_short_verbs(token_state& t, std::uint8_t handler, const std::uint32_t* args,
                                  unsigned nargs) noexcept;
  static status reply_medium_verbs(token_state& t, std::uint8_t handler, const std::uint32_t* args,
                                   unsigned nargs, const void* payload, std::size_t bytes) noexcept;
  status reply_verbs(token_state& t, const outgoing& m) noexcept;
  template <class Write>
  void write_reply(peer& p, std::uint32_t chunk, std::uint32_t n, bool copied, std::uint32_t imm,
                   Write&& write) noexcept;
  [[gnu::noinline]] void await_reply_room(peer& p, bool signalled) noexcept;
  bool push_word_verbs(peer& p, const wire::header& h) noexcept;
  void push_credits_verbs(peer& p, std::uint32_t tag) noexcept;
  bool free_listed_chunks(peer& p, const std::byte* at, std::uint32_t bytes) noexcept;
  unsigned reap_sends(domain& d) noexcept;
  void run_plain_verbs(token_state& t, std::byte* at, std::uint32_t n) noexcept;
  void run_other_verbs(token_state& t, std::byte* at, std::uint32_t n) noexcept;
  [[gnu::noinline]] void take_other_reply_verbs(peer& p, const wire::header& h, std::byte* at,
                                                std::uint32_t n, std::uint32_t tag) noexcept;
  [[gnu::noinline]] bool take_other_request_verbs(token_state& t, std::byte* at,
                                                  std::uint32_t n) noexcept;
  [[gnu::noinline]] bool take_word_verbs(peer& p, std::uint32_t imm) noexcept;
  template <class Arrived>
  void await_sends(peer& p, Arrived&& arrived) noexcept;
  unsigned take_replies_verbs(domain& d, poller& mine, std::uint32_t tag) noexcept;
  unsigned poll_replies_verbs(domain& d, poller& mine, std::uint32_t tag) noexcept;
  [[noreturn, gnu::cold]] void receives_failed() noexcept;
  void put_receives_back(domain& d, poller& mine, std::uint32_t n, bool spare) noexcept;
  [[nodiscard]] bool equip(domain& d, poller& mine) noexcept;
  void lay_down(domain& d, poller& mine) noexcept;
  unsigned take_requests_verbs(domain& d, poller& mine, std::uint32_t tag) noexcept;
  unsigned poll_requests_verbs(domain& d, poller& mine, std::uint32_t tag) noexcept;

  // connect.cpp
  status connect(peer& p, unsigned lane) noexcept;
  void say_hello(peer& p, bool want) noexcept;
  void hear_datagram(const connector& by, const std::byte* bytes, std::size_t size) noexcept;
  result<void> heard_hello(peer& p, const struct hello& h) noexcept;
  result<void> make_lanes(peer& p, std::uint8_t wanted) noexcept;
  result<void> make_lane(peer& p, unsigned lane) noexcept;
  result<void> bind_lane(peer& p, unsigned lane, std::uint32_t qpn, std::uint32_t psn) noexcept;
  void attach_peer(peer& p) noexcept;
  result<void> map_segment(peer& p) noexcept;
  std::byte* segment_for_reply(peer& p) noexcept;
  result<void> connect_self(peer& p) noexcept;

  // The calling thread's domain, and its channel to r.
  [[nodiscard]] domain& my_domain(std::uint32_t tag) noexcept {
    return concurrent(build_mode) ? *channels_of_[tag - 1]->home : domains_[0];
  }
  [[nodiscard]] peer& channel(rank_id r) noexcept {
    return concurrent(build_mode) ? channels_of_[thread_tag() - 1][r] : peers_[r];
  }
  // Sizes of what each domain has; verbs path.
  [[nodiscard]] const queues::dimensions& sizes() const noexcept {
    return domains_[0].queues->size;
  }

  // setup.cpp
  result<void> open_device();
  void open_domains();
  result<void> open_queues();
  result<void> introduce();
  [[nodiscard]] bool counts_barriers() const noexcept;
  [[nodiscard]] queues::dimensions dimensions_for(std::uint32_t ranks) const;
  [[nodiscard]] bool sent_all(domain& d) noexcept;
  [[nodiscard]] static bool sent_all(const peer& p) noexcept;

  // events.cpp
  // What calls answer where the endpoint is closed, not yet started, or the parent process's.
  [[gnu::cold, gnu::noinline]] static status over() noexcept;
  void stop_calls() noexcept;
  static void leave_to_parent(void* self) noexcept;
  [[nodiscard]] bool attention() noexcept;
  [[nodiscard]] bool attention_to_device() const noexcept;
  [[nodiscard]] bool attention_to_kernel() noexcept;
  void look_around() noexcept;
  void look_around_in_wait() noexcept;
  [[gnu::cold]] void lost_contact(const peer& p, const char* how) noexcept;
  [[noreturn, gnu::cold]] void peer_failed(const peer& p, const char* how) noexcept;
  inline static const std::atomic<std::uint32_t> no_news_{0};
  static constexpr const char* malformed = "sent bytes that make no sense";
  // Direct path: polls without a request after which what is owed is sent by itself.
  static constexpr std::uint16_t idle_polls = 32;
  // Verbs path: polls between two looks at what may wait: sends and transfers that have completed,
  // and what concerns the job.
  static constexpr std::uint16_t polls_a_look = 32;
  // Looks without a message after which what is owed is sent by itself.
  static constexpr std::uint16_t idle_looks = 2;
  // An empty look at a completion queue costs the other's messages time. So for a while after a
  // request this thread polls for replies, else for requests, and for both once in so many polls.
  static constexpr std::uint16_t polls_for_replies = 256, polls_of_one = 4;

  job::job& job_;
  settings settings_;
  nic::device device_;
  std::uint64_t job_secret_ = 0;
  credit::config credit_config_;

  // What messages and polls read, together.
  const rank_id rank_, size_;
  bool direct_ = false;
  bool started_ = false;
  bool quick_polls_ = false;  // started, on the direct path, without attendance
  bool quick_verbs_ = false;  // started, on the verbs path, and a poll has nothing else to look at
  bool attendance_ = false;   // is noted: for threads of other domains, or the progress thread
  bool plain_verbs_ = false;  // started, on the verbs path, and messages never have to settle
  std::uint32_t am_limit_ = 8, safe_limit_ = 12;  // events a poll, from the settings
  std::uint32_t max_inline_ = 0;                  // bytes that queue pairs take inline
  std::uint32_t short_inline_ = 0;                // the same, of messages that cost one credit
  std::uint32_t domain_count_ = 0;
  std::unique_ptr<domain[]> domains_;
  std::vector<peer> peers_;  // by domain, then by rank
  std::uint32_t spins_before_yield_ = 200;
  std::uint32_t unanswered_limit_ = 1;  // requests without reply that one message answers

  // Read by every poll, or every look.
  const std::atomic<std::uint32_t>* events_ = nullptr;  // raised by the shared-memory device
  std::atomic<std::uint32_t> events_seen_{0};
  std::atomic<std::uint32_t> looks_{0};     // kernel devices: whether to look at slow queues
  std::atomic<std::uint32_t> deferred_{0};  // system messages that wait for room
  std::atomic<bool> intents_{false};        // the ledger may have something to say
  std::atomic<bool> closing_{false};
  const std::atomic<std::uint32_t>* wait_news_ = &no_news_;
  void (*heed_in_wait_)() = nullptr;
  std::atomic<std::uint64_t> credits_lent_{0};     // on demand
  std::atomic<std::uint64_t> credits_revoked_{0};  // given back to this process

  std::unique_ptr<poller[]> pollers_[max_threads];  // each its thread's own; one for each domain
  peer* channels_of_[max_threads] = {};             // of a thread's domain, by thread
  handler_table handlers_;

  friend class transfers;
  friend class everywhere;
  friend class progress;
  friend class connector;
  friend class departure;
  std::unique_ptr<host_page> page_;
  fork_notice in_child_{&leave_to_parent, this};
  meeting meeting_{*this};
  departure departure_{*this};
  transfers transfers_{*this};
  endpoint* endpoint_ = nullptr;
  ibv_pd* pd_ = nullptr;
  std::unique_ptr<datagrams> datagram_port_;
  std::unique_ptr<memreg::segment> segment_;
  std::unique_ptr<memreg::registrar> registrar_;
  ibv_cq* unused_cq_ = nullptr;  // direct path: completions of QPs whose rings are used directly
  ibv_srq* unused_srq_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;  // with a progress thread only
  std::unique_ptr<progress> progress_;
  ibv_comp_channel* hello_channel_ = nullptr;  // tells the connector of datagrams
  std::unique_ptr<connector> connector_;
};

inline std::uint32_t token_state::source() const noexcept {
  return from != nullptr ? from->rank : engine->rank();
}

}  // namespace penstock::conduit::PENSTOCK_ABI
