// The UD queue pair that carries connection set-up: small datagrams, which may be lost. It belongs
// to the connector, whose thread alone sends and receives.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>

#include "lib/base/build_mode.hpp"
#include "lib/base/result.hpp"
#include "nic/device.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

class datagrams {
 public:
  static constexpr std::size_t max_bytes = 256;

  /// Opens the queue pair on dev. buffers: datagrams that may wait to be received before further
  /// ones are lost. channel: gets an event of an arrival when one was asked for; null: none does.
  static result<std::unique_ptr<datagrams>> open(nic::device& dev, ibv_pd* pd,
                                                 std::uint32_t buffers,
                                                 ibv_comp_channel* channel = nullptr);
  ~datagrams();

  /// The completion queue of received datagrams.
  [[nodiscard]] ibv_cq* arrivals() const noexcept { return recv_cq_; }
  [[nodiscard]] std::uint32_t number() const noexcept { return qp_->qp_num; }
  /// Sends n bytes (at most max_bytes) to queue pair qpn of that rank, or drops them, as a network
  /// may, where no buffer is free.
  void send(std::uint32_t rank, const nic::address& to, std::uint32_t qpn, const void* bytes,
            std::size_t n) noexcept;
  /// Takes a datagram that has come. True: one had come, and n (at most max_bytes) of its bytes are
  /// copied to bytes; n is 0 if it was damaged.
  bool receive(std::byte* bytes, std::size_t& n) noexcept;

 private:
  datagrams() = default;
  result<void> set_up(ibv_pd* pd, std::uint32_t buffers, ibv_comp_channel* channel);
  /// Brings the queue pair from RESET to RTS, with every receive buffer posted.
  result<void> start();
  void start_again(const char* why) noexcept;
  int poll(ibv_cq* cq, int most, ibv_wc* wc) noexcept;
  void post(std::uint32_t buffer) noexcept;

  static constexpr std::size_t grh = 40;
  static constexpr std::uint32_t sends = 16;
  nic::device* dev_ = nullptr;
  ibv_cq *send_cq_ = nullptr, *recv_cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_mr* mr_ = nullptr;
  std::byte* memory_ = nullptr;
  std::size_t memory_bytes_ = 0;
  std::uint32_t buffers_ = 0;
  std::uint32_t free_sends_ = sends, next_send_ = 0;
  std::unordered_map<std::uint32_t, ibv_ah*> handles_;  // by rank
};

}  // namespace penstock::conduit::PENSTOCK_ABI
