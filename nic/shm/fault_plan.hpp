// The faults that PENSTOCK_SHM_FAULT asks for. This file holds their names and values only; what
// they do is in faults.hpp. The page for users is PERSONALITIES.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/result.hpp"

namespace penstock::nic::shm {

/// The verbs calls that can be made to fail.
enum class verb : std::uint8_t {
  alloc_pd,
  reg_mr,
  create_comp_channel,
  create_cq,
  create_srq,
  create_qp,
  create_ah,
  modify_qp,
  query_device,
  query_port,
  post_send,
  post_recv,
  post_srq_recv,
  poll_cq,
  req_notify_cq,
  count
};

struct fault_plan {
  /// The k-th operation ends with the code; k = 0: none does.
  struct nth {
    std::uint64_t k = 0;
    int code = 0;
  };
  /// A moment is given by a number of posted sends or by a time since opening; both 0: never.
  struct moment {
    std::uint64_t sends = 0, ns = 0;
    [[nodiscard]] bool ever() const noexcept { return sends != 0 || ns != 0; }
  };

  std::array<nth, static_cast<std::size_t>(verb::count)> calls;
  nth send, receive;  ///< the code is an ibv_wc_status
  moment gone, port_down;
  std::uint64_t port_down_ns = 0;  ///< how long the port stays down; 0: for ever
  double lost = 0, doubled = 0,
         overtaken = 0;        ///< probabilities that a datagram is lost, doubled, overtaken
  bool any_order = false;      ///< whether the bytes of a WRITE land in any order
  std::uint64_t rnr_ns = 0;    ///< least wait after receiver-not-ready
  std::uint64_t delay_ns = 0;  ///< added to everything that is sent
  double ns_per_byte = 0;      ///< 0: no rate limit
  std::uint64_t seed = 1;
  std::string text;  ///< as the setting gave it; empty: no fault
};

/// Reads NAME=VALUE words, separated by commas. The failure lists the words that exist.
result<fault_plan> parse_faults(std::string_view text);

}  // namespace penstock::nic::shm
