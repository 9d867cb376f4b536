// The synchronization calls of gasnet.h's extended interface, and the tables behind them.
#include "lib/gasnet/operations.hpp"

#include <memory>
#include <new>

#include "lib/base/log.hpp"
#include "lib/base/thread_index.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

constexpr unsigned block_operations = 256;

// By thread number; each entry is written and read by the thread that has the number.
thread_operations* tables[max_threads + 1] = {};

// A handle that its thread may synchronize; ends the job where it sees that it is not.
operation& checked(gasnet_handle_t handle, const char* call) {
  if (!handle->in_use) [[unlikely]]
    fatal(1, "%s: the handle has been synchronized before", call);
  return *handle;
}

// Frees handle's operation and clears it if it is done.
bool reap(gasnet_handle_t& handle, thread_operations& mine, const char* call) {
  operation& op = checked(handle, call);
  if (!op.done()) return false;
  mine.give(op);
  handle = GASNET_INVALID_HANDLE;
  return true;
}

// One look at all handles: how many are valid, and how many of them became complete.
struct scan {
  std::size_t valid = 0, done = 0;
  scan(gasnet_handle_t* handles, std::size_t count) {
    thread_operations& mine = my_operations();
    for (std::size_t i = 0; i < count; ++i) {
      if (handles[i] == GASNET_INVALID_HANDLE) continue;
      ++valid;
      done += reap(handles[i], mine, "gasnet_*_syncnb");
    }
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

}  // namespace

thread_operations& my_operations() noexcept {
  auto*& mine = tables[thread_tag()];
  if (mine == nullptr) [[unlikely]]
    mine = or_out_of_memory(new (std::nothrow) thread_operations);
  return *mine;
}

void thread_operations::grow() noexcept {
  // Never freed: see the head of operations.hpp.
  auto* const block = or_out_of_memory(new (std::nothrow) operation[block_operations]);
  for (unsigned i = 0; i < block_operations; ++i) give(block[i]);
}

void thread_operations::begin_region() noexcept {
  if (region_ != nullptr) fatal(1, "gasnet_begin_nbi_accessregion: regions do not nest");
  region_ = &take();
}

operation* thread_operations::end_region() noexcept {
  if (region_ == nullptr) fatal(1, "gasnet_end_nbi_accessregion: no region was begun");
  operation* const op = std::exchange(region_, nullptr);
  if (!op->done()) return op;
  give(*op);
  return nullptr;
}

}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock::gasnet;

extern "C" {

int GASNETC_(try_handle)(gasnet_handle_t handle) {
  if (reap(handle, my_operations(), "gasnet_try_syncnb")) return GASNET_OK;
  (void)GASNETC_(poll)();
  return reap(handle, my_operations(), "gasnet_try_syncnb") ? GASNET_OK : GASNET_ERR_NOT_READY;
}

void GASNETC_(wait_handle)(gasnet_handle_t handle) {
  operation& op = checked(handle, "gasnet_wait_syncnb");
  wait_for(op);
  my_operations().give(op);
}

int GASNETC_(try_handles)(gasnet_handle_t* handles, size_t count, int some) {
  const scan before(handles, count);
  if (before.enough(some != 0)) return GASNET_OK;
  (void)GASNETC_(poll)();
  const scan after(handles, count);
  return after.enough(some != 0) ? GASNET_OK : GASNET_ERR_NOT_READY;
}

void GASNETC_(wait_handles)(gasnet_handle_t* handles, size_t count, int some) {
  for (unsigned empty = 0; !scan(handles, count).enough(some != 0);)
    penstock::gasnet::wait_step(empty);
}

int GASNETC_(try_implicit)(enum gasnetc_kind kind) {
  const thread_operations& mine = my_operations();
  if (mine.done(kind)) return GASNET_OK;
  (void)GASNETC_(poll)();
  return mine.done(kind) ? GASNET_OK : GASNET_ERR_NOT_READY;
}

void GASNETC_(wait_implicit)(enum gasnetc_kind kind) {
  const thread_operations& mine = my_operations();
  for (unsigned empty = 0; !mine.done(kind);) penstock::gasnet::wait_step(empty);
}

void GASNETC_(begin_region)(void) { my_operations().begin_region(); }
gasnet_handle_t GASNETC_(end_region)(void) { return my_operations().end_region(); }

gasnet_register_value_t GASNETC_(wait_value)(gasnet_handle_t handle) {
  operation& op = checked(handle, "gasnet_wait_syncnb_valget");
  wait_for(op);
  const gasnet_register_value_t value = op.value;
  my_operations().give(op);
  return value;
}

gasnet_threadinfo_t GASNETC_(threadinfo)(void) { return &my_operations(); }

}  // extern "C"
