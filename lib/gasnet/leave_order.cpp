// The order to leave, after seed 002. A process that wants to end the job asks along a tree
// (leave_tree.hpp) for the order: the first request that comes to the root gives the exit code. The
// order goes from wherever it begins along all edges of the tree, so every rank is told once. Who
// is not answered in time asks the next rank above, and who cannot tell a rank in time tells those
// behind it as well: no rank that stands still keeps others from leaving.
//
// A process that leaves from a handler can poll no more, and so make no connection: it gives the
// order itself, tells the ranks that it is connected to, its neighbours in barriers, and names
// itself as the one that the tree passes over. leave.cpp acts on an order.
#include "lib/gasnet/leave_order.hpp"

#include <algorithm>
#include <atomic>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/conduit/collective/patience.hpp"
#include "lib/gasnet/leave_tree.hpp"
#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

// A code with known_bit, or 0. The first thread that learns of it writes it, once. relaxed: nothing
// else is read because of it.
constexpr std::uint64_t known_bit = std::uint64_t{1} << 32;
using first_code = std::atomic<std::uint64_t>;
first_code order{0};  // to leave
first_code asked{0};  // for an order: by this process, or by one behind it in the tree
// Whether this process has begun to tell the others, and who has told it.
std::atomic<bool> spread{false};
std::atomic<std::uint32_t> told_by{leave_tree::none};
// A rank that has left from a handler, and makes no connection any more. relaxed: a hint.
std::atomic<std::uint32_t> out_of_reach{leave_tree::none};
enum class word : std::uint32_t { please, now };
// After this time without an answer, or without room for the message, another rank is told.
std::uint64_t patience_ns() noexcept {
  return std::min<std::uint64_t>(500'000'000, self.options.exit_limit_ns(self.engine->size()) / 4);
}

void note(first_code& which, int code) noexcept {
  std::uint64_t none = 0;
  which.compare_exchange_strong(none, known_bit | static_cast<std::uint32_t>(code),
                                std::memory_order_relaxed, std::memory_order_relaxed);
  exit_news.raise();
}
int code_of(const first_code& c) noexcept {
  return static_cast<int>(static_cast<std::uint32_t>(c.load(std::memory_order_relaxed)));
}
leave_tree tree() noexcept {
  return leave_tree(self.engine->size(), out_of_reach.load(std::memory_order_relaxed));
}

struct exit_word {
  std::uint32_t args[3];
  exit_word(word w, int code) noexcept
      : args{static_cast<std::uint32_t>(w), static_cast<std::uint32_t>(code),
             out_of_reach.load(std::memory_order_relaxed)} {}
  [[nodiscard]] conduit::outgoing message() const noexcept {
    conduit::outgoing m;
    m.handler = on_exit_word;
    m.flags = conduit::wire::flag_system;
    m.nargs = 3;
    m.args = args;
    return m;
  }
};

// Tells one rank, if it is connected and there is room. may_wait: the message may wait for credits.
status tell(std::uint32_t rank, word w, int code, bool may_wait = false) noexcept {
  const exit_word said(w, code);
  const conduit::outgoing m = said.message();
  const status s = self.engine->try_request(rank, m);
  return s == status::no_credit && may_wait ? self.engine->request(rank, m) : s;
}

// Takes a request for an order, or an order. Who asks is answered where there is an order already.
void handle_exit(void*, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  const int code = static_cast<int>(args[1]);
  if (args[2] < self.engine->size()) out_of_reach.store(args[2], std::memory_order_relaxed);
  if (static_cast<word>(args[0]) == word::now) {
    if (!ordered()) told_by.store(conduit::running->source(), std::memory_order_relaxed);
    return note(order, code);
  }
  const bool is_root = self.engine->rank() == tree().root();
  note(is_root ? order : asked, code);
  if (ordered() && conduit::running->request)
    (void)self.engine->reply(*conduit::running, exit_word(word::now, ordered_code()).message());
}

// How far the request of this process, or of one behind it, has come.
struct climb {
  std::atomic<bool> busy{false};
  std::uint32_t to = leave_tree::none;
  bool told = false;
  conduit::watched_time watched;
  std::uint64_t since_ns = 0;
} climbing;

// Asks for the order, if there was a request; not in a handler. False: nobody is left to be asked.
bool pass_request_on(bool may_wait) noexcept {
  if (asked.load(std::memory_order_relaxed) == 0) return true;
  // B1 climb  acquire busy  <- B2: the rest of `climbing`, which one thread at a time has
  if (climbing.busy.exchange(true, std::memory_order_acquire)) return true;
  const leave_tree t = tree();
  const std::uint32_t me = self.engine->rank();
  bool left = true;
  if (me == t.root()) {
    note(order, code_of(asked));
  } else {
    climb& c = climbing;
    const std::uint64_t now = c.watched.look(now_ns());
    status s = status::ok;
    if (c.to == leave_tree::none) c.to = t.parent(me), c.since_ns = now;
    if (!c.told) s = tell(c.to, word::please, code_of(asked), may_wait);
    c.told = c.told || s == status::ok;
    if (is_failure(s) || now - c.since_ns >= patience_ns()) {
      left = !is_failure(s) || c.to != t.root();
      if (c.to != t.root()) c.to = t.parent(c.to);
      c.told = false;
      c.since_ns = now;
    }
  }
  // B2 rest  release busy  -> B1
  climbing.busy.store(false, std::memory_order_release);
  return left;
}

}  // namespace

void note_order(int code) noexcept { note(order, code); }
bool ordered() noexcept { return order.load(std::memory_order_relaxed) != 0; }
int ordered_code() noexcept { return code_of(order); }

void pass_request_on() noexcept { (void)pass_request_on(false); }

void spread_order() noexcept {
  if (spread.exchange(true, std::memory_order_relaxed)) return;
  const std::uint32_t me = self.engine->rank(), size = self.engine->size();
  std::vector<bool> known(size);
  std::vector<std::uint32_t> untold, late;
  const auto add = [&](std::uint32_t r) {
    if (!known[r]) known[r] = true, untold.push_back(r);
  };
  known[me] = true;
  if (const std::uint32_t by = told_by.load(std::memory_order_relaxed); by < size) known[by] = true;
  tree().each_neighbour(me, add);
  const std::uint64_t limit = self.options.exit_limit_ns(size) / 2;
  conduit::watched_time watched;
  const std::uint64_t patience = patience_ns();
  std::uint64_t next_ns = patience;
  for (unsigned empty = 0, round = 0; !untold.empty(); ++round) {
    late.clear();
    std::erase_if(untold, [&](std::uint32_t r) {
      const status s = r == out_of_reach.load(std::memory_order_relaxed)
                           ? status::ok
                           : tell(r, word::now, ordered_code(), round != 0);
      if (is_failure(s)) late.push_back(r);
      return !is_short(s);
    });
    const std::uint64_t now = watched.look(now_ns());
    if (now >= limit || (!untold.empty() && is_failure(self.engine->wait_step(empty)))) return;
    if (now >= next_ns) {
      next_ns = now + patience;
      late.insert(late.end(), untold.begin(), untold.end());
    }
    for (const std::uint32_t r : late) tree().each_neighbour(r, add);
  }
}

void tell_from_handler(int code) noexcept {
  note_order(code);
  code = ordered_code();
  const std::uint32_t me = self.engine->rank(), size = self.engine->size();
  out_of_reach.store(me, std::memory_order_relaxed);
  unsigned told = 0;
  const auto tell_one = [&](std::uint32_t r) {
    if (r != me && tell(r, word::now, code) == status::ok) ++told;
  };
  for (std::uint64_t distance = 1; distance < size; distance *= 2) {
    tell_one(static_cast<std::uint32_t>((me + distance) % size));
    tell_one(static_cast<std::uint32_t>((me + size - distance) % size));
  }
  if (me != 0) tell_one(0);
  for (std::uint32_t r = 0; r < size && told == 0; ++r) tell_one(r);
}

void ask_for_order(int code) noexcept {
  note(asked, code);
  for (unsigned empty = 0; !ordered();)
    if (!pass_request_on(true) || is_failure(self.engine->wait_step(empty))) break;
  if (ordered()) spread_order();
}

void register_order(conduit::engine& e) {
  e.add_system_handler(on_exit_word, {.call = &handle_exit,
                                      .context = nullptr,
                                      .words = 3,
                                      .payload = conduit::handler_entry::takes::nothing});
}

}  // namespace penstock::gasnet::PENSTOCK_ABI
