// How large the queues and pools of one engine on one device are, and whether the device can hold
// them. Used by queues.hpp and by the engine's memory report; it creates nothing.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/base/limits.hpp"
#include "lib/base/result.hpp"
#include "queues/placed_ring.hpp"
#include "queues/receive_pool.hpp"

namespace penstock::queues {

/// All the sizes; bytes and counts follow from settings and credits.
struct dimensions {
  std::uint32_t peers = 0;    ///< other processes
  std::uint32_t near = 0;     ///< those of them that are reached without queue pairs
  std::uint32_t credits = 0;  ///< total lent and banked
  std::uint32_t loan = 0;     ///< credits lent to each peer at start; part of `credits`
  std::uint32_t spares = 4;   ///< threads that can handle requests at a time
  std::uint32_t small_bytes = limits::credit_bytes;
  std::uint32_t full_bytes = limits::longest_message;  ///< of a bulk buffer
  std::uint32_t full_cost = limits::highest_cost;      ///< credits a bulk message costs
  /// Bytes of the space in which each peer places its messages above small_bytes; 0: they go by the
  /// bulk lane.
  std::uint32_t space = 0;
  /// Bytes for each peer: that space, behind a word in which the peer says what it has freed. 0: no
  /// rank of the job has such a space.
  std::uint32_t block = 0;
  /// The most receive memory for a credit, where messages are placed: small buffers, those of the
  /// spares, and the space.
  static constexpr std::uint32_t placed_credit_bytes = 300;
  /// Receive buffers that belong to each spare: this number of small ones, and one bulk buffer,
  /// since a bulk message costs more than a post.
  std::uint32_t small_held = held_back::most;
  /// Receives behind the reply lanes that belong to each spare. The thread that holds the spare
  /// reposts this number at once.
  std::uint32_t late_receives = most_late;
  static constexpr std::uint32_t most_late = 8;
  std::uint32_t words = 4;          ///< system messages of a peer that can be under way
  std::uint32_t more_replies = 16;  ///< receives behind the reply lanes beside all that are needed
  std::uint32_t request_chunks = 256, reply_chunks = 128, chunk_bytes = limits::longest_message;
  std::uint32_t depth = 64;      ///< of each send queue
  std::uint32_t max_inline = 0;  ///< asked for each queue pair

  /// Peers by queue pairs for which there is room from the start. For each further one, room is
  /// made when it is connected (message_queues::admit_peer).
  static constexpr std::uint32_t first_peers = 64;
  [[nodiscard]] std::uint32_t peers_at_start() const noexcept {
    return std::min(peers, near + first_peers);
  }
  /// The sizes for n of the peers, when the others have sent nothing and can send nothing: their
  /// loans need no buffers.
  [[nodiscard]] dimensions for_peers(std::uint32_t n) const noexcept {
    dimensions d = *this;
    d.peers = n;
    d.credits = credits - loan * (peers - n);
    return d;
  }

  [[nodiscard]] std::uint32_t bulk_buffers() const noexcept {
    return (credits + full_cost - 1) / full_cost;
  }
  /// Receive buffers of either size.
  [[nodiscard]] std::uint32_t small_receives() const noexcept {
    return credits + spares * small_held;
  }
  [[nodiscard]] std::uint32_t bulk_receives() const noexcept {
    return space != 0 ? 0 : bulk_buffers() + spares;
  }
  /// Peers that send by queue pairs.
  [[nodiscard]] std::uint32_t senders() const noexcept { return peers - near; }
  /// Completions that am_cq may hold: one for each buffer.
  [[nodiscard]] std::uint32_t request_receives() const noexcept {
    return small_receives() + bulk_receives();
  }
  /// Most receives that are reposted at once.
  static constexpr std::uint32_t receives_a_post = 16;
  /// One for each request that is out, those for the system messages of each peer, late_receives
  /// for each spare, and more_replies.
  [[nodiscard]] std::uint32_t reply_receives() const noexcept {
    return request_chunks + words * peers + more_replies + spares * late_receives;
  }
  /// Signalled work requests that may wait in send_cq, if the device's queue is that long; a
  /// shorter queue has fewer tickets (completion_room.hpp). They suffice when every chunk is in use
  /// and every lane has a few signals.
  [[nodiscard]] std::uint32_t send_completions(const ibv_device_attr& device) const noexcept;
  /// Queue pairs to each peer that complete in send_cq.
  static constexpr std::uint32_t lanes = 3;
  /// Whether lanes may leave work requests unsignalled. A queue pair that enters the error state
  /// gives back all that it has, also what took no ticket; send_cq has entries for these where they
  /// take little memory, in a job of few peers, and the device's queues are that long. Otherwise
  /// every work request is signalled, and takes a ticket.
  [[nodiscard]] bool leaves_unsignalled(const ibv_device_attr& device) const noexcept;
  /// The entries of send_cq. unsignalled: leaves_unsignalled() of the whole job.
  [[nodiscard]] std::uint32_t send_entries(const ibv_device_attr& device,
                                           bool unsignalled) const noexcept;
  /// Bytes registered for receiving requests.
  [[nodiscard]] std::size_t receive_bytes() const noexcept {
    return std::size_t{small_receives()} * small_bytes + std::size_t{bulk_receives()} * full_bytes +
           std::size_t{senders()} * block;
  }

  /// The fewest chunks for requests, as few as a user may ask for.
  static constexpr std::uint32_t least_chunks = 8;
  /// The same with shorter send queues and fewer chunks for requests, where the device's limits ask
  /// for that and no more: both numbers are the most that the user wants under way.
  [[nodiscard]] dimensions bounded(const ibv_device_attr& device) const noexcept;
  /// The same with the space for placed messages, if placed_credit_bytes leave each sender room for
  /// placing::fewest of the longest, and there is room for all peers from the start.
  [[nodiscard]] dimensions placed() const noexcept;
  /// The same with that number of spares, and no more receives than messages can need: a thread
  /// holds back none, and a reply or system message finds one that was posted for it.
  [[nodiscard]] dimensions lean(std::uint32_t few_spares) const noexcept;
  /// The most credits for whose buffers the device's queues have room beside those of the spares;
  /// 0 if there is none.
  [[nodiscard]] std::uint32_t most_credits(const ibv_device_attr& device) const noexcept;
  /// Fails, naming the queue and the setting to lower, if a queue that cannot be shorter exceeds
  /// the device's limit.
  /// cqe_set: the limit of completions is the user's.
  [[nodiscard]] result<void> fit(const ibv_device_attr& device, const std::string& name,
                                 bool cqe_set = false) const;
  /// The largest number of peers whose queues the device allows; at least `near`.
  [[nodiscard]] std::uint32_t most_peers(const ibv_device_attr& device) const;
};

}  // namespace penstock::queues
