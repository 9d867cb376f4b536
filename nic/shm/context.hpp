// One opened shm0: its name, its memory file, its two threads and the lists of its objects.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/base/use_count.hpp"
#include "lib/base/zero_pages.hpp"
#include "nic/shm/arena.hpp"
#include "nic/shm/carrier.hpp"
#include "nic/shm/event_queue.hpp"
#include "nic/shm/faults.hpp"
#include "nic/shm/identity.hpp"
#include "nic/shm/lock.hpp"
#include "nic/shm/observer.hpp"
#include "nic/shm/overflow.hpp"
#include "nic/shm/patience.hpp"
#include "nic/shm/personality.hpp"
#include "nic/shm/pusher.hpp"
#include "nic/shm/region.hpp"
#include "nic/shm/service.hpp"
#include "nic/shm/traits.hpp"
#include "nic/shm/xrc.hpp"

namespace penstock::nic::shm {

struct queue_pair;
struct completion_queue;
struct shared_receive_queue;
struct peer;

/// What get_async_event delivers: the event, and the counter of this object's delivered events.
/// Destroying the object waits until as many are acknowledged.
struct async_event {
  ibv_async_event event{};
  std::atomic<std::uint32_t>* delivered = nullptr;
};

struct context {
  context() : service(*this), pusher(*this) {}

  nonce name;
  /// The device whose addresses the context shows; null: it shows its name (identity.hpp).
  const identity* device = nullptr;
  const link_rate* rate = nullptr;  ///< of the device; null: 100 Gbit/s
  nonce proof;  ///< peers read it from our memory, to be sure which process a pid names
  arena memory;
  region_table regions;
  event_queue<async_event> events;
  std::atomic<std::uint32_t> event_count{0};
  std::atomic<bool> given_up{false};
  std::atomic<std::uint32_t> datagrams{0};
  std::atomic<std::uint32_t> unfinished{0};  ///< QPs whose software send queue holds work
  use_count live;                            ///< PDs, CQs, channels … that exist
  std::atomic<std::uint32_t> mrs{0};         ///< that exist
  std::atomic<std::uint64_t> rnr_received{0};
  std::atomic<std::uint64_t> lost_for_receive{0};
  std::atomic<std::uint64_t> atomics_asked{0};  ///< numbers given out (request::atomic)
  std::atomic<std::uint32_t> next_pd{1};
  spin_lock windows;  ///< which window is bound to which region (window.hpp); taken last
  // Datagrams. The context may let each thread that polls read the socket itself. Every look then
  // costs a system call, so only a program that lives on datagrams wants that.
  // relaxed: the pusher may see it late, which costs a look
  std::atomic<bool> polls_datagrams{false};  ///< fixed before the first QP
  /// Registered memory is moved to a place that peers can map (moved_memory.hpp). Penstock's own
  /// memory is in such a place already; that of other programs is wherever malloc put it. Fixed
  /// before the first MR.
  // relaxed: who asks before it is set has no memory to map
  std::atomic<bool> moves_memory{false};
  /// After this time a question to a peer is asked again, and after twice that its answer is let
  /// go.
  std::uint64_t answer_ns = 10'000'000'000;
  /// How long a connecting call waits for a peer that it meets first (peers_may_be_silent).
  std::uint64_t greeting_ns = 10'000'000'000;
  /// How long a sender finds no room in a ring before it goes another way.
  std::uint64_t overflow_ns = overflow_after_ns;
  /// How long a send to a full socket is retried after the socket has last taken a datagram of this
  /// context.
  std::atomic<std::uint64_t> datagram_patience_ns{100'000'000};
  send_times datagram_sent;  ///< while sends wait
  spin_lock datagram_lock;   ///< held by the thread that reads the socket
  // Under datagram_lock: the QPs whose datagrams wait for receives.
  std::vector<queue_pair*> arrivals;
  std::atomic<std::uint32_t> waiting_datagrams{0};  ///< how many; written under datagram_lock
  std::atomic<bool> datagrams_polled{
      false};                            ///< a program's thread has looked: the pusher need not
  std::atomic<bool> timed_bells{false};  ///< membarrier is missing here or at a peer

  // The personality and the faults. Fixed before anything is made. Without faults `play` is null,
  // and the three functions are the device's ordinary ones.
  personality plays;
  std::unique_ptr<faults> play;
  std::unique_ptr<shm::carrier> carrier;  ///< null: rings and shared memory
  std::unique_ptr<observer> watched;      ///< null: nobody watches
  int (*post)(queue_pair&, ibv_send_wr*, ibv_send_wr** bad) noexcept;
  outcome (*attempt)(queue_pair&, send_work&, ibv_wc_status* why) noexcept;
  int (*move)(queue_pair&, send_work&) noexcept;

  /// Lists of objects, for the two threads and for the calls that create and destroy. A thread that
  /// holds it never waits for a peer. Taken before every spin lock.
  std::mutex objects;
  std::vector<queue_pair*> qps;
  std::vector<shared_receive_queue*> shared_queues;
  bool asides = false;  ///< a peer has given a file (overflow.hpp)
  std::vector<completion_queue*> cqs;
  std::vector<std::shared_ptr<peer>> peers;
  std::vector<std::shared_ptr<peer>> silent_peers;  ///< that have been asked, and not answered yet
  std::vector<std::unique_ptr<xrc_domain>> xrc_domains;
  /// How often each entry has been used, by a QP or by its next life after a reset.
  zero_array<std::uint32_t> qp_uses{max_qps};
  /// The next generation of the entry; 24 bits.
  std::uint32_t next_generation(std::uint32_t entry) noexcept {
    return ++qp_uses[entry] & 0xffffff;
  }
  /// The number of the QP in that entry. An own name leaves room for a count, so that a number is
  /// not given to the next QP at once.
  std::uint32_t number_of(std::uint32_t entry, std::uint32_t generation) const noexcept {
    return by_block() ? block << own_bits | entry : (generation & 0xff) << 16 | entry;
  }
  /// The entry, here or at a peer, of the QP that has this number.
  [[nodiscard]] std::uint32_t entry_of(std::uint32_t qpn) const noexcept {
    return qpn & (by_block() ? (1u << own_bits) - 1 : 0xffff);
  }
  /// The context, of those that an address leads to, that has this QP.
  [[nodiscard]] nonce context_at(const nonce& to, std::uint32_t qpn) const noexcept {
    return device != nullptr ? context_name(to, qpn) : to;
  }
  /// Whether contexts that have one address are told apart by QP numbers.
  [[nodiscard]] bool by_block() const noexcept { return device != nullptr || carrier != nullptr; }
  std::uint32_t block = 0;  ///< which QP numbers of the device are this context's

  /// Rings of destroyed QPs to which a peer may still write. Under objects.
  struct retired_ring {
    std::uint64_t offset = 0, bytes = 0;
    std::shared_ptr<peer> writer;
    const qp_entry* entry = nullptr;  ///< the writer's entry, which says which ring it writes to
  };
  std::vector<retired_ring> retired;  ///< has room for as many as queue pairs have rings
  std::size_t rings = 0;              ///< that queue pairs have; under objects

  service_thread service;
  pusher_thread pusher;

  /// verbs_context grows downward, so it must be the last member that programs look at; what is
  /// unused of it is zero.
  struct exposed {
    context* owner = nullptr;
    /// Later releases of libibverbs have further functions here.
    std::byte later_functions[256]{};
    verbs_context verbs{};
  } handle;
};

inline context& of(ibv_context* c) noexcept {
  auto* at = reinterpret_cast<std::byte*>(c) - offsetof(verbs_context, context) -
             offsetof(context::exposed, verbs);
  return *reinterpret_cast<context::exposed*>(at)->owner;
}

/// The personality and the faults of a context.
struct pretence {
  personality plays;
  fault_plan faults;
  const identity* device = nullptr;  ///< whose contexts are told apart by QP numbers
  const link_rate* rate = nullptr;   ///< of that device
};
/// Reads the texts of the two settings.
result<pretence> parse_pretence(std::string_view personality, std::string_view faults);
/// Reads the environment's settings, for contexts that a verbs call opens.
result<pretence> pretence_of_environment();
/// A running context that no verbs_context leads to yet; null with errno. The caller stores its
/// address in the `exposed` that holds the verbs_context.
std::unique_ptr<context> make_context(const pretence& p,
                                      std::unique_ptr<carrier> carrier = nullptr);
/// Fills in what programs see of a running context, which is theirs from here on.
ibv_context* expose(std::unique_ptr<context> c, ibv_device* device);
/// The errno with which the fault plan wants this call to end, or 0.
inline int refusal(context& c, verb v) noexcept { return c.play ? c.play->call(v) : 0; }
/// Ends a context whose objects are gone, as far as its peers can tell; the caller deletes it.
void stop_context(context& c) noexcept;
/// Where an address vector leads, for context_at(): 0, EINVAL (the context has no such address of
/// its own), or EHOSTUNREACH (nobody here has that address; a line says so).
int resolve(const context& c, const ibv_ah_attr& a, nonce& to);
/// The filled rows of the GID table.
inline int gid_count(const context& c) noexcept {
  return c.device == nullptr || c.plays.has_lids ? 1 : gid_rows;
}
inline ibv_gid gid_of(const context& c, int row) noexcept {
  return c.device != nullptr ? c.device->gid(row) : c.name.gid();
}
/// The attributes that query_port answers.
ibv_port_attr port_attributes(const context& c) noexcept;

/// How long a message of UC or UD waits for a receive, at least (patience.hpp).
inline std::uint64_t patience_ns(const context& c) noexcept {
  return c.plays.receive_wait_ms * std::uint64_t{1'000'000};
}
/// As many datagrams wait for receives as may: the context's socket is not read.
inline bool waiting_room_full(const context& c) noexcept {
  return c.waiting_datagrams.load(std::memory_order_relaxed) >= max_waiting_datagrams;
}

/// Raises an asynchronous event on an object; `delivered` may be null (port and device events).
void raise(context& c, ibv_event_type type, decltype(ibv_async_event::element) element,
           std::atomic<std::uint32_t>* delivered);

/// A system call that the device needs is refused for good: says which, once, and raises
/// IBV_EVENT_DEVICE_FATAL.
[[gnu::cold]] void give_up(context& c, int code) noexcept;

// The calls of nic::calls that concern the device and its context.
/// A device as libibverbs shows it; zero padding behind it: programs peek past the public
/// structure.
struct named_device {
  explicit named_device(const char* name) noexcept;
  ibv_device device{};
  std::byte padding[1024] = {};
};
/// What get_device_list() answers where there is that one device. Null: no memory.
ibv_device** list_of(ibv_device& device, int* count) noexcept;
ibv_device** get_device_list(int* count) noexcept;
void free_device_list(ibv_device** list) noexcept;
const char* get_device_name(ibv_device*) noexcept;
ibv_context* open_device(ibv_device*);
ibv_context* open_device_as(ibv_device*, const pretence& p);
int close_device(ibv_context*) noexcept;
int query_device(ibv_context*, ibv_device_attr*) noexcept;
int query_port(ibv_context*, std::uint8_t port, ibv_port_attr*) noexcept;
int query_gid(ibv_context*, std::uint8_t port, int index, ibv_gid*) noexcept;
int get_async_event(ibv_context*, ibv_async_event*) noexcept;
void ack_async_event(ibv_async_event*) noexcept;
/// Fills in the data path's inline calls (calls.cpp): of a context that heeds faults, or that is
/// watched, others than the ordinary ones.
void fill_operations(ibv_context_ops& ops, const context& c) noexcept;
/// Whether a context needs the calls that heed faults.
inline bool played(const context& c) noexcept { return c.play != nullptr || c.plays.overruns; }

}  // namespace penstock::nic::shm
