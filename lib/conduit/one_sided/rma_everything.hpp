// Segment everything on a verbs device: the channel for control messages of remote firehoses, and
// the object that holds these. Only rma*.cpp use it.
//
// The channel is the queue pair of one-sided operations: a control message is a SEND of one slot
// into a ring of receives that each side keeps posted. It costs no credits of active messages.
//
//   frame: returned (receives given back) | kind | body
//
// Flow (invariant 1: every SEND finds a receive): of the R receives posted for a peer, the peer may
// fill N = R-2 before some are returned. Returns travel with messages; when N/2 are owed and no
// message goes that way, a frame of its own returns them. Such a frame needs no receive of the N:
// at most two are under way at a time, since each returns N/2 receives, and the other side can fill
// that many only after it has taken the frame before.
//
// Who with whom: any thread sends (remote_firehoses lets one in at a time), and one at a time
// receives. A message that finds no room is sent by a later progress().
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <span>

#include "lib/base/zero_pages.hpp"
#include "lib/conduit/engine.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// The 8 bytes whose halves are the arguments i and i + 1 of a message; address_pair() returns them
/// as an address.
inline std::uint64_t word_pair(const std::uint32_t* args, unsigned i) noexcept {
  return std::uint64_t{args[i + 1]} << 32 | args[i];
}
template <class T>
T* address_pair(const std::uint32_t* args, unsigned i) noexcept {
  return reinterpret_cast<T*>(word_pair(args, i));
}

class everywhere {
 public:
  /// memory: that of receives; it outlives this object.
  everywhere(transfers& t, core& c, connections& l, memreg::arena& memory) noexcept
      : transfers_(t), core_(c), connections_(l), memory_(memory) {}
  ~everywhere();
  /// Makes the remote firehoses over pool.
  result<void> open(firehose::pool& pool, const firehose::remote_settings& s);

  /// Gives p's queue pair a place in a completion queue of receives. The connector calls it.
  void describe_queue(const peer& p, ibv_qp_init_attr& init) noexcept;
  /// Called when p's queue pair is made: posts its receives.
  void attach(peer& p);
  /// Sends a control message (firehose::control_channel).
  status send(unsigned rank, std::span<const std::byte> body) noexcept;
  void progress() noexcept;
  [[nodiscard]] firehose::remote_firehoses& remote() noexcept { return *remote_; }

 private:
  enum class frame_kind : std::uint32_t { returns = 1, message = 2 };
  static constexpr std::size_t body_bytes = 56;
  struct frame {
    std::uint32_t returned = 0;
    frame_kind kind = frame_kind::returns;
    std::array<std::byte, body_bytes> body{};
  };
  static_assert(sizeof(frame) == 64);
  struct line {
    std::atomic<std::uint32_t> credits{0};  // the peer's receives that this process may fill
    std::atomic<std::uint32_t> owed{0};     // this process's receives that it has to return
    std::uint32_t queue = 0;                // 1 + which completion queue; 0: none yet
    memreg::piece memory;                   // the posted receives; written once, by attach()
  };

  status push(peer& p, const frame& f) noexcept;
  void post(peer& p, std::uint32_t buffer) noexcept;
  void receive() noexcept;
  void receive_from(ibv_cq* cq) noexcept;
  void handle(peer& p, const frame& f) noexcept;
  void return_owed() noexcept;

  transfers& transfers_;
  core& core_;
  connections& connections_;
  memreg::arena& memory_;
  // Completion queues, each with room for the receives of peers_a_queue_ peers: as many as the
  // peers whose queue pairs are made need, so that a job of any size does with what a device can
  // have.
  std::unique_ptr<ibv_cq*[]> cqs_;
  std::atomic<std::uint32_t> cq_count_{0};
  std::uint32_t peers_a_queue_ = 0, places_ = 0;  // places_: of the last queue; the connector's
  std::uint32_t receives_ = 0, most_ = 0;         // R and N
  zero_array<line> lines_;  // by rank; memory for the peers whose queue pairs are made
  std::unique_ptr<firehose::remote_firehoses> remote_;
  op_counter in_flight_{0};
  std::atomic<bool> owing_{false};  // a line owes N/2 or more
  alignas(cache_line) queue_owner receiving_;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
