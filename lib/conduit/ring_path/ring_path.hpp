// The path of a host's own processes: messages through the rings of the shared-memory device's
// queue pairs, without work requests. A message is written once, into the ring, and its handler
// reads it there. It meets the contract of channel/path.hpp. Used by the engine alone.
//
// Why nothing waits for ever: a request that finds no room or credits is answered "short", and its
// caller polls; a request is taken out of its ring only when room for the longest reply has been
// set aside in the reply ring towards its sender (I3), which what the engine itself says on that
// lane leaves alone; replies are taken out at any time, since their handlers send nothing. So reply
// rings always drain, and then requests do. And while a process does not poll, its requests can be
// taken all the same: no more are on their way than their replies have slots (most_unanswered).
// Only replies with much payload fill the data of their ring, and wait for it.
//
// send.cpp: what goes out; receive.cpp: what comes in, and the polls; length.cpp: how long rings
// are; ring_path_inl.hpp: the short way of a message that finds all it needs at hand.
#pragma once

#include <infiniband/verbs.h>

#include "lib/conduit/channel/path.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class ring_path {
 public:
  explicit ring_path(channels& c) noexcept : c_(c) {}
  ring_path(const ring_path&) = delete;
  ring_path& operator=(const ring_path&) = delete;

  // The contract; see channel/path.hpp.
  result<void> open(ibv_comp_channel* bell);
  void close() noexcept;
  [[nodiscard]] std::uint32_t cost_of(const outgoing& m) const noexcept;
  status try_request(peer& p, const outgoing& m) noexcept;
  void reserve(peer& p, draft& d, std::size_t least, std::size_t most) noexcept;
  void cancel(peer&, draft&) noexcept {}
  status reply(token_state& t, const outgoing& m) noexcept;
  unsigned poll_replies(domain& d, std::uint32_t tag) noexcept;
  unsigned poll_requests(domain& d, std::uint32_t tag) noexcept;
  bool say(peer& p, const wire::header& h) noexcept;
  void give_credits_back(peer& p, std::uint32_t tag) noexcept;
  bool room_for_reply(peer& p, std::uint32_t tag) noexcept;
  void describe_lane(peer& p, unsigned lane, ibv_qp_init_attr& init) noexcept;
  void attached(peer& p) noexcept;
  result<void> reached(peer& p) noexcept;

  // The short way; ring_path_inl.hpp. m costs one credit. False: it goes the long way. quick: calls
  // nobody.
  template <bool quick>
  static bool push_short(const handler_table& handlers, peer& p, std::uint32_t tag,
                         const outgoing& m) noexcept;
  template <bool quick>
  static bool push_medium(const handler_table& handlers, peer& p, std::uint32_t tag,
                          const outgoing& m) noexcept;
  /// Takes the next lease for these two, where all is by rings: if the last one is spent, the next
  /// message has nothing to say but what it costs, and the long way would neither look around nor
  /// share the core. False: it finds out why.
  bool renew(peer& p, std::uint32_t tag) noexcept;
  /// t.lane says that it may, and `running` that this is its handler.
  static status reply_short(token_state& t, const outgoing& m) noexcept;
  static status reply_medium(token_state& t, const outgoing& m) noexcept;

  // Polls. One that finds nothing looks at few_peers by itself, with these two.
  [[nodiscard]] static bool replies_news(peer& p) noexcept;
  [[nodiscard]] static bool requests_news(peer& p) noexcept;
  /// p, the first-th peer, has replies, or requests; so may others behind it.
  [[gnu::noinline]] status poll_replies_news(unsigned* n, peer& p, std::uint32_t first) noexcept;
  [[gnu::noinline]] status poll_requests_news(unsigned* n, peer& p, std::uint32_t first) noexcept;
  /// A round over d's peers: all of them if they are few, else the hot ones and some others.
  unsigned poll(domain& d, std::uint32_t tag) noexcept;
  unsigned poll_from(domain& d, std::uint32_t tag, std::uint32_t first, std::uint32_t all) noexcept;
  unsigned poll_in_turn(domain& d, std::uint32_t tag, std::uint32_t all) noexcept;
  unsigned poll_replies_of(peer& p, std::uint32_t tag) noexcept;

  /// Which rings for messages while a progress thread sleeps; null: nothing is by rings.
  [[nodiscard]] ibv_cq* bell_queue() const noexcept { return cq_; }
  /// The longest that two Longs to p, or its segment's use, may ask: where it is mapped, at last.
  std::byte* segment_for_reply(peer& p) noexcept;

 private:
  // Polls without a request after which what is owed is sent by itself.
  static constexpr std::uint16_t idle_polls = 32;
  template <bool quick, class Push>
  static bool push_leased(const handler_table& handlers, peer& p, std::uint32_t tag,
                          const outgoing& m, Push&& push) noexcept;
  template <class Push>
  static status push_reply(token_state& t, Push&& push) noexcept;
  static void note_replied(peer& p, token_state& t) noexcept;
  status lease(peer& p, std::uint32_t cost, std::uint32_t tag) noexcept;
  void push_credits(peer& p) noexcept;
  bool find_reply_room(peer& p) noexcept;
  // How long the rings to p are; length.cpp.
  void fit_request_ring(peer& p) noexcept;
  static void look_for_mark(peer& p, std::uint32_t tag) noexcept;
  [[gnu::noinline]] void lengthen_request_ring(peer& p, std::uint32_t credits) noexcept;
  void tidy(domain& d, std::uint32_t tag) noexcept;
  void tidy_requests(peer& p) noexcept;
  void tidy_replies(peer& p) noexcept;
  result<void> map_segment(peer& p) noexcept;
  static void wake(peer& p) noexcept;
  bool run_plain_medium(nic::shm::ring_rx& rx, token_state& t) noexcept;
  // large.cpp
  [[gnu::noinline]] bool may_take_large(peer& p, nic::shm::ring_rx& rx,
                                        std::uint64_t word) noexcept;
  [[gnu::noinline]] bool run_large(token_state& t, codec::parts at) noexcept;
  bool run_any(const nic::shm::ring_rx::message& m, token_state& t) noexcept;
  [[gnu::noinline]] bool take_other_request(peer& p, nic::shm::ring_rx& rx,
                                            std::uint64_t word) noexcept;
  [[gnu::noinline]] void take_other_reply(peer& p, nic::shm::ring_rx& rx,
                                          std::uint64_t word) noexcept;
  static void back_off_in_stream(peer& p, unsigned n) noexcept;
  unsigned take_requests(peer& p, std::uint32_t tag) noexcept;
  unsigned take_replies(peer& p, std::uint32_t tag) noexcept;
  unsigned poll_requests_of(peer& p, std::uint32_t tag) noexcept;
  unsigned poll_peer(peer& p, std::uint32_t tag) noexcept;
  status poll_behind(unsigned* n, peer& p, std::uint32_t first, unsigned got) noexcept;

  channels& c_;
  ibv_cq* cq_ = nullptr;  // of queue pairs whose rings are used directly: its event is a message
  ibv_srq* srq_ = nullptr;
};
static_assert(path<ring_path>);

}  // namespace penstock::conduit::PENSTOCK_ABI
