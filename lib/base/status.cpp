#include "lib/base/status.hpp"

#include <cstring>

#include "lib/base/result.hpp"

namespace penstock {

const char* describe(status s) noexcept {
  switch (s) {
    case status::ok:
      return "done";
    case status::pending:
      return "in progress";
    case status::no_credit:
      return "short of credits to the target";
    case status::no_ticket:
      return "too many messages in flight";
    case status::no_chunk:
      return "no free send buffer";
    case status::no_space:
      return "the send queue is full";
    case status::not_ready:
      return "the connection is being made";
    case status::busy:
      return "another thread is inside the queue";
    case status::timed_out:
      return "the time limit is over";
    case status::bad_rank:
      return "no such rank in the job";
    case status::bad_handler:
      return "the handler index is not registered for this kind of message";
    case status::bad_arguments:
      return "an argument is not allowed: a null payload that has bytes, more than 16 words, a "
             "reservation that is not this thread's, or no access region to end";
    case status::too_long:
      return "the payload is longer than the maximum for its kind";
    case status::out_of_segment:
      return "the address or the size lies outside the other rank's segment";
    case status::in_handler:
      return "a handler may not send requests, poll, or wait in barriers";
    case status::not_in_handler:
      return "a reply may only be sent from its request's handler";
    case status::replied_twice:
      return "the handler has already replied, or is itself a reply";
    case status::unsupported:
      return "the device, this build or the atomic domain's operations do not have it";
    case status::device_error:
      return "a verbs call failed";
    case status::peer_dead:
      return "the peer process is gone";
    case status::shut_down:
      return "the endpoint has not been started, or is closing";
    case status::misaligned:
      return "the address is not a multiple of the operand's size";
  }
  return "unknown status";
}

std::string failure::message() const {
  std::string m = what;
  if (code != 0) (m += ": ") += std::strerror(code);
  if (!hint.empty()) (m += "; ") += hint;
  return m;
}

}  // namespace penstock
