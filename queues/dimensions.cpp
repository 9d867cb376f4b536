#include "queues/dimensions.hpp"

#include <algorithm>

#include "lib/base/build_mode.hpp"
#include "queues/completion_room.hpp"
#include "queues/signals.hpp"

namespace penstock::queues {
namespace {

std::uint32_t entries(int limit) noexcept { return static_cast<std::uint32_t>(std::max(limit, 0)); }

}  // namespace

std::uint32_t dimensions::send_completions(const ibv_device_attr& device) const noexcept {
  const std::uint32_t wanted = request_chunks + reply_chunks + 8 * (peers + 1) + depth;
  return std::min(wanted, entries(device.max_cqe));
}

bool dimensions::leaves_unsignalled(const ibv_device_attr& device) const noexcept {
  return peers - near <= first_peers && send_entries(device, true) <= entries(device.max_cqe);
}

std::uint32_t dimensions::send_entries(const ibv_device_attr& device,
                                       bool unsignalled) const noexcept {
  return send_completions(device) +
         (unsignalled ? lanes * (peers - near) * most_unsignalled(depth) : 0);
}

dimensions dimensions::bounded(const ibv_device_attr& device) const noexcept {
  dimensions d = *this;
  d.depth = std::min(depth, entries(device.max_qp_wr));
  const std::uint32_t replies = std::min(entries(device.max_cqe), entries(device.max_srq_wr));
  const std::uint32_t others = reply_receives() - request_chunks;
  if (others + least_chunks <= replies)
    d.request_chunks = std::min(request_chunks, replies - others);
  return d;
}

dimensions dimensions::placed() const noexcept {
  dimensions d = *this;
  d.space = 0;
  d.block = peers > first_peers ? 0 : placing::unit;
  if (senders() == 0 || d.block == 0) return d;
  const std::uint64_t all = std::uint64_t{credits} * placed_credit_bytes,
                      small = std::uint64_t{small_receives()} * small_bytes;
  const std::uint64_t each = all > small ? (all - small) / senders() / placing::unit : 0;
  const std::uint32_t units = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(each, placing::most_bytes / placing::unit));
  if (units > placing::fewest * placing::units_of(full_bytes)) {
    d.space = (units - 1) * placing::unit;
    d.block += d.space;
  }
  return d;
}

dimensions dimensions::lean(std::uint32_t few_spares) const noexcept {
  dimensions d = *this;
  d.spares = few_spares;
  d.small_held = d.late_receives = 1;
  d.more_replies = 0;
  return d;
}

std::uint32_t dimensions::most_credits(const ibv_device_attr& device) const noexcept {
  dimensions d = *this;
  const std::uint32_t srq = entries(device.max_srq_wr);
  std::uint32_t fits = 0, over = srq + 1;
  while (over - fits > 1) {
    d.credits = fits + (over - fits) / 2;
    const bool may = d.small_receives() <= srq && d.bulk_receives() <= srq &&
                     d.request_receives() <= entries(device.max_cqe);
    (may ? fits : over) = d.credits;
  }
  return fits;
}

result<void> dimensions::fit(const ibv_device_attr& device, const std::string& name,
                             bool cqe_set) const {
  struct demand {
    const char* what;
    std::uint32_t needs;
    int has;
    const char* hint;
    bool by_user = false;  // the limit is the setting MAX_CQE
  };
  constexpr auto fewer_credits =
      "lower PENSTOCK_CRED_PER_NODE, PENSTOCK_BANKED_CREDITS, PENSTOCK_AMRECV_SPACE, "
      "PENSTOCK_RBUF_COUNT or "
      "PENSTOCK_AM_SPARES";
  constexpr auto fewer_replies =
      "lower PENSTOCK_SB_CHUNKS or PENSTOCK_AM_SPARES, or start fewer ranks";
  constexpr int shared_queues = 3;  // of small requests, large ones and replies
  constexpr auto least = completion_room<build_mode>::least;
  if (device.max_srq < shared_queues)
    return failure{name + " allows " + std::to_string(device.max_srq) +
                       " shared receive queues, and messages by verbs take " +
                       std::to_string(shared_queues),
                   0, "use another device"};
  const demand all[] = {
      {"a completion queue of sends", least, device.max_cqe, "use another device", cqe_set},
      {"the completion queue of requests", request_receives(), device.max_cqe, fewer_credits,
       cqe_set},
      {"the receive queue of small requests", small_receives(), device.max_srq_wr, fewer_credits},
      {"the receive queue of large requests", bulk_receives(), device.max_srq_wr, fewer_credits},
      {"the completion queue of replies", reply_receives(), device.max_cqe, fewer_replies, cqe_set},
      {"the receive queue of replies", reply_receives(), device.max_srq_wr, fewer_replies},
      {"the send queue to one peer", depth, device.max_qp_wr, "lower PENSTOCK_OP_OUST_PP"},
  };
  for (const demand& d : all)
    if (d.needs > entries(d.has))
      return failure{std::string(d.what) + " needs " + std::to_string(d.needs) + " entries, and " +
                         (d.by_user ? "PENSTOCK_MAX_CQE" : name) + " allows " +
                         std::to_string(d.has),
                     0, d.by_user ? "raise it" : d.hint};
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
