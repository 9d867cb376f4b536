#include "queues/dimensions.hpp"

#include <algorithm>

#include "lib/base/build_mode.hpp"
#include "queues/completion_room.hpp"

namespace penstock::queues {

std::uint32_t dimensions::send_completions(const ibv_device_attr& device) const noexcept {
  const std::uint32_t wanted = request_chunks + reply_chunks + 8 * (peers + 1) + depth;
  return std::min(wanted, static_cast<std::uint32_t>(device.max_cqe));
}

result<void> dimensions::fit(const ibv_device_attr& device, const std::string& name) const {
  struct demand {
    const char* what;
    std::uint32_t needs;
    int has;
    const char* hint;
  };
  constexpr auto fewer_credits = "lower PENSTOCK_CRED_PER_NODE or PENSTOCK_BANKED_CREDITS";
  constexpr auto fewer_chunks = "lower PENSTOCK_SB_CHUNKS or PENSTOCK_MSG_LIMIT";
  constexpr int shared_queues = 3;  // of small requests, large ones and replies
  constexpr auto least = completion_room<build_mode>::least;
  if (device.max_srq < shared_queues)
    return failure{name + " allows " + std::to_string(device.max_srq) +
                       " shared receive queues, and messages by verbs take " +
                       std::to_string(shared_queues),
                   0, "use another device"};
  const demand all[] = {
      {"a completion queue of sends", least, device.max_cqe, "use another device"},
      {"the completion queue of requests", request_receives(), device.max_cqe, fewer_credits},
      {"the receive queue of small requests", small_receives(), device.max_srq_wr, fewer_credits},
      {"the receive queue of large requests", bulk_receives(), device.max_srq_wr, fewer_credits},
      {"the completion queue of replies", reply_receives(), device.max_cqe, fewer_chunks},
      {"the receive queue of replies", reply_receives(), device.max_srq_wr, fewer_chunks},
      {"the send queue to one peer", depth, device.max_qp_wr, "lower PENSTOCK_OP_OUST_PP"},
  };
  for (const demand& d : all)
    if (d.has < 0 || d.needs > static_cast<std::uint32_t>(d.has))
      return failure{std::string(d.what) + " needs " + std::to_string(d.needs) + " entries, and " +
                         name + " allows " + std::to_string(d.has),
                     0, d.hint};
  return {};
}

std::uint32_t dimensions::most_peers(const ibv_device_attr& device) const {
  std::uint32_t fits = near, over = peers + 1;
  while (over - fits > 1) {
    const std::uint32_t middle = fits + (over - fits) / 2;
    (for_peers(middle).fit(device, "").has_value() ? fits : over) = middle;
  }
  return fits;
}

}  // namespace penstock::queues
