// What the device reports and keeps to.
#pragma once

#include <cstdint>

namespace penstock::nic::shm {

inline constexpr std::uint32_t first_qp = 2;  ///< QP numbers 0 and 1 have a meaning of their own
inline constexpr std::uint32_t max_queue_wr = 1u << 17;
inline constexpr std::uint32_t max_queue_cqe = 1u << 22;
inline constexpr std::uint32_t max_sges = 16;
inline constexpr std::uint32_t max_inline_bytes = 1024;
inline constexpr std::uint32_t max_message_bytes = 1u << 30;
inline constexpr std::uint32_t max_datagram_bytes = 4096;
/// Datagrams of a context that wait for receives; while there are as many, its socket is not read.
inline constexpr std::uint32_t max_waiting_datagrams = 1024;
inline constexpr std::uint32_t max_reads = 128;
inline constexpr int gid_places = 8;  ///< some are empty, as some of every adapter's are
inline constexpr std::uint32_t ring_piece = 16 * 1024;  ///< longer messages cross in such pieces

}  // namespace penstock::nic::shm
