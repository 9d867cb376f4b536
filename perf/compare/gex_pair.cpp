// gex_pair TEST BYTES SECONDS [CPUS]: what `compare` has a library of gasnetex.h do. Two ranks, on
// the processors that CPUS names; incast: all but rank 0 send to it. Prints one figure: nanoseconds
// (a median; lat: of half a round trip), or messages a second.
//   penrun -n 2 gex_pair_penstock lat 64 0.2 0,1
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>

#include "perf/gasnet_ex.hpp"
#include "perf/twin_ring.hpp"

using namespace penstock;
using gasnet_ex::high, gasnet_ex::low, gasnet_ex::must;

namespace {

constexpr int batch = 100;
constexpr std::size_t room = 65'536;

// What handlers leave behind. They run while this thread polls.
std::uint64_t answers = 0, handled = 0, told = 0, read_so_far = 0;
bool stopped = false;
std::byte payload[room];

enum : gex_AM_Index_t {
  on_ping = GEX_AM_INDEX_BASE,
  on_loaded_ping,
  on_pong,
  on_loaded_pong,
  on_one,
  on_ask,
  on_told,
  on_stop
};

void read(const void* from, std::size_t bytes) {
  read_so_far += perf::read_all(static_cast<const std::byte*>(from), bytes);
}
void ping(gex_Token_t t, gex_AM_Arg_t a, gex_AM_Arg_t b) {
  must(gex_AM_ReplyShort2(t, on_pong, 0, a, b), "a reply");
}
void loaded_ping(gex_Token_t t, void* from, std::size_t bytes) {
  read(from, bytes);
  must(gex_AM_ReplyMedium0(t, on_loaded_pong, payload, bytes, GEX_EVENT_NOW, 0), "a reply");
}
void pong(gex_Token_t, gex_AM_Arg_t, gex_AM_Arg_t) { ++answers; }
void loaded_pong(gex_Token_t, void* from, std::size_t bytes) {
  read(from, bytes);
  ++answers;
}
void one(gex_Token_t, gex_AM_Arg_t, gex_AM_Arg_t) { ++handled; }
void ask(gex_Token_t t) {
  must(gex_AM_ReplyShort2(t, on_told, 0, high(handled), low(handled)), "a reply");
}
void hear(gex_Token_t, gex_AM_Arg_t above, gex_AM_Arg_t below) {
  told = gasnet_ex::word_of(above, below);
  ++answers;
}
void stop(gex_Token_t) { stopped = true; }

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The median time of an operation, in ns. In the first tenth of the time the fastest operation
/// tells how many make a sample: 5 us of them, 100 at most.
template <class Operation>
double median_of(double seconds, Operation&& operation) {
  double fastest = seconds;
  for (double before = now(), until = before + seconds / 10; before < until;) {
    operation();
    const double after = now();
    fastest = std::min(fastest, after - before);
    before = after;
  }
  const int several = static_cast<int>(std::clamp(5e-6 / fastest, 1.0, 100.0));
  std::vector<double> took;
  for (double before = now(), until = before + seconds; before < until || took.empty();) {
    for (int i = 0; i < several; ++i) operation();
    const double after = now();
    took.push_back(after - before);
    before = after;
  }
  const auto middle = took.begin() + static_cast<std::ptrdiff_t>(took.size() / 2);
  std::nth_element(took.begin(), middle, took.end());
  return *middle / several * 1e9;
}

/// Sends, and waits for the answer.
template <class Send>
void answered(Send&& send) {
  const std::uint64_t before = answers;
  must(send(), "a request");
  while (answers == before) gasnet_ex::job::poll();
}

double latency(gex_TM_t tm, std::size_t bytes, double seconds) {
  const auto trip = [&] {
    if (bytes <= 8) return answered([&] { return gex_AM_RequestShort2(tm, 1, on_ping, 0, 1, 2); });
    answered([&] {
      return gex_AM_RequestMedium0(tm, 1, on_loaded_ping, payload, bytes, GEX_EVENT_NOW, 0);
    });
  };
  return median_of(seconds, trip) / 2;
}

void send_one(gex_TM_t tm, gex_Rank_t to, std::uint64_t i) {
  must(gex_AM_RequestShort2(tm, to, on_one, 0, high(i), low(i)), "a request");
}

/// Messages a second whose handlers have run.
double rate(gex_TM_t tm, double seconds) {
  static std::uint64_t sent = 0;
  const std::uint64_t before = sent;
  const double begun = now();
  do {
    for (int i = 0; i < batch; ++i) send_one(tm, 1, ++sent);
  } while (now() < begun + seconds);
  while (told != sent)  // an answer may overtake requests
    answered([&] { return gex_AM_RequestShort0(tm, 1, on_ask, 0); });
  return static_cast<double>(sent - before) / (now() - begun);
}

/// Rank 0's part: a tenth of the time to get going, then the count.
double incast(double seconds) {
  double from = now(), to = from;
  const auto poll_until = [&](double until) {
    while (to < until) {
      for (int i = 0; i < batch; ++i) gasnet_ex::job::poll();
      to = now();
    }
  };
  poll_until(from + seconds / 10);
  from = to;
  const std::uint64_t before = handled;
  poll_until(from + seconds);
  return static_cast<double>(handled - before) / (to - from);
}

double measure(gasnet_ex::job& j, std::string_view test, std::size_t bytes, double seconds) {
  const gex_TM_t tm = j.tm();
  if (test == "rate") return rate(tm, seconds / 10), rate(tm, seconds);
  if (test == "incast") return incast(seconds);
  if (test == "lat") return latency(tm, bytes, seconds);
  std::byte* const there = j.segment_of(1);
  if (test == "put")
    return median_of(seconds, [=] { gex_RMA_PutBlocking(tm, 1, there, payload, bytes, 0); });
  return median_of(seconds, [=] { gex_RMA_GetBlocking(tm, payload, 1, there, bytes, 0); });
}

/// The rank's processor of a list.
void bind_to(std::string cpus, gex_Rank_t rank) {
  for (; rank != 0; --rank) cpus.erase(0, cpus.find(',') + 1);
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(std::strtoul(cpus.c_str(), nullptr, 10), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) std::perror("gex_pair: sched_setaffinity");
}

}  // namespace

int main(int argc, char** argv) {
  gasnet_ex::job j(argc, argv);
  const std::string_view test = argc > 3 ? argv[1] : "lat";
  const std::size_t bytes = argc > 3 ? std::strtoull(argv[2], nullptr, 10) : 8;
  const double seconds = argc > 3 ? std::atof(argv[3]) : 0.1;
  if (argc > 4) bind_to(argv[4], j.rank());
  constexpr gex_Flags_t request = GEX_FLAG_AM_REQUEST, reply = GEX_FLAG_AM_REPLY;
  gex_AM_Entry_t handlers[] = {
      gasnet_ex::row(on_ping, request | GEX_FLAG_AM_SHORT, ping),
      gasnet_ex::row(on_loaded_ping, request | GEX_FLAG_AM_MEDIUM, loaded_ping),
      gasnet_ex::row(on_pong, reply | GEX_FLAG_AM_SHORT, pong),
      gasnet_ex::row(on_loaded_pong, reply | GEX_FLAG_AM_MEDIUM, loaded_pong),
      gasnet_ex::row(on_one, request | GEX_FLAG_AM_SHORT, one),
      gasnet_ex::row(on_ask, request | GEX_FLAG_AM_SHORT, ask),
      gasnet_ex::row(on_told, reply | GEX_FLAG_AM_SHORT, hear),
      gasnet_ex::row(on_stop, request | GEX_FLAG_AM_SHORT, stop),
  };
  j.start(handlers, room);
  std::size_t most = j.size() < 2 ? 0 : room;
  if (test == "lat" && j.size() > 1)
    most = std::min({room, gex_AM_MaxRequestMedium(j.tm(), 1, GEX_EVENT_NOW, 0, 0),
                     gex_AM_MaxReplyMedium(j.tm(), 1, GEX_EVENT_NOW, 0, 0)});
  if (bytes > most) {
    std::fprintf(stderr, "gex_pair: two ranks or more, and %zu bytes at most\n", most);
    gasnet_exit(2);
  }
  if (j.rank() == 0) {
    std::printf("figure %.2f\n", measure(j, test, bytes, seconds));
    for (gex_Rank_t r = 1; r < j.size(); ++r)
      must(gex_AM_RequestShort0(j.tm(), r, on_stop, 0), "a request");
  } else if (test == "incast") {
    for (std::uint64_t i = 0; !stopped; ++i) send_one(j.tm(), 0, i);
  } else {
    while (!stopped) gasnet_ex::job::poll();
  }
  j.barrier();
  std::fflush(stdout);
  gasnet_exit(0);
}
