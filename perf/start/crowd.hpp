// The datagrams of one engine's connector: counted as they pass the device, and answered in the
// name of all other ranks. The rank's own connector and its device do all that they do in a job; a
// played rank has no queue pairs, and names in its hello those of the rank, which so come to be
// connected to themselves.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "lib/conduit/connecting/hello.hpp"
#include "lib/conduit/engine.hpp"
#include "lib/conduit/introduction.hpp"

namespace penstock::start {

/// Datagrams that the rank's connector sends and gets, and their bytes.
struct datagram_counts {
  std::atomic<std::uint64_t> sent{0}, sent_bytes{0}, received{0}, received_bytes{0};
};
/// Counts those of a context's queue pairs from here on. After engine::open(), before start().
datagram_counts& count_datagrams(ibv_context* context) noexcept;

class crowd {
 public:
  /// Answers for all ranks of e's job but its own, as a connector answers (connect.cpp). they_ask:
  /// each of them has said hello before it hears the rank's, as where both sides connect at start.
  /// After count_datagrams().
  crowd(const conduit::engine& e, bool they_ask);
  crowd(const crowd&) = delete;
  crowd& operator=(const crowd&) = delete;
  ~crowd();

  /// The introduction of rank r, which the crowd plays, made from the rank's own.
  [[nodiscard]] conduit::introduction introduce(std::uint32_t r,
                                                const conduit::introduction& own) noexcept;
  /// Takes what a datagram of the rank's says, and to whom; the datagram itself goes to the crowd's
  /// one port, where it is lost: a thread that plays all ranks must not lose what each would hear.
  void direct(ibv_send_wr& wr) noexcept;
  [[nodiscard]] bool is_port(std::uint32_t qpn) const noexcept { return port_->number() == qpn; }

 private:
  void run() noexcept;
  void hear(std::uint32_t as, const conduit::hello& h) noexcept;

  nic::device device_;  // the rank's, which it closes
  std::uint32_t size_, domains_;
  bool they_ask_;
  std::unique_ptr<conduit::datagrams> port_;
  std::atomic<std::uint32_t> rank_port_{0};
  std::mutex lock_;
  std::condition_variable said_;
  std::deque<std::pair<std::uint32_t, conduit::hello>> to_hear_;  // and to whom
  std::vector<std::uint8_t> bound_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace penstock::start
