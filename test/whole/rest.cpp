// Where the credits of all ranks lie when none has anything under way.
// This file alone is compiled without access control, as ranks.cpp is.
#include <string>
#include <vector>

#include "nic/shm/srq.hpp"
#include "test/conduit/credit_access.hpp"
#include "test/whole/workload.hpp"

namespace penstock::whole {

namespace {

std::uint32_t free_of(queues::chunk_pool& pool) {
  std::vector<std::uint32_t> taken;
  while (const auto c = pool.take()) taken.push_back(*c);
  for (const std::uint32_t c : taken) pool.give(c);
  return static_cast<std::uint32_t>(taken.size());
}

std::string unless_all(std::int64_t there, std::int64_t all, const char* what) {
  return there == all ? std::string() : std::to_string(there) + " of " + std::to_string(all) + what;
}

/// All receives of a queue are posted, but for those that threads hold.
template <class Held>
std::string unless_posted(conduit::engine& e, ibv_srq* srq, std::uint32_t all, const char* what,
                          Held&& held) {
  std::int64_t there = nic::shm::of(srq).works.size();
  for (const auto& of : e.core_.pollers_)
    if (of) there += held(of[0]);
  return unless_all(there, all, what);
}
std::string receives_away(conduit::engine& e, const queues::message_queues& q) {
  std::string why =
      unless_posted(e, q.reply_srq, q.replies_posted_, " receives for replies are posted or held",
                    [](const conduit::poller& p) { return p.late_receives; });
  for (const unsigned i : {0u, 1u})
    if (const auto& pool = i == 0 ? q.small : q.bulk; pool && why.empty())
      why = unless_posted(e, pool->srq(), pool->count_, " receives for requests are posted or held",
                          [i](const conduit::poller& p) { return p.held[i].count; });
  return why;
}

/// Buffers of large Mediums are free, or their targets have told that they are.
std::string buffers_away(conduit::large_buffers& b) {
  if (!b.made_) return {};
  for (unsigned i = 0; i < b.count; ++i) {
    const std::uint64_t s = b.use_[i].state();
    if (conduit::buffer_use::is_out(s) &&
        b.use_[i].look(s, b.word(i)).what != conduit::buffer_use::end::told)
      return "buffer " + std::to_string(i) + " of large Mediums is in use";
  }
  return {};
}

/// Of chunks and tickets all are free when nothing is under way, but for the chunks that threads
/// keep for their next replies.
std::string chunks_away(conduit::engine& e) {
  auto& home = *conduit::test_access::channel(e, 0).home;
  const auto& room = home.transfer_room;
  std::string why = unless_all(room.free(), room.tickets(), " tickets of transfers are free");
  if (why.empty()) why = buffers_away(e.core_.large());
  if (home.queues == nullptr || home.queues->request_chunks == nullptr) return why;
  auto &requests = *home.queues->request_chunks, &replies = *home.queues->reply_chunks;
  const auto& sends = home.queues->send_room;
  if (why.empty())
    why = unless_all(free_of(requests), requests.chunks(), " chunks for requests are free");
  if (why.empty())
    why = unless_all(free_of(replies) + conduit::test_access::replies_kept(e), replies.chunks(),
                     " chunks for replies are free or kept");
  if (why.empty()) why = unless_all(sends.free(), sends.tickets(), " tickets of sends are free");
  if (why.empty()) why = receives_away(e, *home.queues);
  return why;
}

}  // namespace

std::string out_of_place(std::span<conduit::engine* const> engines) {
  const keeps_turn here;  // the threads of the library go on
  const auto n = static_cast<std::uint32_t>(engines.size());
  for (std::uint32_t p = 0; p < n; ++p) {
    if (const std::string away = chunks_away(*engines[p]); !away.empty())
      return "rank " + std::to_string(p) + ": " + away;
    auto& lender = conduit::test_access::ledger(*engines[p]);
    std::uint64_t all = lender.bank();
    for (std::uint32_t q = 0; q < n; ++q) {
      if (p == q) continue;
      const auto lent = lender.figures(q);
      const auto held = conduit::test_access::ledger(*engines[q]).figures(p);
      all += lent.loan;
      // A loan to a rank that was never met may have been lowered, which that rank learns when it
      // meets this one (lib/conduit/peer/meetings.hpp).
      const bool met = conduit::test_access::lane_is_ready(*engines[q], p, conduit::lane_request);
      if (met ? lent.loan != held.send : lent.loan > held.send)
        return "rank " + std::to_string(p) + " has lent " + std::to_string(lent.loan) +
               " credits to rank " + std::to_string(q) + ", which holds " +
               std::to_string(held.send);
      if (held.waiting) return "rank " + std::to_string(q) + " waits for credits";
    }
    if (all != lender.settings().total_credits())
      return "rank " + std::to_string(p) + " has " + std::to_string(all) + " credits in all, of " +
             std::to_string(lender.settings().total_credits());
  }
  return {};
}

void give_back_leases(conduit::engine& e) { conduit::test_access::give_back_leases(e); }

}  // namespace penstock::whole
