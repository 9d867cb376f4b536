// The order to leave, after seed 002. A process that wants to end the job asks rank 0; the first
// request gives the exit code, and rank 0 orders all others to leave, by O(N) messages. A process
// that leaves from a handler can poll no more, and so make no connection: it tells the ranks that
// it is connected to, its neighbours in barriers, and asks a few of them to tell all others.
// leave.cpp acts on an order.
#include "lib/gasnet/leave_order.hpp"

#include <atomic>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/conduit/collective/patience.hpp"
#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

// The order to leave: 0, or its code with ordered_bit. The first thread that learns of it writes
// it, once (a handler, or gasnet_exit on rank 0). relaxed: nothing else is read because of it.
constexpr std::uint64_t ordered_bit = std::uint64_t{1} << 32;
std::atomic<std::uint64_t> order{0};
// Whether this process has to tell the others, as rank 0 and its helpers have, and whether it has
// begun to.
std::atomic<bool> spreads{false}, spread{false};
// A rank that has left from a handler, and makes no connection any more; ~0: none is known.
// relaxed: a hint.
std::atomic<std::uint32_t> out_of_reach{~0u};
enum class word : std::uint32_t { please, now, pass_on };
constexpr unsigned most_helpers = 4;

// Takes a request on rank 0, or an order elsewhere; both have the same effect.
void handle_exit(void*, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  if (static_cast<word>(args[0]) == word::pass_on) spreads.store(true, std::memory_order_relaxed);
  if (args[2] != ~0u) out_of_reach.store(args[2], std::memory_order_relaxed);
  note_order(static_cast<int>(args[1]));
}

// Tells one rank, if it is connected and there is room. may_wait: the message may wait for credits.
status tell(std::uint32_t rank, word w, int code, bool may_wait = false) noexcept {
  const std::uint32_t args[] = {static_cast<std::uint32_t>(w), static_cast<std::uint32_t>(code),
                                out_of_reach.load(std::memory_order_relaxed)};
  conduit::outgoing m;
  m.handler = on_exit_word;
  m.flags = conduit::wire::flag_system;
  m.nargs = 3;
  m.args = args;
  const status s = self.engine->try_request(rank, m);
  return s == status::no_credit && may_wait ? self.engine->request(rank, m) : s;
}

}  // namespace

void note_order(int code) noexcept {
  std::uint64_t none = 0;
  order.compare_exchange_strong(none, ordered_bit | static_cast<std::uint32_t>(code),
                                std::memory_order_relaxed, std::memory_order_relaxed);
  exit_news.store(1, std::memory_order_relaxed);
}
bool ordered() noexcept { return order.load(std::memory_order_relaxed) != 0; }
int ordered_code() noexcept {
  return static_cast<int>(static_cast<std::uint32_t>(order.load(std::memory_order_relaxed)));
}

bool told_to_spread() noexcept {
  return self.engine->rank() == 0 || spreads.load(std::memory_order_relaxed);
}

void spread_order() noexcept {
  if (spread.exchange(true, std::memory_order_relaxed)) return;
  std::vector<std::uint32_t> untold;
  for (std::uint32_t r = 0; r < self.engine->size(); ++r)
    if (r != self.engine->rank() && is_short(tell(r, word::now, ordered_code())))
      untold.push_back(r);
  const std::uint64_t limit = self.options.exit_limit_ns(self.engine->size()) / 2;
  conduit::watched_time watched;
  for (unsigned empty = 0; !untold.empty() && watched.look(now_ns()) < limit;) {
    if (is_failure(self.engine->wait_step(empty))) return;
    std::erase_if(untold, [](std::uint32_t r) {
      return r == out_of_reach.load(std::memory_order_relaxed) ||
             !is_short(tell(r, word::now, ordered_code(), true));
    });
  }
}

void tell_from_handler(int code) noexcept {
  note_order(code);
  code = ordered_code();
  const std::uint32_t me = self.engine->rank(), size = self.engine->size();
  out_of_reach.store(me, std::memory_order_relaxed);
  unsigned told = 0;
  const auto tell_one = [&](std::uint32_t r) {
    if (r == me) return;
    if (tell(r, told < most_helpers ? word::pass_on : word::now, code) == status::ok) ++told;
  };
  for (std::uint64_t distance = 1; distance < size; distance *= 2) {
    tell_one(static_cast<std::uint32_t>((me + distance) % size));
    tell_one(static_cast<std::uint32_t>((me + size - distance) % size));
  }
  if (me != 0) tell_one(0);
  for (std::uint32_t r = 0; r < size && (me == 0 || told == 0); ++r) tell_one(r);
}

void ask_for_order(int code) noexcept {
  if (self.engine->rank() == 0) {
    note_order(code);
    return spread_order();
  }
  status told = status::busy;
  for (unsigned empty = 0; !ordered();) {
    if (is_short(told)) told = tell(0, word::please, code, true);
    if (is_failure(told) || is_failure(self.engine->wait_step(empty))) break;
  }
  if (spreads.load(std::memory_order_relaxed)) spread_order();
}

void register_order(conduit::engine& e) {
  e.add_system_handler(on_exit_word, {.call = &handle_exit,
                                      .context = nullptr,
                                      .words = 3,
                                      .payload = conduit::handler_entry::takes::nothing});
}

}  // namespace penstock::gasnet::PENSTOCK_ABI
