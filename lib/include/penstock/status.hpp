// What a data-path call answers. Used by every layer; carries no text (see result.hpp).
#pragma once

#include <cstdint>

namespace penstock {

/// Result of a call on the data path. Four families: done, in progress, short of something, failed.
enum class [[nodiscard]] status : std::uint8_t{
    // done
    ok = 0,
    // in progress
    pending,  ///< begun, not complete; poll and ask again
    // short of something: nothing was done, poll and call again
    no_credit,  ///< the target has lent too few credits
    no_ticket,  ///< too many messages in flight
    no_chunk,   ///< no registered send buffer is free
    no_space,   ///< the send queue or ring is full
    not_ready,  ///< the connection is being made
    busy,       ///< another thread is inside the queue
    // failed: calling again cannot help
    bad_rank,        ///< no such process in the job
    bad_handler,     ///< handler index not registered, or of another kind
    bad_arguments,   ///< more than 16 arguments, null payload, or no access region to end
    too_long,        ///< payload above the maximum of its kind
    out_of_segment,  ///< destination outside the target's segment
    in_handler,      ///< a request was sent from a handler
    not_in_handler,  ///< a reply was sent from outside its handler
    replied_twice,   ///< the handler has replied already, or was itself a reply
    unsupported,     ///< the device or this build cannot do it
    device_error,    ///< a verbs call failed
    peer_dead,       ///< the peer process is gone
    shut_down,       ///< the endpoint is closing, or is the process's that made this one by fork()
    misaligned,      ///< the address is not a multiple of the operand's size
};

/// True for the family "short of something": poll, then try again.
constexpr bool is_short(status s) noexcept { return s >= status::no_credit && s <= status::busy; }

/// True for the family "failed".
constexpr bool is_failure(status s) noexcept { return s >= status::bad_rank; }

/// One line of English for a status; never null.
const char* describe(status s) noexcept;

}  // namespace penstock
