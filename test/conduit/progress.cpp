// Job program of two ranks or more with the progress thread: a rank that computes and does not poll
// answers all the same. progress CASE [ARGUMENTS]
//
//   answers COUNT [PAUSE]
//             rank 0 asks, one after another, while the others compute; all are answered, and how
//             soon is printed. PAUSE: most microseconds between two questions.
//   endpoints COUNT
//             the same, over two endpoints in turn
//   flood COUNT
//             the others send Mediums without reply to rank 0, which computes
//   interval US
//             as answers; with PENSTOCK_PROGRESS_INTERVAL=US
//   idle      nothing comes: the thread takes no time, whether or not the program polls
//   dies      rank 1 is killed while the others compute; they notice
#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/clock.hpp"
#include "penstock/penstock.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

// Time on a processor, in ns, of all progress threads of this process.
std::uint64_t thread_time() {
  std::uint64_t sum = 0;
  unsigned threads = 0;
  DIR* const tasks = ::opendir("/proc/self/task");
  JOB_CHECK(tasks != nullptr);
  while (const dirent* task = ::readdir(tasks)) {
    const std::string at = std::string("/proc/self/task/") + task->d_name;
    char name[32] = "";
    if (FILE* f = std::fopen((at + "/comm").c_str(), "r")) {
      (void)!std::fgets(name, sizeof name, f);
      std::fclose(f);
    }
    if (std::string_view(name) != "penstock-prog\n") continue;
    FILE* const f = std::fopen((at + "/schedstat").c_str(), "r");
    JOB_CHECK(f != nullptr);
    unsigned long long ns = 0;
    JOB_CHECK(std::fscanf(f, "%llu", &ns) == 1);
    std::fclose(f);
    sum += ns;
    ++threads;
  }
  ::closedir(tasks);
  JOB_CHECK(threads != 0);
  return sum;
}

struct side {
  endpoint ep;
  short_handler<std::uint32_t> ask, answer;
  short_handler<> enough;
  payload_handler<std::uint32_t> load;
  std::atomic<std::uint32_t> answered{0}, loaded{0}, ended{0};
  std::thread::id program = std::this_thread::get_id();
  std::atomic<std::uint64_t> elsewhere{0};  // handlers that did not run in the program's thread

  explicit side(world& w) : ep(open(w)) {
    ask = ep.add<&side::on_ask>(this);
    answer = ep.add<&side::on_answer>(this);
    enough = ep.add<&side::on_enough>(this);
    load = ep.add<&side::on_load>(this);
    if (auto r = ep.start(0); !r) fatal(3, "%s", r.error().message().c_str());
  }
  static endpoint open(world& w) {
    auto opened = endpoint::open(w);
    if (!opened) fatal(3, "%s", opened.error().message().c_str());
    return std::move(*opened);
  }

  void on_ask(token& t, std::uint32_t x) {
    note();
    JOB_CHECK(t.reply_short(answer, x) == status::ok);
  }
  void on_answer(token&, std::uint32_t x) { answered.store(x, std::memory_order_release); }
  void on_enough(token&) { ended.fetch_add(1, std::memory_order_release); }
  void on_load(token&, std::span<std::byte> p, std::uint32_t x) {
    note();
    JOB_CHECK(test::holds(p, x));
    loaded.fetch_add(1, std::memory_order_release);
  }
  void note() {
    if (std::this_thread::get_id() != program) elsewhere.fetch_add(1, std::memory_order_relaxed);
  }

  // What a program does that never calls the library.
  void compute_until_enough(std::uint32_t times) const {
    std::uint64_t x = 1;
    while (ended.load(std::memory_order_acquire) < times) x = x * 6364136223846793005ull + 1;
    if (x == 0) std::puts("");
  }

  // One question to every other rank, and its answer; how long that took at most.
  std::uint64_t round(std::uint32_t x) {
    std::uint64_t longest = 0;
    for (rank_id r = 1; r < ep.size(); ++r) {
      const std::uint32_t number = x * ep.size() + r;
      const std::uint64_t before = now_ns();
      JOB_CHECK(ep.request_short(r, ask, number) == status::ok);
      JOB_CHECK(ep.wait_until([&] { return answered.load(std::memory_order_acquire) == number; }) ==
                status::ok);
      longest = std::max(longest, now_ns() - before);
    }
    return longest;
  }
  void release() {
    for (rank_id r = 1; r < ep.size(); ++r) JOB_CHECK(ep.request_short(r, enough) == status::ok);
  }
};

// The p-th of each hundred of the sorted times, in microseconds.
double at(const std::vector<std::uint64_t>& sorted, unsigned p) {
  return static_cast<double>(sorted[std::min(sorted.size() - 1, sorted.size() * p / 100)]) * 1e-3;
}

void ask_all(std::span<side* const> sides, std::uint32_t count, std::uint32_t pause_us) {
  std::vector<std::uint64_t> times;
  for (std::uint32_t i = 1; i <= count; ++i) {
    times.push_back(sides[i % sides.size()]->round(i));
    // Not in step with anything: half to all of the pause.
    const std::uint64_t until = now_ns() + (pause_us / 2 + i * 7919 % (pause_us / 2 + 1)) * 1000;
    while (now_ns() < until) (void)sides[0]->ep.poll();
  }
  std::sort(times.begin(), times.end());
  std::printf("answers of who computes: p50 %.1f us, p90 %.1f us, p99 %.1f us, longest %.1f us\n",
              at(times, 50), at(times, 90), at(times, 99), at(times, 100));
  std::fflush(stdout);
}

void answers(std::span<side* const> sides, std::uint32_t count, std::uint32_t pause_us) {
  side& me = *sides[0];
  if (me.ep.rank() != 0) {
    const std::uint64_t before = thread_time();
    for (side* s : sides) s->compute_until_enough(1);
    std::printf("rank %u: %.1f us of its processor for each\n", me.ep.rank(),
                static_cast<double>(thread_time() - before) * 1e-3 / count);
    // Nothing was polled here, but for the opening's own.
    for (side* s : sides) JOB_CHECK(s->elsewhere.load() >= count / sides.size());
  } else {
    ask_all(sides, count, pause_us);
    for (side* s : sides) s->release();
  }
}

void flood(side& me, std::uint32_t count) {
  if (me.ep.rank() == 0) {
    me.compute_until_enough(me.ep.size() - 1);
    while (me.loaded.load(std::memory_order_acquire) < count * (me.ep.size() - 1))
      (void)me.ep.poll();
    JOB_CHECK(me.elsewhere.load() > count / 2);
    return;
  }
  std::vector<std::byte> bytes(me.ep.max_medium());
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::span payload(bytes.data(), i * 131 % bytes.size());
    test::fill(payload, i);
    JOB_CHECK(me.ep.request_medium(0, me.load, payload, i) == status::ok);
  }
  JOB_CHECK(me.ep.request_short(0, me.enough) == status::ok);
}

void interval(side& me, std::uint32_t us) {
  constexpr std::uint32_t count = 40;
  const std::uint64_t before = now_ns();
  answers(std::array{&me}, count, 1000);
  if (me.ep.rank() != 0) return;
  // Most wakes answer one question, as the next one comes later than the thread looks for more.
  const double took = static_cast<double>(now_ns() - before) * 1e-3;
  JOB_CHECK(took > 0.5 * us * (count - 1));
}

void idle(side& me) {
  constexpr std::uint64_t second = 1'000'000'000;
  JOB_CHECK(me.ep.barrier() == status::ok);
  const auto took = [](auto what) {
    const std::uint64_t before = thread_time();
    what();
    return thread_time() - before;
  };
  // Where others have the cores, the rest of the barrier comes late, and what takes none takes
  // more: one window of five is quiet.
  std::uint64_t asleep = second, polling = second;
  for (int window = 0; window < 5 && (asleep >= second / 1000 || polling >= second / 100);
       ++window) {
    ::usleep(50'000);
    asleep = std::min(asleep, took([] { ::usleep(second / 1000); }));
    polling = std::min(polling, took([&] {
                         for (const std::uint64_t until = now_ns() + second / 4; now_ns() < until;)
                           (void)me.ep.poll();
                       }));
  }
  std::printf("progress thread of rank %u: %.1f us in a second of nothing, %.1f us while polled\n",
              me.ep.rank(), static_cast<double>(asleep) * 1e-3,
              static_cast<double>(polling) * 1e-3);
  JOB_CHECK(asleep < second / 1000);
  JOB_CHECK(polling < second / 100);
  JOB_CHECK(me.ep.barrier() == status::ok);
}

[[noreturn]] void dies(side& me) {
  JOB_CHECK(me.ep.barrier() == status::ok);
  if (me.ep.rank() == 1) {
    ::usleep(100'000);
    ::raise(SIGKILL);
  }
  me.compute_until_enough(1);
  fatal(5, "computed on as if nothing had happened");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "answers";
  const auto number = static_cast<std::uint32_t>(argc > 2 ? std::atoi(argv[2]) : 100);
  auto w = world::join();
  JOB_CHECK(w);
  std::vector<std::unique_ptr<side>> sides;
  for (int i = 0; i < (what == "endpoints" ? 2 : 1); ++i)
    sides.push_back(std::make_unique<side>(*w));
  side& me = *sides[0];
  if (what == "answers") {
    answers(std::array{&me}, number,
            argc > 3 ? static_cast<std::uint32_t>(std::atoi(argv[3])) : 400);
  } else if (what == "endpoints") {
    answers(std::array{&me, sides[1].get()}, number, 200);
  } else if (what == "flood") {
    flood(me, number);
  } else if (what == "interval") {
    interval(me, number);
  } else if (what == "idle") {
    idle(me);
  } else if (what == "dies") {
    dies(me);
  } else {
    fatal(2, "progress: %s?", argv[1]);
  }
  for (auto& s : sides) JOB_CHECK(s->ep.barrier() == status::ok);
  return 0;
}
