// What a call of the data path returns. Every layer uses it. It carries no text; set-up calls
// return a result (result.hpp), which does.
#pragma once

#include <cstdint>

namespace penstock {

/// Result of a call on the data path. Four families: done, in progress, short of something, failed.
enum class [[nodiscard]] status : std::uint8_t{
    // done
    ok = 0,
    // in progress
    pending,  ///< begun, not complete; poll and ask again
    // short of something, or of time: poll and call again
    no_credit,  ///< the target has lent too few credits
    no_ticket,  ///< too many messages are in flight
    no_chunk,   ///< no registered send buffer is free
    no_space,   ///< the send queue or ring is full
    not_ready,  ///< the connection is being made
    busy,       ///< another thread is inside the queue
    timed_out,  ///< the time_limit is over; nothing is lost, and a wait goes on where it was
    // failed: calling again cannot help
    bad_rank,        ///< the job has no such process
    bad_handler,     ///< the handler's index is not registered, or is one of another kind
    bad_arguments,   ///< null payload, more than 16 arguments, no reservation or region to end
    too_long,        ///< the payload is above the maximum of its kind
    out_of_segment,  ///< the address or the size lies outside the other rank's segment
    in_handler,      ///< a request was sent from a handler
    not_in_handler,  ///< a reply was sent from outside its handler
    replied_twice,   ///< the handler has replied already, or was itself a reply
    unsupported,     ///< the device or this build cannot do it
    device_error,    ///< a verbs call failed
    peer_dead,       ///< the peer process is gone
    shut_down,       ///< the endpoint is closing, or belongs to the parent of this fork()ed child
    misaligned,      ///< the address is not a multiple of the operand's size
};

/// True for the family "short of something": poll, then try again.
constexpr bool is_short(status s) noexcept {
  return s >= status::no_credit && s <= status::timed_out;
}

/// True for the family "failed".
constexpr bool is_failure(status s) noexcept { return s >= status::bad_rank; }

/// A few words of English for a status; never null. The text lasts as long as the process.
const char* describe(status s) noexcept;

}  // namespace penstock
