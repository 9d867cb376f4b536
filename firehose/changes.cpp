// The registry behind changes.hpp.
#include "firehose/changes.hpp"

#include <pthread.h>
#include <sys/mman.h>

#include <cerrno>
#include <new>
#include <vector>

#include "lib/base/page.hpp"

namespace penstock::firehose::changes {
namespace {

constexpr std::uint32_t max_changes = 128;  // threads inside a mapping call at a time
constexpr std::uint32_t no_slot = max_changes;

struct range {
  std::uint64_t start = 0, end = 0;  // empty when start == end
};

struct state {
  std::mutex lock;
  std::vector<change_listener*> listeners;
  range going[max_changes];
  std::uint32_t unlisted = 0;  // changes beyond max_changes: everything then counts as changing
  std::uint64_t count = 0;
  activator activate = nullptr;
};
// Never destroyed: exit handlers and ending threads report changes, too.
state& the() noexcept {
  alignas(state) static std::byte room[sizeof(state)];
  static state* s = new (room) state;
  return *s;
}

std::atomic<std::atomic<gate>*> word{nullptr};
// Under the lock.
void tell(std::uint64_t start, std::uint64_t end) noexcept {
  state& s = the();
  ++s.count;
  for (change_listener* l : s.listeners) l->on_change(start, end);
}

// A fork is a change of everything: it write-protects all pages, and a process that then writes to
// a page gets a new one. Recent kernels (5.12, for some kinds of page 5.15) give the child a copy
// of a pinned page instead. Registering again costs little beside a fork, so the code here does not
// depend on the kernel.
alignas(scope) thread_local std::byte fork_scope[sizeof(scope)];
void before_fork() { new (fork_scope) scope(nullptr, SIZE_MAX); }
void after_fork_in_parent() { std::launder(reinterpret_cast<scope*>(fork_scope))->~scope(); }
void after_fork_in_child() {
  // Only where the kernel did not wipe the page.
  if (auto* w = word.load(std::memory_order_relaxed); w != nullptr)
    w->store(gate::forked, std::memory_order_relaxed);
}

}  // namespace

const std::atomic<gate>* gate_word() noexcept {
  if (auto* w = word.load(std::memory_order_acquire); w != nullptr) return w;  // <- W1
  static const bool made = [] {
    void* page =
        mmap(nullptr, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return false;
    (void)madvise(page, page_bytes(), MADV_WIPEONFORK);  // else after_fork_in_child does it
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    // W1 publish  store-release word
    word.store(new (page) std::atomic<gate>(gate::open), std::memory_order_release);
    return true;
  }();
  return made ? word.load(std::memory_order_acquire) : nullptr;
}

void set_gate(gate g) noexcept {
  // E1 open  store-release gate  -> E2 (pool.hpp): what the events changed is seen when it
  // opens.
  if (auto* w = word.load(std::memory_order_acquire); w != nullptr)
    w->store(g, std::memory_order_release);
}

bool closed() noexcept {
  // acquire, as in gate_word(): W1 has put the word into the page
  auto* w = word.load(std::memory_order_acquire);
  return w == nullptr || w->load(std::memory_order_relaxed) == gate::forked;
}

std::mutex& lock() noexcept { return the().lock; }

void add(change_listener& l) {
  // Room is made before the lock is taken. Under the lock nothing may allocate, since another
  // thread's munmap inside malloc may be waiting for it.
  std::vector<change_listener*> bigger;
  for (;;) {
    std::size_t need = 0;
    {
      const std::lock_guard guard(the().lock);
      need = the().listeners.size() + 1;
      if (bigger.capacity() >= need) {
        bigger.assign(the().listeners.begin(), the().listeners.end());
        bigger.push_back(&l);
        the().listeners.swap(bigger);
        break;
      }
    }
    bigger.reserve(need);
  }
}

void remove(change_listener& l) noexcept {
  const std::lock_guard guard(the().lock);
  std::erase(the().listeners, &l);
}

bool in_progress(std::uint64_t start, std::uint64_t end) noexcept {
  const state& s = the();
  if (s.unlisted != 0) return true;
  for (const range& r : s.going)
    if (r.start < end && start < r.end) return true;
  return false;
}

bool kept(std::uint64_t start, std::uint64_t end) noexcept {
  for (change_listener* l : the().listeners)
    if (l->keeps(start, end)) return true;
  return false;
}

scope::scope(const void* addr, std::size_t bytes) noexcept : slot_(no_slot + 1) {
  if (bytes == 0 || closed()) return;
  const int keep = errno;
  const auto start = reinterpret_cast<std::uint64_t>(addr);
  const std::uint64_t end = bytes > UINT64_MAX - start ? UINT64_MAX : start + bytes;
  state& s = the();
  {
    const std::lock_guard guard(s.lock);
    slot_ = 0;
    while (slot_ < max_changes && s.going[slot_].start != s.going[slot_].end) ++slot_;
    if (slot_ == no_slot)
      ++s.unlisted;
    else
      s.going[slot_] = {start, end};
    tell(start, end);
  }
  errno = keep;
}

scope::~scope() {
  if (slot_ > no_slot || closed()) return;
  const int keep = errno;
  {
    const std::lock_guard guard(the().lock);
    if (slot_ == no_slot)
      --the().unlisted;
    else
      the().going[slot_] = {};
  }
  errno = keep;
}

void happened(std::uint64_t start, std::uint64_t end) noexcept {
  if (closed()) return;
  const std::lock_guard guard(the().lock);
  tell(start, end);
}

std::uint64_t count() noexcept {
  const std::lock_guard guard(the().lock);
  return the().count;
}

void set_activator(activator a) noexcept { the().activate = a; }

bool activate() noexcept {
  const activator a = the().activate;
  return a != nullptr && a();
}

}  // namespace penstock::firehose::changes
