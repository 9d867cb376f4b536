// One-sided operations of an engine: put, get, set (memset) and the device's atomics, to memory in
// the segments of other processes and of this one. remote_memory.cpp (the C++ interface),
// atomic.cpp and lib/gasnet use it. It knows no handles (rma_ops.hpp): callers bring the counter
// that tells them of completion.
//
// Where the segment is mapped (on the same host, or in this process) every operation is a copy, and
// complete when the call returns; where there is a progress thread that one copies what is large
// (handed_copies.hpp). On a verbs device:
//
//   put  inline         up to the device's limit
//        zero copy      from this process's segment or its registered heap
//        bounce chunk   (ReqSB) from elsewhere up to PUT_BOUNCE_LIMIT; from the segment too if the
//                       caller wants the source back at once
//        firehose       larger, region by region; or a temporary registration without firehose
//        bounce chunks  one after the other where memory cannot be registered; slower
//   get  the same with RDMA READ, without inline; up to slot_bytes through a small slot
//   set  a put of a filled chunk; larger by active message
//
// With segment everything (allow_everything) the remote memory may lie anywhere. To a peer by rings
// the kernel copies from process to process; by queue pairs a remote firehose gives the key
// (rma_everything.cpp); and messages carry bytes that neither can reach.
//
// Transfers have a queue pair of their own to each peer and domain (lane_rma), which is made when
// it is first needed. On the requests' queue pair a small request would wait until a megabyte in
// front of it has been sent, reads would count against the requests' send queue, and all threads
// that post would contend for one owner. Requests are ordered among themselves only, so the second
// queue pair costs nothing but its memory. A put that has completed is in the target's memory,
// since the device delivers its writes before any later completion there.
//
// Why nothing waits for ever: whatever a transfer waits for (queue room, chunk, slot, lease,
// ticket) is given back by completions of transfers or of messages, which reap() and poll see.
// Meanwhile the transfer holds only what its own piece needs, and no transfer's completion needs
// anything. A peer's key is taken last, and no handler runs until the work request that uses the
// key has been posted (W-b). So a peer that waits for its key to come back (firehose/remote.hpp,
// R-a) waits for completions only.
//
// Threads: any thread may call, several at once, but no handler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "firehose/firehose.hpp"
#include "lib/base/build_mode.hpp"
#include "lib/base/index_pool.hpp"
#include "lib/base/result.hpp"
#include "lib/base/status.hpp"
#include "lib/base/zero_pages.hpp"
#include "lib/conduit/connecting/connections.hpp"
#include "lib/conduit/one_sided/handed_copies.hpp"
#include "lib/conduit/one_sided/handed_rest.hpp"
#include "lib/conduit/one_sided/rails.hpp"
#include "lib/conduit/one_sided/rma_ops.hpp"
#include "lib/conduit/peer/peer.hpp"
#include "lib/conduit/peer/transfer_queue.hpp"
#include "penstock/penstock.hpp"
#include "penstock/rma.hpp"
#include "queues/queues.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class engine;
class everywhere;
struct domain;

/// When the caller may change the source of a put.
enum class reuse : std::uint8_t {
  on_return,      ///< when the call returns (non-bulk)
  on_completion,  ///< when the operation is complete (bulk, blocking)
};

/// The device's atomics on 64-bit integers.
enum class device_atomic : std::uint8_t { fetch_add, compare_swap };

class transfers final {
 public:
  transfers(engine& e, core& c, connections& l) noexcept;
  ~transfers();
  transfers(const transfers&) = delete;
  transfers& operator=(const transfers&) = delete;

  // Each of these starts an operation, and may wait (polling, which runs handlers) for room. Each
  // piece in flight is counted in c, which must live until it is zero again; mapped memory has no
  // pieces in flight, but for copies_beside().
  //   ok              started, or complete if c did not change
  //   bad_rank, out_of_segment, in_handler, shut_down   nothing was started
  //   device_error    pieces started before it are still counted in c
  // Cost: a copy if the memory is mapped; otherwise a post for each piece, no allocation, no lock.

  /// dest: in `to`'s segment, in its address space. src: anywhere, also read-only memory.
  status put(rank_id to, void* dest, const void* src, std::size_t bytes, reuse r,
             op_counter& c) noexcept;
  /// src: in `from`'s segment. dest: anywhere; undefined until c is zero.
  status get(void* dest, rank_id from, const void* src, std::size_t bytes, op_counter& c) noexcept;
  /// Sets bytes at dest to value's low 8 bits.
  status set(rank_id to, void* dest, int value, std::size_t bytes, op_counter& c) noexcept;
  /// An atomic on the word at dest (8-byte aligned, else misaligned): adds a, or replaces a by b.
  /// *old
  /// (may be null) gets the former value. Only where device_atomics() is true; never mixed with the
  /// processor's atomics on one word.
  status atomic(rank_id to, device_atomic op, void* dest, std::uint64_t a, std::uint64_t b,
                std::uint64_t* old, op_counter& c) noexcept;

  /// ok if one of these operations to `to` finds room at this moment, else what it is short of; for
  /// callers that must not wait. A hint: other threads may take the room. It looks for completions
  /// that make room, and runs no handler.
  status room_for_one(rank_id to) noexcept;
  /// The same for a put (destination) or get (source) of the bytes at `at` of rank `to`. With
  /// segment everything `to` must have given keys to them all; those that are missing are asked
  /// for. Bytes that only messages can carry are never ready.
  status room_for(rank_id to, const void* at, std::size_t bytes, firehose::purpose use) noexcept;

  /// Puts the payload of a Long to its place in `to`'s segment, and waits, polling, until nothing
  /// of it is under way.
  status put_ahead(rank_id to, const outgoing& m) noexcept;

  /// Waits, polling, until c is zero, or until a time_limit of this thread is over. Fetched bytes
  /// are visible when c is zero.
  status wait(const op_counter& c) noexcept;
  /// As wait(), for a counter whose lifetime is about to end: it returns only when c is zero.
  void settle(const op_counter& c) noexcept;
  /// P1 test  acquire c  <- R1 (rma.cpp): fetched bytes are there
  [[nodiscard]] static bool done(const op_counter& c) noexcept {
    return c.load(std::memory_order_acquire) == 0;
  }
  /// Looks for completions, and returns their number. Any thread may call it at any time; it runs
  /// no handler.
  unsigned reap() noexcept;
  /// For waits, before each poll of all queues: looks a few times, as mostly the completion comes
  /// next, and where processes outnumber cores that poll may give the core away. True: some came.
  bool look() noexcept;
  /// Whether a copy of that many bytes to or from `peer`'s memory goes on beside the program: by
  /// the progress thread, and by threads that wait. The operation is then in flight.
  [[nodiscard]] bool copies_beside(rank_id peer, std::size_t bytes) const noexcept {
    return handed_ && bytes >= detail::beside_bytes && peer != core_.rank();
  }
  /// Goes on with such transfers, and with large ones by the device that found no room. True:
  /// something was done. Any thread; no handler runs.
  bool go_on_beside() noexcept;
  /// Whether some wait for room, which no message tells of. A hint.
  [[nodiscard]] bool waits_for_room() const noexcept { return rests_.has_any(); }
  /// Called before the engine starts, where it gets a progress thread.
  void hand_copies_over() { handed_ = std::make_unique<handed_copies>(); }

  /// Before the engine starts, on all ranks alike: puts and gets may go to any memory of a rank.
  void allow_everything() noexcept { everything_ = true; }
  [[nodiscard]] bool everything() const noexcept { return everything_; }
  /// (R-a) True while a peer may hold a key to memory of this process whose pages have changed.
  /// Meanwhile no message may be sent, since it might tell others of the change. Costs three
  /// loads where keys are given to peers.
  [[nodiscard]] bool must_settle() const noexcept {
    return remote_ != nullptr && remote_->must_settle();
  }
  /// Waits until must_settle() is false, without running handlers. Any thread.
  void settle_in_handler() noexcept;
  /// Sends and takes the control messages of remote firehoses. Any thread may call it at any time;
  /// it runs no handler.
  void progress() noexcept;
  /// Sends a frame of at most 64 bytes to p by the queue pair of one-sided operations, into a
  /// receive of p's; c counts it until it is complete. Any thread; answers what is short.
  status send_frame(peer& p, std::span<const std::byte> frame, op_counter& c) noexcept;

  /// True if every process can do atomics on 64-bit words by the device, and they are not mapped.
  [[nodiscard]] bool device_atomics() const noexcept { return device_atomics_; }
  /// Where segments are mapped, by rank; an entry is filled in when its segment is mapped. Null
  /// before start().
  [[nodiscard]] detail::window* windows() noexcept { return windows_.get(); }
  /// Notes that r's segment is mapped at base.
  void note_mapped(rank_id r, std::byte* base) noexcept;
  /// Forgets all mappings, so that calls come to the engine, which refuses them.
  void forget_mapped() noexcept;
  /// The calling thread's table of operations. Takes about a nanosecond.
  transfer_ops& my_ops() noexcept {
    const std::uint32_t tag = thread_tag();
    auto& mine = ops_[tag - 1];
    if (mine == nullptr) [[unlikely]]
      mine = std::make_unique<transfer_ops>(tag);
    return *mine;
  }
  /// Gives a complete operation back to its table. Any thread.
  void give(transfer_op& op) noexcept { ops_[op.owner - 1]->give(op, thread_tag()); }
  /// The program's heap of registered memory, which the first call makes. Any thread.
  result<memreg::lasting_heap*> heap(memreg::heap_maker make);
  /// See ports.hpp.
  bool hold_source(const void* at, std::size_t bytes, long_source& out) noexcept;
  void release_source(std::uint16_t held) noexcept;
  /// The registration cache, or null.
  [[nodiscard]] const firehose::pool* cache() const noexcept { return pool_.get(); }
  /// The keys to others' memory, with segment everything; else null.
  [[nodiscard]] const firehose::remote_firehoses* rights() const noexcept { return remote_; }

  // Set-up and the end, by the engine.
  /// channel: gets the events of completions, or null.
  result<void> open(ibv_comp_channel* channel);
  void describe_queue(const peer& p, ibv_qp_init_attr& init) noexcept;
  void agree(bool device_atomics) noexcept { device_atomics_ = device_atomics_ && device_atomics; }
  /// Called when all ranks have said where their segments are.
  void know_segments();
  /// Called when the queue pairs have been destroyed.
  void close() noexcept;
  /// Called when p's queue pair is made.
  void attach(peer& p);
  [[nodiscard]] std::uint8_t reads_here() const noexcept { return reads_; }
  [[nodiscard]] std::size_t cut_from() const noexcept { return rails_.least(); }
  /// True if no transfer of the domain is under way.
  [[nodiscard]] bool drained(const domain& d) noexcept;
  /// The same as reap(), of one domain.
  unsigned reap(domain& d) noexcept;
  /// For rails: posts the first bytes of p on the first rail, as many as one work request takes,
  /// and counts them for themselves; or answers what is short. bytes: their number. Runs no
  /// handler.
  status try_piece(const piece& p, std::size_t& bytes) noexcept;
  /// True if something is under way on a side rail, whose completion wakes nobody.
  [[nodiscard]] bool rails_busy() const noexcept { return !rails_.drained(); }
  /// Writes the line of FIREHOSE_VERBOSE.
  void report() const noexcept;

 private:
  // The domain whose queue pairs the calling thread uses: with segment everything the first one, on
  // whose queue pairs remote firehoses send control messages; else the thread's own.
  [[nodiscard]] domain& home() noexcept;
  [[nodiscard]] peer& channel(rank_id r) noexcept;
  [[nodiscard]] queues::chunk_pool& chunks() noexcept;
  // The local side of a piece of a transfer.
  struct part {
    std::uint64_t at = 0;
    std::uint32_t lkey = 0;
    bool inlined = false;
    std::size_t bytes = 0;
    transfer_record hold;
  };

  // A put or get, or what is left of one.
  struct course {
    peer* p = nullptr;
    bool puts = false;
    reuse r = reuse::on_completion;
    std::uint64_t remote = 0;
    std::byte* local = nullptr;
    std::size_t left = 0;
    op_counter* count = nullptr;
  };
  [[nodiscard]] static bool has_room(const peer& p) noexcept;
  template <bool Puts>
  status carry(course t) noexcept;
  [[gnu::noinline]] status carry_beside(course t) noexcept;
  template <bool Puts, bool Waits>
  status go_on(course& t) noexcept;
  status go_on(course& t) noexcept;

  // rma_everything.cpp
  void make_room_for_peers(firehose::pool_settings& f) const;
  result<void> open_everything();
  status begin_anywhere(rank_id to, const void* at, std::size_t bytes, std::byte*& here) noexcept;
  status settle_changes() noexcept;
  status aim(peer& p, ibv_wr_opcode opcode, std::uint64_t remote, part& local,
             std::uint32_t& rkey) noexcept;
  status copy_far(rank_id to, std::uint64_t there, std::byte* local, std::size_t bytes, bool write,
                  op_counter& c) noexcept;
  status put_by_message(rank_id to, std::uint64_t there, const std::byte* from, std::size_t bytes,
                        op_counter& c) noexcept;
  status get_by_message(rank_id from, std::uint64_t there, std::byte* to, std::size_t bytes,
                        op_counter& c) noexcept;
  static void on_put(void* self, token&, const std::uint32_t* args, std::byte*, std::size_t);
  static void on_get(void* self, token&, const std::uint32_t* args, std::byte*, std::size_t);
  static void on_got(void* self, token&, const std::uint32_t* args, std::byte*, std::size_t);

  status begin(rank_id to, const void* at, std::size_t bytes, std::byte*& here) noexcept;
  void copy(rank_id peer, std::byte* to, const void* from, std::size_t bytes, bool beside,
            op_counter& c) noexcept;
  /// The answer to a null pointer for local memory, which has a line with the setting CHECKS.
  [[gnu::cold]] status null_memory(rank_id to, const void* at, std::size_t bytes) const noexcept;
  status source(const std::byte* from, std::size_t bytes, reuse r, part& out) noexcept;
  status destination(std::byte* to, std::size_t bytes, part& out) noexcept;
  status registered(const void* at, std::size_t bytes, firehose::purpose use, part& out) noexcept;
  status chunk(std::size_t bytes, part& out) noexcept;
  [[nodiscard]] const std::uint32_t* own_key(const void* at, std::size_t& bytes) const noexcept;
  status put_inline(rank_id to, void* dest, const void* src, std::size_t bytes,
                    op_counter& c) noexcept;
  status move(peer& p, ibv_wr_opcode opcode, std::uint64_t remote, part& local, op_counter& c,
              bool waits = true) noexcept;
  status push(peer& p, ibv_send_wr& wr, transfer_record& r) noexcept;
  status try_push(peer& p, ibv_send_wr& wr, transfer_record& r) noexcept;
  void release(transfer_record& r) noexcept;
  template <class Try>
  status retry(Try&& attempt) noexcept;
  static void on_set(void* self, token&, const std::uint32_t* args, std::byte*, std::size_t);
  static void on_done(void* self, token&, const std::uint32_t* args, std::byte*, std::size_t);

  engine& engine_;
  core& core_;
  connections& connections_;
  zero_array<detail::window> windows_;
  std::unique_ptr<transfer_ops> ops_[max_threads];  // by thread, whose own it is
  bool device_atomics_ = false;
  bool everything_ = false;
  firehose::remote_firehoses* remote_ = nullptr;  // everywhere_'s
  std::uint8_t reads_ = 1;                        // reads and atomics in flight on one queue pair
  std::uint32_t depth_ = 0, max_inline_ = 0;
  bool shares_tickets_ = false;  // a transfer takes a ticket of domain::transfer_room
  std::size_t put_bounce_ = 0, get_bounce_ = 0, max_piece_ = 0;
  std::unique_ptr<queues::chunk_pool> slots_;
  std::unique_ptr<memreg::arena> memory_;
  std::unique_ptr<memreg::temporary_pool> temporaries_;
  std::unique_ptr<firehose::pool> pool_;
  struct held_source {
    firehose::lease lease;
    memreg::temporary registration;
  };
  std::unique_ptr<held_source[]> held_;  // for Longs under way
  std::unique_ptr<index_pool<build_mode>> held_free_;
  std::unique_ptr<everywhere> everywhere_;
  rails rails_;
  std::unique_ptr<handed_copies> handed_;               // where there is a progress thread
  handed_rest<course> rests_;                           // the same
  std::unique_ptr<memreg::program_heap> program_heap_;  // null: malloc's memory is not registered
  std::atomic<const memreg::lasting_heap*> heap_seen_{nullptr};
  std::mutex heap_lock_;
  std::unique_ptr<memreg::lasting_heap> heap_;  // (heap_lock_)
};

/// Registers the handlers of atomics by message (atomic.cpp).
void add_atomic_handlers(engine& e) noexcept;

/// Indexes of the engine's system handlers that one-sided operations use.
enum rma_handler : std::uint8_t {
  rma_set = 4,
  rma_done = 5,
  rma_atomic = 6,
  rma_fetched = 7,
  rma_put = 16,
  rma_get = 17,
  rma_got = 18,
  rma_rail_ask = 12,
  rma_rail_answer = 13,
};

}  // namespace penstock::conduit::PENSTOCK_ABI
