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
  on_counted,
  on_loaded_counted,
  on_ex_counted,
  on_ex_loaded_counted,
  on_ask,
  on_told,
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

gasnet_handlerarg_t high(std::uint64_t n) { return static_cast<gasnet_handlerarg_t>(n >> 32); }
gasnet_handlerarg_t low(std::uint64_t n) { return static_cast<gasnet_handlerarg_t>(n); }

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
// Of a flood: at the target; and at the requester what it has been told of them.
std::uint64_t handled = 0, told = 0, answers = 0, sent = 0;

void counted(gasnet_token_t, gasnet_handlerarg_t, gasnet_handlerarg_t) { ++handled; }
void loaded_counted(gasnet_token_t, void* payload, std::size_t bytes, gasnet_handlerarg_t,
                    gasnet_handlerarg_t) {
  read(payload, bytes);
  ++handled;
}
void ex_counted(gex_Token_t, gex_AM_Arg_t, gex_AM_Arg_t) { ++handled; }
void ex_loaded_counted(gex_Token_t, void* payload, std::size_t bytes, gex_AM_Arg_t, gex_AM_Arg_t) {
  read(payload, bytes);
  ++handled;
}
void ask(gasnet_token_t token) {
  must(gasnet_AMReplyShort2(token, on_told, high(handled), low(handled)), "the target's count");
}
void hear(gasnet_token_t, gasnet_handlerarg_t above, gasnet_handlerarg_t below) {
  told = std::uint64_t{static_cast<std::uint32_t>(above)} << 32 | static_cast<std::uint32_t>(below);
  __atomic_store_n(&answers, answers + 1, __ATOMIC_RELAXED);
}
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

// send(i) sends message i. Answers may overtake requests, so the target is asked until it has run
// the handlers of all.
template <class Send>
void flood_of(Send&& send, std::uint64_t batch, std::span<std::uint64_t> samples) {
  std::uint64_t before = ticks();
  for (auto& s : samples) {
    for (std::uint64_t i = 0; i < batch; ++i) must(send(i), "a request");
    const std::uint64_t now = ticks();
    s = now - before;
    before = now;
  }
  sent += batch * samples.size();
  while (told != sent) {
    const std::uint64_t heard = __atomic_load_n(&answers, __ATOMIC_RELAXED);
    must(gasnet_AMRequestShort0(target, on_ask), "asking for the target's count");
    GASNET_BLOCKUNTIL(__atomic_load_n(&answers, __ATOMIC_RELAXED) != heard);
  }
}

// A payload that lies there, or is made in a buffer for each message.
class source {
 public:
  explicit source(const exchange& what)
      : from_(what.from), made_(what.payload == payload_kind::made ? from_.size() : 0) {}
  void* get() {
    if (made_.empty()) return const_cast<std::byte*>(from_.data());
    std::memcpy(made_.data(), from_.data(), made_.size());
    return made_.data();
  }

 private:
  std::span<const std::byte> from_;
  std::vector<std::byte> made_;
};

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
      {on_counted, reinterpret_cast<void (*)()>(&counted)},
      {on_loaded_counted, reinterpret_cast<void (*)()>(&loaded_counted)},
      {on_ex_counted, reinterpret_cast<void (*)()>(&ex_counted)},
      {on_ex_loaded_counted, reinterpret_cast<void (*)()>(&ex_loaded_counted)},
      {on_ask, reinterpret_cast<void (*)()>(&ask)},
      {on_told, reinterpret_cast<void (*)()>(&hear)},
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
  source payload(what);
  if (what.ex)
    return trips_of(
        [&] {
          return gex_AM_RequestMedium0(tm, target, on_ex_loaded_ping, payload.get(), from.size(),
                                       GEX_EVENT_NOW, 0);
        },
        samples);
  trips_of(
      [&] { return gasnet_AMRequestMedium0(target, on_loaded_ping, payload.get(), from.size()); },
      samples);
}

void flood(const exchange& what, std::uint64_t batch, std::span<std::uint64_t> samples) {
  const std::size_t bytes = what.from.size();
  const gex_TM_t tm = team;
  if (!what.medium && !what.ex)
    return flood_of(
        [](std::uint64_t i) { return gasnet_AMRequestShort2(target, on_counted, high(i), low(i)); },
        batch, samples);
  if (!what.medium)
    return flood_of(
        [=](std::uint64_t i) {
          return gex_AM_RequestShort2(tm, target, on_ex_counted, 0, high(i), low(i));
        },
        batch, samples);
  if (what.payload == payload_kind::reserved)
    return flood_of(
        [=](std::uint64_t i) {
          const gex_AM_SrcDesc_t d =
              gex_AM_PrepareRequestMedium(tm, target, nullptr, bytes, bytes, nullptr, 0, 2);
          std::memcpy(gex_AM_SrcDescAddr(d), what.from.data(), bytes);
          gex_AM_CommitRequestMedium2(d, on_ex_loaded_counted, bytes, high(i), low(i));
          return GASNET_OK;
        },
        batch, samples);
  source payload(what);
  if (what.ex)
    return flood_of(
        [&](std::uint64_t i) {
          return gex_AM_RequestMedium2(tm, target, on_ex_loaded_counted, payload.get(), bytes,
                                       GEX_EVENT_NOW, 0, high(i), low(i));
        },
        batch, samples);
  flood_of(
      [&](std::uint64_t i) {
        return gasnet_AMRequestMedium2(target, on_loaded_counted, payload.get(), bytes, high(i),
                                       low(i));
      },
      batch, samples);
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
