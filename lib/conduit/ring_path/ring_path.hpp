// The path between processes of one host: messages travel through the rings of the shared-memory
// device's queue pairs, without work requests. The sender writes a message into the ring, and the
// handler reads it there; no other copy is made. The class meets the contract of peer/path.hpp;
// only the engine uses it.
//
// Why nothing waits for ever: a request that finds no room or no credits is not sent; the caller
// learns what is short, and polls. A request is taken out of its ring only when room for the
// longest reply has been set aside in the reply ring towards its sender (I3); messages of the
// engine's own on that lane leave this room alone. Replies can be taken out at any time, since
// their handlers send nothing. So reply rings always drain, and then requests do. While a process
// does not poll, its requests can be taken all the same: no more of them are under way than there
// are slots for their replies (most_unanswered). Only replies with much payload fill the data of
// their ring, and wait until its owner polls.
//
// send.cpp sends; receive.cpp receives and polls; length.cpp decides how long rings are;
// ring_path_inl.hpp has the short way of a message that finds all it needs at hand.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>

#include "lib/conduit/connecting/connections.hpp"
#include "lib/conduit/credit_flow/credit_flow.hpp"
#include "lib/conduit/peer/path.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

template <>
class path_by<way::rings> {
 public:
  path_by(core& c, credit_flow& f, connections& l) noexcept : c_(c), credits_(f), connections_(l) {}
  path_by(const path_by&) = delete;
  path_by& operator=(const path_by&) = delete;

  // The contract; see peer/path.hpp.
  result<void> open(ibv_comp_channel* bell);
  void close() noexcept;
  [[nodiscard]] std::uint32_t cost_of(const peer& p, const outgoing& m) const noexcept;
  template <class... What>
  bool request_quick(peer& p, std::uint32_t tag, What... what) noexcept;
  template <class... What>
  static bool reply_quick(const token_state&, What...) noexcept {
    return false;  // see reply_at_once()
  }
  void allow_quick(bool may) noexcept { quick_ = may; }
  status try_request(peer& p, const outgoing& m) noexcept;
  void reserve(peer& p, draft& d, std::size_t least, std::size_t most) noexcept;
  void reserve(token_state& t, const outgoing& m, reply_place& at, std::size_t most) noexcept;
  void cancel(peer&, draft&) noexcept {}
  status reply(token_state& t, const outgoing& m) noexcept;
  bool say(peer& p, const wire::header& h) noexcept;
  void give_credits_back(inside<end_of::request_in> in, peer& p, std::uint32_t tag) noexcept;
  void describe_lane(peer& p, unsigned lane, ibv_qp_init_attr& init) noexcept;
  void attached(peer& p) noexcept;
  result<void> reached(peer& p) noexcept;
  void shut(peer&) noexcept {}
  void note_end(peer&) noexcept {}
  /// All of the peers if they are few, else the hot ones and some others. The engine asks
  /// attention() itself where all peers are by rings, so it is never due.
  unsigned poll(domain& d, std::uint32_t tag, bool busy, bool& due) noexcept;
  unsigned poll_others(domain& d, std::uint32_t tag) noexcept;
  unsigned poll_replies(domain& d, std::uint32_t tag) noexcept;
  unsigned poll_replies_of(peer& p, std::uint32_t tag) noexcept;
  [[nodiscard]] static bool has_news(peer& p) noexcept {
    return p.request_rx.seen()->ready_hint() || p.reply_rx.seen()->ready_hint();
  }
  [[nodiscard]] static bool holds_back(domain&, std::uint32_t) noexcept { return false; }
  template <class F>
  void each_event_queue(F&& f) const {
    f(cq_);
  }
  /// By a thread that is inside no end: what was left by handlers whose end another thread has
  /// taken (relieved.cpp).
  void send_put_off() noexcept;
  [[nodiscard]] bool answers_left() const noexcept {
    // L2 all sent  acquire answers_left_  <- L1 (relieved.cpp)
    return answers_left_.load(std::memory_order_acquire) != 0;
  }
  static unsigned reap_sends(domain&) noexcept { return 0; }
  [[nodiscard]] static bool sent_all(const peer&) noexcept { return true; }
  void return_idle_credits(domain&, std::uint32_t) noexcept {}  // poll() does
  void probe_peers() noexcept {}

  // What ways/ways.hpp inlines for messages and polls that call no function.
  /// Sends m, a user's Short or Medium that costs one credit. False: it was not sent. quick: calls
  /// no function.
  template <bool quick>
  static bool push_quick(const handler_table& handlers, peer& p, std::uint32_t tag,
                         const outgoing& m) noexcept;
  /// Answers t with a user's Short or Medium. False: it was not sent.
  static bool reply_at_once(const handler_table& handlers, token_state& t,
                            const outgoing& m) noexcept;
  /// See ways::poll_at_once().
  template <class Quiet, class Rest>
  status poll_at_once(unsigned* n, domain& d, std::uint32_t tag, Quiet&& quiet,
                      Rest&& rest) noexcept;

  /// Maps p's segment, for a reply that must be written now, and returns its address here. It waits
  /// while p is stopped, and ends the job if the segment cannot be mapped. Any thread.
  std::byte* segment_for_reply(peer& p) noexcept;

 private:
  // Polls without a request after which credits that are owed are sent as a message of their own.
  static constexpr std::uint16_t idle_polls = 32;
  template <bool quick, class Push>
  static bool push_leased(const handler_table& handlers, peer& p, std::uint32_t tag,
                          const outgoing& m, Push&& push) noexcept;
  // Takes the next lease for push_quick(). True: that can be tried again. It is so if the last
  // lease is spent, the next message has no news of credits to carry, and the long way would
  // neither call slow_progress() nor yield the core. False: the long way finds out why.
  bool renew(peer& p, std::uint32_t tag) noexcept;
  [[nodiscard]] static bool replies_news(peer& p) noexcept;
  [[nodiscard]] static bool requests_news(peer& p) noexcept;
  // poll_replies_news() takes the replies of p, which is the peer numbered `first`, then those of
  // the peers behind it, then the requests of all. poll_requests_news() takes the requests of p,
  // and polls the peers behind it.
  [[gnu::noinline]] status poll_replies_news(unsigned* n, peer& p, std::uint32_t first) noexcept;
  [[gnu::noinline]] status poll_requests_news(unsigned* n, peer& p, std::uint32_t first) noexcept;
  unsigned poll_from(domain& d, std::uint32_t tag, std::uint32_t first, std::uint32_t all) noexcept;
  unsigned poll_in_turn(domain& d, std::uint32_t tag, std::uint32_t all) noexcept;
  static void note_replied(inside<end_of::request_in> in, peer& p, token_state& t) noexcept;
  status lease(inside<end_of::request_out> in, peer& p, const outgoing& m, std::uint32_t cost,
               std::uint32_t tag) noexcept;
  bool find_reply_room(inside<end_of::request_in> in, peer& p) noexcept;
  // How long the rings to p are; length.cpp.
  void fit_request_ring(inside<end_of::request_out> in, peer& p) noexcept;
  static void look_for_mark(peer& p, std::uint32_t tag) noexcept;
  [[gnu::noinline]] void lengthen_request_ring(inside<end_of::request_out> in, peer& p,
                                               std::uint32_t credits) noexcept;
  // relieved.cpp
  [[gnu::cold, gnu::noinline]] static nic::shm::ring_rx::sight behind_mark(
      nic::shm::ring_rx& rx, const nic::shm::ring_slot*& s) noexcept;
  [[gnu::cold, gnu::noinline]] bool skip(peer& p, bool requests, std::uint32_t tag) noexcept;
  bool relieve(peer& p, bool requests, std::uint32_t tag) noexcept;
  [[gnu::cold, gnu::noinline]] status reply_outside(token_state& t, const outgoing& m) noexcept;
  void answer_late(inside<end_of::request_in> in, token_state& t, const outgoing& m) noexcept;
  [[gnu::cold, gnu::noinline]] void end_outside(const token_state& t, relieved_end e,
                                                std::uint32_t tag) noexcept;
  void note_end(peer& p, const relieved_end& e, std::uint32_t tag) noexcept;
  void free_left() noexcept;
  void answer(inside<end_of::request_in> in, token_state& t, const outgoing& m) noexcept;
  void tidy(domain& d, std::uint32_t tag) noexcept;
  void tidy_requests(inside<end_of::request_out> in, peer& p) noexcept;
  void tidy_replies(inside<end_of::request_in> in, peer& p) noexcept;
  /// How long the device waits for a peer that shows it memory, which may be stopped.
  static constexpr std::uint64_t while_connecting_ns = 100'000'000, while_polling_ns = 1'000'000;
  result<void> map_segment(peer& p, std::uint64_t patience_ns) noexcept;
  static void wake(peer& p) noexcept;
  bool run_plain_medium(nic::shm::ring_rx& rx, token_state& t, relieved_end& e) noexcept;
  // large.cpp
  bool map_large(peer& p, std::uint64_t base, std::uint32_t key,
                 std::uint64_t patience_ns) noexcept;
  [[gnu::noinline]] bool may_take_large(peer& p, nic::shm::ring_rx& rx,
                                        std::uint64_t word) noexcept;
  [[gnu::noinline]] bool run_large(token_state& t, codec::parts at, relieved_end& e) noexcept;
  bool run_lent(token_state& t, codec::parts at, std::size_t large, relieved_end& e) noexcept;
  bool run_any(const nic::shm::ring_rx::message& m, token_state& t, relieved_end& e) noexcept;
  // What became of a message: the thread goes on, its sender waits for credits, or another thread
  // has taken the end meanwhile.
  enum class outcome : std::uint8_t { done, urgent, relieved };
  [[gnu::noinline]] outcome take_other_request(inside<end_of::request_in> in, peer& p,
                                               nic::shm::ring_rx& rx, std::uint64_t word,
                                               unsigned before, std::uint32_t tag) noexcept;
  [[gnu::noinline]] outcome take_other_reply(inside<end_of::reply_in> in, peer& p,
                                             nic::shm::ring_rx& rx, std::uint64_t word,
                                             std::uint32_t tag) noexcept;
  static void back_off_in_stream(inside<end_of::request_in> in, peer& p, unsigned n) noexcept;
  unsigned take_requests(peer& p, std::uint32_t tag) noexcept;
  unsigned take_replies(peer& p, std::uint32_t tag) noexcept;
  unsigned poll_requests_of(peer& p, std::uint32_t tag) noexcept;
  unsigned poll_peer(peer& p, std::uint32_t tag) noexcept;

  core& c_;
  credit_flow& credits_;
  connections& connections_;
  ibv_cq* cq_ =
      nullptr;  // of queue pairs whose rings are used directly; its events tell of messages
  ibv_srq* srq_ = nullptr;
  bool quick_ = false;  // started, and all peers are by rings
  std::atomic<std::uint32_t> answers_left_{0};
};
using ring_path = path_by<way::rings>;
static_assert(path<ring_path>);

}  // namespace penstock::conduit::PENSTOCK_ABI
