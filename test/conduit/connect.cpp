// Job program: making a connection must need no poll of the other program.
//   connect computes   rank 1 does not poll until the others, connected to it, have put a word into
//                      its segment
//   connect stops      rank 1 is stopped before the others connect to it; the test that started the
//                      job lets it go on, or kills it
//   connect all        every rank sends to every other one at once
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "lib/base/clock.hpp"
#include "penstock/penstock.hpp"
#include "penstock/rma.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

constexpr rank_id busy = 1;  // the one that does not answer
unsigned came = 0;

void on_hello(token&, std::uint32_t) { ++came; }

double ms_since(std::uint64_t began) { return static_cast<double>(now_ns() - began) * 1e-6; }

// Long, so that a machine that does many other things passes. A job that needs its peer's poll
// never would.
constexpr std::uint64_t far_too_long_ns = 60'000'000'000;

void computes(endpoint& ep, remote_memory& memory, short_handler<std::uint32_t> h) {
  if (ep.rank() == busy) {
    auto* const words = reinterpret_cast<std::uint64_t*>(ep.segment().data());
    const std::uint64_t until = now_ns() + far_too_long_ns;
    for (rank_id r = 0; r < ep.size(); ++r)
      while (r != busy && std::atomic_ref(words[r]).load(std::memory_order_acquire) == 0)
        if (now_ns() > until) fatal(9, "rank %u has not been connected while this one computed", r);
    JOB_CHECK(came == 0);
  } else {
    const std::uint64_t began = now_ns();
    JOB_CHECK(ep.request_short(busy, h, 0u) == status::ok);
    const double took = ms_since(began);
    const std::uint64_t one = 1;
    auto* const words = reinterpret_cast<std::uint64_t*>(ep.segment_of(busy).data());
    JOB_CHECK(memory.put(busy, words + ep.rank(), std::as_bytes(std::span(&one, 1))) == status::ok);
    std::printf("rank %u: connected after %.1f ms, and put after %.1f ms\n", ep.rank(), took,
                ms_since(began));
  }
}

// True if all threads of that process are stopped.
bool is_stopped(pid_t pid) {
  bool all = true;
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    std::ifstream file(thread.path() / "stat");
    std::string text;
    std::getline(file, text);
    const auto name_ends = text.rfind(") ");
    all = all && name_ends != std::string::npos && text[name_ends + 2] == 'T';
  }
  return all;
}

void stops(endpoint& ep, short_handler<std::uint32_t> h, pid_t victim) {
  if (ep.rank() == busy) {
    std::printf("the silent process is %d\n", victim);
    std::fflush(stdout);
    ::kill(victim, SIGSTOP);
    return;
  }
  while (!is_stopped(victim)) ::usleep(1000);
  JOB_CHECK(ep.request_short(busy, h, 0u) == status::ok);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "all";
  auto w = world::join();
  JOB_CHECK(w);
  const pid_t self = ::getpid();
  const auto pids = w->exchange(std::as_bytes(std::span(&self, 1)));
  JOB_CHECK(pids);
  endpoint ep = test::open_endpoint(*w);
  const auto h = ep.add<on_hello>();
  if (auto r = ep.start(4096); !r) fatal(3, "%s", r.error().message().c_str());
  unsigned wanted = 0;
  if (what == "all") {
    const std::uint64_t began = now_ns();
    wanted = ep.size() - 1;
    for (rank_id i = 1; i < ep.size(); ++i)
      JOB_CHECK(ep.request_short((ep.rank() + i) % ep.size(), h, 0u) == status::ok);
    JOB_CHECK(ep.wait_until([&] { return came == wanted; }) == status::ok);
    if (ep.rank() == 0) std::printf("connected to all after %.0f ms\n", ms_since(began));
  } else {
    remote_memory memory(ep);
    if (ep.rank() == busy) wanted = ep.size() - 1;
    if (what == "computes") computes(ep, memory, h);
    pid_t victim = 0;
    std::memcpy(&victim, (*pids)[busy].data(), sizeof victim);
    if (what == "stops") stops(ep, h, victim);
    JOB_CHECK(ep.wait_until([&] { return came == wanted; }) == status::ok);
  }
  JOB_CHECK(ep.barrier() == status::ok);
  JOB_CHECK(came == wanted);
  return 0;
}
