// What gasnet.h keeps about this process: the job, the engine, the barrier, and the tables that its
// calls use. gasnet_init and gasnet_attach make it, and all other code reads it. A process has one.
// It is built once for each thread mode; gasnet.h mangles the names of the functions that clients
// call.
#pragma once

#include <gasnet.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lib/base/forked.hpp"
#include "lib/base/immortal.hpp"
#include "lib/base/raised_flag.hpp"
#include "lib/base/settings.hpp"
#include "lib/base/status.hpp"
#include "lib/conduit/collective/barrier.hpp"
#include "lib/conduit/engine.hpp"  // and the job that it is made for
#include "lib/conduit/one_sided/rma.hpp"
#include "lib/gasnet/coll/collective.hpp"
#include "lib/gasnet/coll/shared_area.hpp"
#include "lib/gasnet/idle_polls.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {

/// Indexes of the engine's system handlers that gasnet.h uses; the same on every rank.
enum system_index : std::uint8_t {
  on_barrier = 8,
  on_long_anywhere,
  on_exit_word,
  on_peer_completion,
};

/// Indexes below the clients' handlers that gasnet.h uses; the same on every rank.
enum own_index : std::uint8_t {
  on_pieces = 112,
  on_pieces_put,
  on_pieces_wanted,
  on_pieces_got,
  on_coll_data,
  on_coll_nothing,
  on_coll_offer,
  on_coll_wanted,
  on_coll_thanks,
  on_coll_bytes,
  on_coll_question,
};

/// The front of every segment is the library's (the barrier's slots, and collectives' lines); the
/// client's part follows.
inline constexpr std::size_t front_bytes =
    (sizeof(conduit::barrier_slots) + sizeof(coll::shared_area) + GASNET_PAGESIZE - 1) /
    GASNET_PAGESIZE * GASNET_PAGESIZE;

/// The client's part of a rank's segment, in that rank's address space; without bytes where it is
/// not attached. The engine knows it by addresses that lie `shift` further (modulo 2^64): not 0
/// where it is memory of that client's own (ex/segments.cpp).
struct client_part {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  std::uintptr_t shift = 0;
};

inline constexpr std::size_t more_endpoints = GASNETC_MOST_ENDPOINTS - 1;

struct process {
  settings options;
  job::job* membership = nullptr;               // never freed; or that of the world that joined
  std::unique_ptr<conduit::engine> engine;      // from gasnet_attach on
  std::unique_ptr<conduit::barrier> barrier;    // the same
  std::uint64_t local_max = 0, global_max = 0;  // largest segments
  std::uint64_t reserve = 0;  // of it, behind what was attached at start: for ex/segments.cpp
  memreg::pin_budget segment_limit;  // the limit that decides local_max
  std::vector<gasnet_nodeinfo_t> nodes;
  // The client's part of each rank's segment.
  std::vector<client_part> parts;
  // Those of the endpoints of index 1 and more, which a rank has published: index i of rank r at
  // r * more_endpoints + i - 1. Empty until there is one.
  std::vector<client_part> more_parts;
  // The table that clients' inline code reads; without entries where it has to call
  // (statistics.hpp).
  gasnetc_window* windows = nullptr;
  bool everything = false;  // GASNET_SEGMENT_EVERYTHING
  bool attached = false;
  bool checked = false;  // the client was compiled with GASNET_DEBUG, or the setting CHECKS is on
  /// When a poll without a message also yields the core. relaxed: a hint
  std::atomic<idle_mode> idle{idle_mode::where_crowded};
};

/// When exit() runs destructors, other threads may be in the middle of a poll.
extern immortal<process> own_process;
/// This process. Before gasnet_init only its flags may be read.
inline process& self = own_process.value;

/// Registers the handlers of Longs to anywhere and of the exit with the engine. Before start().
void register_messages(conduit::engine& e);
void register_exit(conduit::engine& e);

/// The function that the engine calls for every index that clients may use; context: the client's
/// handler.
void run_client_handler(void* context, token&, const std::uint32_t* args, std::byte* payload,
                        std::size_t bytes);

/// Clients' handlers have the indexes from here to 255.
inline constexpr unsigned first_client_handler = 128;
/// Registers a handler that takes what its first message is like. False: the index is taken.
bool set_client_handler(std::uint8_t index, void (*f)());

/// The part of a rank's segment that is the client's, in that rank's address space; empty until it
/// is attached, and with segment everything.
inline std::span<std::byte> client_segment(std::uint32_t rank) noexcept {
  return {self.parts[rank].base, self.parts[rank].bytes};
}
/// Sets that part, when it becomes known. A process's puts and gets to its own part are copies from
/// here on.
void know_segment(std::uint32_t rank, const client_part& part) noexcept;
/// Sets the part of another endpoint, and forgets it. Parts over the same memory that lay elsewhere
/// in the engine's are those of segments that are no more; they are forgotten, too.
void know_more(std::uint32_t rank, std::size_t index, const client_part& part);
void forget_more(std::uint32_t rank, std::size_t index) noexcept;
/// The part of an endpoint of index 1 or more that has those bytes, or null.
const client_part* more_part_with(std::uint32_t rank, const void* addr, std::size_t bytes) noexcept;
inline bool has(const client_part& p, const void* addr, std::size_t bytes) noexcept {
  const std::uintptr_t offset =
      reinterpret_cast<std::uintptr_t>(addr) - reinterpret_cast<std::uintptr_t>(p.base);
  return offset <= p.bytes && bytes <= p.bytes - offset;
}
/// True if those bytes are in one of a rank's parts.
inline bool is_in_parts(std::uint32_t rank, const void* addr, std::size_t bytes) noexcept {
  return has(self.parts[rank], addr, bytes) || more_part_with(rank, addr, bytes) != nullptr;
}
/// The address by which the engine knows what a rank's client has at addr.
inline void* engine_address(std::uint32_t rank, const void* addr) noexcept {
  const client_part& p = self.parts[rank];
  const auto at = reinterpret_cast<std::uintptr_t>(addr);
  if (at - reinterpret_cast<std::uintptr_t>(p.base) < p.bytes) [[likely]]
    return reinterpret_cast<void*>(at + p.shift);
  const client_part* const more = self.more_parts.empty() ? nullptr : more_part_with(rank, addr, 1);
  return reinterpret_cast<void*>(at + (more != nullptr ? more->shift : 0));
}
/// The other direction, for this process.
inline std::byte* client_address(std::byte* addr) noexcept {
  const client_part& p = self.parts[GASNETC_(mynode)];
  const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(addr) - p.shift;
  return at - reinterpret_cast<std::uintptr_t>(p.base) < p.bytes ? reinterpret_cast<std::byte*>(at)
                                                                 : addr;
}
/// Puts and gets to that memory of a rank are copies from here on; base is in its address space.
void open_window(std::uint32_t rank, std::uintptr_t base, std::uintptr_t size,
                 std::uintptr_t here) noexcept;
/// The address at which a rank's part is mapped here; maps it if that has not been done yet, which
/// may take a connection. Null: it cannot be mapped. Not to be called in a handler.
std::byte* map_segment(std::uint32_t rank) noexcept;

/// Starts the engine, with a segment of that size for the client, and address space to extend it to
/// reserve_bytes later. Collective.
result<void> start_engine(std::uint64_t segment_bytes, std::uint64_t reserve_bytes);
/// Logs what went wrong in a call, and returns GASNET_ERR_RESOURCE.
int report(const failure& f);
/// Logs why this call may not be made before another one (once for each name), or again, and
/// returns GASNET_ERR_NOT_INIT.
[[gnu::cold]] int too_early(const char* call);
[[gnu::cold]] int too_late(const char* call);

/// Sees to it, from gasnet_init on, that an end of the process without gasnet_exit is noticed.
void prepare_exit();

/// Down from gasnet_attach until this process may have to leave, by an order, a signal or its own
/// gasnet_exit. Every poll looks at it first.
extern raised_flag exit_news;
/// Takes exit_news down, once attached, unless there is news already.
void heed_from_now_on() noexcept;
/// Acts on the news. It does not return where this thread has to take the process down, nor where
/// another thread does and the caller cannot be told (may_return is false). True: the caller must
/// not use the engine.
bool heed_exit_news(bool may_return) noexcept;

/// To be called before a poll. True: the caller must not use the engine.
inline bool heed_exit(bool may_return) noexcept {
  return exit_news.is_up() && heed_exit_news(may_return);
}
/// Leaves, since another process has left while this one was still joining the job, which is over
/// by that. The exit code is the other's.
[[noreturn]] void leave_after_another() noexcept;

/// Ends a child made by fork() (forked.hpp), and the child alone, that makes a call which cannot
/// return an error.
inline void not_in_child(const char* call) noexcept {
  if (is_forked()) [[unlikely]]
    fatal(1, "%s: %s; %s", call, forked_text, forked_hint);
}
/// Runs in such a child: turns off what the inline code of gasnet.h reads.
void turn_off_in_child(void*) noexcept;

/// Ends the job for a call of the extended interface that cannot return an error; the line names
/// the call and the reason.
[[noreturn]] void failed(const char* call, status s) noexcept;
/// Does so unless s is ok.
inline void began(const char* call, status s) noexcept {
  if (s != status::ok) [[unlikely]]
    failed(call, s);
}

/// The cold part of a client's poll that found no message, after found_nothing() was true.
void rest_from_polls(idle_polls& mine) noexcept;

/// One step of a wait inside the library; ends the job where the engine has failed.
inline void wait_step(unsigned& empty) noexcept {
  (void)heed_exit(false);
  if (const status s = self.engine->wait_step(empty); is_failure(s)) [[unlikely]]
    failed("a call that waits", s);
  self.barrier->kick();
  coll::kick();
}

}  // namespace penstock::gasnet::PENSTOCK_ABI
