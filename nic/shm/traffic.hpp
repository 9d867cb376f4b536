// What the queue pairs of one command have carried (`penverbs --stats`): a file that all processes
// of the command map and write to, and that penverbs reads. A queue pair's record stays when it is
// gone.
#pragma once

#include <atomic>
#include <cstdint>

namespace penstock::nic::shm {

/// Counts of one queue pair. Bytes are payload; a packet has up to the path's MTU of them. The
/// target of a WRITE, a READ or an atomic takes no part in it, and does not count it.
struct qp_traffic {
  std::uint32_t device = 0, pid = 0, qpn = 0, type = 0;
  std::atomic<std::uint32_t> peer_qpn{0};
  std::atomic<std::uint64_t> sent{0}, sent_bytes{0}, sent_packets{0};  ///< messages that ended well
  std::atomic<std::uint64_t> received{0}, received_bytes{0}, received_packets{0};
  std::atomic<std::uint64_t> sends{0};    ///< of `sent`: SENDs
  std::atomic<std::uint64_t> rnr{0};      ///< times that a message found no receive at its peer
  std::atomic<std::uint64_t> retries{0};  ///< messages that had to wait for a peer out of reach
  std::atomic<std::uint64_t> errors{0};   ///< messages that ended in an error, without flushes
};

struct traffic_file {
  static constexpr std::uint32_t most = 1u << 16;  ///< later queue pairs are not counted
  std::atomic<std::uint32_t> used;                 ///< records taken, and attempts beyond the last
  qp_traffic at[most];

  /// Maps the file, and makes it if that is asked for. Null with errno. It stays mapped.
  static traffic_file* map(const char* path, bool make) noexcept;
  /// A record of the caller's own, or null: all are taken. Any thread of any process.
  qp_traffic* take() noexcept;
  /// How many records there are.
  [[nodiscard]] std::uint32_t count() const noexcept;
};

}  // namespace penstock::nic::shm
