// The path of all devices: requests are SENDs into shared receive queues, and replies are RDMA
// writes with immediate into the chunk that the request came from. The class meets the contract of
// peer/path.hpp, with the same code for every device of the table in nic/device.hpp. Only the
// engine uses it.
//
//   request   SEND of header, fixed part, payload, up to 256 bytes; longer ones are placed: RDMA
//             WRITE with immediate into the space that the target keeps for this process, where the
//             immediate says (queues/placed_ring.hpp). Where it keeps none: SEND on the bulk lane
//   Long      RDMA WRITE of the payload, then the header's SEND on the same queue pair. A reliable
//             connection delivers in order, so the header's completion says that the payload is in
//             place: no second event is needed, and nothing has to be matched. The payload is sent
//             without a copy where its memory has a key, as a put's is (one_sided/); else piece by
//             piece from the chunk that the message holds anyway, so that it waits for nothing
//             more.
//   reply     RDMA WRITE; the immediate has the number of the chunk
//   credits   the same, with a list of the chunks that it frees
//   system    RDMA WRITE of no bytes; the immediate has the whole message
//   large     a request or reply that says where the payload stands in its sender's memory; the
//             target reads it from there (RDMA READ) and writes a word that frees it (fetch.cpp)
//
// Why nothing waits for ever: completions of sends free send queues, reply chunks and the tickets
// of signalled work requests, and the devices bring these without help of the peer's program. A
// reply's receive is posted before its request goes out. A request is taken from am_cq only with a
// reply chunk and a spare in hand, so that its buffer is not missed (queues/receive_pool.hpp).
//
// send.cpp: requests and Longs; reply.cpp: replies, credits and system messages; receive.cpp:
// receiving and polling; words.cpp: system messages and lists of credits that have come; fetch.cpp:
// large Mediums at the target; left.cpp: answers that found the reply lane held; part.cpp: idle
// connections; setup.cpp: queues and their sizes.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>

#include "lib/conduit/connecting/connections.hpp"
#include "lib/conduit/credit_flow/credit_flow.hpp"
#include "lib/conduit/peer/path.hpp"
#include "lib/conduit/verbs_path/fetches.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

template <>
class path_by<way::verbs> {
 public:
  path_by(core& c, credit_flow& f, connections& l) noexcept : c_(c), credits_(f), connections_(l) {}
  path_by(const path_by&) = delete;
  path_by& operator=(const path_by&) = delete;

  // The contract; see peer/path.hpp.
  result<void> open(ibv_comp_channel* bell);
  void close() noexcept;
  [[nodiscard]] std::uint32_t cost_of(const peer& p, const outgoing& m) const noexcept;
  status try_request(peer& p, const outgoing& m) noexcept;
  void reserve(peer& p, draft& d, std::size_t least, std::size_t most) noexcept;
  void reserve(token_state& t, const outgoing& m, reply_place& at, std::size_t most) noexcept;
  void cancel(peer& p, draft& d) noexcept;
  status reply(token_state& t, const outgoing& m) noexcept;
  unsigned poll_replies(domain& d, std::uint32_t tag) noexcept;
  bool say(peer& p, const wire::header& h) noexcept;
  void give_credits_back(inside<end_of::request_in> in, peer& p, std::uint32_t tag) noexcept;
  void describe_lane(peer& p, unsigned lane, ibv_qp_init_attr& init) noexcept;
  void attached(peer& p) noexcept;
  result<void> reached(peer&) noexcept { return {}; }
  unsigned poll_replies_of(peer& p, std::uint32_t tag) noexcept {
    return poll_replies(*p.home, tag);
  }
  [[nodiscard]] static bool has_news(const peer&) noexcept { return false; }
  /// Puts the queue pairs to p into the error state, so that they give back all that they hold, and
  /// take nothing any more.
  void shut(peer& p) noexcept;

  bool request_quick(peer& p, std::uint32_t tag, std::uint8_t handler, const std::uint32_t* args,
                     unsigned nargs) noexcept;
  bool request_quick(peer& p, std::uint32_t tag, std::uint8_t handler, const std::uint32_t* args,
                     unsigned nargs, const void* payload, std::size_t bytes) noexcept;
  bool reply_quick(token_state& t, std::uint8_t handler, const std::uint32_t* args,
                   unsigned nargs) noexcept;
  bool reply_quick(token_state& t, std::uint8_t handler, const std::uint32_t* args, unsigned nargs,
                   const void* payload, std::size_t bytes) noexcept;
  void allow_quick(bool may) noexcept { plain_ = may; }

  /// Polls for replies or for requests, or for both.
  unsigned poll(domain& d, std::uint32_t tag, bool busy, bool& due) noexcept;
  /// Handles completions of sends, and returns their number. Any thread may call it at any time; it
  /// runs no handler.
  unsigned reap_sends(domain& d) noexcept;
  /// Called when no message has come: gives a few peers, in turn, the credits that they are owed.
  void return_idle_credits(domain& d, std::uint32_t tag) noexcept;
  /// Called in a wait that has lasted: asks the device whether the peers are still reached.
  void probe_peers() noexcept;
  /// Called when p's answers can come no more, in a poll: the chunks of its requests may be taken
  /// back.
  void note_end(peer& p) noexcept;
  /// True if no work request to p is under way.
  [[nodiscard]] static bool sent_all(const peer& p) noexcept;
  unsigned poll_others(domain&, std::uint32_t) noexcept { return 0; }
  /// True if it has no room for replies, or keeps requests whose payload it reads.
  bool holds_back(domain& d, std::uint32_t tag) noexcept;
  template <class F>
  void each_event_queue(F&& f) const {
    for (std::uint32_t i = 0; i < c_.domain_count(); ++i) {
      f(c_.domains()[i].queues->am_cq);
      f(c_.domains()[i].queues->reply_cq);
    }
  }
  /// Leaves reply_out of p, and sends what others have left there meanwhile.
  void leave_replies(peer& p, std::uint32_t tag) noexcept {
    p.reply_out.leave(tag);
    if (p.reply_out.asked()) [[unlikely]]
      see_to_answers(p, tag);
  }
  /// By a thread that is inside no end: the answers and credits that were put off. Where
  /// connections are limited, it looks at those that the connector would like to take down, too.
  void send_put_off() noexcept;
  /// True while an answer waits in the list of a peer. Any thread.
  [[nodiscard]] bool answers_left() const noexcept {
    // L2 all sent  acquire answers_left_  <- L1 (left.cpp)
    return answers_left_.load(std::memory_order_acquire) != 0;
  }

 private:
  // Polls between two looks at what is not urgent: completions of sends and transfers, and what
  // concerns the job.
  static constexpr std::uint16_t polls_a_look = 32;
  // Looks without a message after which owed credits are sent as a message of their own.
  static constexpr std::uint16_t idle_looks = 2;
  // To poll an empty completion queue delays messages of the other one. So a thread polls for
  // replies alone during polls_for_replies polls after it has sent a request, else for requests
  // alone, and for both once in polls_of_one polls and in each that runs handlers of requests. So a
  // system message (SYS) or reply (SAFE) waits for at most one batch of requests (AM): AM_LIMIT of
  // them, or those of each ring that the poll looks at. System messages come before the replies of
  // the same batch; behind a fuller queue they wait for SAFE_LIMIT replies. By rings each peer's
  // replies and system messages have a ring of their own, which is looked at before its requests.
  static constexpr std::uint16_t polls_for_replies = 256, polls_of_one = 4;

  // The chunk that a request has already, and the offset at which the message begins, so that the
  // payload is aligned for any type.
  struct held_chunk {
    std::uint16_t chunk = queues::no_chunk;
    std::uint32_t begin = 0;
  };
  // send.cpp
  [[gnu::cold]] status ask_for_lane(peer& p, unsigned lane, const outgoing& m) noexcept;
  [[gnu::noinline]] void expect_bulk(peer& p) noexcept;
  bool request_plain(peer& p, std::uint32_t tag, const outgoing& m) noexcept;
  [[nodiscard]] bool packs(const outgoing& m) const noexcept;
  [[nodiscard]] static bool has_space(const peer& p) noexcept;
  [[nodiscard]] static bool places(const peer& p) noexcept;
  // A chunk that a payload may be sent from, piece by piece.
  struct chunk_place {
    std::byte* at;
    std::uint32_t lkey;
    bool has_payload = false;  // the payload was written in the chunk, and needs no copy
  };
  // What write_payload() has posted, as numbers of work requests that have a completion each.
  struct written {
    std::uint64_t last = 0;      // the last one
    std::uint64_t by_chunk = 0;  // the last one whose source is the chunk
    bool in_place = false;       // the source of one is the caller's own memory
  };
  written write_payload(peer& p, unsigned lane, const outgoing& m, chunk_place chunk) noexcept;
  [[nodiscard]] bool long_may_go(inside<end_of::request_out> in, const peer& p,
                                 unsigned lane) const noexcept;
  void long_went(inside<end_of::request_out> in, const peer& p, std::uint64_t number) noexcept;
  [[nodiscard]] bool is_plain(const outgoing& m) const noexcept;
  template <class Write, class Before, class Opcode>
  status post_request(inside<end_of::request_out> in, peer& p, std::uint32_t tag, unsigned lane,
                      std::uint32_t cost, std::uint32_t n, bool copied, const held_chunk& held,
                      Write&& write, Before&& before, Opcode&& opcode) noexcept;
  template <class Arrived>
  void await_sends(peer& p, Arrived&& arrived) noexcept;

  [[gnu::cold]] void take_chunks_back(domain& d) noexcept;

  // reply.cpp
  bool reply_plain(token_state& t, const outgoing& m) noexcept;
  template <class Write>
  void post_reply(token_state& t, std::uint32_t n, bool copied, Write&& write) noexcept;
  template <class Write>
  void write_reply(peer& p, std::uint32_t chunk, std::uint32_t n, bool copied, std::uint32_t imm,
                   Write&& write) noexcept;
  [[gnu::noinline]] void await_reply_room(peer& p, bool signalled) noexcept;
  written answer(token_state& t, const outgoing& m) noexcept;
  [[gnu::noinline]] void tell_freed(peer& p, std::uint32_t tag) noexcept;

  // left.cpp
  [[gnu::cold]] bool leave_answer(token_state& t, const outgoing& m, std::uint32_t tag) noexcept;
  [[gnu::cold, gnu::noinline]] void see_to_answers(peer& p, std::uint32_t tag) noexcept;
  void send_left(left_answer& a) noexcept;
  [[gnu::cold, gnu::noinline]] void leave_end(peer& p, const left_end& e) noexcept;
  void see_to_ends(peer& p, std::uint32_t tag) noexcept;
  void free_left() noexcept;

  // words.cpp
  bool free_listed_chunks(peer& p, const std::byte* at, std::uint32_t bytes) noexcept;
  [[gnu::noinline]] bool take_word(peer& p, std::uint32_t imm) noexcept;
  [[gnu::noinline]] void take_words(domain& d, ibv_wc* wc, int n) noexcept;
  // receive.cpp
  bool settle(queues::chunk_pool& chunks, peer& p, std::uint32_t chunk) noexcept;
  [[nodiscard]] std::byte* place_of(peer& p, const ibv_wc& wc) noexcept;
  void free_place(peer& p, const ibv_wc& wc, std::uint32_t tag) noexcept;
  void run_plain(token_state& t, std::byte* at, std::uint32_t n) noexcept;
  void run_other(token_state& t, std::byte* at, std::uint32_t n, std::uint32_t chunk) noexcept;
  [[gnu::noinline]] void take_other_reply(peer& p, const wire::header& h, std::byte* at,
                                          std::uint32_t n, std::uint32_t tag) noexcept;
  [[gnu::noinline]] bool take_other_request(token_state& t, std::byte* at,
                                            std::uint32_t n) noexcept;
  unsigned take_replies(domain& d, poller& mine, std::uint32_t tag) noexcept;
  unsigned take_some_replies(domain& d, poller& mine, std::uint32_t tag, unsigned limit) noexcept;
  unsigned take_requests(domain& d, poller& mine, std::uint32_t tag) noexcept;
  [[noreturn, gnu::cold]] void receives_failed() noexcept;
  void put_receives_back(domain& d, poller& mine, std::uint32_t n, bool spare) noexcept;
  void handled(token_state& t, poller& mine, bool urgent, std::uint32_t tag) noexcept;
  bool note_unanswered(inside<end_of::request_in> in, peer& p, const left_end& e,
                       std::uint32_t tag) noexcept;
  // fetch.cpp
  bool keep_large(peer& p, const wire::header& h, const std::byte* at, std::uint32_t n,
                  bool request, fetches::more say) noexcept;
  [[gnu::cold]] void keep_request(token_state& t, const std::byte* at, std::uint32_t n) noexcept;
  [[gnu::noinline]] unsigned run_fetched(domain& d, poller& mine, std::uint32_t tag,
                                         bool requests) noexcept;
  bool post_fetch(const fetch& f, ibv_wr_opcode op, std::size_t at, std::uint32_t n,
                  bool copied) noexcept;
  void start_fetch(fetch& f, std::uint32_t tag) noexcept;
  bool free_source(fetch& f, std::uint32_t tag) noexcept;
  void run_one_fetched(fetch& f, poller& mine, std::uint32_t tag) noexcept;
  [[nodiscard]] bool acquire_reply_resources(domain& d, poller& mine) noexcept;
  void release_reply_resources(domain& d, poller& mine) noexcept;

  // part.cpp
  void see_to_partings() noexcept;
  enum class idleness : std::uint8_t { idle, busy, later };
  idleness close_if_idle(peer& p, std::uint32_t tag) noexcept;
  idleness close_inside(peer& p, std::uint32_t tag) noexcept;

  core& c_;
  credit_flow& credits_;
  connections& connections_;
  bool plain_ = false;
  std::uint32_t long_depth_ = 0;          // LONG_DEPTH's part of a domain; 0: no limit
  std::uint32_t max_inline_ = 0;          // bytes that queue pairs take inline
  std::uint32_t short_inline_ = 0;        // the same, of messages that cost one credit
  std::uint32_t unanswered_limit_ = 1;    // requests without reply that one message answers
  std::unique_ptr<fetches[]> fetches_;    // by domain
  std::atomic<std::uint32_t> drafts_{0};  // chunks that drafts hold, of all domains
  std::atomic<std::uint32_t> answers_left_{0};
};
using verbs_path = path_by<way::verbs>;
static_assert(path<verbs_path>);

}  // namespace penstock::conduit::PENSTOCK_ABI
