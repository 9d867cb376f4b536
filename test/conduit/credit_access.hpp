// A look at an engine's ledger and peers, for the job programs that count credits.
#pragma once

#include <algorithm>
#include <vector>

#include "lib/conduit/engine.hpp"
#include "lib/conduit/peer/core_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

struct test_access {
  static peer& channel(engine& e, rank_id r) { return e.core_.begun(e.core_.domains_[0].peers[r]); }
  static auto& ledger(engine& e) { return *e.core_.domains_[0].ledger; }
  /// Credits of a Medium of that size to r.
  static std::uint32_t cost(engine& e, rank_id r, std::size_t bytes) {
    return e.pending_.cost_of(channel(e, r), {.kind = wire::kind::medium, .bytes = bytes});
  }
  /// How many Mediums of that size to r find room in the space that r keeps for placed ones.
  static std::uint32_t placed_at_once(engine& e, rank_id r, std::size_t bytes, unsigned nargs) {
    const peer& p = channel(e, r);
    const std::uint32_t n = wire::packed_bytes(wire::fixed_bytes(wire::kind::medium, nargs),
                                               static_cast<std::uint32_t>(bytes));
    const std::uint32_t u = queues::placing::units_of(n) * queues::placing::unit;
    return p.placed == nullptr ? 0 : p.placed->tx.bytes() / u;
  }
  static bool by_rings(engine& e, rank_id r) { return e.core_.domains_[0].peers[r].rings(); }
  static bool lane_is_ready(engine& e, rank_id r, unsigned lane) {
    return connections::is_ready(e.core_.domains_[0].peers[r], lane);
  }
  /// What streams have leased and not spent goes back.
  static void give_back_leases(engine& e) {
    for (peer& p : e.core_.all_begun()) e.credits_.give_back_lease(p);
  }
  /// How many chunks for replies threads keep for the next one. For a rank at rest.
  static std::uint32_t replies_kept(engine& e) {
    return static_cast<std::uint32_t>(std::ranges::count_if(
        e.core_.pollers_, [](const auto& of) { return of && of[0].reply_chunk.has_value(); }));
  }
  static const credit_places& places(engine& e, rank_id r) { return channel(e, r).credits; }
  /// What r was lent and is not yet told, and what is leased of its loan. For a rank at rest.
  static std::uint32_t granted(engine& e, rank_id r) {
    return places(e, r).grant[inside<end_of::request_in>::alone()];
  }
  static std::uint32_t leased(engine& e, rank_id r) {
    return places(e, r).lease[inside<end_of::request_out>::alone()];
  }
  /// The next request to r asks for n more credits.
  static void ask_for_more(engine& e, rank_id r, unsigned n) {
    peer& p = channel(e, r);
    e.credits_.give_back_lease(p);  // a request that is not allowed beforehand
    p.credits.say.fetch_or(static_cast<std::uint8_t>(n << 4), std::memory_order_relaxed);
  }
  /// While it lasts, no message of credits can go to r.
  class credits_held_up {
   public:
    void begin(engine& e, rank_id r) {
      peer& p = channel(e, r);
      if (p.rings()) {  // as if the ring had no more room than the replies need
        p.reply_room[inside<end_of::request_in>::alone()] += no_room;
        return;
      }
      auto& chunks = *p.home->queues->reply_chunks;
      poller& mine = e.core_.my_poller(my_tag(), *p.home);
      if (!mine.reply_chunk) mine.reply_chunk = chunks.take();
      // Those of replies that are under way come back first.
      for (int polls = 0; polls < 3000; ++polls) {
        while (auto c = chunks.take()) taken_.push_back(*c);
        (void)e.poll();
      }
      kept_ = std::exchange(mine.keeps, true);
    }
    void end(engine& e, rank_id r) {
      peer& p = channel(e, r);
      if (p.rings()) {
        p.reply_room[inside<end_of::request_in>::alone()] -= no_room;
        return;
      }
      e.core_.my_poller(my_tag(), *p.home).keeps = kept_;
      for (const std::uint32_t c : taken_) p.home->queues->reply_chunks->give(c);
    }

   private:
    static constexpr std::uint32_t no_room = 1000;
    std::vector<std::uint32_t> taken_;
    bool kept_ = false;
  };
};

}  // namespace penstock::conduit::PENSTOCK_ABI
