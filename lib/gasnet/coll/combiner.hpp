// The receives of a round that combine what comes with elements that are here. Elements that are
// mapped here are read where they lie; others are fetched in chunks, the next one while one is
// combined, so that a chunk is still in the cache then; those that their owner has to send are
// asked for at once. operation.cpp uses it, inside the engine of collectives; only the counters are
// also counted down by handlers and completions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/gasnet/coll/arrival.hpp"
#include "lib/gasnet/coll/collective.hpp"
#include "lib/gasnet/coll/schedule.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

class combiner {
 public:
  combiner() = default;
  combiner(const combiner&) = delete;
  combiner& operator=(const combiner&) = delete;

  /// Adds a receive of this round, in order.
  void expect(step& s) { parts_.push_back({&s, nullptr, nullptr}); }
  /// Takes the message of a receive that was added, from that rank of the job.
  void deliver(const step& s, std::unique_ptr<arrival> a, std::uint32_t from);
  /// Combines, in the order of the receives, what has come, and thanks the lenders. True: nothing
  /// of the round is left. job_rank(r) is the job's rank of member r.
  template <class JobRank>
  bool advance(const reduction& how, JobRank&& job_rank) {
    for (; next_ < parts_.size(); ++next_)
      if (!combine(parts_[next_], how, job_rank(parts_[next_].what->peer))) return false;
    parts_.clear();
    next_ = 0;
    return true;
  }
  /// True while chunks are under way to this process.
  [[nodiscard]] bool fetches() const noexcept { return asked_ != combined_; }

 private:
  struct chunk {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t room = 0;
    op_counter coming{0};  // pieces under way to it
    std::byte* with_room(std::size_t n);
  };
  struct part {
    step* what;
    std::unique_ptr<arrival> message;  // null: it has not come
    std::unique_ptr<chunk> sent;       // where its owner sends the bytes
  };
  bool combine(part& p, const reduction& how, std::uint32_t from);
  bool combine_in_chunks(const step& s, const arrival& a, const reduction& how, std::uint32_t from);

  std::vector<part> parts_;
  std::size_t next_ = 0;
  chunk chunks_[2];                       // of parts_[next_], in turn
  std::size_t asked_ = 0, combined_ = 0;  // bytes of it
};

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
