// The contract of a path: what the engine asks of either way for messages to travel (ring_path,
// verbs_path), once it has asked a peer for its own. Checked when the paths are compiled, and
// dispatched statically: no call through a table stands on a message's way.
#pragma once

#include <concepts>
#include <cstdint>

#include "lib/conduit/channel/channels.hpp"
#include "lib/conduit/message/draft.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// Nothing here waits but for what devices bring by themselves. Each is for peers whose path this
/// is, and those that send may be called by any thread.
template <class P>
concept path = requires(P w, const P c, peer& p, domain& d, token_state& t, const outgoing& m,
                        const wire::header& h, ibv_qp_init_attr& init, ibv_comp_channel* bell,
                        std::uint32_t tag, draft& place, std::size_t bytes) {
  // What it has of its own: before peers are introduced; and when their queue pairs are gone.
  { w.open(bell) } -> std::same_as<result<void>>;
  { w.close() } -> std::same_as<void>;
  // Credits that m costs.
  { c.cost_of(m) } -> std::same_as<std::uint32_t>;
  // Sends m, which the handlers' table takes; ok, or what it is short of.
  { w.try_request(p, m) } -> std::same_as<status>;
  // A request whose payload is written in place: finds a draft a place for the first number of
  // bytes, or more, up to the second, or leaves it without one; takes its place back. What commits
  // is try_request() of a message that names the draft: ok takes the place along.
  { w.reserve(p, place, bytes, bytes) } -> std::same_as<void>;
  { w.cancel(p, place) } -> std::same_as<void>;
  // Answers t, whose handler runs on this thread.
  { w.reply(t, m) } -> std::same_as<status>;
  // Handles what has come; how many messages that was. tag: the calling thread's.
  { w.poll_replies(d, tag) } -> std::same_as<unsigned>;
  { w.poll_requests(d, tag) } -> std::same_as<unsigned>;
  // A word of the engine's own on the reply lane; false: not now. Any thread.
  { w.say(p, h) } -> std::same_as<bool>;
  // What p is owed as a message of its own; inside request_in.
  { w.give_credits_back(p, tag) } -> std::same_as<void>;
  // True if a request of p could be taken now: its reply would find what it needs.
  { w.room_for_reply(p, tag) } -> std::same_as<bool>;
  // Connecting, by the connector: what a lane's queue pair is like; messages may come; may go.
  { w.describe_lane(p, tag, init) } -> std::same_as<void>;
  { w.attached(p) } -> std::same_as<void>;
  { w.reached(p) } -> std::same_as<result<void>>;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
