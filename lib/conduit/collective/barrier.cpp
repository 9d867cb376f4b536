#include "lib/conduit/collective/barrier.hpp"

#include <new>
#include <utility>

#include "lib/base/backoff.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "lib/base/thread_index.hpp"
#include "lib/conduit/collective/host_page.hpp"
#include "lib/conduit/one_sided/rma.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

barrier::barrier(engine& e, std::uint8_t handler_index)
    : engine_(e),
      handler_(handler_index),
      slots_(&own_),
      logic_(dissemination(e.rank(), e.size())) {
  if (e.options().barrier == barrier_kind::tree)
    logic_.emplace<tree>(e.rank(), e.size(), e.options().barrier_radix);
  e.add_system_handler(handler_index, {.call = &barrier::on_word,
                                       .context = this,
                                       .words = 3,
                                       .payload = handler_entry::takes::nothing});
}

barrier::~barrier() {
  if (puts_.load(std::memory_order_relaxed) != 0) engine_.one_sided().settle(puts_);
}

void barrier::use_segment() noexcept {
  const barrier_kind kind = engine_.options().barrier;
  if (kind == barrier_kind::am_dissemination) return;
  // A word that is polled in memory may be seen before what was put ahead of it (MEM_CONSISTENCY).
  if (engine_.options().mem_consistency == memory_ordering::relaxed &&
      engine_.fixed().neighbours().size() != engine_.size())
    return;
  if (!engine_.options().barrier_shm && kind != barrier_kind::put_dissemination) return;
  by_put_ = kind != barrier_kind::tree;
  // Fresh pages of a segment are zero, which is what unwritten slots are.
  slots_ = std::launder(reinterpret_cast<barrier_slots*>(engine_.segment().data()));
  in_segment_ = true;
  const std::vector<std::uint32_t>& leaders = engine_.fixed().leaders();
  if (kind == barrier_kind::automatic && !leaders.empty() && leaders.size() <= staged::most_hosts)
    logic_.emplace<staged>(engine_.rank(), engine_.fixed().neighbours(), leaders);
}

bool barrier::send(unsigned link, std::uint32_t to, unsigned parity, unsigned slot,
                   std::uint64_t word) noexcept {
  barrier_slots*& there = partners_[link];
  if (there == nullptr && in_segment_)
    there = reinterpret_cast<barrier_slots*>(engine_.segment_here(to));
  if (there != nullptr) [[likely]] {
    there->at[parity][slot].write(word);
    return true;
  }
  if (by_put_) {
    auto* const far = reinterpret_cast<barrier_slots*>(engine_.segment_of(to).data());
    const std::uint64_t whole[] = {word, seal_of(word)};
    return engine_.one_sided().put(to, &far->at[parity][slot], whole, sizeof whole,
                                   reuse::on_return, puts_) == status::ok;
  }
  const std::uint32_t args[] = {parity << 8 | slot, static_cast<std::uint32_t>(word),
                                static_cast<std::uint32_t>(word >> 32)};
  outgoing m;
  m.handler = handler_;
  m.flags = wire::flag_system;
  m.nargs = 3;
  m.args = args;
  return engine_.try_request(to, m) == status::ok;
}

void barrier::on_word(void* self, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  const unsigned parity = args[0] >> 8 & 1;
  const unsigned slot = args[0] & 0xff;
  if (slot >= barrier_steps_max) return;
  // The handler writes the word to the slot as the sender would.
  static_cast<barrier*>(self)->slots_->at[parity][slot].write(args[1] | std::uint64_t{args[2]}
                                                                            << 32);
}

// Takes and sends words as far as it can. True: all have arrived. It is false, too, if another
// thread is inside, whose look is as good.
bool barrier::advance() noexcept {
  const std::uint32_t tag = thread_tag();
  if (!inside_.try_enter(tag)) return false;
  const auto mover = [this](unsigned link, std::uint32_t to, unsigned parity, unsigned slot,
                            std::uint64_t word) { return send(link, to, parity, slot, word); };
  const bool all =
      passed_ || std::visit([&](auto& l) { return l.advance(*slots_, mover); }, logic_);
  passed_ = all;
  relaying_.store(!all && std::visit([](auto& l) { return l.owes(); }, logic_),
                  std::memory_order_relaxed);
  if (!all && ++looks_ % looks_a_check == 0) check_awaited();
  inside_.leave(tag);
  return all;
}

// Called now and then while a word is awaited, inside inside_: ends the job where the word's place
// has been written over, since the word would never be seen. Each slot has one writer, and another
// process can spoil it (barrier_slot::credible).
void barrier::check_awaited() noexcept {
  constexpr std::uint64_t long_enough_ns = 5'000'000'000;  // nobody writes a word for so long
  const auto [slot, phase] = std::visit(
      [this](const auto& l) { return std::pair(l.awaited(*slots_), l.phase()); }, logic_);
  barrier_slot::content now;
  if (slot == nullptr || slot->credible(phase, now)) {
    spoilt_since_ns_ = 0;
    return;
  }
  if (spoilt_since_ns_ == 0 || !(now == spoilt_)) {
    spoilt_ = now;
    spoilt_since_ns_ = now_ns();
  } else if (now_ns() - spoilt_since_ns_ >= long_enough_ns) {
    fatal(1, "a word of a barrier makes no sense: a process has written over it");
  }
}

// Names all partners before the first phase, so that they are connected at the same time, by the
// lane on which words will go, and none of them lacks credits for the words of two phases.
void barrier::expect_partners() noexcept {
  expected_ = true;
  const auto name = [this](std::uint32_t to) {
    if (by_put_ && !engine_.maps(to))
      (void)engine_.one_sided().room_for_one(to);
    else
      (void)engine_.expect(to, 2, 0);
  };
  std::visit([&](const auto& l) { l.each_partner(name); }, logic_);
}

void barrier::notify(const barrier_vote& own) noexcept {
  if (count_) [[unlikely]] {
    if (!count_->arrive(own)) host_page::broken();
    return;
  }
  if (!expected_) [[unlikely]]
    expect_partners();
  const std::uint32_t tag = thread_tag();
  backoff wait(1000);
  while (!inside_.try_enter(tag)) wait.idle();  // another thread's kick(), which is soon over
  std::visit([&](auto& l) { l.begin(own); }, logic_);
  passed_ = false;
  inside_.leave(tag);
  (void)advance();
}

bool barrier::try_pass(barrier_vote& outcome) noexcept {
  if (count_) [[unlikely]]
    return try_pass_counted(outcome);
  if (!advance()) return false;
  outcome = std::visit([](auto& l) { return l.outcome(); }, logic_);
  if (host_page* const page = engine_.page()) [[unlikely]]
    count_.emplace(page->barrier(), engine_.rank(), engine_.size(), 1);
  return true;
}

bool barrier::try_pass_counted(barrier_vote& outcome) noexcept {
  const counting::look seen = count_->see(outcome);
  if (seen == counting::look::broken) host_page::broken();
  return seen == counting::look::complete;
}

bool barrier::try_pass_spinning(barrier_vote& outcome) noexcept {
  constexpr unsigned looks = 16;  // about as long as a poll
  for (unsigned i = 0; i < looks; ++i)
    if (try_pass(outcome)) [[likely]]
      return true;
    else if (count_) [[unlikely]]
      return false;  // the process that is missing may need this core
  return false;
}

status barrier::pass(barrier_vote& outcome) noexcept {
  const long_wait named(engine_.waits(), wait_for::barrier);
  for (unsigned empty = 0; !try_pass_spinning(outcome);)
    if (const status s = engine_.wait_step(empty); is_failure(s)) return s;
  return status::ok;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
