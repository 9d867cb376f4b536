// The tools of the conformance tests: an opened device, owners of verbs objects, connected pairs of
// queue pairs, and waits that end. Everything goes through penstock::nic::calls and the inline
// calls of <infiniband/verbs.h>. No test knows on which device it runs, except for the table of
// documented differences (differences.hpp).
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "nic/device.hpp"

namespace penstock::conformance {

/// The device under test: --device=NAME, else PENSTOCK_DEVICE, else "auto".
void set_device_name(std::string name);
const std::string& device_name();

/// Throws (which fails the test case) with `text` unless `good`. In either process and any thread.
void expect(bool good, const std::string& text);

constexpr unsigned all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::uint64_t patience_ns = 10'000'000'000;  ///< what a wait that must succeed is given

/// Owns a verbs object.
template <class T>
class held {
 public:
  held() = default;
  held(T* p, int (*with)(T*)) noexcept : p_(p), destroy_(with) {}
  held(held&& o) noexcept : p_(std::exchange(o.p_, nullptr)), destroy_(o.destroy_) {}
  held& operator=(held&& o) noexcept {
    std::swap(p_, o.p_);
    std::swap(destroy_, o.destroy_);
    return *this;
  }
  ~held() {
    if (p_ != nullptr) destroy_(p_);
  }
  [[nodiscard]] T* get() const noexcept { return p_; }
  T* operator->() const noexcept { return p_; }
  explicit operator bool() const noexcept { return p_ != nullptr; }
  /// Destroys now; what the call returned. The object stays owned if it refused.
  int destroy() {
    const int e = destroy_(p_);
    if (e == 0) p_ = nullptr;
    return e;
  }

 private:
  T* p_ = nullptr;
  int (*destroy_)(T*) = nullptr;
};

struct unmap {
  std::size_t bytes = 0;
  void operator()(std::byte* p) const noexcept;
};

/// Page-aligned zeroed memory with a registration.
class region {
 public:
  region() = default;
  region(const nic::calls& v, ibv_pd* pd, std::size_t length, unsigned access);
  [[nodiscard]] std::byte* at(std::size_t offset) const noexcept { return memory_.get() + offset; }
  [[nodiscard]] std::uint64_t address(std::size_t offset = 0) const noexcept {
    return reinterpret_cast<std::uintptr_t>(at(offset));
  }
  [[nodiscard]] ibv_sge sge(std::size_t offset, std::size_t length) const noexcept {
    return {address(offset), static_cast<std::uint32_t>(length), mr->lkey};
  }
  void fill(std::size_t offset, std::size_t length, unsigned seed) const noexcept;
  /// True if the bytes are what fill() wrote with that seed.
  [[nodiscard]] bool holds(std::size_t offset, std::size_t length, unsigned seed) const noexcept;
  [[nodiscard]] std::uint64_t& word(std::size_t offset) const noexcept {
    return *reinterpret_cast<std::uint64_t*>(at(offset));
  }
  std::size_t bytes = 0;

 private:
  std::unique_ptr<std::byte, unmap> memory_;

 public:
  held<ibv_mr> mr;  ///< after the memory: deregistered before it is unmapped
};

struct qp_shape {
  ibv_cq* send_cq = nullptr;
  ibv_cq* recv_cq = nullptr;
  ibv_srq* srq = nullptr;
  std::uint32_t sends = 32, receives = 32, sges = 4, inline_bytes = 0;
  std::uint32_t receive_sges = 0;  // 0: as many as sges
  bool signal_all = false;
  ibv_qp_type type = IBV_QPT_RC;
};

struct link_shape {
  std::uint8_t rnr_retry = 7, retry = 6, timeout = 14, min_rnr_timer = 1;
  std::uint8_t reads = 4;
  unsigned access = all_access;
};

/// How a queue pair is reached.
struct party {
  nic::address where;
  std::uint32_t qpn = 0;
};

/// An opened device with a protection domain. Outlives what it makes.
class node {
 public:
  node();
  ~node();
  node(const node&) = delete;
  node& operator=(const node&) = delete;

  held<ibv_cq> cq(int entries = 128, ibv_comp_channel* channel = nullptr);
  held<ibv_srq> srq(std::uint32_t receives = 64, std::uint32_t sges = 4);
  held<ibv_qp> qp(const qp_shape& shape);
  held<ibv_comp_channel> channel();
  region memory(std::size_t bytes, unsigned access = all_access) {
    return region(v, pd, bytes, access);
  }
  [[nodiscard]] party reach(const ibv_qp* qp) const { return {dev.self, qp->qp_num}; }

  int to_init(ibv_qp* qp, unsigned access = all_access);
  int to_rtr(ibv_qp* qp, const party& remote, const link_shape& shape = {});
  int to_rts(ibv_qp* qp, const link_shape& shape = {});
  int to_state(ibv_qp* qp, ibv_qp_state state);
  /// All three; throws if one is refused.
  void connect(ibv_qp* qp, const party& remote, const link_shape& shape = {});
  ibv_qp_state state(ibv_qp* qp);
  /// The next asynchronous event, acknowledged, or -1 when none came within ms.
  int async_event(int ms, ibv_async_event* event = nullptr);

  nic::device dev;
  const nic::calls& v;
  ibv_pd* pd = nullptr;
};

/// Up to n completions; fewer when limit_ns has passed. Yields between looks.
std::vector<ibv_wc> collect(ibv_cq* cq, std::size_t n, std::uint64_t limit_ns = patience_ns);
/// Exactly one completion; throws when none comes.
ibv_wc one(ibv_cq* cq);
/// True if nothing is completed within ms.
bool silent(ibv_cq* cq, int ms = 50);
/// Waits, yielding, until done() or the limit.
template <class F>
bool until(F done, std::uint64_t limit_ns = patience_ns);

/// A work request with its scatter list inside.
struct request {
  ibv_send_wr wr{};
  std::vector<ibv_sge> list;

  request(ibv_wr_opcode op, std::vector<ibv_sge> sges, std::uint64_t id = 0,
          unsigned flags = IBV_SEND_SIGNALED);
  request& at(std::uint64_t address, std::uint32_t rkey);
  request& atomic(std::uint64_t address, std::uint32_t rkey, std::uint64_t compare_add,
                  std::uint64_t swap = 0);
  request& imm(std::uint32_t value);
  /// ibv_post_send; its return value.
  int post(ibv_qp* qp);
};

int post_receive(ibv_qp* qp, std::vector<ibv_sge> list, std::uint64_t id = 0);
int post_receive(ibv_srq* srq, std::vector<ibv_sge> list, std::uint64_t id = 0);

/// One end of a connection: queues, a queue pair and a region, all of one context.
struct side {
  explicit side(const qp_shape& shape = {}, std::size_t bytes = 64 << 10);
  /// The same in a context that exists already.
  side(node& shared, const qp_shape& shape, std::size_t bytes = 64 << 10);

  [[nodiscard]] party reach() { return n.reach(qp.get()); }
  int send(std::size_t offset, std::size_t bytes, std::uint64_t id = 0,
           unsigned flags = IBV_SEND_SIGNALED) {
    return request(IBV_WR_SEND, {mem.sge(offset, bytes)}, id, flags).post(qp.get());
  }
  int receive(std::size_t offset, std::size_t bytes, std::uint64_t id = 0) {
    return post_receive(qp.get(), {mem.sge(offset, bytes)}, id);
  }
  ibv_wc sent() { return one(send_cq.get()); }
  ibv_wc received() { return one(recv_cq.get()); }

 private:
  side(std::unique_ptr<node> own, node* shared, const qp_shape& shape, std::size_t bytes);
  std::unique_ptr<node> own_;

 public:
  node& n;
  held<ibv_cq> send_cq, recv_cq;
  held<ibv_qp> qp;
  region mem;
};

/// Two connected sides in this process, each with its own context.
struct duo {
  explicit duo(const link_shape& link = {}, const qp_shape& shape = {},
               std::size_t bytes = 64 << 10);
  void connect(const link_shape& link);
  side a, b;
};

}  // namespace penstock::conformance

#include "test/conformance/rig_inl.hpp"
