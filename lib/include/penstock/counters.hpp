// What an endpoint has counted for each of the other ranks, as endpoint::counters() returns it, and
// the tables of the counters' names. Every text is written from these tables: the files of
// PENSTOCK_COUNTERS, what pentop shows, and the C interface. All counts start at 0 with start() and
// only grow, except those whose text begins with "now".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

/// Messages of one direction. Bytes are those of payloads; a Short has none.
struct message_counters {
  /// Messages of user handlers by kind, and their payload bytes.
  ///@{
  std::uint64_t shorts = 0, mediums = 0, longs = 0;
  std::uint64_t medium_bytes = 0, long_bytes = 0;
  ///@}
  std::uint64_t own = 0;  ///< messages of the library itself, such as barriers and atomics
};

/// One other rank, or this process itself.
struct peer_counters {
  std::uint32_t rank = 0;  ///< its rank
  const char* path = "";   ///< "rings", "verbs", "self"
  /// Messages to and from it.
  ///@{
  message_counters requests_sent, requests_handled, replies_sent, replies_handled;
  ///@}
  /// One-sided operations on its memory that went to the device. Operations on memory that is
  /// mapped here are plain copies, which are not counted.
  ///@{
  std::uint64_t puts = 0, put_bytes = 0, gets = 0, get_bytes = 0, device_atomics = 0;
  ///@}
  std::uint64_t rendezvous = 0;       ///< Mediums sent to it whose payload went by rendezvous
  std::uint64_t stalls = 0;           ///< requests that waited for credits
  std::uint64_t waits = 0;            ///< requests that waited for anything
  std::uint64_t wait_ns = 0;          ///< how long they waited in all, in waits that have ended
  std::uint64_t waiting_ns = 0;       ///< now: how long the current wait has lasted; 0 if none
  const char* waits_for = "";         ///< now: what the current wait is for
  std::string waits_handler;          ///< now: the handler that its request is for, as "3 on_hit"
  std::uint64_t credit_messages = 0;  ///< messages that carried nothing but credits
  std::uint64_t credits_lent = 0;     ///< credits lent to it on demand
  std::uint64_t credits_revoked = 0;  ///< credits that it gave back
  std::uint64_t loan = 0;             ///< now: credits lent to it
  std::uint64_t holds = 0;            ///< now: credits lent by it that are free
  std::uint64_t most_in_use = 0;      ///< most of its credits in use, as epochs remember it
  std::uint64_t ring_most = 0;        ///< most requests seen at a time in the ring to it
  std::uint64_t transfers_most = 0;   ///< most one-sided operations that the device had at a time
};

/// One endpoint of this process.
struct endpoint_counters {
  /// endpoint_counter_rows says what these count.
  ///@{
  std::uint64_t polls = 0;
  std::uint64_t connections = 0;
  std::uint64_t credits = 0, bank = 0, epochs = 0;  ///< of all domains; bank is that of now
  std::uint64_t registration_hits = 0, registrations = 0, evictions = 0, invalidations = 0;
  ///@}
  std::uint64_t bytes_registered = 0;  ///< now: bytes in the cache of registrations
  /// With segment everything: rights to other ranks' memory that were found, or asked for.
  ///@{
  std::uint64_t remote_hits = 0, remote_asks = 0;
  ///@}
  /// Of queue pairs: the most completions of sends that one domain awaited at a time, and the
  /// number that it has room for.
  ///@{
  std::uint64_t sends_most = 0, sends_room = 0;
  ///@}
  /// What the whole port has counted since it came up; 0 where the device has no such counters.
  ///@{
  std::uint64_t retransmissions = 0, receiver_not_ready = 0;
  ///@}
  /// The ranks that a message or an operation went to or came from, in order.
  std::vector<peer_counters> peers;
};

/// A counter's name in texts, what it counts, and where it lies.
template <class Of>
struct counter_row {
  const char* name;          ///< in texts
  const char* help;          ///< what it counts
  std::uint64_t Of::*field;  ///< where it lies
};

inline constexpr counter_row<message_counters> message_counter_rows[] = {
    {"shorts", "Shorts of user handlers", &message_counters::shorts},
    {"mediums", "Mediums of user handlers", &message_counters::mediums},
    {"longs", "Longs of user handlers", &message_counters::longs},
    {"medium_bytes", "payload bytes of Mediums", &message_counters::medium_bytes},
    {"long_bytes", "payload bytes of Longs", &message_counters::long_bytes},
    {"own", "messages of the library itself", &message_counters::own},
};

/// The four directions of a peer's messages, by the names that precede those of message_counters.
struct direction_row {
  const char* name;                        ///< precedes those of message_counters
  message_counters peer_counters::*field;  ///< where they lie
};
inline constexpr direction_row direction_rows[] = {
    {"requests_sent", &peer_counters::requests_sent},
    {"requests_handled", &peer_counters::requests_handled},
    {"replies_sent", &peer_counters::replies_sent},
    {"replies_handled", &peer_counters::replies_handled},
};

inline constexpr counter_row<peer_counters> peer_counter_rows[] = {
    {"puts", "puts given to the device", &peer_counters::puts},
    {"put_bytes", "bytes of these puts", &peer_counters::put_bytes},
    {"gets", "gets given to the device", &peer_counters::gets},
    {"get_bytes", "bytes of these gets", &peer_counters::get_bytes},
    {"device_atomics", "atomics given to the device", &peer_counters::device_atomics},
    {"rendezvous", "Mediums sent whose payload went by rendezvous", &peer_counters::rendezvous},
    {"stalls", "requests that waited for credits", &peer_counters::stalls},
    {"waits", "requests that waited for anything", &peer_counters::waits},
    {"wait_ns", "nanoseconds that these waited, ended waits only", &peer_counters::wait_ns},
    {"waiting_ns", "now: nanoseconds that the current wait has lasted", &peer_counters::waiting_ns},
    {"credit_messages", "messages that carried nothing but credits",
     &peer_counters::credit_messages},
    {"credits_lent", "credits lent to the rank on demand", &peer_counters::credits_lent},
    {"credits_revoked", "credits that the rank gave back", &peer_counters::credits_revoked},
    {"loan", "now: credits lent to the rank", &peer_counters::loan},
    {"holds", "now: free credits that the rank has lent", &peer_counters::holds},
    {"most_in_use", "most credits of the rank in use, as epochs remember",
     &peer_counters::most_in_use},
    {"ring_most", "most requests seen in the ring to the rank", &peer_counters::ring_most},
    {"transfers_most", "most puts, gets and atomics that the device had at a time",
     &peer_counters::transfers_most},
};

inline constexpr counter_row<endpoint_counters> endpoint_counter_rows[] = {
    {"polls", "polls of all threads", &endpoint_counters::polls},
    {"connections", "now: ranks that are connected", &endpoint_counters::connections},
    {"credits", "credits that this process lends or keeps", &endpoint_counters::credits},
    {"bank", "now: credits that are not lent", &endpoint_counters::bank},
    {"epochs", "epochs of credit statistics that have ended", &endpoint_counters::epochs},
    {"registration_hits", "uses of a cached registration", &endpoint_counters::registration_hits},
    {"registrations", "registrations made for puts, gets and Longs",
     &endpoint_counters::registrations},
    {"evictions", "registrations given up for room", &endpoint_counters::evictions},
    {"invalidations", "registrations lost because their memory changed",
     &endpoint_counters::invalidations},
    {"bytes_registered", "now: bytes held by the cache of registrations",
     &endpoint_counters::bytes_registered},
    {"remote_hits", "uses of a right to other ranks' memory", &endpoint_counters::remote_hits},
    {"remote_asks", "rights to other ranks' memory asked for", &endpoint_counters::remote_asks},
    {"sends_most", "most completions of sends awaited at a time in a domain",
     &endpoint_counters::sends_most},
    {"sends_room", "completions of sends that a domain has room for",
     &endpoint_counters::sends_room},
    {"retransmissions", "packets that the port sent again", &endpoint_counters::retransmissions},
    {"receiver_not_ready", "messages of the port that found no receive buffer",
     &endpoint_counters::receiver_not_ready},
};

}  // namespace penstock
