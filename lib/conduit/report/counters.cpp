// Gathers an engine's counters: from queues, peers, ledgers, the cache of registrations and the
// kernel's counters of the port. It only reads them; any thread may call it.
#include <algorithm>
#include <fstream>

#include "firehose/firehose.hpp"
#include "lib/base/clock.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/one_sided/rma.hpp"
#include "lib/conduit/report/reporter.hpp"
#include "lib/conduit/report/waiting.hpp"
#include "nic/shm/counters.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

message_counters& operator+=(message_counters& a, const message_counters& b) noexcept {
  for (const auto& row : message_counter_rows) a.*row.field += b.*row.field;
  return a;
}

bool silent(const peer_counters& c) noexcept {
  std::uint64_t sum = 0;
  for (const auto& d : direction_rows)
    for (const auto& row : message_counter_rows) sum |= c.*d.field.*row.field;
  for (const auto* row = peer_counter_rows; row->field != &peer_counters::loan; ++row)
    sum |= c.*row->field;
  return sum == 0;
}

// The kernel's counter of that name for the port; 0 where it has none.
std::uint64_t port_counter(const nic::device& d, const char* name) {
  const std::string device = d.name.substr(0, d.name.find(':'));
  const std::string text = text_of("/sys/class/infiniband/" + device + "/ports/" +
                                   std::to_string(d.self.port) + "/hw_counters/" + name);
  return std::strtoull(text.c_str(), nullptr, 10);
}

}  // namespace

// The counters of a rank: the sums over its channels in all domains.
peer_counters engine::counters_of(std::uint32_t rank, double ns_a_tick) const {
  peer_counters c;
  c.rank = rank;
  c.path = rank == core_.rank() ? "self" : maps(rank) ? "rings" : "verbs";
  for (std::uint32_t i = 0; i < core_.domain_count(); ++i) {
    const domain& d = core_.domains()[i];
    const peer& p = d.peers[rank];
    if (rank != core_.rank()) {
      const credit::peer_figures f = d.ledger->figures(rank);
      c.loan += f.loan, c.holds += f.send, c.most_in_use += f.most;
    }
    if (!core_.has_begun(p)) continue;
    const peer_counts& n = p.counts;
    const bool rings = p.rings() && rank != core_.rank();
    std::uint64_t replied = n.replies.read();
    // A2 ready  acquire p.ready  <- R2 (connect.cpp): the rings are there
    const std::uint8_t ready = p.ready.load(std::memory_order_acquire);
    if (rings && (ready >> lane_request & 1) != 0)
      c.ring_most = std::max(c.ring_most, p.request_tx.seen()->most());
    if (rings && (ready >> lane_reply & 1) != 0)
      replied += p.reply_tx.seen()->pushed() - p.credit_messages.read() - n.words.read();
    c.requests_sent += n.sent.read(requests_put(p));
    c.requests_handled += n.handled.read(p.requests_handled.read());
    c.replies_sent += n.replied.read(replied);
    c.replies_handled += n.answered.read(p.replies_handled.read());
    c.rendezvous += n.sent.large.read() + n.replied.large.read();
    c.puts += n.puts.read(), c.put_bytes += n.put_bytes.read();
    c.gets += n.gets.read(), c.get_bytes += n.get_bytes.read();
    c.device_atomics += n.atomics.read();
    if ((ready >> lane_rma & 1) != 0 && p.transfers)
      c.transfers_most = std::max<std::uint64_t>(c.transfers_most, p.transfers->most());
    c.waits += n.waits.read();
    c.wait_ns += static_cast<std::uint64_t>(static_cast<double>(n.wait_ticks.read()) * ns_a_tick);
    if (const std::uint64_t since = n.waiting_since.load(std::memory_order_relaxed); since != 0) {
      const auto lasted = static_cast<std::int64_t>(ticks() - since);
      const double ns = static_cast<double>(lasted > 1 ? lasted : 1) * ns_a_tick;
      c.waiting_ns = std::max(c.waiting_ns, static_cast<std::uint64_t>(ns) + 1);
      c.waits_for = name_of_wait(static_cast<status>(n.waits_for.load(std::memory_order_relaxed)));
      if (const unsigned h = n.waits_handler.load(std::memory_order_relaxed); h != 0)
        c.waits_handler = core_.names().numbered(h);
    }
    c.stalls += p.credit_stalls.load(std::memory_order_relaxed);
    c.credit_messages += p.credit_messages.read();
    c.credits_lent += n.credits_lent.read(), c.credits_revoked += n.credits_revoked.read();
  }
  return c;
}

std::uint64_t engine::polls() const noexcept {
  std::uint64_t n = 0;
  for (std::uint32_t t = 0; t < (concurrent(build_mode) ? max_threads : 1); ++t)
    n += poll_counts_[t].polls.read();
  return n;
}

std::uint64_t reporter::receiver_not_ready(const nic::device& d) {
  if (!d.pins) return nic::shm::rnr_received(d.context) + nic::shm::rnr_sent(d.context);
  std::uint64_t n = 0;  // the first two names are soft-RoCE's, the others are mlx5's
  for (const char* name : {"rcvd_rnr_err", "send_rnr_err", "rnr_nak_retry_err", "out_of_buffer"})
    n += port_counter(d, name);
  return n;
}

endpoint_counters engine::counters() const {
  endpoint_counters c;
  const double ns_a_tick = ns_per_tick();
  c.polls = polls();
  const bool parts = connections_.parts();
  if (parts) c.connections = connections_.count().now;
  for (std::uint32_t i = 0; i < core_.domain_count(); ++i) {
    const domain& d = core_.domains()[i];
    c.connections += d.rings.count() + (parts ? 0 : d.verbs.count());
    c.credits += d.ledger->settings().total_credits();
    c.bank += d.ledger->bank();
    c.epochs += d.ledger->epoch();
    if (d.queues) {
      c.sends_most = std::max<std::uint64_t>(c.sends_most, d.queues->send_room.most());
      c.sends_room = d.queues->send_room.tickets();
    }
  }
  if (const firehose::pool* cache = transfers_->cache(); cache != nullptr) {
    const firehose::pool_statistics s = cache->statistics();
    c.registration_hits = s.hits, c.registrations = s.misses;
    c.evictions = s.evictions, c.invalidations = s.invalidations;
    c.bytes_registered = s.bytes_pinned;
  }
  if (const firehose::remote_firehoses* there = transfers_->rights(); there != nullptr) {
    const firehose::remote_statistics s = there->statistics();
    c.remote_hits = s.hits, c.remote_asks = s.asks;
  }
  c.receiver_not_ready = reporter::receiver_not_ready(core_.device());
  // The first name is soft-RoCE's, the others are mlx5's.
  if (core_.device().pins)
    for (const char* name : {"completer_retry_err", "local_ack_timeout_err", "packet_seq_err"})
      c.retransmissions += port_counter(core_.device(), name);
  for (const std::uint32_t r : core_.ranks_begun())
    if (peer_counters p = counters_of(r, ns_a_tick); !silent(p)) c.peers.push_back(p);
  return c;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
