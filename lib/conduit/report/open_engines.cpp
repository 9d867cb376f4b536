#include "lib/conduit/report/open_engines.hpp"

#include <urcu/urcu-memb.h>

#include <atomic>
#include <mutex>

#include "lib/base/cross_process.hpp"
#include "lib/base/forked.hpp"
#include "lib/base/immortal.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

// By ascending number; read by RCU. The entries are the engines' own, so that no end needs memory.
// An endpoint that is a static object may end after static objects here.
struct list {
  std::mutex writing;
  std::atomic<open_engine*> first{nullptr};
  // What readers tell ThreadSanitizer. Not at the mutex: its unlock would take back what was told.
  char read = 0;
};
list& all() {
  static immortal<list> l;
  return l.value;
}

// liburcu knows a thread from its first reading to its end.
struct known_thread {
  known_thread() noexcept { urcu_memb_register_thread(); }
  ~known_thread() { urcu_memb_unregister_thread(); }
};
struct read_section {
  read_section() noexcept {
    static thread_local const known_thread known;
    (void)known;
    urcu_memb_read_lock();
  }
  ~read_section() {
    tsan_tell_peer(&all().read);
    urcu_memb_read_unlock();
  }
  read_section(const read_section&) = delete;
  read_section& operator=(const read_section&) = delete;
};

}  // namespace

open_engine::open_engine(const engine& e) noexcept : engine_(&e) {
  if (is_forked()) return;  // the lock may be of a thread that a child of fork has not
  const std::lock_guard alone(all().writing);
  std::atomic<open_engine*>* to = &all().first;
  open_engine* next = nullptr;
  while ((next = to->load(std::memory_order_relaxed)) != nullptr && next->number_ == number_)
    ++number_, to = &next->next_;
  next_.store(next, std::memory_order_relaxed);
  // N1 entry  release first, next_  -> N2: the entry, its engine, and the entries behind it are
  // there
  to->store(this, std::memory_order_release);
}

open_engine::~open_engine() {
  if (is_forked()) return;  // it would wait for readers that a child of fork has not
  const std::lock_guard alone(all().writing);
  std::atomic<open_engine*>* to = &all().first;
  while (to->load(std::memory_order_relaxed) != this)
    to = &to->load(std::memory_order_relaxed)->next_;
  // N1, of the entries behind this one
  to->store(next_.load(std::memory_order_relaxed), std::memory_order_release);
  urcu_memb_synchronize_rcu();
  tsan_hear_peer(&all().read);
}

bool open_engine::with(unsigned number, const std::function<void(const engine&)>& f) {
  const read_section now;
  // N2 read  acquire first, next_  <- N1
  const open_engine* at = all().first.load(std::memory_order_acquire);
  while (at != nullptr && at->number_ < number) at = at->next_.load(std::memory_order_acquire);
  if (at == nullptr || at->number_ != number) return false;
  f(*at->engine_);
  return true;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
