#include "lib/conduit/collective/quiescence.hpp"

#include <utility>
#include <vector>

#include "lib/base/log.hpp"
#include "lib/base/no_memory.hpp"
#include "lib/conduit/collective/departure.hpp"
#include "lib/conduit/engine.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr std::uint8_t question_index = 20, answer_index = 21;

std::uint64_t pair(const std::uint32_t* args) noexcept {
  return args[0] | std::uint64_t{args[1]} << 32;
}
std::uint32_t low(std::uint64_t w) noexcept { return static_cast<std::uint32_t>(w); }
std::uint32_t high(std::uint64_t w) noexcept { return static_cast<std::uint32_t>(w >> 32); }

}  // namespace

quiescence::quiescence(engine& e, core& c) noexcept : engine_(e), core_(c) {
  constexpr auto nothing = handler_entry::takes::nothing;
  e.add_system_handler(question_index, {&quiescence::on_question, this, 2, nothing});
  e.add_system_handler(answer_index, {&quiescence::on_answer, this, 4, nothing});
}

quiescence::~quiescence() {
  delete paused_.load(std::memory_order_relaxed);
  for (questions* q = abandoned_.load(std::memory_order_relaxed); q != nullptr;)
    delete std::exchange(q, q->next);
}

// These two sum over all domains, since threads of this process may send in several.
std::uint64_t quiescence::sent_to(std::uint32_t rank) const noexcept {
  std::uint64_t n = 0;
  for (std::uint32_t i = 0; i < core_.domain_count(); ++i)
    n += requests_put(core_.domains()[i].peers[rank]);
  return n;
}
std::uint64_t quiescence::handled_of(std::uint32_t rank) const noexcept {
  std::uint64_t n = 0;
  for (std::uint32_t i = 0; i < core_.domain_count(); ++i)
    n += core_.domains()[i].peers[rank].requests_handled.read();
  return n;
}

// Runs at the other rank. A request is counted when its handler has returned, so the question
// itself is not yet.
void quiescence::on_question(void* self, token&, const std::uint32_t* args, std::byte*,
                             std::size_t) {
  auto& q = *static_cast<quiescence*>(self);
  const std::uint64_t handled = q.handled_of(running->source());
  const std::uint32_t words[4] = {args[0], args[1], low(handled), high(handled)};
  if (const status s = q.engine_.reply(
          *running,
          {.handler = answer_index, .flags = wire::flag_system, .nargs = 4, .args = words});
      s != status::ok)
    fatal(1, "the answer to quiet(): %s", describe(s));
}

void quiescence::on_answer(void* self, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  question* const asked = static_cast<quiescence*>(self)->asked_.take(pair(args));
  if (asked == nullptr)
    fatal(1, "an answer from rank %u to a question of quiet() that was not asked",
          running->source());
  // R1 answer  release answer  -> A1
  asked->answer.store(pair(args + 2), std::memory_order_release);
}

status quiescence::ask(question& q) noexcept {
  q.sent = sent_to(q.rank);
  q.answer.store(question::none, std::memory_order_relaxed);
  const std::uint64_t name = asked_.name(q);
  if (name == 0) fatal(1, "out of memory for the questions of quiet()");
  const std::uint32_t words[2] = {low(name), high(name)};
  const status s = engine_.request(
      q.rank, {.handler = question_index, .flags = wire::flag_system, .nargs = 2, .args = words});
  q.asked = s == status::ok;
  if (!q.asked) (void)asked_.take(name);
  return s;
}

status quiescence::ask_until_handled(questions& all) noexcept {
  for (bool handled_all = false; !handled_all;) {
    for (question& q : all.of)
      if (!q.asked && !q.done)
        if (const status s = ask(q); s != status::ok) return s;
    handled_all = true;
    for (question& q : all.of) {
      if (q.done) continue;
      std::uint64_t handled = 0;
      const long_wait named(core_.waits(), wait_for::quiet, q.rank);
      // A1 answered  acquire answer  <- R1
      for (unsigned empty = 0;
           (handled = q.answer.load(std::memory_order_acquire)) == question::none;) {
        if (engine_.who_left().news() && engine_.who_left().is_gone(q.rank))
          return status::peer_dead;
        if (const status s = engine_.limited_step(empty, true); s != status::ok) return s;
      }
      q.asked = false;
      // Requests that other threads sent meanwhile may have been handled before those that this
      // call waits for. So the numbers count only if nothing but the question was sent meanwhile.
      q.done = handled >= q.sent && sent_to(q.rank) == q.sent + 1;
      handled_all = handled_all && q.done;
    }
    unsigned empty = 0;
    if (!handled_all)
      if (const status s = engine_.wait_step(empty); s != status::ok) return s;
  }
  return status::ok;
}

// Adds a question to each rank that a request was sent to and that is not asked yet, or to which
// requests were sent since it answered.
void quiescence::complete(questions& all) const {
  std::vector<bool> known(core_.size());
  known[core_.rank()] = true;
  for (question& q : all.of) {
    known[q.rank] = true;
    q.done = q.done && sent_to(q.rank) == q.sent + 1;
  }
  for (const std::uint32_t r : core_.ranks_begun())
    if (!known[r] && sent_to(r) != 0) all.of.emplace_back().rank = r;
}

status quiescence::wait() noexcept {
  if (running != nullptr) return status::in_handler;
  const doing now{"asking in quiet()"};  // it allocates
  for (unsigned empty = 0;
       core_.handed().load(std::memory_order_relaxed) != 0;)  // they are not counted as sent yet
    if (const status s = engine_.limited_step(empty, false); s != status::ok) return s;
  // P1 go on  exchange acquire paused_  <- P2: the questions of a call that timed out
  std::unique_ptr<questions> all(paused_.exchange(nullptr, std::memory_order_acquire));
  if (!all) all = std::make_unique<questions>();
  complete(*all);
  const status s = ask_until_handled(*all);
  questions* kept = s == status::ok ? nullptr : all.release();
  if (s == status::timed_out)
    // P2 pause  exchange acq_rel paused_  -> P1: and those of another call that this one replaces
    kept = paused_.exchange(kept, std::memory_order_acq_rel);
  if (kept != nullptr) {
    kept->next = abandoned_.load(std::memory_order_relaxed);
    // Q1 keep  cas relaxed  abandoned_: read by the destructor only, when all threads have come
    // back
    while (!abandoned_.compare_exchange_weak(kept->next, kept, std::memory_order_relaxed)) {
    }
  }
  return s;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
