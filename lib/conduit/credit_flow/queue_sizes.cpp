// How many credits there are, and how long each domain's queues are, for a number of ranks and what
// the device has room for.
#include <algorithm>

#include "lib/conduit/credit_flow/credit_flow.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

credit::overrides credit_settings(const settings& s, std::uint32_t domains, credit::room room) {
  const auto part = [domains](std::uint64_t of) {
    return static_cast<std::int64_t>(part_of(of, domains));
  };
  credit::overrides o;
  o.room = room;
  o.credits_per_peer = part(s.cred_per_node);
  o.bank = s.banked_credits / domains;
  o.empty_bank = s.banked_credits != 0 && o.bank == 0;
  o.receive_bytes =
      part(s.amrecv_space != 0 || s.rbuf_count == 0
               ? s.amrecv_space
               : std::uint64_t{s.rbuf_count} * wire::full_cost(max_eager) * wire::credit_bytes);
  if (s.max_cred_per_node != 0) o.max_per_peer = part(s.max_cred_per_node);
  // No more requests are in flight than there are credits, so AM_OUST_PP bounds the loan.
  if (s.am_oust_pp != 0) o.max_per_peer = std::min(o.max_per_peer, part(s.am_oust_pp));
  o.lender_limit = s.lender_limit;
  o.revoke_limit = s.revoke_limit;
  o.epoch_requests = s.epoch_duration;
  o.num_scavenge = s.num_scavenge;
  o.flow_control = s.flow_control;
  o.dynamic = s.dynamic_credits;
  if (s.decay_last_curr) o.fade = credit::decay::last_curr;
  if (s.lender_counts_revoked) o.revoked = credit::revoked_at::lender;
  return o;
}

std::string shorter_table(const settings& s, std::uint32_t ranks, std::uint32_t domains,
                          credit::room room) {
  const auto table = credit::plan(ranks, 0, credit_settings(s, domains));
  const auto now = credit::plan(ranks, 0, credit_settings(s, domains, room));
  if (!table || !now) return "";
  const auto shares = [](const credit::config& c) {
    return std::to_string(c.credits_per_peer) + " credits for each other rank and " +
           std::to_string(c.bank) + " in the bank";
  };
  return "the device's queues are short: " + shares(*now) +
         (room.moves ? ", instead of " : ", which never move, instead of ") + shares(*table);
}

queues::dimensions core::queue_dimensions(std::uint32_t ranks, bool bell, credit::room room) const {
  const settings& s = settings_;
  queues::dimensions d;
  d.peers = ranks - 1;
  const auto planned = credit::plan(ranks, 0, credit_settings(s, domain_count_, room));
  if (shares_memory_)
    d.near = std::min<std::uint32_t>(static_cast<std::uint32_t>(neighbours_.size()) - 1, ranks - 1);
  const credit::config& shares = planned ? *planned : credit_config_;
  if (planned) d.loan = shares.credits_per_peer;
  d.credits = std::max(shares.total_credits(), 1u);
  d.full_bytes = wire::full_bytes(max_eager);
  d.full_cost = shares.highest_cost;
  d.chunk_bytes = wire::full_bytes(max_eager);
  if (!shares.dynamic) d.words = 0;
  // A request holds a chunk until it is answered, and a reply until it has been sent. The limits
  // are the process's, which its domains share.
  const auto part = [&](std::uint32_t of, std::uint32_t otherwise) {
    return part_of(of, domain_count_, otherwise);
  };
  const std::uint32_t most = part(s.msg_limit, 1);
  d.spares = part(s.am_spares, concurrent(build_mode) ? 4 : 2);
  d.request_chunks = std::min({part(s.sb_chunks, 256), part(s.am_oust_limit, most), most});
  d.reply_chunks = std::min(part(s.rpl_chunks, 128), most);
  if (!room.moves) d = d.lean(part(s.am_spares, 1));
  // The progress thread has a reply chunk and a spare buffer of its own.
  if (bell) ++d.spares, ++d.reply_chunks;
  d.depth = s.op_oust_pp;
  d.max_inline = max_inline();
  return d.bounded(device_.limits).placed();
}

// First as many credits as the queues have room for. Where these could not move, the fewest buffers
// and receives, and fixed loans; but not in a large job that runs as long as some of its ranks are
// not connected.
result<credit::room> core::queue_room(std::uint32_t ranks, bool bell) const {
  const ibv_device_attr& limits = device_.limits;
  const queues::dimensions wanted = queue_dimensions(ranks, bell, {});
  if (!credit_settings(settings_, domain_count_).by_table() || wanted.fit(limits, ""))
    return credit::room{};
  const auto room_if = [&](bool moves) -> result<credit::room> {
    queues::dimensions d = queue_dimensions(ranks, bell, {moves});
    d.space = 0;  // fewer credits may leave too little for it
    const credit::room room{moves, d.most_credits(limits)};
    d.credits = 1;
    if (const auto others = d.fit(limits, device_.name, device_.cqe_set); !others)
      return others.error();
    const auto planned = credit::plan(ranks, 0, credit_settings(settings_, domain_count_, room));
    if (!planned) return planned.error();
    return room;
  };
  if (auto moving = room_if(true)) return moving;
  if (wanted.for_peers(wanted.peers_at_start()).fit(limits, "")) return credit::room{};
  return room_if(false);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
