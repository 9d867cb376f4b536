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
  const std::uint32_t generation = ++generation_;
  if (count_) return run_counted(generation);
  if (generation == 1) expect_partners();
  for (std::uint32_t k = 0, step = 1; step < engine_.size(); ++k, step *= 2) {
    const std::uint32_t round = k;
    const outgoing m{.kind = wire::kind::short_,
                     .handler = handler_index,
                     .flags = wire::flag_system,
                     .nargs = 1,
                     .args = &round};
    if (const status s = engine_.request((engine_.rank() + step) % engine_.size(), m);
        s != status::ok)
      return s;
    const rank_id from = (engine_.rank() + engine_.size() - step % engine_.size()) % engine_.size();
    const long_wait named(engine_.waits(), wait_for::barrier, from);
    unsigned empty = 0;
    // A1 met  acquire arrived_  <- R1
    while (static_cast<std::int32_t>(arrived_[k].load(std::memory_order_acquire) - generation) <
           0) {
      if (engine_.who_left().news())
        if (const status s = engine_.who_left().check_barrier(generation); s != status::ok)
          return s;
      if (const status s = engine_.wait_step(empty); s != status::ok) return s;
    }
  }
  if (host_page* const page = engine_.page())
    count_.emplace(page->meeting(), engine_.rank(), engine_.size(), generation);
  return status::ok;
}

// Names the partners of all rounds before the first one, so that they are connected at the same
// time, and none of them lacks credits when its round comes.
void meeting::expect_partners() noexcept {
  for (std::uint32_t step = 1; step < engine_.size(); step *= 2)
    (void)engine_.expect((engine_.rank() + step) % engine_.size(), 2, 0);
}

status meeting::run_counted(std::uint32_t generation) noexcept {
  bool credible = count_->arrive({});
  barrier_vote all;
  const long_wait named(engine_.waits(), wait_for::barrier);
  for (unsigned empty = 0; credible;) {
    // The last process to arrive polls, too: one that does nothing but barriers must handle
    // messages.
    if (const status s = engine_.wait_step(empty); s != status::ok) return s;
    const counting::look seen = count_->see(all);
    if (seen == counting::look::complete) return status::ok;
    credible = seen == counting::look::waiting;
    if (engine_.who_left().news())
      if (const status s = engine_.who_left().check_barrier(generation); s != status::ok) return s;
  }
  host_page::broken();
}

}  // namespace penstock::conduit::PENSTOCK_ABI
