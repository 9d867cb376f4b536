#include "lib/gasnet/coll/team.hpp"

#include <algorithm>

#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

team::team(std::uint64_t id, std::vector<std::uint32_t> members, std::uint32_t own_rank)
    : id_(id), members_(std::move(members)), rank_(own_rank) {
  for (const std::uint32_t m : members_)
    one_host_ = one_host_ && self.nodes[m].host == self.nodes[members_.front()].host;
  for (auto& calls : calls_) calls.assign(1, 0);
  set_images(nullptr);
}

void team::set_images(const gasnet_image_t* counts) {
  first_.assign(1, 0);
  for (std::uint32_t r = 0; r < size(); ++r)
    first_.push_back(first_.back() + (counts == nullptr ? 1 : counts[r]));
  // The numbers of calls go on from those that were made before.
  calls_[by_image].assign(images_of(rank_), calls_[by_image].front());
}

bool team::find(std::uint32_t job_rank, std::uint32_t& r) const noexcept {
  // In the team of all, a rank's number is its own.
  if (job_rank < members_.size() && members_[job_rank] == job_rank) {
    r = job_rank;
    return true;
  }
  const auto at = std::find(members_.begin(), members_.end(), job_rank);
  r = static_cast<std::uint32_t>(at - members_.begin());
  return at != members_.end();
}

std::uint32_t team::rank_of_image(std::uint32_t image) const noexcept {
  if (images() == size()) return image;
  const auto at = std::upper_bound(first_.begin(), first_.end(), image);
  return static_cast<std::uint32_t>(at - first_.begin()) - 1;
}

operation* team::at(lane l, std::uint32_t number) {
  auto& q = queue_[l];
  const std::uint32_t place = number - oldest_[l];
  if (static_cast<std::int32_t>(place) < 0) return nullptr;
  while (q.size() <= place) {
    const auto next = oldest_[l] + static_cast<std::uint32_t>(q.size());
    auto& spare = spare_[l];
    if (spare.empty()) {
      q.push_back(std::make_unique<operation>(*this, l, next));
    } else {
      q.push_back(std::move(spare.back()));
      spare.pop_back();
      q.back()->reset(next);
    }
  }
  return q[place].get();
}

void team::retire() {
  constexpr std::size_t most_spare = 64;
  for (unsigned l = 0; l < 2; ++l)
    while (!queue_[l].empty() && queue_[l].front()->complete) {
      if (spare_[l].size() < most_spare) spare_[l].push_back(std::move(queue_[l].front()));
      queue_[l].pop_front();
      ++oldest_[l];
    }
}

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
