// What gasnet.h keeps about this process: the job, the engine, the barrier, and the tables that its
// calls look things up in. Made by gasnet_init and gasnet_attach, read by everything else. One
// process has one. Built once for each thread mode; gasnet.h mangles the names of what is called
// from outside.
#pragma once

#include <gasnet.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lib/base/forked.hpp"
#include "lib/base/settings.hpp"
#include "lib/base/status.hpp"
#include "lib/conduit/collective/barrier.hpp"
#include "lib/conduit/engine.hpp"  // and the job that it is made for
#include "lib/conduit/one_sided/rma.hpp"
#include "lib/gasnet/coll/collective.hpp"
#include "lib/gasnet/coll/shared.hpp"
#include "lib/gasnet/idle_polls.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {

/// Indexes of the engine's system handlers that gasnet.h uses; the same on every rank.
enum system_index : std::uint8_t {
  on_barrier = 8,
  on_long_anywhere,
  on_exit_word,
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
};

/// The front of every segment is the library's (the barrier's slots, and collectives' lines); the
/// client's part follows.
inline constexpr std::size_t front_bytes =
    (sizeof(conduit::barrier_slots) + sizeof(coll::shared_lines) + GASNET_PAGESIZE - 1) /
    GASNET_PAGESIZE * GASNET_PAGESIZE;

struct process {
  settings options;
  job::job* membership = nullptr;               // never given back; or of who joined before
  std::unique_ptr<conduit::engine> engine;      // from gasnet_attach on
  std::unique_ptr<conduit::barrier> barrier;    // the same
  std::uint64_t local_max = 0, global_max = 0;  // largest segments
  memreg::pin_budget segment_limit;             // which limit says so of local_max
  std::vector<gasnet_nodeinfo_t> nodes;
  // Of each rank's segment, the client's part; its own address space.
  std::vector<std::span<std::byte>> parts;
  // What clients look at, unless they are to call (statistics.hpp).
  gasnetc_window* windows = nullptr;
  bool everything = false;  // GASNET_SEGMENT_EVERYTHING
  bool attached = false;
  bool checked = false;  // the client was compiled with GASNET_DEBUG
  /// When a poll without a message also gives the core away. relaxed: a hint
  std::atomic<idle_mode> idle{idle_mode::where_crowded};
};

/// Keeps the process from being destroyed: when exit() runs destructors, other threads may be in
/// the middle of a poll.
union immortal_process {
  process value;
  immortal_process() : value() {}
  ~immortal_process() {}
};
extern immortal_process immortal;
/// This process. Not before gasnet_init, but for its flags.
inline process& self = immortal.value;

/// Tells the engine of the handlers behind long messages and exit.
/// Before start().
void register_messages(conduit::engine& e);
void register_exit(conduit::engine& e);

/// The engine's view of every index that clients may use; context: where the client's function
/// stands. The second also checks how the handler was called before (checks.cpp).
void run_client_handler(void* context, token&, const std::uint32_t* args, std::byte* payload,
                        std::size_t bytes);
void run_checked_handler(void* context, token&, const std::uint32_t* args, std::byte* payload,
                         std::size_t bytes);

/// Clients' handlers have the indexes from here to 255.
inline constexpr unsigned first_client_handler = 128;
/// One that takes every message. False if there is one already.
bool set_client_handler(std::uint8_t index, void (*f)());

/// The part of a rank's segment that is the client's, in that rank's address space; empty until it
/// is attached, and with segment everything.
inline std::span<std::byte> client_segment(std::uint32_t rank) noexcept { return self.parts[rank]; }
/// The same for who knows now: own puts and gets to its own part are copies from here on.
void know_segment(std::uint32_t rank, std::span<std::byte> part) noexcept;
/// Puts and gets to that memory of a rank are copies from here on; base is in its address space.
void open_window(std::uint32_t rank, std::uintptr_t base, std::uintptr_t size,
                 std::uintptr_t here) noexcept;
/// Where a rank's part lies here, if it can be reached by load and store; maps it if that has not
/// been done yet, which may take a connection. Else null. Not from handlers.
std::byte* map_segment(std::uint32_t rank) noexcept;

/// Starts the engine, with a segment for the client of that size, and room to make one of
/// reserve_bytes later. Collective.
result<void> start_engine(std::uint64_t segment_bytes, std::uint64_t reserve_bytes);
/// Says what went wrong in a call that returns GASNET_ERR_RESOURCE.
int report(const failure& f);

/// From gasnet_init on: an end of the process by other ways than gasnet_exit is noticed.
void prepare_exit();

/// 0 between gasnet_attach and the moment that this process may have to leave: an order, a signal,
/// its own gasnet_exit. Read before every poll.
extern std::atomic<std::uint32_t> exit_news;
/// Once attached: polls go on without a look at anything else, unless there is news already.
void heed_from_now_on() noexcept;
/// What there is to do then. Does not return where this thread has to take the process down, or
/// another does and the caller could not be told (may_return false). True: the engine is to be left
/// alone.
bool heed_exit_news(bool may_return) noexcept;

/// Before a poll: true if the engine is to be left alone.
inline bool heed_exit(bool may_return) noexcept {
  // relaxed: a hint; who sees it late sees it before the next poll
  return exit_news.load(std::memory_order_relaxed) != 0 && heed_exit_news(may_return);
}
/// Another process left while this one was still on its way into the job, which is over thereby: so
/// does this one. The exit code is the other's.
[[noreturn]] void leave_after_another() noexcept;

/// Ends a child made by fork() (forked.hpp), and it alone, that calls what has no way to refuse it.
inline void not_in_child(const char* call) noexcept {
  if (is_forked()) [[unlikely]]
    fatal(1, "%s: %s; %s", call, forked_text, forked_hint);
}
/// In such a child: what the inlined half of gasnet.h looks at is turned off.
void turn_off_in_child(void*) noexcept;

/// From a call of the extended interface whose errors end the job: names the call and the reason.
[[noreturn]] void failed(const char* call, status s) noexcept;

/// The cold side of a client's poll that found nothing, after found_nothing() said true.
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
