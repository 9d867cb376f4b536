// Memory windows of shm0, SEND with invalidate, and regions that are registered again.
#include <cerrno>

#include "nic/shm/context.hpp"
#include "nic/shm/window.hpp"
#include "test/nic/rig.hpp"

using rig::pair;

namespace {

constexpr int region_rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
constexpr unsigned opened = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

struct window_pair {
  pair p;
  ibv_mr* region;
  ibv_mw* window;

  explicit window_pair(ibv_mw_type type) {
    region = p.b.v.reg_mr(p.b.pd, p.b.memory.data(), 65536, region_rights);
    REQUIRE(region != nullptr);
    window = ibv_alloc_mw(p.b.pd, type);
    REQUIRE(window != nullptr);
  }
  window_pair(const window_pair&) = delete;
  window_pair& operator=(const window_pair&) = delete;
  ~window_pair() {
    if (window != nullptr) CHECK(ibv_dealloc_mw(window) == 0);
    CHECK(p.b.v.dereg_mr(region) == 0);
  }
  [[nodiscard]] std::uint64_t at(std::size_t offset) const {
    return reinterpret_cast<std::uint64_t>(p.b.memory.data()) + offset;
  }
  /// Binds [offset, offset + bytes) by a request of b's; how that ended.
  ibv_wc_status bind(std::uint32_t key, std::size_t offset, std::size_t bytes,
                     unsigned access = opened) {
    REQUIRE(p.b.post(1, IBV_WR_BIND_MW, 0, 0, IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
      wr.bind_mw = {window, key, {region, at(offset), bytes, access}};
    }) == 0);
    const ibv_wc wc = p.b.sent();
    if (wc.status == IBV_WC_SUCCESS) CHECK(wc.opcode == IBV_WC_BIND_MW);
    return wc.status;
  }
  ibv_wc_status write(std::uint32_t key, std::size_t offset, std::size_t bytes = 8) {
    REQUIRE(p.a.post(2, IBV_WR_RDMA_WRITE, 0, bytes, IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
      wr.wr.rdma = {at(offset), key};
    }) == 0);
    return p.a.sent().status;
  }
  [[nodiscard]] std::uint32_t next_key() const {
    return (window->rkey & ~0xffu) | ((window->rkey + 1) & 0xff);
  }
};

}  // namespace

TEST_CASE("the device says that it has windows of types 1 and 2B") {
  pair p;
  ibv_device_attr a{};
  REQUIRE(p.a.v.query_device(p.a.context, &a) == 0);
  CHECK((a.device_cap_flags & IBV_DEVICE_MEM_WINDOW) != 0);
  CHECK((a.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0);
  CHECK(a.max_mw > 0);
  CHECK(ibv_alloc_mw(p.a.pd, static_cast<ibv_mw_type>(3)) == nullptr);
  CHECK(errno == EINVAL);
}

TEST_CASE("a window of type 2 opens its part, for its rights, until it is closed") {
  window_pair w(IBV_MW_TYPE_2);
  std::memcpy(w.p.a.memory.data(), "windowed", 8);
  const std::uint32_t key = w.next_key();
  REQUIRE(w.bind(key, 100, 50) == IBV_WC_SUCCESS);
  CHECK(w.window->rkey == key);
  CHECK(w.write(key, 100) == IBV_WC_SUCCESS);
  CHECK(w.write(key, 142) == IBV_WC_SUCCESS);
  CHECK(std::memcmp(w.p.b.memory.data() + 142, "windowed", 8) == 0);
  CHECK(w.p.b.v.dereg_mr(w.region) == EBUSY);
  SUBCASE("not beyond its end") { CHECK(w.write(key, 143) == IBV_WC_REM_ACCESS_ERR); }
  SUBCASE("not for what it does not allow") {
    REQUIRE(
        w.p.a.post(3, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
          wr.wr.atomic = {w.at(104), 1, 0, key};
        }) == 0);
    CHECK(w.p.a.sent().status != IBV_WC_SUCCESS);
  }
  SUBCASE("not to bind it again while it is bound") {
    CHECK(w.bind(w.next_key(), 0, 8) == IBV_WC_MW_BIND_ERR);
    CHECK(w.p.b.state() == IBV_QPS_ERR);
  }
  SUBCASE("closed by its owner") {
    REQUIRE(w.p.b.post(4, IBV_WR_LOCAL_INV, 0, 0, IBV_SEND_SIGNALED,
                       [&](ibv_send_wr& wr) { wr.invalidate_rkey = key; }) == 0);
    const ibv_wc wc = w.p.b.sent();
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.opcode == IBV_WC_LOCAL_INV);
    // Other memory under the same key: what the peer has mapped is not what it gets.
    REQUIRE(w.bind(key, 4096, 64) == IBV_WC_SUCCESS);
    CHECK(w.write(key, 4096) == IBV_WC_SUCCESS);
    CHECK(std::memcmp(w.p.b.memory.data() + 4096, "windowed", 8) == 0);
    CHECK(w.write(key, 100) == IBV_WC_REM_ACCESS_ERR);
  }
  SUBCASE("closed by its peer") {
    REQUIRE(w.p.b.receive(5, 2048, 64) == 0);
    REQUIRE(w.p.a.post(6, IBV_WR_SEND_WITH_INV, 0, 8, IBV_SEND_SIGNALED,
                       [&](ibv_send_wr& wr) { wr.invalidate_rkey = key; }) == 0);
    const ibv_wc wc = w.p.b.received();
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK((wc.wc_flags & IBV_WC_WITH_INV) != 0);
    CHECK(wc.invalidated_rkey == key);
    CHECK(wc.byte_len == 8);
    CHECK(w.p.a.sent().status == IBV_WC_SUCCESS);
    CHECK(w.write(key, 100) == IBV_WC_REM_ACCESS_ERR);
  }
  SUBCASE("closed by its end") {
    CHECK(ibv_dealloc_mw(w.window) == 0);
    w.window = nullptr;
    CHECK(w.write(key, 100) == IBV_WC_REM_ACCESS_ERR);
  }
}

TEST_CASE("a SEND that closes what is not open breaks both ends") {
  window_pair w(IBV_MW_TYPE_2);
  REQUIRE(w.p.b.receive(5, 2048, 64) == 0);
  REQUIRE(w.p.a.post(6, IBV_WR_SEND_WITH_INV, 0, 8, IBV_SEND_SIGNALED,
                     [&](ibv_send_wr& wr) { wr.invalidate_rkey = w.region->rkey; }) == 0);
  CHECK(w.p.b.received().status == IBV_WC_LOC_ACCESS_ERR);
  CHECK(w.p.a.sent().status == IBV_WC_REM_ACCESS_ERR);
}

TEST_CASE("a window of type 2 is open to the queue pair that it was bound on alone") {
  window_pair w(IBV_MW_TYPE_2);
  rig::side c;  // its peer is another QP of the same domain at b
  ibv_qp* other = w.p.b.new_qp();
  REQUIRE(other != nullptr);
  REQUIRE(w.p.b.to_init(other) == 0);
  REQUIRE(w.p.b.to_rtr(other, c.gid, c.qp->qp_num) == 0);
  REQUIRE(w.p.b.to_rts(other) == 0);
  REQUIRE(c.to_rtr(c.qp, w.p.b.gid, other->qp_num) == 0);
  REQUIRE(c.to_rts(c.qp) == 0);
  const std::uint32_t key = w.next_key();
  REQUIRE(w.bind(key, 0, 4096) == IBV_WC_SUCCESS);
  CHECK(w.write(key, 0) == IBV_WC_SUCCESS);
  REQUIRE(c.post(2, IBV_WR_RDMA_WRITE, 0, 8, IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
    wr.wr.rdma = {w.at(0), key};
  }) == 0);
  CHECK(c.sent().status == IBV_WC_REM_ACCESS_ERR);
  CHECK(w.p.b.v.destroy_qp(other) == 0);
}

TEST_CASE("a window of type 1 is bound and bound again by a call, each time with another key") {
  window_pair w(IBV_MW_TYPE_1);
  std::memcpy(w.p.a.memory.data(), "windowed", 8);
  const auto bind = [&](std::size_t offset, std::size_t bytes) {
    ibv_mw_bind b{};
    b.wr_id = 7;
    b.send_flags = IBV_SEND_SIGNALED;
    b.bind_info = {w.region, w.at(offset), bytes, opened};
    REQUIRE(ibv_bind_mw(w.p.b.qp, w.window, &b) == 0);
    const ibv_wc wc = w.p.b.sent();
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.opcode == IBV_WC_BIND_MW);
    return w.window->rkey;
  };
  const std::uint32_t first = bind(0, 64), second = bind(64, 64);
  CHECK(first != second);
  CHECK(w.write(second, 64) == IBV_WC_SUCCESS);
  CHECK(std::memcmp(w.p.b.memory.data() + 64, "windowed", 8) == 0);
  SUBCASE("the first key is gone") { CHECK(w.write(first, 0) == IBV_WC_REM_ACCESS_ERR); }
  SUBCASE("no bytes close it") {
    bind(0, 0);
    CHECK(w.write(second, 64) == IBV_WC_REM_ACCESS_ERR);
  }
}

TEST_CASE("a window and a region of a parent domain are of the queue pair's domain") {
  window_pair w(IBV_MW_TYPE_2);
  ibv_parent_domain_init_attr around{};
  around.pd = w.p.b.pd;
  ibv_pd* parent = penstock::nic::shm::alloc_parent_domain(w.p.b.context, &around);
  REQUIRE(parent != nullptr);
  ibv_mr* region = w.p.b.v.reg_mr(parent, w.p.b.memory.data(), 65536, region_rights);
  ibv_mw* window = ibv_alloc_mw(parent, IBV_MW_TYPE_2);
  REQUIRE((region != nullptr && window != nullptr));
  std::swap(region, w.region);
  std::swap(window, w.window);
  const std::uint32_t key = w.next_key();
  CHECK(w.bind(key, 0, 64) == IBV_WC_SUCCESS);
  CHECK(w.write(key, 0) == IBV_WC_SUCCESS);
  CHECK(penstock::nic::shm::dealloc_pd(parent) == EBUSY);
  std::swap(region, w.region);
  std::swap(window, w.window);
  CHECK(ibv_dealloc_mw(window) == 0);
  CHECK(w.p.b.v.dereg_mr(region) == 0);
  CHECK(penstock::nic::shm::dealloc_pd(parent) == 0);
}

TEST_CASE("what cannot be bound is said so") {
  window_pair w(IBV_MW_TYPE_2);
  SUBCASE("more than the region") {
    CHECK(w.bind(w.next_key(), 65000, 1000) == IBV_WC_MW_BIND_ERR);
  }
  SUBCASE("the key of another window") {
    CHECK(w.bind(w.next_key() ^ 0x100, 0, 8) == IBV_WC_MW_BIND_ERR);
  }
  SUBCASE("a region that allows no window") {
    ibv_mr* plain = w.p.b.mr;
    std::swap(plain, w.region);
    CHECK(w.bind(w.next_key(), 0, 8) == IBV_WC_MW_BIND_ERR);
    std::swap(plain, w.region);
  }
  SUBCASE("nothing of it is an lkey") {
    const std::uint32_t key = w.next_key();
    REQUIRE(w.bind(key, 0, 64) == IBV_WC_SUCCESS);
    ibv_sge s{w.at(0), 8, key};
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = IBV_WR_SEND;
    wr.sg_list = &s;
    wr.num_sge = 1;
    REQUIRE(ibv_post_send(w.p.b.qp, &wr, &bad) == 0);
    CHECK(w.p.b.sent().status == IBV_WC_LOC_PROT_ERR);
  }
}

TEST_CASE("a region gets other memory and another domain under its key") {
  using penstock::nic::shm::rereg_mr;
  pair p;
  std::vector<std::byte> other(8192);
  ibv_mr* mr = p.b.v.reg_mr(p.b.pd, p.b.memory.data(), 8192, p.b.o.access);
  REQUIRE(mr != nullptr);
  const std::uint32_t key = mr->rkey;
  std::memcpy(p.a.memory.data(), "moved on", 8);
  const auto write = [&](const void* to) {
    REQUIRE(p.a.post(1, IBV_WR_RDMA_WRITE, 0, 8, IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
      wr.wr.rdma = {reinterpret_cast<std::uint64_t>(to), key};
    }) == 0);
    return p.a.sent().status;
  };
  CHECK(write(p.b.memory.data()) == IBV_WC_SUCCESS);
  SUBCASE("memory: the old one is closed") {
    REQUIRE(rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, other.data(), other.size(), 0) ==
            0);
    CHECK(mr->addr == other.data());
    CHECK(write(other.data()) == IBV_WC_SUCCESS);
    CHECK(std::memcmp(other.data(), "moved on", 8) == 0);
    CHECK(write(p.b.memory.data()) == IBV_WC_REM_ACCESS_ERR);
  }
  SUBCASE("domain: its keys are nothing to the old one's queue pairs") {
    ibv_pd* pd = p.b.v.alloc_pd(p.b.context);
    REQUIRE(rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, nullptr, 0, 0) == 0);
    CHECK(p.b.v.dealloc_pd(pd) == EBUSY);
    CHECK(write(p.b.memory.data()) == IBV_WC_REM_ACCESS_ERR);
    CHECK(p.b.v.dereg_mr(mr) == 0);
    mr = nullptr;
    CHECK(p.b.v.dealloc_pd(pd) == 0);
  }
  SUBCASE("a receive that is posted in what it was: the sender hears of it") {
    const ibv_sge s{reinterpret_cast<std::uint64_t>(p.b.memory.data()), 64, mr->lkey};
    ibv_recv_wr wr{}, *bad = nullptr;
    ibv_sge list = s;
    wr.sg_list = &list;
    wr.num_sge = 1;
    REQUIRE(ibv_post_recv(p.b.qp, &wr, &bad) == 0);
    REQUIRE(rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, other.data(), other.size(), 0) ==
            0);
    REQUIRE(p.a.send(2, 0, 8) == 0);
    CHECK(p.b.received().status == IBV_WC_LOC_PROT_ERR);
    CHECK(p.a.sent().status == IBV_WC_REM_OP_ERR);
  }
  SUBCASE("nothing that is not there") {
    CHECK(rereg_mr(mr, 0, nullptr, nullptr, 0, 0) == EINVAL);
    CHECK(rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, other.data(), 0, 0) == EINVAL);
    CHECK(write(p.b.memory.data()) == IBV_WC_SUCCESS);
  }
  if (mr != nullptr) CHECK(p.b.v.dereg_mr(mr) == 0);
}
