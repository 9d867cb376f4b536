// See gasnet_side.hpp.
#include "perf/penperf/gasnet_side.hpp"

#include <gasnet.h>

#include <cstdlib>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "perf/patience.hpp"

namespace penstock::penperf::gasnet_side {

namespace {

enum : gasnet_handler_t { on_ping = 128, on_pong, on_finish };
constexpr gasnet_node_t target = 1;

std::uint64_t answered = 0;
bool finished = false;

void must(int rc, const char* what) {
  if (rc != GASNET_OK) [[unlikely]]
    fatal(1, "%s: %s", what, gasnet_ErrorDesc(rc));
}

void ping(gasnet_token_t token) {
  must(gasnet_AMReplyShort0(token, on_pong), "gasnet_lat's reply");
}
void pong(gasnet_token_t) { __atomic_store_n(&answered, answered + 1, __ATOMIC_RELAXED); }
void finish_serving(gasnet_token_t) { __atomic_store_n(&finished, true, __ATOMIC_RELAXED); }

void one_barrier() {
  gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
  must(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS), "a barrier");
}

}  // namespace

void start(const std::string& device) {
  if (!device.empty()) ::setenv("PENSTOCK_DEVICE", device.c_str(), 1);
  gasnet_handlerentry_t table[] = {
      {on_ping, reinterpret_cast<void (*)()>(&ping)},
      {on_pong, reinterpret_cast<void (*)()>(&pong)},
      {on_finish, reinterpret_cast<void (*)()>(&finish_serving)},
  };
  must(gasnet_init(nullptr, nullptr), "gasnet_init");
  must(gasnet_attach(table, 3, GASNET_PAGESIZE, 0), "gasnet_attach");
}

void trips(std::span<std::uint64_t> samples) {
  std::uint64_t i = __atomic_load_n(&answered, __ATOMIC_RELAXED);
  std::uint64_t before = ticks();
  for (auto& s : samples) {
    ++i;
    must(gasnet_AMRequestShort0(target, on_ping), "gasnet_lat's request");
    perf::patience p("reply");
    while (__atomic_load_n(&answered, __ATOMIC_RELAXED) != i) {
      must(gasnet_AMPoll(), "gasnet_lat's poll");
      p.idle();
    }
    const std::uint64_t now = ticks();
    s = now - before;
    before = now;
  }
}

void serve() {
  while (!__atomic_load_n(&finished, __ATOMIC_RELAXED)) must(gasnet_AMPoll(), "the target's poll");
  finished = false;
}

void finish() { must(gasnet_AMRequestShort0(target, on_finish), "the last request"); }

void greet_all() {
  const gasnet_node_t others = gasnet_nodes() - 1;
  if (gasnet_mynode() == 0) {
    const std::uint64_t before = __atomic_load_n(&answered, __ATOMIC_RELAXED);
    for (gasnet_node_t i = 1; i <= others; ++i)
      must(gasnet_AMRequestShort0(i, on_ping), "a greeting");
    GASNET_BLOCKUNTIL(__atomic_load_n(&answered, __ATOMIC_RELAXED) == before + others);
  }
  one_barrier();
}

void polls(std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) must(gasnet_AMPoll(), "a poll");
}

void barriers(std::span<std::uint64_t> samples) {
  one_barrier();
  std::uint64_t before = ticks();
  for (auto& s : samples) {
    one_barrier();
    const std::uint64_t now = ticks();
    s = now - before;
    before = now;
  }
}

}  // namespace penstock::penperf::gasnet_side
