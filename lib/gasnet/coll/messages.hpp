// What the processes of a collective say to each other, over the engine's messages and transfers:
//
//   data    a Medium with the bytes, up to eager_bytes
//   offer   more than that: where they lie. The receiver, when it wants them,
//             fetches them, if they lie in the sender's segment, and says thanks; or
//   wanted  says where they are to go: the sender puts them, if that is in the receiver's segment,
//           and says so, or sends them in Mediums
//
// Handlers only hand messages over (inbox, lock-free), count, or copy bytes to where this process
// asked for them; so they need nothing that anybody holds.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/gasnet/coll/operation.hpp"
#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

inline constexpr std::size_t eager_bytes = conduit::max_eager;

/// Which message of which operation.
struct envelope {
  std::uint64_t team;
  std::uint32_t number, lane;
  kind what;
  std::uint32_t from, tag;  ///< of the sender: rank in the team
};

/// Ranks are the job's. These may wait (polling) for room.
void send_data(std::uint32_t to, const envelope& e, const std::byte* from, std::size_t bytes);
void send_offer(std::uint32_t to, const envelope& e, loan& l);
void send_thanks(std::uint32_t to, std::uint64_t lent);
/// Asks for what `a` offers; pieces on their way are counted.
void want(std::uint32_t from, const arrival& a, std::byte* to, std::size_t bytes, op_counter& c);
/// The answer of who offered it.
void give(const arrival& a, std::uint32_t to);

/// True if those bytes may be fetched from rank's memory.
bool reachable(std::uint32_t rank, std::uint64_t at, std::size_t bytes) noexcept;
void fetch(std::uint32_t from, std::byte* to, std::uint64_t at, std::size_t bytes, op_counter& c);

/// All that has come, in order; null: nothing. One thread at a time.
arrival* take_arrivals() noexcept;

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
