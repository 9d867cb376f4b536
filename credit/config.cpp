// The table of default shares, its interpolation, and the checks of what the user set.
#include "credit/config.hpp"

#include <algorithm>
#include <string>

namespace penstock::credit {
namespace {

struct row {
  std::uint32_t ranks, per_peer, bank;
};

// In a job of up to 8 each process starts with the most that may be lent to it, which is enough for
// any stream. In a larger one it starts with less than a stream uses, and there is a bank, from
// which credits move to where they are needed. With all connected, 1,024 processes have 24,276
// credits each and 10,000 have 64,994; `peninfo --memory` says what a device takes for one. The
// last row keeps every process at the minimum.
constexpr row table[] = {
    {2, 400, 512},   {8, 400, 1024},   {16, 128, 4096},    {64, 128, 4096},
    {128, 64, 6144}, {256, 32, 8192},  {512, 20, 10240},   {1024, 12, 12000},
    {4096, 8, 6000}, {10000, 6, 5000}, {100000, 4, 20000},
};

std::uint32_t between(std::uint64_t x, std::uint64_t x0, std::uint64_t x1, std::uint64_t y0,
                      std::uint64_t y1) {
  const std::uint64_t weighted = y0 * (x1 - x) + y1 * (x - x0);
  return static_cast<std::uint32_t>(weighted / (x1 - x0));
}

row interpolate(std::uint32_t ranks) {
  if (ranks <= table[0].ranks) return table[0];
  for (std::size_t i = 1; i < std::size(table); ++i) {
    const row &lo = table[i - 1], &hi = table[i];
    if (ranks > hi.ranks) continue;
    return {ranks, between(ranks, lo.ranks, hi.ranks, lo.per_peer, hi.per_peer),
            between(ranks, lo.ranks, hi.ranks, lo.bank, hi.bank)};
  }
  return table[std::size(table) - 1];
}

std::string text(const char* name, std::int64_t v) {
  return std::string(name) + "=" + std::to_string(v);
}

failure clash(const std::string& what, const std::string& hint) {
  return failure{"credits: " + what, 0, hint};
}

struct limit {
  const char* name;
  std::int64_t value, least, most;
};

}  // namespace

std::uint64_t config::fingerprint() const noexcept {
  std::uint64_t h = 0xcbf29ce484222325U;
  for (const std::uint64_t v :
       {std::uint64_t{ranks}, std::uint64_t{credits_per_peer}, std::uint64_t{bank},
        std::uint64_t{max_per_peer}, std::uint64_t{lender_limit}, std::uint64_t{revoke_limit},
        std::uint64_t{epoch_requests}, std::uint64_t{num_scavenge}, std::uint64_t{low_water},
        std::uint64_t{flow_control}, std::uint64_t{dynamic}, std::uint64_t{highest_cost},
        static_cast<std::uint64_t>(fade), static_cast<std::uint64_t>(revoked)}) {
    h = (h ^ v) * 0x100000001b3U;
    h ^= h >> 29;
  }
  return h;
}

result<config> plan(std::uint32_t ranks, std::uint32_t me, const overrides& set) {
  if (ranks == 0 || me >= ranks)
    return clash("rank " + std::to_string(me) + " in a job of " + std::to_string(ranks), "");
  const limit limits[] = {
      {"CRED_PER_NODE", set.credits_per_peer, set.credits_per_peer == 0 ? 0 : min_credits,
       counter_max},
      {"BANKED_CREDITS", set.bank, 0, 1 << 24},
      {"AMRECV_SPACE", set.receive_bytes, 0, std::int64_t{1} << 40},
      {"MAX_CRED_PER_NODE", set.max_per_peer, 1, counter_max},
      {"LENDER_LIMIT", set.lender_limit, 1, counter_max},
      {"REVOKE_LIMIT", set.revoke_limit, 1, counter_max},
      {"EPOCH_DURATION", set.epoch_requests, 1, 1 << 30},
      {"NUM_SCAVENGE", set.num_scavenge, 0, counter_max},
      {"low water", set.low_water, 0, 1 << 24},
  };
  for (const limit& l : limits)
    if (l.value < l.least || l.value > l.most)
      return clash(text(l.name, l.value) + " is outside " + std::to_string(l.least) + " … " +
                       std::to_string(l.most),
                   "");

  const row defaults = interpolate(ranks);
  const std::int64_t peers = ranks - 1;
  const bool fixed = set.by_table() && !set.room.moves;
  const std::uint32_t highest_cost = fixed ? std::min(max_cost, min_credits) : max_cost;
  // A loan can always grow to what the largest message costs (claim 9 of DEADLOCK.md).
  const std::int64_t max_each =
      std::max<std::int64_t>(set.max_per_peer, std::max(highest_cost, min_credits));
  std::int64_t each = set.credits_per_peer != 0
                          ? set.credits_per_peer
                          : std::min<std::int64_t>(defaults.per_peer, max_each);
  if (set.credits_per_peer != 0 && each > max_each)
    return clash(
        text("CRED_PER_NODE", each) + " is above " + text("MAX_CRED_PER_NODE", set.max_per_peer),
        "lower the first or raise the second");
  if (each > defaults.per_peer && each * peers > counter_max + 1)
    return clash(text("CRED_PER_NODE", each) + " for " + std::to_string(peers) + " peers lends " +
                     std::to_string(each * peers) + " credits, above 65536",
                 "lend less to each; the bank moves credits to those who need them");

  // The space is what the user set, or the sum of loans and bank; in whole buffers, the rest
  // banked.
  const std::int64_t banked = set.empty_bank ? 0 : set.bank != 0 ? set.bank : defaults.bank;
  const std::int64_t piece = std::max<std::uint32_t>(set.buffer_bytes, unit_bytes) / unit_bytes;
  std::int64_t space = each * peers + banked;
  const std::string set_space = text("AMRECV_SPACE", set.receive_bytes) + " (or RBUF_COUNT)";
  if (set.receive_bytes != 0) {
    space = set.receive_bytes / unit_bytes;
    if (space < each * peers && set.credits_per_peer == 0)
      each = std::clamp<std::int64_t>(peers == 0 ? 0 : space / peers, min_credits, each);
    if (space < each * peers)
      return clash(set_space + " holds " + std::to_string(space) + " credits, but " +
                       text("CRED_PER_NODE", each) + " lends " + std::to_string(each * peers) +
                       ": the bank would be negative",
                   "raise the first or lower the second");
    if ((set.bank != 0 || set.empty_bank) && each * peers + banked > space)
      return clash(set_space + " holds " + std::to_string(space) + " credits, but loans and " +
                       text("BANKED_CREDITS", banked) + " need " +
                       std::to_string(each * peers + banked),
                   "raise the first or lower the second");
  }
  if (space > max_total)
    return clash((set.receive_bytes != 0 ? set_space : text("BANKED_CREDITS", banked)) +
                     " makes a receive space of " + std::to_string(space) + " credits, above " +
                     std::to_string(max_total),
                 "lower it");
  if (set.by_table() && (fixed || space > set.room.credits)) {
    const std::int64_t most = set.room.credits;
    const std::int64_t least = peers == 0 ? 0 : min_credits * peers + (fixed ? 0 : max_wish);
    if (most < least)
      return clash("the device has room for " + std::to_string(most) + ", and " +
                       std::to_string(peers) + " other ranks take " + std::to_string(least) +
                       " at least",
                   "start fewer ranks");
    // Where credits move, loans and bank keep their proportion.
    each = fixed ? std::min(each, most / std::max<std::int64_t>(peers, 1))
                 : std::max<std::int64_t>(each * most / space, min_credits);
    space = fixed ? each * peers : most;
  }
  const bool dynamic = set.dynamic && !fixed;
  const std::int64_t total = (space + piece - 1) / piece * piece;
  const std::int64_t bank = total - each * peers;

  // A full-size message must always get its credits: by the loan alone, or by those that can move.
  const std::int64_t movable = bank + (each - min_credits) * peers;
  if (set.flow_control && peers > 0 && each < highest_cost) {
    const std::string whose = set.receive_bytes != 0 ? set_space + ": " : "";
    if (!dynamic)
      return clash(whose + text("CRED_PER_NODE", each) + " is below the " +
                       std::to_string(max_cost) +
                       " credits of the largest message, and DYNAMIC_CREDITS=0 lends no more",
                   "raise the first or allow dynamic credits");
    if (movable < max_wish)
      return clash(whose + text("CRED_PER_NODE", each) + " and " + text("BANKED_CREDITS", bank) +
                       " leave " + std::to_string(movable) +
                       " credits to move, but the largest message needs " +
                       std::to_string(max_wish) + " above the minimum",
                   "raise either");
  }

  config c;
  c.ranks = ranks;
  c.me = me;
  c.credits_per_peer = static_cast<std::uint32_t>(each);
  c.bank = static_cast<std::uint32_t>(bank);
  c.max_per_peer = static_cast<std::uint32_t>(max_each);
  c.lender_limit = static_cast<std::uint32_t>(set.lender_limit);
  c.revoke_limit = static_cast<std::uint32_t>(set.revoke_limit);
  c.epoch_requests = static_cast<std::uint32_t>(set.epoch_requests);
  // In a large job each peer has little to give, and many lack it at a time.
  c.num_scavenge = set.num_scavenge != 0 ? static_cast<std::uint32_t>(set.num_scavenge)
                   : ranks >= large_job  ? 16
                                         : 4;
  // By default the bank keeps one more epoch's loan to one peer, or an eighth of itself if it is
  // small. In a large job it is half of the bank: loans may grow to a ceiling that sinks with the
  // bank (ledger::ceiling), so demand goes unmet long before the bank is empty.
  const auto eighth = static_cast<std::uint32_t>(bank / 8) + 1;
  c.low_water = set.low_water != 0   ? static_cast<std::uint32_t>(set.low_water)
                : ranks >= large_job ? static_cast<std::uint32_t>(bank / 2) + 1
                                     : std::min(c.lender_limit, eighth);
  c.flow_control = set.flow_control;
  c.dynamic = dynamic;
  c.highest_cost = highest_cost;
  c.fade = set.fade;
  c.revoked = set.revoked;
  return c;
}

}  // namespace penstock::credit
