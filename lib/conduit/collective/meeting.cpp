#include "lib/conduit/collective/meeting.hpp"

#include "lib/conduit/collective/departure.hpp"
#include "lib/conduit/collective/host_page.hpp"
#include "lib/conduit/engine.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr std::uint8_t handler_index = 0;

}  // namespace

meeting::meeting(engine& e) noexcept : engine_(e) {
  e.add_system_handler(handler_index,
                       {&meeting::on_arrival, this, 1, handler_entry::takes::nothing});
}

void meeting::on_arrival(void* self, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  if (args[0] < max_rounds)
    // R1 arrive  release-add arrived_  -> A1: what the sender wrote before it came is visible
    static_cast<meeting*>(self)->arrived_[args[0]].fetch_add(1, std::memory_order_release);
}

status meeting::run() noexcept {
  if (running != nullptr) return status::in_handler;
  if (!inside_) {
    inside_ = true, told_ = false, round_ = 0;
    if (++generation_ == 1 && !count_) expect_partners();
  }
  const status s = count_ ? run_counted() : run_rounds();
  if (s != status::timed_out) inside_ = false;
  return s;
}

status meeting::run_rounds() noexcept {
  const rank_id size = engine_.size();
  for (; (std::uint64_t{1} << round_) < size; ++round_, told_ = false) {
    const std::uint32_t round = round_, step = 1u << round;
    const outgoing m{.kind = wire::kind::short_,
                     .handler = handler_index,
                     .flags = wire::flag_system,
                     .nargs = 1,
                     .args = &round};
    if (!told_)
      if (const status s = engine_.request((engine_.rank() + step) % size, m); s != status::ok)
        return s;
    told_ = true;
    const rank_id from = (engine_.rank() + size - step % size) % size;
    const long_wait named(engine_.waits(), wait_for::barrier, from);
    unsigned empty = 0;
    // A1 met  acquire arrived_  <- R1
    while (static_cast<std::int32_t>(arrived_[round].load(std::memory_order_acquire) -
                                     generation_) < 0) {
      if (engine_.who_left().news())
        if (const status s = engine_.who_left().check_barrier(generation_); s != status::ok)
          return s;
      if (const status s = engine_.limited_step(empty, true); s != status::ok) return s;
    }
  }
  if (host_page* const page = engine_.page())
    count_.emplace(page->meeting(), engine_.rank(), size, generation_);
  return status::ok;
}

// Names the partners of all rounds before the first one, so that they are connected at the same
// time, and none of them lacks credits when its round comes.
void meeting::expect_partners() noexcept {
  for (std::uint32_t step = 1; step < engine_.size(); step *= 2)
    (void)engine_.expect((engine_.rank() + step) % engine_.size(), 2, 0);
}

status meeting::run_counted() noexcept {
  bool credible = told_ || count_->arrive({});
  told_ = true;
  barrier_vote all;
  const long_wait named(engine_.waits(), wait_for::barrier);
  for (unsigned empty = 0; credible;) {
    // The last process to arrive polls, too: one that does nothing but barriers must handle
    // messages.
    if (const status s = engine_.limited_step(empty, false); s != status::ok) return s;
    const counting::look seen = count_->see(all);
    if (seen == counting::look::complete) return status::ok;
    credible = seen == counting::look::waiting;
    if (engine_.who_left().news())
      if (const status s = engine_.who_left().check_barrier(generation_); s != status::ok) return s;
  }
  host_page::broken();
}

}  // namespace penstock::conduit::PENSTOCK_ABI
