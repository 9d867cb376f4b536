// The protocol between the processes of a collective, over the engine's messages and transfers:
//
//   data    a Medium with the bytes, if they are at most eager_bytes
//   offer   says where more bytes lie. When the receiver wants them, it fetches them, if they lie
//           in the sender's segment, and answers with thanks; or it sends
//   wanted  which says where the bytes shall go: the sender puts them, if that is in the receiver's
//           segment, and says so, or sends them in Mediums
//
//   question  says in which call the sender is, when it has waited long; there is no answer
//
// What a process lends, and where it wants bytes, the other one knows by tokens (token_table.hpp):
// no address comes from a message but those that the engine checks.
//
// Handlers only hand messages over (inbox, lock-free), count, or copy bytes to the place that this
// process has named; so they need nothing that a thread holds.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/gasnet/coll/operation.hpp"
#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

inline constexpr std::size_t eager_bytes = conduit::max_eager;

/// Names a message, and its operation.
struct envelope {
  std::uint64_t team;
  std::uint32_t number, lane;
  call_word call;
  std::uint32_t from, tag;  ///< of the sender: rank in the team
};

/// Names `to` as a rank to which `messages` of at most that many bytes each will be under way.
void expect(std::uint32_t to, std::uint32_t messages, std::size_t bytes);

/// These send; ranks are the job's. They may wait (polling) for room.
void send_data(std::uint32_t to, const envelope& e, const std::byte* from, std::size_t bytes);
/// Where the receiver will have to ask for the bytes, it is named beforehand, since they may go in
/// Mediums.
void send_offer(std::uint32_t to, const envelope& e, loan& l);
/// Asks whether `to` is in the same call.
void send_question(std::uint32_t to, const envelope& e);
void send_thanks(std::uint32_t to, std::uint64_t lent);
/// Asks for the bytes that `a` offers; c counts the pieces under way.
void want(std::uint32_t from, const arrival& a, std::byte* to, std::size_t bytes, op_counter& c);
/// Sends the bytes that `a` asks for.
void give(const arrival& a, std::uint32_t to);

/// True if those bytes may be fetched from rank's memory.
bool reachable(std::uint32_t rank, std::uint64_t at, std::size_t bytes) noexcept;
void fetch(std::uint32_t from, std::byte* to, std::uint64_t at, std::size_t bytes, op_counter& c);

/// Takes all messages that have come, in order; null: there are none. One thread at a time.
arrival* take_arrivals() noexcept;

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
