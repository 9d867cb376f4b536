// overlap: how much of a transfer goes on while the program computes.
//
//   penrun -n 2 -x PENSTOCK_PROGRESS_THREAD=yes overlap [sum|put|medium [BYTES [ROUNDS [FACTOR]]]]
//
// sum: a sum to all (of 1 MB); put: a put to the next rank (16 MB), which is done when its event
// is; medium: a Medium to the next rank (64 KB), which is done when its handler's reply is there.
// All ranks do the same.
//
// A round measures one that is waited for at once; then one that is begun, left to itself while the
// program computes for FACTOR (3) times that long, and waited for. Overlap is the share of the
// first time that the second one's two calls did not take: 1 - (begin + wait) / alone. Printed are
// the medians of the rounds, at rank 0. Processes and their progress threads want a core each; with
// fewer, the computation takes longer instead, as `computing` shows.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string_view>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "perf/gasnet_ex.hpp"

namespace {

using penstock::now_ns;
using penstock::gasnet_ex::job, penstock::gasnet_ex::must, penstock::gasnet_ex::row;

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

double cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

// Computes in registers until this thread has used that much processor time.
void compute(double ns) {
  std::uint64_t x = 1;
  for (const double until = cpu_ns() + ns; cpu_ns() < until;)
    for (int i = 0; i < 2000; ++i) {
      x ^= x << 13, x ^= x >> 7, x ^= x << 17;
      asm volatile("" : "+r"(x));
    }
}

// Handlers run in the progress thread, too.
std::atomic<std::uint64_t> replies{0};
enum : gex_AM_Index_t { on_medium = GEX_AM_INDEX_BASE, on_reply };
void medium(gex_Token_t t, void*, std::size_t) {
  must(gex_AM_ReplyShort0(t, on_reply, 0), "a reply");
}
void reply(gex_Token_t) { replies.fetch_add(1, std::memory_order_release); }

struct transfer {
  std::function<void()> begin, wait;
  std::function<bool()> right;  // whether the bytes are, after wait()
};

void measure(job& j, const transfer& t, std::size_t bytes, int rounds, double factor) {
  std::vector<double> alone, begun, computed, waited;
  for (int i = 0; i < rounds + 3; ++i) {
    j.barrier();
    const std::uint64_t since = now_ns();
    t.begin(), t.wait();
    const auto whole = static_cast<double>(now_ns() - since);
    j.barrier();
    const std::uint64_t t0 = now_ns();
    t.begin();
    const std::uint64_t t1 = now_ns();
    compute(whole * factor);
    const std::uint64_t t2 = now_ns();
    t.wait();
    const std::uint64_t t3 = now_ns();
    if (!t.right()) penstock::fatal(1, "wrong bytes came");
    if (i < 3) continue;
    alone.push_back(whole);
    begun.push_back(static_cast<double>(t1 - t0));
    computed.push_back(static_cast<double>(t2 - t1));
    waited.push_back(static_cast<double>(t3 - t2));
  }
  if (j.rank() == 0) {
    const double whole = median(alone), rest = median(begun) + median(waited);
    std::printf(
        "%u processes, %zu bytes: alone %.1f us; begin %.1f, computing %.1f, wait %.1f us; overlap "
        "%.2f\n",
        j.size(), bytes, whole * 1e-3, median(begun) * 1e-3, median(computed) * 1e-3,
        median(waited) * 1e-3, 1 - rest / whole);
  }
  j.barrier();
}

}  // namespace

int main(int argc, char** argv) {
  job j(argc, argv);
  const std::string_view kind = argc > 1 ? argv[1] : "sum";
  const std::size_t usual = kind == "put" ? 16 << 20 : kind == "medium" ? 64 << 10 : 1 << 20;
  const std::size_t bytes = argc > 2 ? std::strtoull(argv[2], nullptr, 0) & ~std::size_t{7} : usual;
  const int rounds = argc > 3 ? std::max(std::atoi(argv[3]), 1) : 51;
  const double factor = argc > 4 ? std::atof(argv[4]) : 3;
  if (bytes == 0) penstock::fatal(2, "usage: overlap [sum|put|medium [BYTES [ROUNDS [FACTOR]]]]");
  gex_AM_Entry_t handlers[] = {row(on_medium, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, medium),
                               row(on_reply, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, reply)};
  j.start(handlers, bytes);
  const gex_Rank_t next = (j.rank() + 1) % j.size();
  std::byte* const there = j.segment_of(next);
  std::vector<std::uint64_t> from(bytes / 8, 1), to(bytes / 8);
  std::uint64_t requests = 0;
  gex_Event_t event = GEX_EVENT_INVALID;
  const auto ended = [&] { gex_Event_Wait(event); };
  if (kind == "sum") {
    measure(j,
            {[&] {
               event = gex_Coll_ReduceToAllNB(j.tm(), to.data(), from.data(), GEX_DT_U64, 8,
                                              from.size(), GEX_OP_ADD, nullptr, nullptr, 0);
             },
             ended, [&] { return to.back() == j.size(); }},
            bytes, rounds, factor);
  } else if (kind == "put") {
    measure(j,
            {[&] {
               ++from.back();
               event = gex_RMA_PutNB(j.tm(), next, there, from.data(), bytes, GEX_EVENT_DEFER, 0);
             },
             ended,
             [&] {
               must(gex_RMA_GetBlocking(j.tm(), to.data(), next, there, bytes, 0), "a get");
               return to == from;
             }},
            bytes, rounds, factor);
  } else if (kind == "medium") {
    measure(j,
            {[&] {
               ++requests;
               must(gex_AM_RequestMedium0(j.tm(), next, on_medium, from.data(), bytes,
                                          GEX_EVENT_NOW, 0),
                    "a Medium");
             },
             [&] {
               while (replies.load(std::memory_order_acquire) != requests) job::poll();
             },
             [] { return true; }},
            bytes, rounds, factor);
  } else {
    penstock::fatal(2, "usage: overlap [sum|put|medium [BYTES [ROUNDS [FACTOR]]]]");
  }
  gasnet_exit(0);
}
