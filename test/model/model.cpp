// The scheduler behind model.hpp: fibers that stop before every atomic operation, and the searches.
#include "test/model/model.hpp"

#include <ucontext.h>

#include <csetjmp>
#include <memory>
#include <random>

namespace penstock::model {
namespace {

constexpr std::size_t stack_bytes = 128 * 1024;

/// The operation that a fiber is about to do.
struct operation {
  const void* address = nullptr;
  bool writes = false;
};

/// Whether the order of two operations can be told; observed: by an invariant that reads all words.
bool independent(const operation& a, const operation& b, bool observed) {
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

/// One run of a trial: all fibers are stopped before their next operation, or have ended.
class run {
 public:
  explicit run(std::vector<std::unique_ptr<fiber>>& fibers) : fibers_(fibers) {}

  void begin(trial t);
  /// Lets thread i do its operation, and go on to the next. False if something broke.
  bool advance(int i);
  /// All others than those done: bit i for thread i.
  [[nodiscard]] std::uint32_t alive() const;
  [[nodiscard]] bool observed() const { return trial_.always != nullptr; }
  [[nodiscard]] const operation& next(int i) const { return at(i).next; }
  /// Runs what is left in any order, and checks the end.
  void finish(bool check);

  void stop_before(operation op) noexcept;
  void set_failure(const std::string& why) {
    if (failure_.empty()) failure_ = why;
  }
  [[nodiscard]] const std::string& failure() const { return failure_; }
  [[nodiscard]] const std::vector<int>& schedule() const { return schedule_; }

 private:
  static void enter();
  [[nodiscard]] fiber& at(int i) const { return *fibers_[static_cast<std::size_t>(i)]; }
  void resume(int i);

  std::vector<std::unique_ptr<fiber>>& fibers_;
  trial trial_;
  place scheduler_;
  int current_ = -1;
  std::string failure_;
  std::vector<int> schedule_;
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

void run::stop_before(operation op) noexcept {
  fiber& f = at(current_);
  f.next = op;
  leave_for(f.at, scheduler_);
}

void run::begin(trial t) {
  trial_ = std::move(t);
  while (fibers_.size() < trial_.threads.size()) fibers_.push_back(std::make_unique<fiber>());
  for (std::size_t i = 0; i < fibers_.size(); ++i) fibers_[i]->ended = i >= trial_.threads.size();
  for (std::size_t i = 0; i < trial_.threads.size(); ++i) {
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

bool run::advance(int i) {
  schedule_.push_back(i);
  resume(i);
  if (trial_.always && failure_.empty() && !trial_.always())
    set_failure("the invariant broke after step " + std::to_string(schedule_.size()));
  return failure_.empty();
}

std::uint32_t run::alive() const {
  std::uint32_t mask = 0;
  for (std::size_t i = 0; i < trial_.threads.size(); ++i)
    if (!fibers_[i]->ended) mask |= 1U << i;
  return mask;
}

void run::finish(bool check) {
  for (std::uint32_t left = alive(); left != 0; left = alive()) resume(__builtin_ctz(left));
  if (check && failure_.empty() && trial_.finally && !trial_.finally())
    set_failure("the final condition does not hold");
  trial_ = trial{};
}

void note(report& out, const run& r) {
  out.steps += r.schedule().size();
  out.failure = r.failure();
  if (!out.ok()) out.schedule = r.schedule();
}

/// A point of the search where one of several threads was chosen.
struct choice {
  std::uint32_t alive, sleeping, done;
  int chosen;
  std::vector<operation> next;
};

int lowest(std::uint32_t mask) { return __builtin_ctz(mask); }

/// Who need not be chosen after `c`, because an equal run was or will be made elsewhere.
std::uint32_t sleepers_after(const choice& c, bool observed) {
  std::uint32_t out = 0;
  const auto& mine = c.next[static_cast<std::size_t>(c.chosen)];
  for (std::uint32_t m = (c.sleeping | c.done) & c.alive & ~(1U << c.chosen); m != 0; m &= m - 1) {
    const int u = lowest(m);
    if (independent(c.next[static_cast<std::size_t>(u)], mine, observed)) out |= 1U << u;
  }
  return out;
}

}  // namespace

void step(const void* address, bool writes) noexcept {
  if (active != nullptr) active->stop_before({address, writes});
}

void fail(const std::string& why) {
  if (active != nullptr) active->set_failure(why);
}

std::string report::text() const {
  std::string s = std::to_string(runs) + " runs, " + std::to_string(pruned) + " pruned, " +
                  std::to_string(steps) + " steps" + (complete ? ", complete" : "");
  if (ok()) return s;
  s += ": " + failure + "; seed " + std::to_string(seed) + ", schedule {";
  for (const int i : schedule) s += std::to_string(i) + ",";
  return s + "}";
}

report explore(const trial_maker& make, std::uint64_t most_runs) {
  report out;
  std::vector<std::unique_ptr<fiber>> fibers;
  std::vector<choice> path;  // the choices of the run, to be taken again and then varied
  while (out.runs + out.pruned < most_runs) {
    run r(fibers);
    r.begin(make());
    bool redundant = false;
    for (std::size_t depth = 0; r.alive() != 0 && r.failure().empty(); ++depth) {
      if (depth == path.size()) {
        choice c{
            r.alive(), path.empty() ? 0 : sleepers_after(path.back(), r.observed()), 0, -1, {}};
        const std::uint32_t open = c.alive & ~c.sleeping;
        if (open == 0) {
          redundant = true;
          break;
        }
        c.chosen = lowest(open);
        for (std::size_t i = 0; i < fibers.size(); ++i)
          c.next.push_back(r.next(static_cast<int>(i)));
        path.push_back(std::move(c));
      }
      r.advance(path[depth].chosen);
    }
    r.finish(!redundant);
    ++(redundant ? out.pruned : out.runs);
    note(out, r);
    if (!out.ok()) return out;
    // The next run: vary the last choice that has an alternative left.
    for (; !path.empty(); path.pop_back()) {
      choice& c = path.back();
      c.done |= 1U << c.chosen;
      const std::uint32_t open = c.alive & ~c.sleeping & ~c.done;
      if (open == 0) continue;
      c.chosen = lowest(open);
      break;
    }
    if (path.empty()) {
      out.complete = true;
      return out;
    }
  }
  return out;
}

report sample(const trial_maker& make, std::uint64_t seed, std::uint64_t count) {
  report out;
  std::vector<std::unique_ptr<fiber>> fibers;
  for (std::uint64_t i = 0; i < count && out.ok(); ++i) {
    std::mt19937_64 random(seed + i);
    // Between 0 and 7 chances in 8 to stay with a thread: long stretches and fine grain both occur.
    const std::uint64_t stay = random() % 8;
    run r(fibers);
    r.begin(make());
    int last = -1;
    for (std::uint32_t alive = r.alive(); alive != 0 && r.failure().empty(); alive = r.alive()) {
      if (last < 0 || (alive >> last & 1) == 0 || random() % 8 >= stay) {
        std::uint32_t m = alive;
        for (auto skip = random() % static_cast<std::uint64_t>(__builtin_popcount(alive)); skip > 0;
             --skip)
          m &= m - 1;
        last = lowest(m);
      }
      r.advance(last);
    }
    r.finish(true);
    ++out.runs;
    note(out, r);
    out.seed = seed + i;
  }
  return out;
}

report replay(const trial_maker& make, const std::vector<int>& schedule) {
  report out;
  std::vector<std::unique_ptr<fiber>> fibers;
  run r(fibers);
  r.begin(make());
  for (const int i : schedule)
    if ((r.alive() >> i & 1) == 0 || !r.advance(i)) break;
  r.finish(true);
  out.runs = 1;
  note(out, r);
  return out;
}

}  // namespace penstock::model
