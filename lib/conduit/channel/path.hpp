// The contract of a path: what the engine asks of each of the two ways for messages to travel
// (ring_path, verbs_path). Each peer says which path is its own. The contract is checked when the
// paths are compiled, and the calls are dispatched statically: no message calls through a table.
#pragma once

#include <concepts>
#include <cstdint>

#include "lib/conduit/channel/channels.hpp"
#include "lib/conduit/message/draft.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// No function waits for anything but what devices bring by themselves. A path is asked about peers
/// of its own only. Any thread may call the functions that send.
template <class P>
concept path = requires(P w, const P c, peer& p, domain& d, token_state& t, const outgoing& m,
                        const wire::header& h, ibv_qp_init_attr& init, ibv_comp_channel* bell,
                        std::uint32_t tag, draft& place, std::size_t bytes) {
  // open() makes what the path has of its own, before peers are introduced; close() ends it, when
  // their queue pairs are gone.
  { w.open(bell) } -> std::same_as<result<void>>;
  { w.close() } -> std::same_as<void>;
  // The credits that m costs.
  { c.cost_of(m) } -> std::same_as<std::uint32_t>;
  // Sends m, which the handlers' table has been asked about; ok, or what the path is short of.
  { w.try_request(p, m) } -> std::same_as<status>;
  // For a request whose payload is written in place. reserve() finds the draft a place for at least
  // the first number of bytes and at most the second, or leaves it without one; cancel() takes the
  // place back. try_request() of a message that names the draft commits it: ok takes the place.
  { w.reserve(p, place, bytes, bytes) } -> std::same_as<void>;
  { w.cancel(p, place) } -> std::same_as<void>;
  // Answers t, whose handler runs on this thread.
  { w.reply(t, m) } -> std::same_as<status>;
  // Handles replies of p that have come, where the caller looks for credits, and returns their
  // number; it may handle others' as well. tag: the calling thread's.
  { w.poll_replies_of(p, tag) } -> std::same_as<unsigned>;
  // True if something of p's waits to be taken that no completion event would tell of.
  { c.has_news(p) } -> std::same_as<bool>;
  // Sends a message of the engine's own on the reply lane; false: there is no room now. Any thread.
  { w.say(p, h) } -> std::same_as<bool>;
  // Sends p the credits that it is owed, as a message of their own; inside request_in.
  { w.give_credits_back(p, tag) } -> std::same_as<void>;
  // The connector calls these: see channels::describe_lane(), attached() and reached().
  { w.describe_lane(p, tag, init) } -> std::same_as<void>;
  { w.attached(p) } -> std::same_as<void>;
  { w.reached(p) } -> std::same_as<result<void>>;
  // Called when p is gone, in a poll: what was lent to it for messages under way comes back.
  { w.shut(p) } -> std::same_as<void>;
};

}  // namespace penstock::conduit::PENSTOCK_ABI
