#include "lib/conduit/barrier.hpp"

#include <new>

#include "lib/base/backoff.hpp"
#include "lib/base/thread_index.hpp"

namespace penstock::conduit {

barrier::barrier(engine& e, std::uint8_t handler_index)
    : engine_(e), handler_(handler_index), slots_(&own_), logic_(e.rank(), e.size()) {
  e.add_system_handler(handler_index, {.call = &barrier::on_word,
                                       .context = this,
                                       .words = 3,
                                       .payload = handler_entry::takes::nothing});
}

void barrier::use_segment() noexcept {
  // Fresh pages of a segment are zero, which is what unwritten slots are; a word that has come
  // already stays.
  slots_ = std::launder(reinterpret_cast<barrier_slots*>(engine_.segment().data()));
  in_segment_ = true;
}

bool barrier::send(std::uint32_t partner, unsigned parity, unsigned step,
                   std::uint64_t word) noexcept {
  barrier_slots*& there = partners_[step];
  if (there == nullptr && in_segment_)
    there = reinterpret_cast<barrier_slots*>(engine_.segment_here(partner));
  if (there != nullptr) [[likely]] {
    // B2 arrive  store-release slot  -> B1
    there->at[parity][step].word.store(word, std::memory_order_release);
    return true;
  }
  const std::uint32_t args[] = {parity << 8 | step, static_cast<std::uint32_t>(word),
                                static_cast<std::uint32_t>(word >> 32)};
  outgoing m;
  m.handler = handler_;
  m.flags = wire::flag_system;
  m.nargs = 3;
  m.args = args;
  return engine_.try_request(partner, m) == status::ok;
}

void barrier::on_word(void* self, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  const unsigned parity = args[0] >> 8 & 1;
  const unsigned step = args[0] & 0xff;
  if (step >= barrier_steps_max) return;
  // B2, in the sender's stead: its message has been received
  static_cast<barrier*>(self)->slots_->at[parity][step].word.store(
      args[1] | std::uint64_t{args[2]} << 32, std::memory_order_release);
}

// False also if another thread is at it: then that one's view is as good.
bool barrier::advance() noexcept {
  const std::uint32_t tag = thread_tag();
  if (!inside_.try_enter(tag)) return false;
  bool all = passed_;
  if (!passed_)
    all = logic_.advance(
        *slots_, [this](std::uint32_t to, unsigned parity, unsigned step, std::uint64_t word) {
          return send(to, parity, step, word);
        });
  passed_ = all;
  relaying_.store(logic_.owes(), std::memory_order_relaxed);
  inside_.leave(tag);
  return all;
}

void barrier::notify(const barrier_vote& own) noexcept {
  const std::uint32_t tag = thread_tag();
  backoff wait(1000);
  while (!inside_.try_enter(tag)) wait.idle();  // a kick of another thread, soon over
  logic_.begin(own);
  passed_ = false;
  inside_.leave(tag);
  (void)advance();
}

bool barrier::try_pass(barrier_vote& outcome) noexcept {
  if (!advance()) return false;
  outcome = logic_.outcome();
  return true;
}

bool barrier::try_pass_spinning(barrier_vote& outcome) noexcept {
  constexpr unsigned looks = 16;  // about as long as a poll
  for (unsigned i = 0; i < looks; ++i)
    if (try_pass(outcome)) [[likely]]
      return true;
  return false;
}

status barrier::pass(barrier_vote& outcome) noexcept {
  for (unsigned empty = 0; !try_pass_spinning(outcome);)
    if (const status s = engine_.wait_step(empty); is_failure(s)) return s;
  return status::ok;
}

}  // namespace penstock::conduit
