// The carrier of tcp0: one connection for each pair of processes, made when something is to be
// sent. A context listens at a port of its own; its port's number beyond the first is its block of
// QP numbers, so a GID, which is the host's address, and a QP number say where a queue pair is.
//
// Locks, in this order: `reading_` (one thread at a time takes in what has come, connects and
// disconnects), a completion queue's `poll`, a queue pair's `sending`, `names_`, an output's lock.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/base/zero_pages.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/datagram.hpp"
#include "nic/shm/qp.hpp"
#include "nic/tcp/frame.hpp"
#include "nic/tcp/output.hpp"
#include "nic/tcp/secret.hpp"

namespace penstock::nic::tcp {

class network;
struct remote;

inline constexpr std::size_t input_bytes = 128 * 1024;   ///< of a connection's buffer
inline constexpr std::uint32_t most_copied = 8 * 1024;   ///< a longer payload is referred to
inline constexpr std::uint32_t large_bytes = 16 * 1024;  ///< from here on an ack is wanted at once

/// Where a process listens.
struct endpoint {
  std::uint32_t ip = 0;  ///< in network order
  std::uint16_t port = 0;
  friend bool operator==(const endpoint&, const endpoint&) = default;
  /// Which of two ends gives way when both connect at once.
  [[nodiscard]] std::uint64_t order() const noexcept { return std::uint64_t{ip} << 16 | port; }
};

/// What the network keeps for a queue pair: the requester's side under `sending`, the responder's
/// under reading_.
struct half : shm::carried {
  remote* to = nullptr;  // set under both
  std::uint32_t dest = 0;
  // The requester's: requests [finished, started) of the send queue are under way.
  std::uint64_t started = 0, acked = 0;
  std::uint32_t link = 0;  ///< on which connection (remote::link); another one means on none
  std::uint32_t reads_out = 0;
  std::uint64_t stalled_until_ns = 0;  ///< nothing is sent before; 0: no such time
  bool absent = false;                 ///< the peer has said that it has no such QP
  // The responder's.
  std::atomic<std::uint32_t> expected{0};
  bool half_taken = false;  ///< a message whose connection broke keeps its receive
  bool left = false;        ///< the peer's QP has left
  bool met = false;         ///< the peer's process has been reached
  struct done_atomic {
    std::uint32_t seq = 0;
    std::uint64_t old = 0;
  };
  std::vector<done_atomic> atomics;  ///< the last of them
  std::size_t next_atomic = 0;       ///< where the next one goes, modulo shm::max_reads
  // Under the output's lock of the connection that owes it.
  bool owes = false;
  remote* owed_by = nullptr;
};

/// The frame that is coming in.
struct incoming {
  frame_head head;
  frame_place place;
  frame_operands operands;
  bool active = false;
  std::uint32_t done = 0;  ///< bytes of the payload so far
  shm::queue_pair* qp = nullptr;
  enum class goes : std::uint8_t { nowhere, receive, memory, result, datagram } where{};
  bool counts = false;  ///< it is the request that was expected
  ibv_wc_status status = IBV_WC_SUCCESS;
};

/// A process, and the connection to it.
struct remote {
  endpoint at;
  std::uint64_t instance = 0;  ///< which process has that port; 0: not known
  enum class phase : std::uint8_t { idle, connecting, greeting, up } now = phase::idle;
  int socket = -1;
  bool ours = false;           ///< we have made this connection
  std::uint64_t since_ns = 0;  ///< of this phase
  std::uint64_t lost_ns = 0;   ///< since when there is none although one is wanted; 0: one is up
  std::uint64_t retry_ns = 0;  ///< not connected again before
  int why_not = ETIMEDOUT;     ///< how the last connecting ended
  int no_socket = 0;           ///< the errno for which this machine has none to connect with
  bool bye = false;            ///< it has said that it ends
  std::uint32_t watched = 0;   ///< the events that epoll watches
  std::atomic<bool> wanted{false};
  std::byte greeting[128];  ///< our hello, and the answer
  std::size_t greeting_bytes = 0;
  std::vector<shm::queue_pair*> qps;  ///< connected to that process
  // Coming in.
  shm::untouched_vector<std::byte> buffer;
  std::size_t begin = 0, end = 0;
  incoming in;
  // Going out; under out.lock.
  output out;
  bool up = false;
  std::uint32_t link = 0;  ///< the number of the connection; written under reading_, too
  bool blocked = false;    ///< the kernel takes no more: epoll tells when it does
  std::uint64_t first_ns = 0, sent_ns = 0;  ///< when the first of what waits came; the last send
  std::int64_t unsent = 0;                  ///< requests among what waits
  bool awaited = false;                     ///< a program waits for what comes of some of them
  std::size_t seen_bytes = 0;               ///< that waited at the last look
  std::vector<shm::queue_pair*> owing;      ///< whose peers have acks to get
  bool owes_now = false, dirty = false;     ///< dirty: counted in network::dirty_
  std::vector<shm::queue_pair*> waiting;    ///< have more to send when there is room
  std::atomic<std::int64_t> under_way{0};   ///< requests without an answer; a hint
};

/// A connection that has not shown the secret yet.
struct visitor {
  int socket = -1;
  std::uint64_t since_ns = 0;
  std::byte bytes[128];
  std::size_t have = 0;
  bool challenged = false;
  std::uint64_t challenge[2];
  std::uint32_t id = 0;
};

struct options {
  std::string where;  ///< an address or an interface; empty: the best
  std::uint16_t first_port = 0;
  std::uint64_t patience_ns = 0;  ///< how long a peer that cannot be reached counts as alive
  /// Whether a line names a peer whose process has ended: where nobody above the device does, who
  /// would know whether that end is right.
  bool names_ends = true;
  secret key;
};

class network final : public shm::carrier {
 public:
  explicit network(const options& o) noexcept : options_(o) {}
  ~network() override { close(); }

  int open(shm::context& c) override;
  void close() noexcept override;
  [[nodiscard]] int fd() const noexcept override { return epoll_; }
  bool progress(bool again) noexcept override;
  [[nodiscard]] bool holds_back() const noexcept override {
    return dirty_.load(std::memory_order_seq_cst) != 0;  // seq_cst: W5 (network.cpp)
  }
  void flush() noexcept override;
  std::unique_ptr<shm::carried> make(shm::queue_pair& qp) override;
  int connect(shm::queue_pair& qp, const ibv_qp_attr& a) override;
  void disconnect(shm::queue_pair& qp) noexcept override;
  void advance(shm::queue_pair& qp) noexcept override;
  shm::outcome attempt(shm::queue_pair& qp, shm::send_work& w,
                       ibv_wc_status* why) noexcept override;
  void wait_untouched(std::uint32_t rkey) noexcept override;

  [[nodiscard]] endpoint self() const noexcept { return self_; }
  /// For tests: breaks every connection, as a network that is cut would; how many there were.
  unsigned cut() noexcept;

 private:
  // meeting.cpp, under reading_
  remote& at(const endpoint& where);  // any thread
  void want(remote& r) noexcept;      // any thread
  void give_up_connecting(remote& r, int code) noexcept;
  void begin_connect(remote& r) noexcept;
  void connected(remote& r) noexcept;
  void greet_on(remote& r) noexcept;
  int accept_visitors() noexcept;  // the errno by which it ended
  bool hear(visitor& v) noexcept;
  void adopt(int socket, const endpoint& from, std::uint64_t instance) noexcept;
  void come_up(remote& r, int socket, bool ours) noexcept;
  void lose(remote& r, int code) noexcept;
  void die(remote& r, const char* why, int code, bool ended = false) noexcept;
  void look_at_the_clock() noexcept;
  void arm_clock() noexcept;
  // network.cpp
  void happened(std::uint64_t about, std::uint32_t events) noexcept;
  void wake() noexcept;
  void watch(remote& r, std::uint32_t events) noexcept;
  void send_out(remote& r) noexcept;                            // under out.lock
  void leave_for_later(remote& r, std::uint64_t now) noexcept;  // under out.lock
  void send_or_wait(remote& r) noexcept;                        // under out.lock
  void add_acks(remote& r) noexcept;                            // under out.lock
  void drain(remote& r) noexcept;
  // requester.cpp
  bool start(shm::queue_pair& qp, half& h, shm::send_work& w, remote& r);
  void rewind(shm::queue_pair& qp, half& h, std::uint64_t to) noexcept;
  void resume(shm::queue_pair& qp) noexcept;
  void heard(remote& r, const frame_head& f) noexcept;
  void result_begins(remote& r) noexcept;
  static int result_pieces(shm::queue_pair& qp, const incoming& in, iovec* v, int most) noexcept;
  void result_ends(remote& r) noexcept;
  shm::outcome datagram(shm::queue_pair& qp, shm::send_work& w, ibv_wc_status* why) noexcept;
  // input.cpp
  bool take_in(remote& r) noexcept;
  bool parse(remote& r) noexcept;
  bool begin(remote& r) noexcept;
  void feed(remote& r, const std::byte* from, std::size_t n) noexcept;
  ssize_t receive_direct(remote& r) noexcept;
  // responder.cpp
  shm::queue_pair* qp_of(const remote& r, const frame_head& f) noexcept;
  void request_begins(remote& r) noexcept;
  void request_ends(remote& r) noexcept;
  bool take_receive(shm::queue_pair& qp, half& h, const frame_head& f) noexcept;
  bool complete_receive(shm::queue_pair& qp, const incoming& in, ibv_wc_status status) noexcept;
  void do_atomic(remote& r) noexcept;
  void send_answer(remote& r) noexcept;
  ibv_wc_status check(const shm::queue_pair& qp, const incoming& in) noexcept;
  void say(remote& r, kind what, const frame_head& about, std::uint16_t detail) noexcept;
  void owe(remote& r, shm::queue_pair& qp, bool now) noexcept;
  void refuse(remote& r, shm::queue_pair& qp, ibv_wc_status theirs) noexcept;

  options options_;
  shm::context* context_ = nullptr;
  endpoint self_;
  std::uint64_t instance_ = 0;
  int epoll_ = -1, listener_ = -1, wake_ = -1, clock_ = -1;
  std::mutex reading_;
  std::mutex names_;
  std::unordered_map<std::uint64_t, remote*> by_name_;  // under names_
  std::vector<std::unique_ptr<remote>> remotes_;        // under names_
  std::unique_ptr<remote> self_in_;  // under reading_: the far end of a connection to ourselves
  std::vector<remote*> live_;        // under reading_: those with a connection
  std::vector<std::unique_ptr<visitor>> visitors_;    // under reading_
  zero_array<shm::queue_pair*> table_;                // under reading_: by entry
  shm::datagram_packet datagram_;                     // under reading_: the one that has come
  std::uint32_t next_visitor_ = 0, looks_ = 0;        // under reading_
  bool strangers_told_ = false, clock_runs_ = false;  // under reading_
  bool moved_ = false;                        // under reading_: this look has found something
  std::atomic<std::uint64_t> rest_until_{0};  ///< in ticks: no look before
  std::atomic<unsigned> dirty_{0};            ///< outputs that hold something that may wait; a hint
  std::atomic<unsigned> blocked_{0};          ///< outputs of which the kernel takes no more
  std::atomic<bool> wants_{false};            ///< some remote is to be connected
};

/// The memory of a list from byte `done` on, as far as its keys hold. Answers the number of pieces.
int pieces_of(const shm::queue_pair& qp, const ibv_sge* list, std::uint32_t count,
              std::uint64_t done, std::uint32_t pd, iovec* v, int most) noexcept;

inline half& half_of(shm::queue_pair& qp) noexcept { return static_cast<half&>(*qp.way); }

}  // namespace penstock::nic::tcp
