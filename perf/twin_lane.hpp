// The verbs objects of one measurement of the bare-verbs twin: a connected queue pair, its SRQ and
// its completion queues, made new each time so that nothing is left over from the measurement
// before. Used by twin_verbs.cpp only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "perf/twin_verbs.hpp"

namespace penstock::perf {

/// Memory that both directions use, registered once: what is sent, what others read and write, and
/// the slots of the posted receives.
struct twin_memory {
  std::byte* base = nullptr;
  std::size_t bytes = 0;
  std::size_t target = 0;  ///< offset of what the peer reads and writes
  std::size_t slots = 0;   ///< offset of the receive slots
  ibv_mr* mr = nullptr;
};

/// What a lane is made for.
struct lane_shape {
  std::uint32_t depth = 0;     ///< send queue
  std::uint32_t receives = 0;  ///< posted receives
  std::uint32_t stride = 0;    ///< bytes of each
};

/// One thread. Every wait ends with an error after the timeout.
class lane {
 public:
  lane(nic::device& d, ibv_pd* pd, const twin_memory& memory, std::uint64_t timeout_ns) noexcept
      : device_(d), v_(*d.verbs), pd_(pd), memory_(memory), timeout_ns_(timeout_ns) {}
  ~lane();
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;

  /// Makes the objects, posts the receives, connects to the peer's lane of the same measurement.
  result<void> open(const lane_shape& shape, const blob_swap& swap);

  [[nodiscard]] std::uint32_t depth() const noexcept { return shape_.depth; }
  [[nodiscard]] std::uint32_t receives() const noexcept { return shape_.receives; }
  [[nodiscard]] std::uint32_t inline_limit() const noexcept { return inline_limit_; }
  [[nodiscard]] std::uint64_t remote_target() const noexcept { return remote_target_; }
  [[nodiscard]] std::uint32_t remote_key() const noexcept { return remote_key_; }
  [[nodiscard]] bool reads_allowed() const noexcept { return reads_ != 0; }
  /// A SEND of the first `bytes` of the memory, inline if they fit; its next is null.
  void prepare(ibv_send_wr& wr, ibv_sge& sge, std::uint32_t bytes) const noexcept;

  /// Posts one send. False: failed.
  [[nodiscard]] bool post(ibv_send_wr& wr, bool signalled) noexcept;
  /// Sends posted and not known to be complete.
  [[nodiscard]] std::uint32_t in_flight() const noexcept { return posted_ - done_; }
  /// Takes send completions that are there; false: one failed.
  [[nodiscard]] bool reap() noexcept;
  /// Takes up to wc.size() receive completions; negative: one failed.
  [[nodiscard]] int receive(std::span<ibv_wc> wc) noexcept;
  /// Gives n consumed receive slots back once a quarter of them has been consumed. False: failed.
  [[nodiscard]] bool repost(std::uint32_t n) noexcept;

  /// Called when a look found nothing; false when the timeout has passed since the last success.
  [[nodiscard]] bool idle() noexcept {
    if (++empty_ < 4096) [[likely]]
      return true;
    return idle_slow();
  }
  void found() noexcept { empty_ = 0, idle_since_ = 0; }
  /// What went wrong.
  [[nodiscard]] failure broken() const { return problem_; }

 private:
  result<void> make();
  result<void> connect(const blob_swap& swap);
  bool fail(const char* what, int code) noexcept;
  bool idle_slow() noexcept;

  nic::device& device_;
  const nic::calls& v_;
  ibv_pd* pd_;
  const twin_memory& memory_;
  std::uint64_t timeout_ns_;
  lane_shape shape_;
  ibv_cq* sends_ = nullptr;
  ibv_cq* receives_ = nullptr;
  ibv_srq* srq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  std::uint32_t inline_limit_ = 0;
  std::uint8_t reads_ = 0;
  std::uint64_t remote_target_ = 0;
  std::uint32_t remote_key_ = 0;
  std::vector<ibv_recv_wr> slots_;  ///< in a ring, each linked to the next
  std::vector<ibv_sge> slot_sges_;
  std::uint32_t next_slot_ = 0, consumed_ = 0;
  std::uint32_t posted_ = 0, done_ = 0;
  std::uint32_t empty_ = 0;
  std::uint64_t idle_since_ = 0;
  failure problem_;
};

}  // namespace penstock::perf
