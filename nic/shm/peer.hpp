// A peer context as this one sees it: its mapped arena, its socket (whose hang-up is its death),
// and the ways to reach memory it has registered.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "nic/shm/wire.hpp"

namespace penstock::nic::shm {

struct context;

struct peer {
  explicit peer(context& c) noexcept : self(c) {}
  ~peer();
  peer(const peer&) = delete;
  peer& operator=(const peer&) = delete;

  context& self;
  nonce name;
  socket_name bell{}, direct_bell{};
  std::uint64_t id = 0;
  std::uint64_t silent_since_ns = 0;  ///< when it was first asked; or told in a line to be silent
  int socket = -1;
  pid_t pid = 0;
  int process = -1;           ///< a pidfd: the end is noticed even if a child keeps the socket open
  std::byte* base = nullptr;  ///< its arena
  std::uint64_t proof_address = 0;
  nonce proof;
  std::atomic<bool> dead{false};

  /// An entry of one of the peer's tables; null if there is none. The index comes from the peer and
  /// is checked.
  template <class Entry>
  [[nodiscard]] Entry* entry(table t, std::uint32_t index) const noexcept {
    const table_place& place = table_places[static_cast<int>(t)];
    const auto& used = reinterpret_cast<const arena_header*>(base)->used[static_cast<int>(t)];
    // H2 bounds  load-acquire used  <- H1
    if (index >= place.capacity || index >= used.load(std::memory_order_acquire)) return nullptr;
    return reinterpret_cast<Entry*>(base + place.offset) + index;
  }

  /// Sends a request that has no answer. It is not sent again when the socket is full: the peer
  /// then has unread requests and will look at its bells anyway.
  void tell(const request& q) noexcept;
  /// Sends a request and waits for its answer until that time; set-up only, one thread at a time. 0
  /// or an errno; after ETIMEDOUT the same call waits on. meaning_of() says whether the peer has
  /// ended. A shortage that passes within seconds is not an error. A descriptor that comes along is
  /// stored in *fd (else -1).
  int ask(const request& q, reply& a, int* fd, std::uint64_t until_ns) noexcept;
  /// Sends a request without waiting, or looks for its answer. EINPROGRESS: it has not come yet;
  /// the same call is to be made again, when the pusher thread or a poll comes by. *ticket is 0 for
  /// a new question, and is 0 again when it has been answered. A queue pair has one question of a
  /// kind at a time, and so has a region's file, whoever asks; a later one takes the place of an
  /// earlier one. `payload` and `into` are memory of the program: EFAULT if it is not there.
  int ask_later(request q, const void* payload, std::size_t bytes, reply& a, void* into,
                std::size_t room, int* fd, std::uint64_t* ticket) noexcept;
  request make(request_kind kind, std::uint32_t qpn, std::uint32_t src_qpn) const noexcept;

  /// A piece of the peer's memory, mapped here.
  struct mapping {
    std::uint64_t address = 0, bytes = 0;
    std::byte* local = nullptr;
    void* whole = nullptr;
    std::size_t whole_bytes = 0;
    mapping() = default;
    mapping(const mapping&) = delete;
    mapping& operator=(const mapping&) = delete;
    ~mapping();
  };
  // How the peer's memory is reached (remote_memory.cpp). Under ways.
  std::mutex ways;
  bool tried_file = false;
  int memory_fd = -1;  ///< /proc/PID/mem, or -1: the peer's service thread copies
  int moved_fd = -1;   ///< the file of its moved memory, or -1; fixed when it was greeted
  struct answered_mapping {
    std::shared_ptr<mapping> at;  ///< null: it cannot be mapped
    std::uint32_t epoch = 0;      ///< the region's epoch when the peer was asked
  };
  std::unordered_map<std::uint32_t, answered_mapping> mappings;  ///< by rkey
  struct file_question {
    std::uint64_t ticket = 0;
    std::uint32_t epoch = 0;
  };
  std::unordered_map<std::uint32_t, file_question> asked_for_file;  ///< by rkey

 private:
  /// A question, and its answer once that has come.
  struct question {
    std::uint64_t serial = 0, asked_ns = 0;
    bool answered = false;
    int error = 0;  ///< EMFILE: the answer has come without its descriptor
    reply answer;
    std::vector<std::byte> payload;
    int fd = -1;
  };
  int take_answers() noexcept;

  std::mutex talk_;
  std::uint64_t serial_ = 0;
  std::uint64_t asked_ = 0;       ///< ask()'s question
  std::atomic<int> short_of_{0};  ///< why the last question has not gone, if not for want of room
  std::unordered_map<std::uint64_t, question> questions_;  ///< by queue pair or region, and kind
  std::vector<std::byte> arriving_;  ///< an answer's payload; empty until one is asked for
};

/// The peer of that name, connected on first use. Null with errno: EHOSTUNREACH (no such context),
/// EACCES (another user's), ETIMEDOUT (it has not answered for context::greeting_ns; the next call
/// waits on); or why this process cannot. Waits for the peer's service thread; set-up only.
std::shared_ptr<peer> find_peer(context& c, const nonce& name);

}  // namespace penstock::nic::shm
