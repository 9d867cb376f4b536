// What watches a context of the provider for `penverbs --stats` and `--trace`. A context that
// nobody watches has none, and its operations are the ordinary ones, which ask for nothing. In one
// that is watched no request takes the quick way: each is seen when it ends.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "nic/shm/traffic.hpp"

namespace penstock::nic::shm {

struct context;
struct queue_pair;
struct send_work;
enum class outcome : std::uint8_t;  // qp.hpp

/// Writes messages as the packets that InfiniBand would send, into a pcap file of ERF records
/// that all processes of a command append to. Checksums are 0.
class packet_trace {
 public:
  /// Makes the file with its head. 0 or an errno.
  static int make(const char* path) noexcept;
  ~packet_trace();
  /// 0 or an errno.
  int open(const char* path) noexcept;
  /// A request that has ended, and what its peer answered. Under the queue pair's `sending`.
  void message(queue_pair& qp, const send_work& w, ibv_wc_status status) noexcept;

 private:
  struct packet;
  void put(const packet& p, std::uint32_t payload) noexcept;
  void flush() noexcept;

  std::mutex lock_;
  int fd_ = -1;
  std::size_t held_ = 0;
  std::byte bytes_[32 * 1024];
};

class observer {
 public:
  /// Watches the context as the environment asks (PENVERBS_STATS, PENVERBS_TRACE: files that
  /// penverbs has made). Null with errno 0: it asks for nothing. Before the first queue pair.
  static std::unique_ptr<observer> of_environment(context& c) noexcept;

  void know(queue_pair& qp);
  void forget(const queue_pair& qp) noexcept;
  void sent(queue_pair& qp, const send_work& w, ibv_wc_status status) noexcept;
  void received(const ibv_wc* wc, int n) noexcept;

  int (*poll)(ibv_cq*, int n, ibv_wc* wc) = nullptr;  ///< what polls a queue otherwise
  /// What attempts a request otherwise.
  outcome (*attempt)(queue_pair&, send_work&, ibv_wc_status* why) noexcept = nullptr;

 private:
  traffic_file* traffic_ = nullptr;
  packet_trace trace_;
  bool traces_ = false;
  std::mutex lock_;
  std::unordered_map<std::uint32_t, queue_pair*> qps_;  // by number; under lock_
};

// The operations of a context that is watched.
int observed_poll_cq(ibv_cq*, int n, ibv_wc* wc) noexcept;
int observed_post(queue_pair& qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept;  // post.cpp
int observed_post_send(ibv_qp*, ibv_send_wr*, ibv_send_wr** bad) noexcept;
outcome observed_attempt(queue_pair& qp, send_work& w, ibv_wc_status* why) noexcept;

}  // namespace penstock::nic::shm
