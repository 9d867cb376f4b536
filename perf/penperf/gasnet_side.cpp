// See gasnet_side.hpp.
#include "perf/penperf/gasnet_side.hpp"

#include <gasnet.h>
#include <gasnetex.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "perf/patience.hpp"
#include "perf/twin_ring.hpp"

namespace penstock::penperf::gasnet_side {

namespace {

enum : gasnet_handler_t {
  on_ping = 128,
  on_loaded_ping,
  on_ex_ping,
  on_ex_loaded_ping,
  on_pong,
  on_finish
};
constexpr gasnet_node_t target = 1;

std::uint64_t answered = 0, read_so_far = 0;
bool finished = false;
gex_TM_t team = GEX_TM_INVALID;

void must(int rc, const char* what) {
  if (rc != GASNET_OK) [[unlikely]]
    fatal(1, "%s: %s", what, gasnet_ErrorDesc(rc));
}

void ping(gasnet_token_t token) { must(gasnet_AMReplyShort0(token, on_pong), "a reply"); }
void read(const void* payload, std::size_t bytes) {
  read_so_far += perf::read_all(static_cast<const std::byte*>(payload), bytes);
}
void loaded_ping(gasnet_token_t token, void* payload, std::size_t bytes) {
  read(payload, bytes);
  ping(token);
}
void ex_ping(gex_Token_t token) { must(gex_AM_ReplyShort0(token, on_pong, 0), "a reply"); }
void ex_loaded_ping(gex_Token_t token, void* payload, std::size_t bytes) {
  read(payload, bytes);
  ex_ping(token);
}
void pong(gasnet_token_t) { __atomic_store_n(&answered, answered + 1, __ATOMIC_RELAXED); }
void finish_serving(gasnet_token_t) { __atomic_store_n(&finished, true, __ATOMIC_RELAXED); }

template <class Send>
void trips_of(Send&& send, std::span<std::uint64_t> samples) {
  std::uint64_t i = __atomic_load_n(&answered, __ATOMIC_RELAXED);
  std::uint64_t before = ticks();
  for (auto& s : samples) {
    ++i;
    must(send(), "a request");
    perf::patience p("reply");
    while (__atomic_load_n(&answered, __ATOMIC_RELAXED) != i) {
      must(gasnet_AMPoll(), "a poll");
      p.idle();
    }
    const std::uint64_t now = ticks();
    s = now - before;
    before = now;
  }
}

void one_barrier() {
  gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
  must(gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS), "a barrier");
}

}  // namespace

void start(const std::string& device) {
  if (!device.empty()) ::setenv("PENSTOCK_DEVICE", device.c_str(), 1);
  gasnet_handlerentry_t table[] = {
      {on_ping, reinterpret_cast<void (*)()>(&ping)},
      {on_loaded_ping, reinterpret_cast<void (*)()>(&loaded_ping)},
      {on_ex_ping, reinterpret_cast<void (*)()>(&ex_ping)},
      {on_ex_loaded_ping, reinterpret_cast<void (*)()>(&ex_loaded_ping)},
      {on_pong, reinterpret_cast<void (*)()>(&pong)},
      {on_finish, reinterpret_cast<void (*)()>(&finish_serving)},
  };
  must(gasnet_init(nullptr, nullptr), "gasnet_init");
  must(gasnet_attach(table, std::size(table), GASNET_PAGESIZE, 0), "gasnet_attach");
  gasnet_QueryGexObjects(nullptr, nullptr, &team, nullptr);
}

void trips(const exchange& what, std::span<std::uint64_t> samples) {
  // Looked at once: each loop below is what a client writes.
  const std::span<const std::byte> from = what.from;
  const gex_TM_t tm = team;
  if (!what.medium && !what.ex)
    return trips_of([] { return gasnet_AMRequestShort0(target, on_ping); }, samples);
  if (!what.medium)
    return trips_of([=] { return gex_AM_RequestShort0(tm, target, on_ex_ping, 0); }, samples);
  if (what.payload == payload_kind::reserved)
    return trips_of(
        [=] {
          const gex_AM_SrcDesc_t d = gex_AM_PrepareRequestMedium(tm, target, nullptr, from.size(),
                                                                 from.size(), nullptr, 0, 0);
          std::memcpy(gex_AM_SrcDescAddr(d), from.data(), from.size());
          gex_AM_CommitRequestMedium0(d, on_ex_loaded_ping, from.size());
          return GASNET_OK;
        },
        samples);
  std::vector<std::byte> made(from.size());
  const bool makes = what.payload == payload_kind::made;
  const auto payload = [&] {
    if (makes) std::memcpy(made.data(), from.data(), from.size());
    return const_cast<std::byte*>(makes ? made.data() : from.data());
  };
  if (what.ex)
    return trips_of(
        [&] {
          return gex_AM_RequestMedium0(tm, target, on_ex_loaded_ping, payload(), from.size(),
                                       GEX_EVENT_NOW, 0);
        },
        samples);
  trips_of([&] { return gasnet_AMRequestMedium0(target, on_loaded_ping, payload(), from.size()); },
           samples);
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
