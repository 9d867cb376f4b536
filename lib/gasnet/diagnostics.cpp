// The library's test of itself, behind gasnett_run_diagnostics: each thread exchanges with another
// rank, by the calls that clients have, and checks every byte.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "lib/gasnet/ex/objects.hpp"
#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

constexpr const char* call = "gasnett_run_diagnostics";
constexpr gasnet_handler_t ask_index = 254, answer_index = 255;
constexpr std::size_t most_bytes = std::size_t{16} << 10;  // of a put, a get or a Medium

std::uint8_t byte_of(unsigned seed, std::size_t i) noexcept {
  return static_cast<std::uint8_t>(seed * 131 + i * 7 + (i >> 8));
}
void fill(std::uint8_t* bytes, std::size_t n, unsigned seed) noexcept {
  for (std::size_t i = 0; i < n; ++i) bytes[i] = byte_of(seed, i);
}
bool is_filled(const std::uint8_t* bytes, std::size_t n, unsigned seed) noexcept {
  for (std::size_t i = 0; i < n; ++i)
    if (bytes[i] != byte_of(seed, i)) return false;
  return true;
}

// One thread's part of the test.
struct part {
  const char* section = "";
  unsigned thread = 0;
  unsigned base_seed = 0;
  gasnet_node_t peer = 0;
  int errors = 0;
  // Handlers, on whichever thread polls, write these two.
  std::atomic<unsigned> answered{0};
  std::atomic<int> wrong_answers{0};

  void expect(bool right, const char* what, int iteration) noexcept {
    if (right) return;
    ++errors;
    std::fprintf(stderr, "%s: rank %u, thread %u, section %s, iteration %d: %s\n", call,
                 GASNETC_(mynode), thread, section, iteration, what);
  }
  // Other for every rank, thread and iteration that could be taken for another one.
  [[nodiscard]] unsigned seed(int iteration) const noexcept {
    return base_seed + GASNETC_(mynode) * 37 + thread * 11 + static_cast<unsigned>(iteration);
  }
};

gasnet_node_t next_rank() noexcept { return (GASNETC_(mynode) + 1) % GASNETC_(nodes); }
// Sizes from 1 to most, scattered.
std::size_t size_of(int iteration, std::size_t most) noexcept {
  return 1 + static_cast<unsigned>(iteration) * std::size_t{2654435761u} % most;
}

void on_ask(gasnet_token_t token, void* payload, std::size_t bytes, gasnet_handlerarg_t seed,
            gasnet_handlerarg_t high, gasnet_handlerarg_t low) {
  const bool right =
      is_filled(static_cast<std::uint8_t*>(payload), bytes, static_cast<unsigned>(seed));
  const int code =
      gasnet_AMReplyMedium4(token, answer_index, payload, bytes, seed, high, low, right);
  if (code != GASNET_OK) fatal(1, "%s: an answer was refused: %s", call, gasnet_ErrorName(code));
}
void on_answer(gasnet_token_t, void* payload, std::size_t bytes, gasnet_handlerarg_t seed,
               gasnet_handlerarg_t high, gasnet_handlerarg_t low, gasnet_handlerarg_t right) {
  part& p = *reinterpret_cast<part*>(GASNETI_MAKEWORD(static_cast<std::uint32_t>(high), low));
  if (right == 0 ||
      !is_filled(static_cast<std::uint8_t*>(payload), bytes, static_cast<unsigned>(seed)))
    p.wrong_answers.fetch_add(1, std::memory_order_relaxed);  // relaxed: DG1 publishes it
  // DG1 answer  release answered  -> DG2: what the handler has counted
  p.answered.fetch_add(1, std::memory_order_release);
}

// A: puts to a piece of the peer's segment that is this thread's alone, which is then read.
void run_transfers(part& p, int iters, std::byte* there, std::size_t room) {
  std::vector<std::uint8_t> out(room), back(room);
  const gasnet_node_t to = p.peer;
  for (int i = 0; i < iters; ++i) {
    const std::size_t n = size_of(i, room);
    fill(out.data(), n, p.seed(i));
    if (i % 3 == 0) {
      gasnet_put_bulk(to, there, out.data(), n);
    } else if (i % 3 == 1) {
      gasnet_wait_syncnb(gasnet_put_nb_bulk(to, there, out.data(), n));
    } else {
      gasnet_put_nbi_bulk(to, there, out.data(), n);
      gasnet_wait_syncnbi_puts();
    }
    std::fill_n(back.begin(), n, std::uint8_t{0});
    gasnet_get_bulk(back.data(), to, there, n);
    p.expect(is_filled(back.data(), n, p.seed(i)), "a get returned other bytes than were put", i);
    const auto value = static_cast<gasnet_register_value_t>(p.seed(i)) * 0x9e3779b97f4a7c15u;
    if (room < sizeof value) continue;
    gasnet_put_val(to, there, value, sizeof value);
    p.expect(gasnet_get_val(to, there, sizeof value) == value, "another value than was put", i);
  }
}

// B: Mediums whose payload comes back; a few are in flight.
void run_messages(part& p, int iters) {
  constexpr unsigned most_in_flight = 8;
  const std::size_t room = std::min(most_bytes, gasnet_AMMaxMedium());
  std::vector<std::uint8_t> out(room);
  const auto me = reinterpret_cast<std::uintptr_t>(&p);
  // DG2 wait  acquire answered  <- DG1: what handlers have counted
  const auto answered = [&] { return p.answered.load(std::memory_order_acquire); };
  const unsigned before = answered();
  for (int i = 0; i < iters; ++i) {
    const std::size_t n = size_of(i, room) - 1;
    fill(out.data(), n, p.seed(i));
    p.expect(gasnet_AMRequestMedium3(
                 p.peer, ask_index, out.data(), n, static_cast<gasnet_handlerarg_t>(p.seed(i)),
                 static_cast<gasnet_handlerarg_t>(GASNETI_HIWORD(me)),
                 static_cast<gasnet_handlerarg_t>(GASNETI_LOWORD(me))) == GASNET_OK,
             "a Medium was refused", i);
    const unsigned sent = static_cast<unsigned>(i) + 1;
    GASNET_BLOCKUNTIL(sent - (answered() - before) < most_in_flight);
  }
  GASNET_BLOCKUNTIL(answered() - before == static_cast<unsigned>(iters));
  // relaxed: after DG2
  const int wrong = p.wrong_answers.load(std::memory_order_relaxed);
  p.expect(wrong == 0, "a Medium or its answer came with other bytes", iters);
}

// C: named, anonymous and mismatched barriers.
void run_barriers(part& p, int iters) {
  for (int i = 0; i < iters; ++i) {
    const int flags = i % 3 == 0   ? 0
                      : i % 3 == 1 ? GASNET_BARRIERFLAG_ANONYMOUS
                                   : GASNET_BARRIERFLAG_MISMATCH;
    gasnet_barrier_notify(i, flags);
    const int got = gasnet_barrier_wait(i, flags);
    p.expect(got == (i % 3 == 2 ? GASNET_ERR_BARRIER_MISMATCH : GASNET_OK),
             "a barrier returned another result", i);
  }
}

void meet() {
  gasnet_barrier_notify(0, GASNET_BARRIERFLAG_ANONYMOUS);
  (void)gasnet_barrier_wait(0, GASNET_BARRIERFLAG_ANONYMOUS);
}

// Runs work(part) for each part, each on a thread of its own where many may call at once.
template <class Work>
void run(std::vector<part>& parts, const char* section, Work work) {
  for (part& p : parts) p.section = section;
  std::vector<std::thread> others;
  for (std::size_t t = 1; t < parts.size(); ++t) others.emplace_back([&, t] { work(parts[t]); });
  work(parts[0]);
  for (std::thread& t : others) t.join();
  meet();
}

// What the client asks for. The peer's memory is looked for only where a section needs it.
struct plan {
  int iters, threads;
  const char* sections;
  unsigned seed;
  gasnet_node_t peer;
  std::byte* there;   // the peer's memory
  std::size_t bytes;  // and as much of it as the test may use
};

int run_plan(const plan& asked) {
  if (!self.attached) failed(call, status::not_ready);
  const std::string_view sections(asked.sections == nullptr ? "" : asked.sections);
  const auto wanted = [&](char name) {
    return sections.empty() || sections.find(name) != sections.npos;
  };
  std::vector<part> parts(
      concurrent(build_mode) ? static_cast<std::size_t>(std::max(asked.threads, 1)) : 1);
  for (std::size_t t = 0; t < parts.size(); ++t) {
    parts[t].thread = static_cast<unsigned>(t);
    parts[t].base_seed = asked.seed;
    parts[t].peer = asked.peer;
  }
  meet();
  if (wanted('A')) {
    const std::size_t room = std::min(most_bytes, asked.bytes / parts.size() / 8 * 8);
    if (room == 0)
      fatal(1, "%s: section A needs 8 bytes of rank %u's segment for each of %zu threads", call,
            asked.peer, parts.size());
    run(parts, "A",
        [&](part& p) { run_transfers(p, asked.iters, asked.there + p.thread * room, room); });
  }
  if (wanted('B')) run(parts, "B", [&](part& p) { run_messages(p, asked.iters); });
  if (wanted('C')) {
    parts[0].section = "C";
    run_barriers(parts[0], asked.iters);
  }
  int errors = 0;
  for (const part& p : parts) errors += p.errors;
  return errors;
}

}  // namespace
}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock;
using namespace penstock::gasnet;

extern "C" {

void GASNETC_(diagnostic_handlers)(void* table, int* count, size_t entry_bytes) {
  const auto ask = reinterpret_cast<void (*)()>(&on_ask);
  const auto answer = reinterpret_cast<void (*)()>(&on_answer);
  static gasnet_handlerentry_t entries[] = {{ask_index, ask}, {answer_index, answer}};
  static gex_AM_Entry_t ex_entries[] = {
      {ask_index, ask, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REQUEST, 3, nullptr, "diagnostic_ask"},
      {answer_index, answer, GEX_FLAG_AM_MEDIUM | GEX_FLAG_AM_REPLY, 4, nullptr,
       "diagnostic_answer"},
  };
  if (entry_bytes == sizeof *entries)
    *static_cast<gasnet_handlerentry_t**>(table) = entries;
  else
    *static_cast<gex_AM_Entry_t**>(table) = ex_entries;
  *count = std::size(entries);
}

int GASNETC_(run_diagnostics)(int iters, int threads, const char* sections,
                              gasnet_seginfo_t const* seginfo) {
  const gasnet_node_t peer = next_rank();
  const gasnet_seginfo_t there = seginfo == nullptr ? gasnet_seginfo_t{} : seginfo[peer];
  return run_plan(
      {iters, threads, sections, 0, peer, static_cast<std::byte*>(there.addr), there.size});
}

int GASNETC_(run_diagnostics_ex)(int iters, int threads, const char* sections, gex_TM_t tm, void*,
                                 gex_Rank_t peer, void* peer_segment, unsigned seed) {
  const gasnet_node_t rank = jobrank_of(tm, peer, call);
  auto* const there = static_cast<std::byte*>(peer_segment);
  const auto part = client_segment(rank);
  const auto offset = static_cast<std::size_t>(there - part.data());
  // With segment everything nobody has said how much memory there is; the client's tests have 64
  // KiB.
  const std::size_t bytes = self.everything        ? std::size_t{64} << 10
                            : offset < part.size() ? part.size() - offset
                                                   : 0;
  return run_plan({iters, threads, sections, seed, rank, there, bytes});
}

}  // extern "C"
