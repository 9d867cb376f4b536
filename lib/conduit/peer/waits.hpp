// The table of waits: all that a thread inside the engine can wait for, what brings it, what the
// thread polls meanwhile, and the way out. Every loop that may last names its row (long_wait.hpp,
// or report/waiting.hpp for requests), so that the reporter can tell of it. A loop that only waits
// until another thread leaves an end has a row (an_end), but is not reported. Code that waits and
// the reporter use the table. It belongs to the floor of channels, since the paths wait, too.
#pragma once

#include <cstdint>
#include <iterator>

#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

enum class wait_for : std::uint8_t {
  credits,
  room,
  send_buffers,
  connection,
  another_thread,
  an_end,
  large_reply,
  old_keys,
  mapping,
  sends,
  transfer_room,
  transfers,
  barrier,
  quiet,
  collective,
  departure,
};

/// What a thread handles while it waits, at least.
enum class polled : std::uint8_t {
  all,          ///< every queue, handlers included (engine::wait_step)
  completions,  ///< completions of what it sent, and keys that come back: runs no handler
  nothing,      ///< it yields its core: what it waits for comes without its help
};

struct wait_row {
  wait_for what;
  const char* name;        ///< what is waited for
  const char* told;        ///< the same, behind "rank 3 has waited 10 s"
  const char* brought_by;  ///< what or who brings it
  polled meanwhile;
  const char* way_out;  ///< what else ends the wait, beside the job's end
};

/// The rows are in the order of the enumerators. The claims that the comments cite argue that each
/// wait ends.
inline constexpr wait_row waits_table[] = {
    // A request: (claim 8), (claim 9)
    {wait_for::credits, "credits", "for credits", "the peer: its replies, and its grant",
     polled::all, "the peer's departure"},
    // (claim 15); by rings, the peer takes what lies in them (claim 16)
    {wait_for::room, "room", "for room", "the device, or the peer that takes messages out",
     polled::all, "the peer's departure"},
    // A request's chunk comes back with its reply (claim 6), a large one's buffer before (claim 22)
    {wait_for::send_buffers, "send buffers", "for send buffers", "the peers' replies", polled::all,
     "the peer's departure"},
    // (claim 19)
    {wait_for::connection, "connection", "for a connection", "the peer's connector thread",
     polled::all, "the peer's departure"},
    // A request that finds another thread inside the sending end, until it is handed over: (claim
    // 18)
    {wait_for::another_thread, "another thread", "for another thread of this process",
     "that thread, which waits for no other", polled::all, "the peer's departure"},
    // An answer that found an end held and could not be copied: (claim 18)
    {wait_for::an_end, "another thread", "for another thread of this process",
     "that thread, which waits for no other", polled::nothing, "none is needed"},
    // A large reply, where more handlers run at once than there are buffers: (claim 21)
    {wait_for::large_reply, "large replies", "for others to take their large replies",
     "ranks that take replies", polled::nothing, "their departure"},
    // (claim 20)
    {wait_for::old_keys, "keys", "for others to give back keys to changed memory",
     "the peer's answer, which its engine gives by itself", polled::completions,
     "the peer's death"},
    // The device asks the peer's service thread, and a peer that is stopped is asked again
    {wait_for::mapping, "mapping", "for a segment to be mapped", "the peer's device",
     polled::nothing, "the peer's death"},
    // (claim 15)
    {wait_for::sends, "completions", "for completions of what was sent", "the device",
     polled::completions, "the device's error, which ends the job"},
    // (claim 15)
    {wait_for::transfer_room, "tickets", "for room for puts, gets or atomics", "the device",
     polled::all, "the device's error, which ends the job"},
    // (claim 15); where the device has no memory access, the peer answers a message
    {wait_for::transfers, "transfers", "for puts, gets or atomics to complete",
     "the device, or the peer", polled::all, "the device's error; the peer's death"},
    // (claim 13)
    {wait_for::barrier, "a barrier", "in a barrier", "all ranks", polled::all,
     "a rank's departure, which fails it"},
    // The rank answers when it polls
    {wait_for::quiet, "quiet()", "in quiet()", "the rank that handles the messages", polled::all,
     "the rank's departure"},
    // Messages of its own between the team's ranks: (claim 8)
    {wait_for::collective, "a collective", "in a collective", "the ranks of the team", polled::all,
     "the job's end alone"},
    // The launcher's fence; no rank is waited for longer than the exit limit
    {wait_for::departure, "the others' end", "for the others to come to the end", "all ranks",
     polled::all, "PENSTOCK_EXITTIMEOUT"},
};

constexpr const wait_row& row_of(wait_for w) noexcept {
  return waits_table[static_cast<unsigned>(w)];
}

static_assert(
    [] {
      for (unsigned i = 0; i < std::size(waits_table); ++i)
        if (waits_table[i].what != static_cast<wait_for>(i)) return false;
      return std::size(waits_table) == static_cast<unsigned>(wait_for::departure) + 1;
    }(),
    "one row for each, in their order");

}  // namespace penstock::conduit::PENSTOCK_ABI
