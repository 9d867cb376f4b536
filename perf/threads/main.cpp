// threads: messages and puts a second of all threads of a job together, each thread with its
// partner in the neighbouring process. It compares processes of many threads with many processes of
// one thread, with the same number of threads in all:
//
//   penrun -n 2 threads --threads 2           # a domain for each thread
//   penrun -n 2 threads --threads 2 --domains 1
//   penrun -n 4 threads --threads 1
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/command_line.hpp"
#include "lib/base/log.hpp"
#include "lib/base/thread_index.hpp"
#include "penstock/penstock.hpp"
#include "penstock/rma.hpp"

namespace {

using namespace penstock;

// Two lines are fetched together, so that threads which share no line may still share a pair.
constexpr std::size_t line = 256;

void must(status s, const char* what) {
  if (is_failure(s)) fatal(1, "%s: %s", what, describe(s));
}

/// Counts by the thread that counts: no two write one line.
struct alignas(line) padded_counter {
  std::atomic<std::uint64_t> n{0};
  void add(std::uint64_t more) noexcept {
    n.store(n.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
};

class measurement {
 public:
  measurement(endpoint& ep, unsigned threads, double seconds, bool one_way)
      : ep_(ep),
        threads_(threads),
        works_(!one_way || ep.rank() % 2 == 0),
        ns_(static_cast<std::uint64_t>(seconds * 1e9)),
        handled_(max_threads + 1),
        done_(threads),
        on_message_(ep.add<&measurement::arrived>(this)),
        on_total_(ep.add<&measurement::total>(this)) {}

  static std::size_t segment_bytes(unsigned threads) { return threads * line; }

  /// Shorts handled a second, by all processes; at rank 0.
  double messages() {
    return all(
        [this](unsigned) {
          return [&ep = ep_, to = partner(), h = on_message_] {
            must(ep.request_short(to, h), "a Short");
          };
        },
        [this] {
          std::uint64_t n = 0;
          for (const padded_counter& t : handled_) n += t.n.load(std::memory_order_relaxed);
          return n;
        });
  }

  /// Puts of 8 bytes a second, by all processes; at rank 0.
  double puts() {
    return all(
        [this](unsigned thread) {
          std::byte* const there = ep_.segment_of(partner()).data() + thread * line;
          return [mem = remote_memory(ep_), to = partner(), there, done = &done_[thread],
                  word = std::uint64_t{0}]() mutable {
            must(mem.put_value(to, reinterpret_cast<std::uint64_t*>(there), ++word), "a put");
            done->add(1);
          };
        },
        [this] {
          std::uint64_t n = 0;
          for (const padded_counter& t : done_) n += t.n.load(std::memory_order_relaxed);
          return n;
        });
  }

 private:
  [[nodiscard]] rank_id partner() const noexcept { return ep_.rank() ^ 1; }
  void arrived(token&) { handled_[thread_tag()].add(1); }
  void total(token&, double rate) {
    // One after the other: only rank 0 is told, and it runs one handler at a time here.
    sum_.store(sum_.load(std::memory_order_relaxed) + rate, std::memory_order_relaxed);
    told_.fetch_add(1, std::memory_order_release);
  }

  /// Every thread of every process repeats what make(thread) returns for the given time; `count`
  /// counts what this process has done. Answers the sum of rates, at rank 0. A thread's data lie on
  /// its own stack, where no other thread writes.
  template <class Make, class Count>
  double all(Make&& make, Count&& count) {
    std::atomic<unsigned> working{threads_};
    must(ep_.barrier(), "the barrier before");
    const std::uint64_t before = count(), start = now_ns();
    const auto work = [&](unsigned thread) {
      auto one = make(thread);
      const std::uint64_t until = start + ns_;
      while (works_ && now_ns() < until)
        for (int i = 0; i < 256; ++i) one();
      working.fetch_sub(1, std::memory_order_relaxed);
    };
    std::vector<std::jthread> others;
    for (unsigned t = 1; t < threads_; ++t) others.emplace_back(work, t);
    work(0);
    must(ep_.wait_until([&] { return working.load(std::memory_order_relaxed) == 0; }), "the end");
    others.clear();
    const double seconds = static_cast<double>(now_ns() - start) * 1e-9;
    const double mine = static_cast<double>(count() - before) / seconds;
    if (ep_.rank() != 0) must(ep_.request_short(0, on_total_, mine), "the rate");
    double sum = mine;
    if (ep_.rank() == 0) {
      must(ep_.wait_until([&] { return told_.load(std::memory_order_acquire) == ep_.size() - 1; }),
           "the others' rates");
      sum += sum_.exchange(0);
      told_ = 0;
    }
    must(ep_.barrier(), "the barrier behind");
    return sum;
  }

  endpoint& ep_;
  unsigned threads_;
  bool works_;
  std::uint64_t ns_;
  std::vector<padded_counter> handled_, done_;
  short_handler<> on_message_;
  short_handler<double> on_total_;
  std::atomic<double> sum_{0};
  std::atomic<std::uint32_t> told_{0};
};

}  // namespace

int main(int argc, char** argv) {
  unsigned threads = 2, domains = 0;
  double seconds = 1;
  bool one_way = false;
  command_line options("threads",
                       "Measures messages and puts a second of all threads of a job. Start it with "
                       "penrun -n N, N even.");
  options.number("--threads", threads, "Threads of each process", 1, 64);
  options.number("--domains", domains,
                 "Domains over which the threads are spread; 0 is one for each thread", 0, 64);
  options.number("--seconds", seconds, "Seconds that each measurement lasts", 0.01, 600);
  options.flag("--one-way", one_way,
               "Only processes of even rank put, and no process sends messages");
  options.parse(argc, argv);
  if (domains == 0) domains = threads;

  auto w = world::join();
  if (!w) fatal(1, "%s", w.error().message().c_str());
  if (w->size() % 2 != 0) fatal(2, "threads: an even number of processes is wanted");
  auto opened = endpoint::open(*w, {{"PENSTOCK_DOMAIN_COUNT", std::to_string(domains)}});
  if (!opened) fatal(1, "%s", opened.error().message().c_str());
  endpoint ep = std::move(*opened);
  measurement m(ep, threads, seconds, one_way);
  if (auto r = ep.start(measurement::segment_bytes(threads)); !r)
    fatal(1, "%s", r.error().message().c_str());
  const double puts = m.puts(), messages = one_way ? 0 : m.messages();
  if (ep.rank() == 0) {
    std::printf("%u processes of %u threads in %u domains: %.2f million puts/s", ep.size(), threads,
                domains, puts * 1e-6);
    if (one_way)
      std::puts(", one way");
    else
      std::printf(", %.3f million Shorts/s\n", messages * 1e-6);
  }
  return 0;
}
