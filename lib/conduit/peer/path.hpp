// The contract of a path: all that is called of each way for messages to travel (path_by<way>),
// in four groups. Each peer says which way is its own. The contract is checked when the paths are
// compiled, and the calls are dispatched statically (ways/ways.hpp): no message calls through a
// table. What a path has no use for is an empty function, which costs nothing.
#pragma once

#include <concepts>
#include <cstdint>

#include "lib/conduit/message/draft.hpp"
#include "lib/conduit/peer/core.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

// No function waits for anything but what devices bring by themselves. A path is asked about peers
// of its own only.

/// Any thread may call the functions that send.
template <class P>
concept sends = requires(P w, const P c, peer& p, token_state& t, const outgoing& m,
                         const wire::header& h, std::uint32_t tag, draft& place,
                         reply_place& answer, std::size_t bytes, const std::uint32_t* args,
                         const void* payload, inside<end_of::request_in> in) {
  // The credits that m costs.
  { c.cost_of(p, m) } -> std::same_as<std::uint32_t>;
  // The quick doors: send a user's Short (handler, words) or Medium (and payload) that costs one
  // credit, if all that it needs is at hand. False: nothing was sent, and the long way finds out
  // why. allow_quick() says whether they may.
  { w.request_quick(p, tag, 0, args, 0u) } -> std::same_as<bool>;
  { w.request_quick(p, tag, 0, args, 0u, payload, bytes) } -> std::same_as<bool>;
  { w.reply_quick(t, 0, args, 0u) } -> std::same_as<bool>;
  { w.reply_quick(t, 0, args, 0u, payload, bytes) } -> std::same_as<bool>;
  { w.allow_quick(true) } -> std::same_as<void>;
  // Sends m, which the handlers' table has been asked about; ok, or what the path is short of.
  { w.try_request(p, m) } -> std::same_as<status>;
  // For a request whose payload is written in place. reserve() finds the draft a place for at least
  // the first number of bytes and at most the second, or leaves it without one; cancel() takes the
  // place back. try_request() of a message that names the draft commits it: ok takes the place.
  { w.reserve(p, place, bytes, bytes) } -> std::same_as<void>;
  { w.cancel(p, place) } -> std::same_as<void>;
  // The same for an answer to t: finds it a place for so many bytes, or leaves it without one. It
  // holds nothing, and reply() finds the payload there.
  { w.reserve(t, m, answer, bytes) } -> std::same_as<void>;
  // Answers t, whose handler runs on this thread.
  { w.reply(t, m) } -> std::same_as<status>;
  // Sends a message of the engine's own on the reply lane; false: there is no room now.
  { w.say(p, h) } -> std::same_as<bool>;
  // Sends p the credits that it is owed, as a message of their own.
  { w.give_credits_back(in, p, tag) } -> std::same_as<void>;
};

/// Functions that run handlers return the number of messages. tag: the calling thread's.
template <class P>
concept receives = requires(P w, const P c, peer& p, domain& d, std::uint32_t tag, bool busy,
                            bool due) {
  // One poll of d's peers. busy: this poll has run handlers of another path. It sets due when it is
  // time to look at sends that have completed, and at what concerns the job.
  { w.poll(d, tag, busy, due) } -> std::same_as<unsigned>;
  // The same of every peer that poll() leaves for later polls.
  { w.poll_others(d, tag) } -> std::same_as<unsigned>;
  // The same of replies alone.
  { w.poll_replies(d, tag) } -> std::same_as<unsigned>;
  // Handles replies of p that have come, where the caller looks for credits; it may handle others'
  // as well.
  { w.poll_replies_of(p, tag) } -> std::same_as<unsigned>;
  // True if something of p's, or of d's, waits to be taken that no completion event would tell of.
  { c.has_news(p) } -> std::same_as<bool>;
  { w.holds_back(d, tag) } -> std::same_as<bool>;
  // Calls its argument with each completion queue whose event tells of a message.
  w.each_event_queue([](ibv_cq*) {});
};

/// What polls and waits see to beside messages.
template <class P>
concept keeps_up = requires(P w, const P c, peer& p, domain& d, std::uint32_t tag) {
  // Called while core::deferred_ is not 0: sends what was put off, as far as it can.
  { w.send_put_off() } -> std::same_as<void>;
  // True while an answer that was put off waits. Any thread.
  { c.answers_left() } -> std::same_as<bool>;
  // Handles completions of sends, and returns their number; it runs no handler. Any thread.
  { w.reap_sends(d) } -> std::same_as<unsigned>;
  // True if nothing that was sent to p is under way.
  { c.sent_all(p) } -> std::same_as<bool>;
  // Called when no message has come: gives a few peers, in turn, the credits that they are owed.
  { w.return_idle_credits(d, tag) } -> std::same_as<void>;
  // Called in a wait that has lasted: asks whether the peers are still reached.
  { w.probe_peers() } -> std::same_as<void>;
};

/// open() makes what the path has of its own, before peers are introduced; close() ends it, when
/// their queue pairs are gone. The connector calls the others, see ports::describe_lane(),
/// attached() and reached().
template <class P>
concept connects = requires(P w, peer& p, ibv_qp_init_attr& init, ibv_comp_channel* bell,
                            unsigned lane) {
  { w.open(bell) } -> std::same_as<result<void>>;
  { w.close() } -> std::same_as<void>;
  { w.describe_lane(p, lane, init) } -> std::same_as<void>;
  { w.attached(p) } -> std::same_as<void>;
  { w.reached(p) } -> std::same_as<result<void>>;
  // Called when p is gone, in a poll: what was lent to it for messages under way comes back.
  { w.shut(p) } -> std::same_as<void>;
  // Called when p's answers can come no more, in a poll.
  { w.note_end(p) } -> std::same_as<void>;
};

template <class P>
concept path = sends<P> && receives<P> && keeps_up<P> && connects<P>;

}  // namespace penstock::conduit::PENSTOCK_ABI
