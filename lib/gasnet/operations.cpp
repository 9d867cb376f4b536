// The synchronization calls of gasnet.h's and gasnetex.h's operations, and the tables behind them.
#include "lib/gasnet/operations.hpp"

#include <atomic>
#include <new>
#include <span>
#include <utility>

#include "lib/base/log.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

constexpr unsigned block_operations = 256;

// By thread number; each entry is written by the thread that has the number.
std::atomic<thread_operations*> tables[max_threads + 1] = {};

// The first blocks of all threads lie side by side, so that a comparison tells whether a pointer
// may be an event. Pages of those that no thread needs are never touched.
constexpr unsigned room_blocks = 64;
constinit operation operation_room[room_blocks * block_operations];
std::atomic<unsigned> room_begun = 0;  // relaxed: gives numbers out

bool in_room(const operation* op) noexcept {
  return reinterpret_cast<std::uintptr_t>(op) - reinterpret_cast<std::uintptr_t>(operation_room) <
         sizeof operation_room;
}

// All later blocks of all threads: nothing else is an event.
struct operation_block {
  operation_block* next = nullptr;
  operation at[block_operations];
};
std::atomic<operation_block*> blocks = nullptr;

bool is_operation(const operation* op) noexcept {
  const auto place = reinterpret_cast<std::uintptr_t>(op);
  // B2 look  acquire blocks  <- B1
  for (const operation_block* b = blocks.load(std::memory_order_acquire); b != nullptr;
       b = b->next) {
    const std::uintptr_t offset = place - reinterpret_cast<std::uintptr_t>(&b->at[0]);
    if (offset < sizeof b->at) return offset % sizeof(operation) == 0;
  }
  return false;
}

[[noreturn]] void no_event(gex_Event_t e, const char* call) {
  if (e == GEX_EVENT_NO_OP) fatal(1, "%s: GEX_EVENT_NO_OP stands for no operation", call);
  fatal(1, "%s: %p is no event", call, static_cast<void*>(e));
}

// True if e, which lies outside the room, may be an event. Where there are other blocks, only
// checked programs search them.
bool may_be_operation(const operation* op) noexcept {
  constexpr std::uintptr_t least = 65536;
  // relaxed: who has an event of a block has heard of the block
  if (reinterpret_cast<std::uintptr_t>(op) < least ||
      blocks.load(std::memory_order_relaxed) == nullptr)
    return false;
  return !self.checked || is_operation(op);
}

// The operation of an event that may be synchronized; ends the job where it sees that it is not.
operation& checked(gex_Event_t e, const char* call) {
  operation* const op = operation_of(e);
  if (!in_room(op) && !may_be_operation(op)) [[unlikely]]
    no_event(e, call);
  // relaxed: only a wrong program sees anything but what it holds
  const bool free = !op->taken.load(std::memory_order_relaxed);
  if (free || event_of(*op, leaf_of(e)) != e) [[unlikely]]
    fatal(1, "%s: the handle has been synchronized before", call);
  return *op;
}

bool leaf_done(const operation& op, leaf part) noexcept {
  switch (part) {
    case leaf::puts:
      return operation::zero(op.pending);
    case leaf::gets:
      return operation::zero(op.gets);
    case leaf::rmws:
      return operation::zero(op.rmws);
    default:
      return operation::zero(op.locals) && operation::zero(op.pending);
  }
}

// One look at all events: the number of valid ones, and of those that have become complete. Leaves
// come first, since they end with their root, and are complete when the root is.
struct scan {
  std::size_t valid = 0, done = 0;
  scan(gex_Event_t* events, std::size_t count, const char* call) {
    bool leaves = false;
    for (std::size_t i = 0; i < count; ++i) {
      if (events[i] == GEX_EVENT_INVALID) continue;
      ++valid;
      if (leaf_of(events[i]) == leaf::all) continue;
      if (reap(events[i], call))
        ++done;
      else
        leaves = true;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const gex_Event_t e = events[i];
      if (e == GEX_EVENT_INVALID || leaf_of(e) != leaf::all || !reap(events[i], call)) continue;
      ++done;
      if (leaves) done += clear_leaves_of(operation_of(e), events, count);
    }
  }
  static std::size_t clear_leaves_of(const operation* op, gex_Event_t* events, std::size_t count) {
    std::size_t cleared = 0;
    for (std::size_t i = 0; i < count; ++i)
      if (events[i] != GEX_EVENT_INVALID && operation_of(events[i]) == op) {
        events[i] = GEX_EVENT_INVALID;
        ++cleared;
      }
    return cleared;
  }
  [[nodiscard]] bool enough(bool some) const {
    return some ? valid == 0 || done != 0 : valid == done;
  }
};

template <class T>
T* or_out_of_memory(T* made) noexcept {
  if (made == nullptr) [[unlikely]]
    fatal(1, "out of memory for the operations of a thread");
  return made;
}

// What a wait for that event is for.
conduit::wait_for kind_of(gex_Event_t e) {
  return e != GEX_EVENT_INVALID && operation_of(e)->collective ? conduit::wait_for::collective
                                                               : conduit::wait_for::transfers;
}

void wait_events(gex_Event_t* events, std::size_t count, bool some, const char* call) {
  const conduit::long_wait named(self.engine->waits(),
                                 count != 0 ? kind_of(events[0]) : conduit::wait_for::transfers);
  wait_for_transfers([&] { return scan(events, count, call).enough(some); });
}

void wait_event(gex_Event_t e, const char* call) {
  operation& op = checked(e, call);
  const leaf part = leaf_of(e);
  const conduit::long_wait named(self.engine->waits(), kind_of(e));
  const auto done = [&] { return part == leaf::all ? op.done() : leaf_done(op, part); };
  if (!op.collective)
    wait_for_transfers(done);
  else
    for (unsigned empty = 0; !done();) gasnet::wait_step(empty);
  if (part == leaf::all) let_go(op);
}

gex_EC_t kinds_of(gasnetc_kind both) noexcept {
  return ((both & gasnetc_puts) != 0 ? GEX_EC_PUT : 0) |
         ((both & gasnetc_gets) != 0 ? GEX_EC_GET : 0);
}

}  // namespace

bool reap(gex_Event_t& e, const char* call) {
  operation& op = checked(e, call);
  const leaf part = leaf_of(e);
  if (part == leaf::all ? !op.done() : !leaf_done(op, part)) return false;
  e = GEX_EVENT_INVALID;
  if (part == leaf::all) let_go(op);
  return true;
}

thread_operations& my_operations() noexcept {
  auto& mine = tables[thread_tag()];
  // relaxed: written by this thread, or by the one that had its number before
  thread_operations* table = mine.load(std::memory_order_relaxed);
  if (table == nullptr) [[unlikely]] {
    table = or_out_of_memory(new (std::nothrow) thread_operations(thread_tag()));
    // T1 table  release tables  -> T2: a thread that gives an operation back finds it
    mine.store(table, std::memory_order_release);
  }
  return *table;
}

void let_go(operation& op) noexcept {
  // T2 owner  acquire tables  <- T1
  tables[op.owner].load(std::memory_order_acquire)->give_back(op);
}

void thread_operations::refill() noexcept {
  // A1 refill  acquire returned_  <- R1
  free_ = returned_.exchange(nullptr, std::memory_order_acquire);
  if (free_ != nullptr) return;
  const auto enter = [this](std::span<operation> all) {
    for (operation& op : all) {
      op.owner = tag_;
      op.next_free = free_;
      free_ = &op;
    }
  };
  if (room_begun.load(std::memory_order_relaxed) < room_blocks)
    if (const unsigned mine = room_begun.fetch_add(1, std::memory_order_relaxed);
        mine < room_blocks) {
      enter({&operation_room[mine * block_operations], block_operations});
      return;
    }
  // The block is never freed: see the head of operations.hpp.
  auto* const block = or_out_of_memory(new (std::nothrow) operation_block);
  enter(block->at);
  block->next = blocks.load(std::memory_order_relaxed);
  // B1 block  release blocks  -> B2: its place in the list
  while (!blocks.compare_exchange_weak(block->next, block, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
}

void thread_operations::begin_region(const char* call) noexcept {
  if (region_ != nullptr) fatal(1, "%s: regions do not nest", call);
  region_ = &take();
}

gex_Event_t thread_operations::end_region(const char* call) noexcept {
  if (region_ == nullptr) fatal(1, "%s: no region was begun", call);
  return event_or_done(*std::exchange(region_, nullptr));
}

}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock::gasnet;

extern "C" {

// ---- gasnet.h ----

int GASNETC_(implicit_begun) = 0;

int GASNETC_(try_handle)(gasnet_handle_t handle) {
  if (reap(handle, "gasnet_try_syncnb")) return GASNET_OK;
  (void)GASNETC_(poll)();
  return reap(handle, "gasnet_try_syncnb") ? GASNET_OK : GASNET_ERR_NOT_READY;
}

void GASNETC_(wait_handle)(gasnet_handle_t handle) { wait_event(handle, "gasnet_wait_syncnb"); }

int GASNETC_(try_handles)(gasnet_handle_t* handles, size_t count, int some) {
  const scan before(handles, count, "gasnet_try_syncnb_*");
  if (before.enough(some != 0)) return GASNET_OK;
  (void)GASNETC_(poll)();
  const scan after(handles, count, "gasnet_try_syncnb_*");
  return after.enough(some != 0) ? GASNET_OK : GASNET_ERR_NOT_READY;
}

void GASNETC_(wait_handles)(gasnet_handle_t* handles, size_t count, int some) {
  wait_events(handles, count, some != 0, "gasnet_wait_syncnb_*");
}

int GASNETC_(try_implicit)(enum gasnetc_kind kind) {
  const thread_operations& mine = my_operations();
  if (mine.done(kinds_of(kind))) return GASNET_OK;
  (void)GASNETC_(poll)();
  return mine.done(kinds_of(kind)) ? GASNET_OK : GASNET_ERR_NOT_READY;
}

void GASNETC_(wait_implicit)(enum gasnetc_kind kind) { GASNETC_(nbi_wait)(kinds_of(kind)); }

void GASNETC_(begin_region)(void) { my_operations().begin_region("gasnet_begin_nbi_accessregion"); }
gasnet_handle_t GASNETC_(end_region)(void) {
  return my_operations().end_region("gasnet_end_nbi_accessregion");
}

gasnet_register_value_t GASNETC_(wait_value)(gasnet_handle_t handle) {
  gasnetc_op& op = checked(handle, "gasnet_wait_syncnb_valget");
  wait_for(op);
  const gasnet_register_value_t value = op.value;
  let_go(op);
  return value;
}

gasnet_threadinfo_t GASNETC_(threadinfo)(void) { return &my_operations(); }

// ---- gasnetex.h ----

int GASNETC_(event_test)(gex_Event_t event) {
  return reap(event, "gex_Event_Test") ? GASNET_OK : GASNET_ERR_NOT_READY;
}
void GASNETC_(event_wait)(gex_Event_t event) { wait_event(event, "gex_Event_Wait"); }
int GASNETC_(events_test)(gex_Event_t* events, size_t count, int some) {
  const scan now(events, count, some != 0 ? "gex_Event_TestSome" : "gex_Event_TestAll");
  return now.enough(some != 0) ? GASNET_OK : GASNET_ERR_NOT_READY;
}
void GASNETC_(events_wait)(gex_Event_t* events, size_t count, int some) {
  wait_events(events, count, some != 0, some != 0 ? "gex_Event_WaitSome" : "gex_Event_WaitAll");
}

gex_Event_t GASNETC_(event_leaf)(gex_Event_t root, gex_EC_t which) {
  const gasnetc_op& op = checked(root, "gex_Event_QueryLeaf");
  switch (which) {
    case GEX_EC_PUT:
      return event_of(op, leaf::puts);
    case GEX_EC_GET:
      return event_of(op, leaf::gets);
    case GEX_EC_RMW:
      return event_of(op, leaf::rmws);
    case GEX_EC_LC:
    case GEX_EC_AM:
      return event_of(op, leaf::local);
    default:
      penstock::fatal(1, "gex_Event_QueryLeaf: %#x is not one kind of events", which);
  }
}

int GASNETC_(nbi_test)(gex_EC_t mask) {
  return my_operations().done(mask) ? GASNET_OK : GASNET_ERR_NOT_READY;
}
void GASNETC_(nbi_wait)(gex_EC_t mask) {
  const thread_operations& mine = my_operations();
  const penstock::conduit::long_wait named(penstock::gasnet::self.engine->waits(),
                                           penstock::conduit::wait_for::transfers);
  wait_for_transfers([&] { return mine.done(mask); });
}
void GASNETC_(ex_begin_region)(void) { my_operations().begin_region("gex_NBI_BeginAccessRegion"); }
gex_Event_t GASNETC_(ex_end_region)(void) {
  return my_operations().end_region("gex_NBI_EndAccessRegion");
}

}  // extern "C"
