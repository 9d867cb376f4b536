// What an engine tells its user: counts, paths, and how much memory it has pinned for which
// purpose.
#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "lib/base/mapped_memory.hpp"
#include "lib/base/rank_list.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/ring_path/length.hpp"
#include "nic/shm/ring.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

endpoint_statistics engine::statistics() const noexcept {
  endpoint_statistics s;
  for (const peer& p : core_.all_begun()) {
    if (p.rank == core_.rank()) continue;  // messages to this process itself are not counted here
    s.requests_sent += p.requests_sent.read();
    // A3 ready  acquire p.stream  <- R3 (ring_path/send.cpp)
    if (auto* tx = p.stream.load(std::memory_order_acquire)) s.requests_sent += tx->pushed();
    s.requests_handled += p.requests_handled.read();
    s.replies_handled += p.replies_handled.read();
    s.credit_messages += p.credit_messages.read();
    s.credit_stalls += p.credit_stalls.load(std::memory_order_relaxed);
  }
  s.credits_lent = credits_.lent();
  s.credits_revoked = credits_.revoked();
  for (std::uint32_t i = 0; i < core_.domain_count(); ++i)
    s.credit_epochs += core_.domains()[i].ledger->epoch();
  return s;
}

namespace {

// Says which ranks are reached by which path, in lists such as "0 to 3, 7".
std::string paths_report(const core& c) {
  std::string out;
  for (const bool rings : {true, false}) {
    const std::string which = ranks_where(c.size(), [&](std::uint32_t r) {
      return r != c.rank() && facts_of(c.way_to(r)).has_rings == rings;
    });
    if (which.empty()) continue;
    out += rings ? "  by rings, in shared memory: ranks "
                 : "  by queue pairs of " + c.device().name + ": ranks ";
    out += which + "\n";
  }
  return out;
}

// What the process has in memory now, by purpose. Bytes of heap belong to Penstock or to the
// program, and nobody knows which; so do those of stacks.
std::string resident_report() {
  const memory_in_use m = ask_kernel_for_memory();
  if (m.process == 0) return "";
  std::string out = "in memory now (Rss in /proc/PID/smaps):\n";
  char line[160];
  std::size_t sum = 0;
  const auto row = [&](const char* what, std::size_t bytes) {
    std::snprintf(line, sizeof line, "  %-52s %12zu bytes\n", what, bytes);
    out += line;
  };
  for (const mapped_use& u : m.noted) {
    row(u.purpose.c_str(), u.resident);
    sum += u.resident;
  }
  row("Penstock's mappings in all", sum);
  row("the rest of the process: program, heap, stacks", m.process - std::min(sum, m.process));
  return out;
}

}  // namespace

result<std::string> engine::memory_report(std::size_t for_ranks) const {
  const auto ranks = for_ranks == 0 ? core_.size() : static_cast<std::uint32_t>(for_ranks);
  credit::room room = core_.credit_room();
  if (ways_.some_post() && (!core_.has_started() || ranks != core_.size())) {
    const auto here = core_.queue_room(ranks, channel_ != nullptr);
    room = here ? *here : credit::room{};
  }
  const auto shares =
      credit::plan(ranks, 0, credit_settings(core_.options(), core_.domain_count(), room));
  if (!shares)
    return failure{
        "a job of " + std::to_string(ranks) + " processes is refused: " + shares.error().message(),
        0, ""};
  const queues::dimensions all = core_.queue_dimensions(ranks, channel_ != nullptr, room);
  const queues::dimensions d = all.for_peers(all.peers_at_start());
  std::string out;
  char line[160];
  std::size_t total = 0;
  const auto row = [&](const char* what, std::size_t bytes) {
    std::snprintf(line, sizeof line, "  %-52s %12zu bytes\n", what, bytes);
    out += line;
    total += bytes;
  };
  const bool computed = for_ranks != 0 && for_ranks != core_.size();
  std::snprintf(line, sizeof line, "memory of one process in a job of %u, device %s%s%s:\n", ranks,
                core_.device().name.c_str(), core_.near() ? " and shm0" : "",
                computed ? " (computed)" : "");
  out += line;
  if (core_.has_started() && !computed) out += paths_report(core_);
  const std::size_t by_rings = ways_.some_post() ? core_.neighbours().size() - 1 : ranks - 1;
  const std::size_t domains = core_.domain_count();
  if (ways_.some_have_rings())
    row("rings, if all peers are connected and idle (shared)",
        domains * by_rings * 2 * length_for(0).memory());
  if (ways_.some_post()) {
    row("ReqRB, small lane", domains * d.small_receives() * d.small_bytes);
    if (d.space != 0)
      row("ReqRB, placed messages", domains * d.senders() * d.block);
    else
      row("ReqRB, bulk lane",
          domains * (d.bulk_receives() * d.full_bytes + std::size_t{d.senders()} * d.block));
    row("ReqSB", domains * d.request_chunks * d.chunk_bytes);
    row("RplSB", domains * d.reply_chunks * d.chunk_bytes);
    std::snprintf(line, sizeof line, "  %-52s %12.1f bytes\n",
                  "receive space per credit (spares included)",
                  static_cast<double>(d.receive_bytes()) / d.credits);
    out += line;
  }
  if (ranks > 1 && (ways_.some_post() || shares->start_may_grow()))
    row("first buffers of Mediums by rendezvous", large_buffers::prepared(ways_.some_post()));
  if (room != credit::room{})
    out += "  " + shorter_table(core_.options(), ranks, core_.domain_count(), room) + "\n";
  const std::size_t pinned = total + (for_ranks == 0 ? core_.segment().size() : 0);
  if (ways_.some_post() && all.peers > d.peers) {
    std::snprintf(line, sizeof line, "  %-52s %12zu bytes\n",
                  "more of ReqRB once all ranks have been connected",
                  domains * (all.receive_bytes() - d.receive_bytes()));
    out += line;
  }
  if (for_ranks == 0) row("segment", core_.segment().size());
  if (ways_.some_have_rings()) {
    const std::size_t busy = length_for(std::max(shares->credits_per_peer, 1u)).memory() +
                             nic::shm::ring_length::all().memory();
    std::snprintf(line, sizeof line, "  %-52s %12zu bytes\n",
                  "more for each peer that talks, with the first loan",
                  busy - 2 * length_for(0).memory());
    out += line;
  }
  std::snprintf(line, sizeof line, "  %-52s %12zu bytes\n", "pinned or shared in all", pinned);
  out += line;
  // What a rank takes before it is talked to depends on how much ranks have in common.
  if (core_.has_started() && !computed) {
    std::snprintf(line, sizeof line, "  %-52s %12zu bytes\n", "known of all ranks (not pinned)",
                  core_.known().bytes());
    out += line;
  }
  std::snprintf(line, sizeof line, "  %-52s %12zu bytes\n",
                "more for each rank that is talked to (not pinned)",
                sizeof(peer) + sizeof(credit::ledger<build_mode>::state));
  out += line;
  if (core_.has_started() && !computed) out += resident_report();
  return out;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
