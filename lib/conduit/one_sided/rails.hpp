// Side rails: the devices that the setting DEVICE names behind the first one. They carry parts of
// large puts and gets, and of Longs' payloads (transfers::put_ahead), to peers by queue pairs, and
// nothing else: messages, atomics and small transfers go by the first device, and so keep their
// order, and pay nothing for rails. transfers alone uses this class.
//
//   X: a large transfer finds no link: it goes by the first rail, and X asks by a message
//   X: ask(queue pair)         ->  Y: makes the other end
//   X: bound; an empty WRITE   <-  Y: answer(queue pair, key of the segment)
//   X: it has completed: the link is ready, and the next large transfers are cut
//
// A link leads one way, for the WRITEs and READs of the process that asked for it.
//
// A rail fails (R1 to R3): a completion has an error, or the device reports that its port is down
// or that it is gone. X destroys its queue pairs, and asks each Y to destroy the other ends. When Y
// has answered, no byte of a piece can land any more, and X sends the pieces that have not
// completed by the first rail. So a transfer whose end is told is never written again (R2). Later
// large transfers ask for the link anew: a rail that has come back is taken again, once an empty
// WRITE has crossed it (R3), so that no transfer waits for one that has not.
//
// A WRITE that has completed is taken to be in the target's memory, whichever rail brought it. What
// of a segment has grown after start goes by the first rail where registrations pin pages.
//
// Threads: any. One lock guards all; the handlers take it, and nothing that runs handlers is called
// inside it. Memory: a link is made with the first large transfer to or from its rank; where there
// is none for it, the transfer goes by the first rail. Caches apart, nothing else allocates after
// open().
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "firehose/firehose.hpp"
#include "lib/base/result.hpp"
#include "lib/base/settings.hpp"
#include "lib/conduit/peer/peer.hpp"
#include "lib/conduit/peer/transfer_queue.hpp"
#include "memreg/memreg.hpp"
#include "nic/device.hpp"
#include "penstock/penstock.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class engine;
class core;
class transfers;

/// A part of a transfer. Its counter counts it.
struct piece {
  peer* to = nullptr;
  op_counter* counter = nullptr;
  ibv_wr_opcode opcode{};
  std::uint64_t remote = 0;
  std::byte* local = nullptr;
  std::size_t bytes = 0;
};

class rails final {
 public:
  rails(engine& e, core& c, transfers& t);
  ~rails();

  /// Opens the side rails, if DEVICE names some. cache: the settings of the registration cache, or
  /// null if there is none; then memory outside the segment is not cut over rails.
  result<void> open(const firehose::pool_settings* cache);
  void close() noexcept;

  /// Transfers of at least this size may be cut.
  [[nodiscard]] std::size_t least() const noexcept { return least_; }
  /// Sends the last parts of a transfer by side rails, as far as they are ready, and returns how
  /// many bytes are left to the first rail. Never waits.
  std::size_t cut(const piece& whole) noexcept;
  /// Looks for completions, and does what failures make necessary; returns the number of
  /// completions. Runs no handler. Costs a load while nothing is under way.
  unsigned reap() noexcept {
    // relaxed: a thread that waits for a transfer has counted it before
    return work_.load(std::memory_order_relaxed) == 0 ? 0 : reap_slow();
  }
  /// True if nothing of this process's is under way. acquire: what completions wrote is visible.
  [[nodiscard]] bool drained() const noexcept {
    // W2 drained  acquire work_  <- W1 (rails.cpp)
    return work_.load(std::memory_order_acquire) == 0;
  }

 private:
  struct rail;
  struct link;
  struct words;  // of an ask, and of its answer
  struct posted;

  result<std::unique_ptr<rail>> open_rail(const settings& s, unsigned number, unsigned all,
                                          const firehose::pool_settings* cache);
  static link* link_of(rail& r, rank_id rank) noexcept;
  static bool has_room(const rail& r, const link& l) noexcept;
  link* link_to(rail& r, const piece& whole) noexcept;
  void post(rail& r, link& l, piece p) noexcept;
  static bool key_of(rail& r, const piece& p, firehose::lease& lease, std::size_t& bytes,
                     std::uint32_t& lkey) noexcept;
  unsigned reap_slow() noexcept;
  unsigned reap(rail& r) noexcept;
  void send_again(rail& r) noexcept;
  void note_work() noexcept;

  // rails_links.cpp
  static ibv_qp* make_queue_pair(rail& r) noexcept;
  bool bind(rail& r, ibv_qp* qp, std::uint32_t psn, const words& there) const noexcept;
  void ask(rail& r, link& l) noexcept;
  words ask_of(const rail& r, const link& l) const noexcept;
  void send_asks(std::unique_lock<std::mutex>& inside) noexcept;
  static words words_of(const std::byte* payload, std::size_t bytes) noexcept;
  words answer_to(rank_id from, const words& w) noexcept;
  void heard(rank_id from, const words& w) noexcept;
  void fail(rail& r, rank_id rank, link& l, const char* how) noexcept;
  void closed(rail& r, link& l) noexcept;
  void ready(rail& r, rank_id rank, link& l) noexcept;
  void leave_out(rail& r, const char* how) noexcept;
  void hear_events(rail& r) noexcept;
  static void on_ask(void* self, token&, const std::uint32_t*, std::byte* payload,
                     std::size_t bytes);
  static void on_answer(void* self, token&, const std::uint32_t*, std::byte* payload,
                        std::size_t bytes);

  engine& engine_;
  core& core_;
  transfers& transfers_;
  std::size_t least_ = ~std::size_t{0};
  std::atomic<std::size_t> work_{0};  // pieces, and asks that are to be sent
  std::mutex lock_;                   // guards all below
  std::vector<std::unique_ptr<rail>> rails_;
  std::vector<std::pair<rail*, link*>> use_;  // of the transfer that is being cut
  std::size_t asks_ = 0;                      // links that have something to ask
};

}  // namespace penstock::conduit::PENSTOCK_ABI
