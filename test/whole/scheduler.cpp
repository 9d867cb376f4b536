// See scheduler.hpp. Only the thread that has the turn touches the state here, so it has no lock.
// The turn is handed on without the kernel, which would take a hundred times as long: one thread of
// the kernel's runs all threads, with the stack and the thread-local memory of whose turn it is. A
// thread's own one waits meanwhile, on a stack of its own, and ends it.
#include "test/whole/scheduler.hpp"

#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "test/whole/memory.hpp"
#include "test/whole/real.hpp"

namespace penstock::whole {
namespace {

struct thread {
  void* stack = nullptr;    // where it goes on, unless it has the turn
  std::uint64_t local = 0;  // its thread-local memory
  std::unique_ptr<std::byte[]> home_stack;
  std::atomic<std::uint32_t> ready{0}, home{0};  // it may have turns; its own thread ends it
  bool asleep = false, woken = false, finished = false, killed = false;
  const void* place = nullptr;
  pollfd_list fds{nullptr, 0};
  std::uint64_t until_ns = for_ever;
  std::uint64_t priority = 0;
  std::uint32_t number = 0, rank = no_rank, keeps = 0, holds = 0;
  const char* doing = "";
  pthread_t id{};
  void* (*run)(void*) = nullptr;
  void* argument = nullptr;
};

/// How the next thread is chosen.
enum class policy : std::uint8_t {
  any,         ///< each alike
  stay,        ///< the one that has the turn, as long as it does not yield
  by_priority  ///< the one of the highest priority; who yields gets the lowest
};

/// A rank is not scheduled in that time, or seldom.
struct stop {
  std::uint32_t rank = no_rank;
  std::uint64_t from_ns = for_ever, until_ns = 0;
};

struct state {
  schedule plan;
  numbers draw{1, "schedule"};
  policy how = policy::any;
  std::uint64_t now_ns = 1'000'000'000, turn_ns = 200, preempt_one_in = 4,
                atomics_a_preemption = 256;
  std::uint32_t slow_rank = no_rank, slow_one_in = 16;
  std::vector<stop> stops;
  std::vector<thread*> all;  // not finished
  std::vector<thread*> killed;
  std::vector<thread*> ready;         // scratch
  std::vector<pollfd> fds;            // scratch
  std::uint64_t lowest = 1ull << 62;  // priority
  std::uint64_t hash = 0, turns = 0, last_progress_ns = 0, last_progress_turn = 0;
  bool fds_changed = true, dead = false;
  thread* ended = nullptr;  // goes home as soon as another one has the turn
  pthread_key_t at_end{};
};
state& the() noexcept {
  static state* const s = new state;
  return *s;
}
thread_local constinit thread* self = nullptr;
std::uint64_t until_preempted = 1;  // atomic operations

constexpr std::size_t home_bytes = 32 << 10;
constexpr std::uint64_t longest_silence_ns = 60'000'000'000;
constexpr std::uint64_t longest_silence_turns = 600'000;

void mix_in(std::uint64_t word) noexcept {
  state& s = the();
  s.hash = (s.hash ^ word) * 0x9e3779b97f4a7c15;
  s.hash ^= s.hash >> 29;
}

// By the bare call: whoever waits at home shares thread-local memory, and so errno, with the turn.
void futex(std::atomic<std::uint32_t>& word, long what, long value) noexcept {
  long number = SYS_futex;
  register long no_time asm("r10") = 0;
  asm volatile("syscall"
               : "+a"(number)
               : "D"(&word), "S"(what), "d"(value), "r"(no_time)
               : "rcx", "r11", "memory");
}
void set(std::atomic<std::uint32_t>& word) noexcept {
  word.store(1, std::memory_order_release);
  futex(word, FUTEX_WAKE_PRIVATE, 1);
}
void await(std::atomic<std::uint32_t>& word) noexcept {
  while (word.load(std::memory_order_acquire) == 0) futex(word, FUTEX_WAIT_PRIVATE, 0);
}

// Stores where the caller goes on at *from, and goes on at `to` with that thread-local memory.
[[gnu::naked, gnu::noinline]] void go_on(void** /*from*/, void* /*to*/, std::uint64_t /*local*/) {
  asm("pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15\n"
      "movq %rsp, (%rdi)\n"
      "wrfsbase %rdx\n"
      "movq %rsi, %rsp\n"
      "popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp\n"
      "ret");
}
std::uint64_t local_memory() noexcept {
  std::uint64_t base;
  asm("movq %%fs:0, %0" : "=r"(base));
  return base;
}

bool is_stopped(const thread& t) noexcept {
  if (t.keeps != 0 || t.holds != 0) return false;
  for (const stop& s : the().stops)
    if (t.rank == s.rank && the().now_ns >= s.from_ns && the().now_ns < s.until_ns) return true;
  return false;
}

/// Wakes those whose descriptors are ready.
void look_at_descriptors() noexcept {
  state& s = the();
  s.fds_changed = false;
  s.fds.clear();
  for (const thread* t : s.all)
    if (t->asleep) s.fds.insert(s.fds.end(), t->fds.at, t->fds.at + t->fds.n);
  if (s.fds.empty() || real::poll(s.fds.data(), s.fds.size(), 0) <= 0) return;
  std::size_t i = 0;
  for (thread* t : s.all) {
    if (!t->asleep) continue;
    for (const std::size_t end = i + t->fds.n; i < end; ++i)
      if (s.fds[i].revents != 0) t->asleep = false, t->woken = true;
  }
}

/// The threads that can go on now, in s.ready; moves the clock if there are none.
void find_ready() noexcept {
  state& s = the();
  for (;;) {
    if (s.fds_changed) look_at_descriptors();
    s.ready.clear();
    std::uint64_t next = for_ever;
    for (thread* t : s.all) {
      if (t->asleep && t->until_ns <= s.now_ns) t->asleep = false;
      if (t->asleep)
        next = std::min(next, t->until_ns);
      else if (!is_stopped(*t))
        s.ready.push_back(t);
    }
    if (!s.ready.empty()) return;
    for (const stop& st : s.stops)
      if (s.now_ns >= st.from_ns && s.now_ns < st.until_ns) next = std::min(next, st.until_ns);
    if (next == for_ever) fail("NOBODY BRINGS IT", "all threads sleep, and none has a deadline");
    s.now_ns = std::max(s.now_ns, next);
  }
}

bool may_be_killed(std::uint32_t rank) noexcept {
  bool any = false;
  for (const thread* t : the().all) {
    if (t->rank != rank) continue;
    if (t->keeps != 0 || t->holds != 0) return false;
    any = true;
  }
  return any;
}
void kill_threads_of(std::uint32_t rank) noexcept {
  const spared here;
  for (thread* t : the().all) {
    if (t->rank != rank) continue;
    t->finished = t->killed = true;
    the().killed.push_back(t);
  }
  std::erase_if(the().all, [](const thread* t) { return t->killed; });
}

thread& choose(bool yields) noexcept {
  state& s = the();
  find_ready();
  if (s.ready.size() == 1) return *s.ready[0];
  const bool mine = self != nullptr && !self->asleep && !self->finished && !is_stopped(*self);
  if (s.how == policy::stay && mine && !yields && !s.draw.one_in(8)) return *self;
  if (s.how == policy::by_priority) {
    if (self != nullptr && (yields || s.draw.one_in(64))) self->priority = --s.lowest;
    return **std::max_element(s.ready.begin(), s.ready.end(),
                              [](thread* a, thread* b) { return a->priority < b->priority; });
  }
  thread* t = s.ready[s.draw.below(s.ready.size())];
  if (t->rank == s.slow_rank && t->rank != no_rank && !s.draw.one_in(s.slow_one_in))
    t = s.ready[s.draw.below(s.ready.size())];
  return *t;
}

/// The first that a thread does when it has the turn.
void has_turn() noexcept {
  if (thread* const t = std::exchange(the().ended, nullptr)) set(t->home);
}

/// Gives the turn to the next thread, and returns when the calling one has it again.
void change_turn(bool yields) noexcept {
  const spared here;
  state& s = the();
  // The longer nothing happens, the faster the clock goes, so that all time limits are reached.
  const std::uint64_t silence = (s.turns - s.last_progress_turn) / 5'000;
  s.now_ns += s.turn_ns * (1 + silence * silence);
  if (s.plan.dying_rank != no_rank && !s.dead && s.turns >= s.plan.dies_at_turn &&
      may_be_killed(s.plan.dying_rank)) {
    s.dead = true;
    kill_threads_of(s.plan.dying_rank);
    wake(&s.dead);
  }
  thread& next = choose(yields);
  ++s.turns;
  mix_in(next.number);
  mix_in(s.now_ns);
  if (s.plan.trace)
    std::fprintf(stderr, "%llu ns: thread %u of rank %d, %s\n",
                 static_cast<unsigned long long>(s.now_ns), next.number,
                 static_cast<int>(next.rank), next.doing);
  for (const stop& st : s.stops)  // others may wait for a rank that is stopped
    if (s.now_ns >= st.from_ns && s.last_progress_ns < st.until_ns)
      s.last_progress_ns = std::min(s.now_ns, st.until_ns);
  if (s.now_ns - s.last_progress_ns > longest_silence_ns ||
      s.turns - s.last_progress_turn > longest_silence_turns)
    fail("NO PROGRESS", "nothing was handled for " +
                            std::to_string((s.now_ns - s.last_progress_ns) / 1'000'000) +
                            " ms of the run's time and " +
                            std::to_string(s.turns - s.last_progress_turn) + " turns");
  if (&next == self) return;
  thread& me = *self;
  if (me.finished && !me.killed) s.ended = &me;
  go_on(&me.stack, next.stack, next.local);
  if (!me.finished) has_turn();
}

/// The last that a thread does, after the destructors of its thread_local objects. It returns in
/// the thread of the kernel's that began it.
void at_end(void* me) noexcept {
  thread& t = *static_cast<thread*>(me);
  state& s = the();
  t.finished = true;
  std::erase(s.all, &t);
  wake(&t);
  change_turn(true);
  self = nullptr;
}

/// A thread's own one of the kernel's, while another one runs it.
void be_at_home() noexcept {
  thread& t = *self;
  set(t.ready);
  await(t.home);
  void* here;
  go_on(&here, t.stack, t.local);
}

void* first_steps(void* me) noexcept {
  self = static_cast<thread*>(me);
  self->local = local_memory();
  // As go_on() leaves a stack: six registers, and where it returns to.
  auto* const top = reinterpret_cast<void**>(self->home_stack.get() + home_bytes - 128);
  top[6] = reinterpret_cast<void*>(be_at_home);
  go_on(&self->stack, top, self->local);
  has_turn();
  pthread_setspecific(the().at_end, me);
  return self->run(self->argument);
}

thread& add_thread() noexcept {
  const spared here;
  state& s = the();
  static std::uint32_t numbers = 0;
  auto* t = new thread;
  t->number = numbers++;
  t->priority = s.draw.next() | 1ull << 63;
  s.all.push_back(t);
  return *t;
}

}  // namespace

void begin(const schedule& plan) noexcept {
  state& s = the();
  s.plan = plan;
  s.draw = numbers(plan.seed, "schedule");
  s.how = static_cast<policy>(s.draw.below(3));
  constexpr std::uint64_t turns_ns[] = {500, 1000, 5000}, preempted[] = {1, 4, 16};
  s.turn_ns = turns_ns[s.draw.below(3)];
  s.preempt_one_in = preempted[s.draw.below(3)];
  constexpr std::uint64_t atomics[] = {16, 128, 1024};
  s.atomics_a_preemption = atomics[s.draw.below(3)];
  if (s.draw.one_in(3)) {
    s.slow_rank = static_cast<std::uint32_t>(s.draw.below(plan.ranks));
    s.slow_one_in = 1 + s.draw.below(64);
  }
  if (s.draw.one_in(3))
    for (std::uint64_t i = s.draw.skewed(4); i-- > 0;) {
      const std::uint64_t from = s.now_ns + s.draw.skewed(20'000'000);
      s.stops.push_back({static_cast<std::uint32_t>(s.draw.below(plan.ranks)), from,
                         from + s.draw.skewed(200'000'000)});
    }
  s.last_progress_ns = s.now_ns;
  pthread_key_create(&s.at_end, at_end);
  self = &add_thread();
  self->local = local_memory();
}

bool is_scheduled() noexcept { return self != nullptr; }
void belongs_to(std::uint32_t rank) noexcept { self->rank = rank; }
std::uint32_t rank() noexcept { return self == nullptr ? no_rank : self->rank; }
void is_doing(const char* what) noexcept {
  if (self != nullptr) self->doing = what;
}

std::uint64_t virtual_ns() noexcept { return the().now_ns += 20; }

void yield() noexcept { change_turn(true); }
void may_preempt() noexcept {
  if (self->keeps == 0 && the().draw.one_in(the().preempt_one_in)) change_turn(false);
}
void preempt_at_atomic() noexcept {
  if (self == nullptr || self->keeps != 0 || --until_preempted != 0) [[likely]]
    return;
  state& s = the();
  until_preempted = 1 + s.draw.below(s.atomics_a_preemption);
  change_turn(false);
}
keeps_turn::keeps_turn() noexcept {
  if (self != nullptr) ++self->keeps;
}
keeps_turn::~keeps_turn() {
  if (self != nullptr) --self->keeps;
}

bool sleep_at(const void* place, std::uint64_t until_ns) noexcept {
  self->asleep = true;
  self->woken = false;
  self->place = place;
  self->until_ns = until_ns;
  change_turn(true);
  self->place = nullptr;
  return self->woken;
}

void sleep_for(pollfd_list fds, std::uint64_t until_ns) noexcept {
  self->fds = fds;
  (void)sleep_at(nullptr, until_ns);
  self->fds = {nullptr, 0};
}

void holds_shared(int add) noexcept {
  if (self != nullptr) self->holds += static_cast<std::uint32_t>(add);
}
void stop_rank(std::uint32_t rank, std::uint64_t from_ns, std::uint64_t until_ns) noexcept {
  const spared here;
  the().stops.push_back({rank, from_ns, until_ns});
}
void await_death() noexcept {
  while (!the().dead) (void)sleep_at(&the().dead, for_ever);
}
bool has_died() noexcept { return the().dead; }
void end_rank() noexcept {
  self->keeps = self->holds = 0;
  while (!may_be_killed(self->rank)) yield();
  kill_threads_of(self->rank);
  change_turn(true);
  std::abort();  // it does not return
}

std::uint32_t wake(const void* place, std::uint32_t n) noexcept {
  std::uint32_t woken = 0;
  for (thread* t : the().all)
    if (woken < n && t->asleep && t->place == place) t->asleep = false, t->woken = true, ++woken;
  return woken;
}

void descriptors_changed() noexcept {
  if (self == nullptr) return;
  the().fds_changed = true;
  may_preempt();
}

int start_thread(pthread_t* into, const pthread_attr_t* attributes, void* (*run)(void*),
                 void* argument) noexcept {
  thread& t = add_thread();
  {
    const spared here;
    t.home_stack = std::make_unique_for_overwrite<std::byte[]>(home_bytes);
  }
  t.rank = self->rank;
  t.doing = "starting";
  t.run = run;
  t.argument = argument;
  const int e = real::pthread_create(&t.id, attributes, first_steps, &t);
  if (e != 0) {
    std::erase(the().all, &t);
    return e;
  }
  await(t.ready);
  *into = t.id;
  may_preempt();
  return 0;
}

int join_thread(pthread_t id, void** result) noexcept {
  for (;;) {
    const auto at = std::ranges::find_if(
        the().all, [&](const thread* t) { return t->run != nullptr && t->id == id; });
    if (at == the().all.end()) break;
    (void)sleep_at(*at, for_ever);
  }
  while (std::ranges::any_of(the().killed, [&](const thread* t) { return t->id == id; }))
    (void)sleep_at(nullptr, for_ever);
  return real::pthread_join(id, result);
}

void note_progress() noexcept {
  the().last_progress_ns = the().now_ns;
  the().last_progress_turn = the().turns;
}
void note(std::uint64_t word) noexcept { mix_in(word); }
std::uint64_t trace_hash() noexcept { return the().hash; }
std::uint64_t turns() noexcept { return the().turns; }

void fail(const char* kind, const std::string& why) noexcept {
  const spared here;
  state& s = the();
  std::fprintf(stderr, "%s: %s; at %llu ns, after %llu turns\n", kind, why.c_str(),
               static_cast<unsigned long long>(s.now_ns), static_cast<unsigned long long>(s.turns));
  for (const thread* t : s.all)
    std::fprintf(stderr, "  thread %u of rank %d, %s: %s%s%s\n", t->number,
                 static_cast<int>(t->rank), t->doing,
                 t == self   ? "has the turn"
                 : t->asleep ? "sleeps"
                             : "could go on",
                 t->fds.n != 0         ? " for descriptors"
                 : t->place != nullptr ? " for another"
                                       : "",
                 is_stopped(*t) ? ", is stopped" : "");
  ::_exit(99);
}

}  // namespace penstock::whole
