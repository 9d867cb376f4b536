#include "lib/conduit/report/open_engines.hpp"

#include <urcu/urcu-memb.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/base/cross_process.hpp"
#include "lib/base/forked.hpp"
#include "lib/base/immortal.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

// Read by RCU: a list is never changed, but replaced, and freed when no thread can read it any
// more. An endpoint that is a static object may end after static objects here.
using numbers = std::vector<const engine*>;  // null: the number is free
struct list {
  std::mutex writing;
  std::atomic<const numbers*> now{nullptr};
};
list& all() {
  static immortal<list> l;
  return l.value;
}

// Makes `change` to a copy of the list, and returns when no thread reads the one before. A child of
// fork would wait for readers that it has not: it lets the list be.
template <class Change>
void replace(Change&& change) {
  if (is_forked()) return;
  list& l = all();
  const std::lock_guard hold(l.writing);
  const numbers* const former = l.now.load(std::memory_order_relaxed);
  auto after = former != nullptr ? std::make_unique<numbers>(*former) : std::make_unique<numbers>();
  change(*after);  // where memory is lacking, the list before stays
  const std::unique_ptr<const numbers> before(former);  // freed when nobody reads it any more
  // N1 list  release now  -> N2: the list, and the engines in it, are there
  l.now.store(after.release(), std::memory_order_release);
  urcu_memb_synchronize_rcu();
  tsan_hear_peer(&l);
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
    tsan_tell_peer(&all());
    urcu_memb_read_unlock();
  }
  read_section(const read_section&) = delete;
  read_section& operator=(const read_section&) = delete;
};

}  // namespace

open_engine::open_engine(const engine& e) : engine_(&e) {
  replace([&e](numbers& of) {
    if (const auto place = std::ranges::find(of, nullptr); place != of.end())
      *place = &e;
    else
      of.push_back(&e);
  });
}

open_engine::~open_engine() {
  replace([this](numbers& of) {
    std::ranges::replace(of, engine_, static_cast<const engine*>(nullptr));
  });
}

bool open_engine::with(unsigned number, const std::function<void(const engine&)>& f) {
  const read_section now;
  // N2 read  acquire now  <- N1
  const numbers* const of = all().now.load(std::memory_order_acquire);
  if (of == nullptr || number >= of->size() || (*of)[number] == nullptr) return false;
  f(*(*of)[number]);
  return true;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
