// The scheduler behind model.hpp: fibers that stop before every atomic operation, and the searches.
#include "test/model/model.hpp"

#include <ucontext.h>

#include <algorithm>
#include <csetjmp>
#include <memory>
#include <random>

#include "test/model/memory.hpp"
#include "test/model/sites.hpp"

namespace penstock::model {
namespace {

constexpr std::size_t stack_bytes = 128 * 1024;

/// The operation that a fiber is about to do.
struct operation {
  const void* address = nullptr;  // null: a fence
  bool writes = false;
};

/// Whether the order of two operations can be told; observed: by an invariant that reads all words.
/// newest: no message but the newest is read, so that fences do nothing.
bool independent(const operation& a, const operation& b, bool observed, bool newest) {
  if (a.address == nullptr || b.address == nullptr) return newest;
  if (!a.writes && !b.writes) return true;
  return a.address != b.address && !(observed && a.writes && b.writes);
}

/// Where a stack goes on. swapcontext makes a system call each time, for the signal mask; a jump
/// does not. A sanitizer, however, follows the one and takes the other for an error.
struct place {
  ucontext_t context{};
  jmp_buf jump{};
  bool by_jump = false;  // it has stopped in leave_for, so that `jump` holds
};

void leave_for(place& from, place& to) {
  if constexpr (PENSTOCK_MODEL_JUMPS) {
    if (_setjmp(from.jump) != 0) return;
    from.by_jump = true;
    if (to.by_jump) _longjmp(to.jump, 1);
    setcontext(&to.context);
  } else {
    swapcontext(&from.context, &to.context);
  }
}

struct fiber {
  place at;
  std::unique_ptr<char[]> stack{new char[stack_bytes]};
  std::function<void()> body;
  operation next;
  bool ended = true;
};
using fibers = std::vector<std::unique_ptr<fiber>>;

class run;

/// What makes the choices of a run.
class chooser {
 public:
  virtual ~chooser() = default;
  /// The thread whose step is next; -1: an equal run was or will be made elsewhere.
  virtual int thread(const run& r) = 0;
  /// Which of n messages, counted from the newest; rare: seldom another than that.
  virtual unsigned message(unsigned n, bool rare) = 0;
};

/// One run of a trial: all fibers are stopped before their next operation, or have ended.
class run {
 public:
  run(fibers& f, chooser& c, bool traced) : fibers_(f), chooser_(c), traced_(traced) {}

  /// False: it was cut off, as redundant.
  bool go(trial t);

  /// All threads that have not ended: bit i for thread i.
  [[nodiscard]] std::uint32_t alive() const;
  [[nodiscard]] bool observed() const { return trial_.always != nullptr; }
  [[nodiscard]] const operation& next(int i) const { return at(i).next; }
  [[nodiscard]] std::size_t threads() const { return trial_.threads.size(); }

  void stop_before(operation op);
  [[nodiscard]] memory& words() { return *memory_; }
  [[nodiscard]] unsigned current() const { return static_cast<unsigned>(current_); }
  void set_failure(const std::string& why) {
    if (failure_.empty()) failure_ = why, note_line("FAILS: " + why);
  }
  /// A line of the trace: what the last operation did.
  void note_access(const char* what, const void* address, const ordered& o, const char* arrow);
  void note(report& out) const;

 private:
  static void enter();
  [[nodiscard]] fiber& at(int i) const { return *fibers_[static_cast<std::size_t>(i)]; }
  void resume(int i);
  void begin();
  void note_line(const std::string& line);

  fibers& fibers_;
  chooser& chooser_;
  bool traced_;
  trial trial_;
  std::unique_ptr<memory> memory_;
  place scheduler_;
  int current_ = -1;
  bool over_ = false;
  std::uint64_t steps_ = 0;
  std::string failure_, trace_;
  std::vector<int> choices_;
};

thread_local run* active = nullptr;  // the run whose fiber is on this thread's stack

void run::enter() {
  run& r = *active;
  fiber& f = r.at(r.current_);
  f.body();
  f.ended = true;
  leave_for(f.at, r.scheduler_);
}

void run::resume(int i) {
  current_ = i;
  active = this;
  leave_for(scheduler_, at(i).at);
  active = nullptr;
}

void run::stop_before(operation op) {
  fiber& f = at(current_);
  f.next = op;
  leave_for(f.at, scheduler_);
}

void run::begin() {
  memory_ = std::make_unique<memory>(
      static_cast<unsigned>(threads()), trial_.processes, [this](unsigned n, bool rare) {
        if (n <= 1 || over_) return 0U;
        const unsigned chosen = std::min(chooser_.message(n, rare), n - 1);
        choices_.push_back(static_cast<int>(chosen));
        return chosen;
      });
  while (fibers_.size() < threads()) fibers_.push_back(std::make_unique<fiber>());
  for (std::size_t i = 0; i < fibers_.size(); ++i) fibers_[i]->ended = i >= threads();
  for (std::size_t i = 0; i < threads(); ++i) {
    fiber& f = *fibers_[i];
    f.body = trial_.threads[i];
    f.at.by_jump = false;
    ucontext_t& start = f.at.context;
    getcontext(&start);
    start.uc_stack.ss_sp = f.stack.get();
    start.uc_stack.ss_size = stack_bytes;
    start.uc_link = nullptr;
    makecontext(&start, &run::enter, 0);
    resume(static_cast<int>(i));  // up to its first operation
  }
}

bool run::go(trial t) {
  trial_ = std::move(t);
  begin();
  bool redundant = false;
  while (alive() != 0 && failure_.empty()) {
    const int i = chooser_.thread(*this);
    if (i < 0 || (alive() >> i & 1) == 0) {
      redundant = true;
      break;
    }
    choices_.push_back(i);
    ++steps_;
    resume(i);
    if (trial_.always && failure_.empty() && !trial_.always())
      set_failure("the invariant broke after step " + std::to_string(steps_));
  }
  over_ = true;  // what is left runs in any order, and reads what is newest
  for (std::uint32_t left = alive(); left != 0; left = alive()) resume(__builtin_ctz(left));
  if (!redundant && failure_.empty() && trial_.finally && !trial_.finally())
    set_failure("the final condition does not hold");
  return !redundant;
}

std::uint32_t run::alive() const {
  std::uint32_t mask = 0;
  for (std::size_t i = 0; i < threads(); ++i)
    if (!fibers_[i]->ended) mask |= 1U << i;
  return mask;
}

void run::note_line(const std::string& line) {
  if (traced_ && !over_) trace_ += "\n  " + line;
}

void run::note_access(const char* what, const void* address, const ordered& o, const char* arrow) {
  if (memory_->scribbled() != nullptr)
    set_failure("a word that others read was written by a plain store");
  if (!traced_ || over_) return;
  static constexpr const char* orders[] = {"relaxed", "consume", "acquire",
                                           "release", "acq_rel", "seq_cst"};
  char line[160];
  std::snprintf(line, sizeof line, "thread %d  %-5s %p %s %llu  %s", current_, what, address, arrow,
                static_cast<unsigned long long>(memory_->last_value()),
                orders[static_cast<unsigned>(o.order)]);
  std::string text = line;
  if (address != nullptr && memory_->last_behind() != 0)
    text += ", " + std::to_string(memory_->last_behind()) + " behind the newest";
  note_line(text + "   " + site_text(o.site));
}

void run::note(report& out) const {
  out.steps += steps_;
  out.failure = failure_;
  out.trace = trace_;
  if (!out.ok()) out.choices = choices_;
}

int lowest(std::uint32_t mask) { return __builtin_ctz(mask); }

/// Takes choices that were made before; then the newest, and the lowest thread.
class replayed : public chooser {
 public:
  explicit replayed(std::vector<int> choices) : choices_(std::move(choices)) {}
  int thread(const run& r) override { return next(lowest(r.alive())); }
  unsigned message(unsigned, bool) override { return static_cast<unsigned>(next(0)); }

 private:
  int next(int otherwise) { return at_ < choices_.size() ? choices_[at_++] : otherwise; }
  std::vector<int> choices_;
  std::size_t at_ = 0;
};

/// Random ones: between 0 and 7 chances in 8 to stay with a thread, so that long stretches and fine
/// grain both occur; and between 0 and 8 in 8 to read what is newest.
class at_random : public chooser {
 public:
  explicit at_random(std::uint64_t seed)
      : random_(seed), stay_(random_() % 8), newest_(random_() % 9) {}
  int thread(const run& r) override {
    const std::uint32_t alive = r.alive();
    if (last_ >= 0 && (alive >> last_ & 1) != 0 && random_() % 8 < stay_) return last_;
    std::uint32_t m = alive;
    for (auto skip = random_() % static_cast<unsigned>(__builtin_popcount(alive)); skip > 0; --skip)
      m &= m - 1;
    return last_ = lowest(m);
  }
  unsigned message(unsigned n, bool rare) override {
    // After so many old ones in a row the newest: loops that poll come to their end.
    const bool old = in_a_row_ < 6 && random_() % 8 >= newest_ && (!rare || random_() % 8 == 0);
    in_a_row_ = old ? in_a_row_ + 1 : 0;
    return old ? 1 + static_cast<unsigned>(random_() % (n - 1)) : 0;
  }

 private:
  std::mt19937_64 random_;
  std::uint64_t stay_, newest_;
  unsigned in_a_row_ = 0;
  int last_ = -1;
};

/// All of them within bounds: the choices of a run are taken again, and the last one is varied.
class in_turn : public chooser {
 public:
  explicit in_turn(bounds b) : bounds_(b) {}

  /// To be called before each run but the first. False: there is none.
  bool vary() {
    for (; !path_.empty(); path_.pop_back()) {
      choice& c = path_.back();
      if (c.messages != 0) {
        if (static_cast<unsigned>(++c.chosen) < c.messages) break;
        continue;
      }
      c.done |= 1U << c.chosen;
      const std::uint32_t open = c.alive & ~c.sleeping & ~c.done;
      if (open == 0) continue;
      c.chosen = lowest(open);
      break;
    }
    depth_ = 0, old_ = 0, preemptions_ = 0, last_ = -1, before_ = none;
    return !path_.empty();
  }

  int thread(const run& r) override {
    if (depth_ == path_.size()) {
      choice c;
      c.alive = r.alive();
      const bool all = bounds_.preemptions == bounds{}.preemptions;
      if (all && before_ != none)
        c.sleeping = sleepers_after(path_[before_], r.observed(), bounds_.old == 0);
      if (preemptions_ == bounds_.preemptions && last_ >= 0 && (c.alive >> last_ & 1) != 0)
        c.sleeping = c.alive & ~(1U << last_);
      const std::uint32_t open = c.alive & ~c.sleeping;
      if (open == 0) return -1;
      c.chosen = last_ >= 0 && (open >> last_ & 1) != 0 ? last_ : lowest(open);
      for (std::size_t i = 0; i < r.threads(); ++i) c.next.push_back(r.next(static_cast<int>(i)));
      path_.push_back(std::move(c));
    }
    before_ = depth_;
    const choice& c = path_[depth_++];
    if (last_ >= 0 && c.chosen != last_ && (c.alive >> last_ & 1) != 0) ++preemptions_;
    return last_ = c.chosen;
  }

  unsigned message(unsigned n, bool) override {
    if (old_ == bounds_.old) return 0;
    if (depth_ == path_.size()) {
      choice c;
      c.messages = n;
      path_.push_back(std::move(c));
    }
    const int chosen = path_[depth_++].chosen;
    if (chosen != 0) ++old_;
    return static_cast<unsigned>(chosen);
  }

 private:
  struct choice {
    unsigned messages = 0;  // 0: of a thread
    int chosen = 0;
    std::uint32_t alive = 0, sleeping = 0, done = 0;
    std::vector<operation> next;
  };
  static constexpr std::size_t none = ~std::size_t{0};

  /// Who need not be chosen after `c`, because an equal run was or will be made elsewhere.
  static std::uint32_t sleepers_after(const choice& c, bool observed, bool newest) {
    std::uint32_t out = 0;
    const auto& mine = c.next[static_cast<std::size_t>(c.chosen)];
    for (std::uint32_t m = (c.sleeping | c.done) & c.alive & ~(1U << c.chosen); m != 0;
         m &= m - 1) {
      const int u = lowest(m);
      if (independent(c.next[static_cast<std::size_t>(u)], mine, observed, newest)) out |= 1U << u;
    }
    return out;
  }

  bounds bounds_;
  std::vector<choice> path_;
  std::size_t depth_ = 0, before_ = none;  // before_: the last choice of a thread
  unsigned old_ = 0, preemptions_ = 0;
  int last_ = -1;
};

// A failed run once more, for its trace.
void add_trace(report& out, const trial_maker& make) {
  if (out.ok()) return;
  out.trace = replay(make, out.choices).trace;
}

}  // namespace

bool running() noexcept { return active != nullptr; }

void fail(const std::string& why) {
  if (active != nullptr) active->set_failure(why);
}

std::uint64_t load(const void* at, unsigned bytes, std::memory_order order) noexcept {
  active->stop_before({at, false});
  const ordered o = at_site(order);
  const std::uint64_t v = active->words().load(active->current(), at, bytes, o.order);
  active->note_access("load", at, o, "->");
  return v;
}

void store(void* at, unsigned bytes, std::uint64_t v, std::memory_order order) noexcept {
  active->stop_before({at, true});
  const ordered o = at_site(order);
  active->words().store(active->current(), at, bytes, v, o.order);
  active->note_access("store", at, o, ":=");
}

std::uint64_t change(void* at, unsigned bytes, const memory::changer& f, std::memory_order ok,
                     std::memory_order fail) noexcept {
  active->stop_before({at, true});
  const ordered o = at_site(ok), otherwise = ok == fail ? o : at_site(fail);
  const std::uint64_t old =
      active->words().change(active->current(), at, bytes, f, o.order, otherwise.order);
  std::uint64_t unused = 0;
  const bool changed = f(old, unused);
  active->note_access(changed ? "rmw" : "fail", at, changed ? o : otherwise, changed ? ":=" : "->");
  return old;
}

void thread_fence(std::memory_order order) noexcept {
  if (!running()) return;
  active->stop_before({});
  const ordered o = at_site(order);
  active->words().fence(active->current(), o.order);
  active->note_access("fence", nullptr, o, "");
}

bool fence_all() noexcept {
  if (!running()) return true;
  active->stop_before({});
  active->words().fence_all(active->current(), false);
  active->note_access("fence", nullptr, {std::memory_order_seq_cst, 0}, "all");
  return true;
}

void fence_everywhere() noexcept {
  if (!running()) return;
  active->stop_before({});
  active->words().fence_all(active->current(), true);
  active->note_access("fence", nullptr, {std::memory_order_seq_cst, 0}, "everywhere");
}

void plain(const void* at, bool writes) noexcept {
  if (running() && !active->words().plain(active->current(), at, writes))
    fail(writes ? "plain data are written while another thread may use them"
                : "plain data are read that another thread may be writing");
}

void forget(const void* at, std::size_t bytes) noexcept {
  if (running()) active->words().forget(at, bytes);
}

std::uint32_t thread_tag() noexcept { return running() ? active->current() + 1 : 1; }

std::string report::text() const {
  std::string s = std::to_string(runs) + " runs, " + std::to_string(pruned) + " pruned, " +
                  std::to_string(steps) + " steps" + (complete ? ", complete" : "");
  if (ok()) return s;
  return s + ": " + failure + "; seed " + std::to_string(seed) + trace;
}

report explore(const trial_maker& make, bounds within) {
  report out;
  fibers all;
  in_turn chooser(within);
  do {
    run r(all, chooser, false);
    ++(r.go(make()) ? out.runs : out.pruned);
    r.note(out);
    if (!out.ok()) break;
    if (!chooser.vary()) {
      out.complete = true;
      break;
    }
  } while (out.runs + out.pruned < within.most_runs);
  add_trace(out, make);
  return out;
}

report sample(const trial_maker& make, std::uint64_t seed, std::uint64_t count) {
  report out;
  fibers all;
  for (std::uint64_t i = 0; i < count && out.ok(); ++i) {
    at_random chooser(seed + i);
    run r(all, chooser, false);
    r.go(make());
    ++out.runs;
    r.note(out);
    out.seed = seed + i;
  }
  add_trace(out, make);
  return out;
}

report search(const trial_maker& make, std::uint64_t count) {
  const report all = explore(make);
  if (!all.ok()) return all;
  report some = explore(make, {.old = 2, .preemptions = 2, .most_runs = 10'000});
  if (some.ok()) some = sample(make, 1, count);
  some.complete = all.complete;
  return some;
}

report replay(const trial_maker& make, const std::vector<int>& choices) {
  report out;
  fibers all;
  replayed chooser(choices);
  run r(all, chooser, true);
  r.go(make());
  out.runs = 1;
  r.note(out);
  return out;
}

}  // namespace penstock::model
