// What the device pretends to be: limits smaller than its own, and the behaviour of other adapters
// (PENSTOCK_SHM_PERSONALITY). It is fixed when a context is opened; the names are in
// PERSONALITIES.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/result.hpp"
#include "nic/shm/layout.hpp"
#include "nic/shm/limits.hpp"

namespace penstock::nic::shm {

/// The limits that query_device reports and that the control calls enforce.
struct device_limits {
  std::uint32_t qp = max_qps - first_qp;
  std::uint32_t qp_wr = max_queue_wr;
  std::uint32_t cq = max_cqs;
  std::uint32_t cqe = max_queue_cqe;
  std::uint32_t sge = max_sges;
  std::uint32_t inline_bytes = max_inline_bytes;
  std::uint32_t srq = max_srqs;  ///< 0: create_srq is refused
  std::uint32_t srq_wr = max_queue_wr;
  std::uint32_t mr = max_mrs - 1;
  std::uint32_t reads = max_reads;
};

/// When an armed completion queue gives its event for completions that it already holds.
enum class arming : std::uint8_t {
  left,   ///< when a poll leaves some; not at the arming
  held,   ///< at the arming, too, as mlx5 does
  later,  ///< never: only a completion that comes after the arming gives it, as the specification
          ///< says
};

struct personality {
  device_limits limits;
  /// A message enters the completion queue whether or not it has room, as on an adapter. Without
  /// this, messages wait in their rings until there is room.
  bool overruns = false;
  bool resizes = true;  ///< CQs and SRQs can be made longer and shorter
  /// How long a message of UC or UD waits for a receive (patience.hpp); 0: it is lost at once.
  std::uint32_t receive_wait_ms = 1000;
  bool has_lids = false;         ///< an InfiniBand port, in contexts of the provider
  bool adapter_atomics = false;  ///< atomics are said to be the adapter's (IBV_ATOMIC_HCA)
  arming armed = arming::left;
  std::uint32_t part = 1;  ///< the adapter's number; programs go by it where makes differ
  std::string text;        ///< as the setting gave it; empty: the device itself
};

/// Reads names and LIMIT=NUMBER, separated by commas; later ones prevail. The failure lists the
/// names that exist.
result<personality> parse_personality(std::string_view text);

}  // namespace penstock::nic::shm
