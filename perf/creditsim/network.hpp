// A simulated job: one real ledger a node, and a network that moves messages in steps of time.
//
// In a step each node may send one request and handle `service` of them; a message takes `latency`
// steps. Replies and system messages are handled as they arrive: they need nothing (DEADLOCK.md).
// Time is counted, not measured: a run is the same on every machine.
//
// A node does what the engine does (lib/conduit/credit_flow/credit_flow.cpp): its request asks for
// seven credits at most, and it sends the WANTs that the ledger names. As by default each request
// is answered by a reply; with `batches` a stream leases credits, and they come back in batches. A
// Medium that is short of credits is offered for one: the receiver fetches it, which takes a round
// trip and no time of its sender's, and handles it then.
// With `cores` nodes take turns, and one that sends, or has no core, does not look at what has
// come.
//
// Order of work: no message arrives sooner than `latency` steps after it was sent. So `latency`
// steps of one block of nodes are done before those of the next, and its ledgers stay in the cache
// meanwhile. Messages are put where the block that gets them will look. The order of a node's
// messages does not depend on how many steps are done at a stretch.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "credit/credit.hpp"
#include "perf/creditsim/pattern.hpp"
#include "perf/creditsim/sparse_store.hpp"

namespace penstock::creditsim {

/// The settings of one run; the runs that are compared differ only in these.
struct network_settings {
  std::uint32_t latency = 10;  ///< steps from sender to receiver
  std::uint32_t service = 2;   ///< requests a node handles in a step
  std::uint32_t stretch = 0;   ///< steps a block does at a time; 0: as many as it can, latency
  std::uint32_t cores = 0;     ///< nodes that run at a time; 0: all
  std::uint32_t slice = 4000;  ///< steps after which one that does not wait loses its core, at most
  std::uint64_t seed = 1;      ///< seed of the slices' lengths
  std::uint32_t medium_cost = 4;               ///< credits of a message that is no Short
  bool batches = false;                        ///< leases, and returns without reply
  std::uint32_t offers = credit::most_offers;  ///< of a node at a time; 0: it waits for credits
  credit::overrides credits;                   ///< flow_control=false: unlimited credits
};

/// The state at one of about 128 moments of a run.
struct moment {
  std::uint64_t step = 0, sent = 0;
  std::uint64_t moved = 0;          ///< credits lent or given back since the moment before
  std::uint64_t stalled = 0;        ///< messages that had to wait since then
  std::uint32_t watched_bank = 0;   ///< bank of the watched lender
  std::vector<std::uint32_t> held;  ///< loans of the watched lender, by peer (at most shown_peers)
};
inline constexpr std::uint32_t shown_peers = 64;

struct outcome {
  bool finished = false;  ///< false: all nodes waited for each other
  std::uint64_t steps = 0, sent = 0, stalled = 0, stalled_late = 0;
  std::uint64_t moved = 0;             ///< credits lent on demand, given back, in all
  std::uint64_t moved_late = 0;        ///< of these, when half of all messages had been sent
  std::uint64_t moved_last_epoch = 0;  ///< the most by one lender in its last whole epoch
  std::uint64_t moved_most_epoch = 0;  ///< the most by one lender in any epoch
  std::uint32_t epochs = 0;            ///< the most epochs any lender has had
  std::uint32_t epochs_to_settle = 0;  ///< the latest epoch after a change in which credits moved
  double fairness = 1;                 ///< Jain's index of shares sent when half was sent
  std::vector<moment> moments;
  std::vector<std::uint32_t> peers;  ///< the rows of moment::held
};

class network {
 public:
  /// p outlives the network. Fails when credit::plan() refuses the settings.
  static result<std::unique_ptr<network>> make(const network_settings& s, pattern& p,
                                               std::uint32_t nodes);

  /// Runs to the end. progress is called now and then with the share that is done.
  outcome run(const std::function<void(double)>& progress);

  [[nodiscard]] const credit::config& plan() const { return config_; }

 private:
  using node_ledger = credit::ledger<thread_mode::seq, std::atomic, sparse_store>;
  enum class what : std::uint8_t {
    request,
    reply,
    revoke,
    return_,
    want,
    grant,
    offer,    // a request whose payload stays behind
    read,     // of the payload
    payload,  // what the read brings: the request is whole
    freed     // the sender's memory for it
  };
  struct message {
    std::uint32_t from, to;
    std::uint16_t count, extra;
    what type;
    bool end_epoch, urgent;
  };
  /// First in, first out; no memory until it is used.
  class queue {
   public:
    void push(const message& m) { messages_.push_back(m); }
    [[nodiscard]] bool empty() const { return messages_.empty(); }
    message pop() {
      const message m = messages_[first_++];
      if (first_ == messages_.size()) {
        messages_.clear();
        first_ = 0;
      }
      return m;
    }

   private:
    std::vector<message> messages_;
    std::size_t first_ = 0;
  };
  /// What the engine keeps of a peer beside the ledger; with batches.
  struct account {
    std::uint32_t peer;
    std::uint32_t lease = 0;  // taken from the ledger and not spent
    std::uint32_t owed = 0, grant = 0, unanswered = 0, idle = 0;  // as lender
  };
  struct node {
    explicit node(const credit::config& c) : l(c) {}
    node_ledger l;
    queue inbox;
    std::vector<message> mail;  // with cores: replies and system messages not looked at
    std::vector<account> accounts;
    queue offered;              // offers that are yet to be fetched
    queue whole;                // and those that were fetched: handled in turn with the inbox
    std::uint32_t fetched = 0;  // these, and those under way
    std::uint32_t offers = 0;   // its own that were not fetched
    send_order order;           // the message it wants to send; cost 0: none
    std::uint32_t need = 0;
    credit::stall stalled;  // order, while it waits
    bool running = false, serving = false;
    std::uint32_t sent = 0;
    // As lender, of its loans:
    std::uint32_t moved_now = 0, moved_before = 0, moved_most = 0;  // by epoch
    std::uint32_t epoch = 0, phase = 0, phase_epoch = 0;
  };

  /// Neighbours in rank, which are simulated together for `latency` steps at a stretch.
  struct block {
    std::vector<std::vector<message>> due;  // by arrival step
    std::vector<std::uint32_t> run, serve;  // nodes with something to do
  };
  static constexpr std::uint32_t block_nodes = 256;

  network(const network_settings& s, pattern& p, const credit::config& c);
  void post(const message& m) {
    block& b = blocks_[m.to / block_nodes];
    b.due[(now_ + settings_.latency) % b.due.size()].push_back(m);
    ++in_flight_;
  }
  void wake(std::uint32_t i);
  void step(block& b);
  void arrive(const message& m, block& b);
  void take(const message& m);
  void fetch(node& n);
  [[nodiscard]] static bool has_requests(const node& n) {
    return !n.inbox.empty() || !n.whole.empty();
  }
  [[nodiscard]] message next_request(node& n, std::uint32_t k);
  void serve(std::uint32_t i, node& n);
  static account& account_of(node& n, std::uint32_t peer);
  void give_back_owed(std::uint32_t i, node& n, account& a);
  void look_at_idle(std::uint32_t i, node& n);
  [[nodiscard]] bool take_credits(node& n, const send_order& o, std::uint32_t left);
  void ask(std::uint32_t i, node& n, bool blocked);
  enum class way : std::uint8_t { at_once, offered, none };
  [[nodiscard]] way find_way(node& n, const send_order& o, std::uint32_t left);
  void take_turns();
  [[nodiscard]] bool poll(std::uint32_t i, node& n);
  [[nodiscard]] bool read_mail(node& n);
  void go();
  bool try_send(std::uint32_t i, node& n);
  void send_intents(std::uint32_t i, node& n);
  void note_moved(node& n, std::uint32_t credits);
  void turn_epoch(node& n);
  [[nodiscard]] bool idle() const;
  void look();
  void judge_shares();
  void judge_end();

  network_settings settings_;
  pattern& pattern_;
  credit::config config_;
  std::vector<std::optional<node>> nodes_;
  std::vector<block> blocks_;
  std::vector<std::uint32_t> batch_;
  struct turn {
    std::uint32_t node = nobody, left = 0;
  };
  std::vector<turn> cores_;
  std::deque<std::uint32_t> ready_;  // nodes without a core
  std::uint64_t dice_ = 0;
  std::uint64_t now_ = 0, last_busy_ = 0, in_flight_ = 0;
  bool late_ = false;  // half of all messages were sent
  std::uint32_t phase_ = 0;
  outcome out_;
};

}  // namespace penstock::creditsim
