// One-sided operations of shm0: into mapped memory, into memory that cannot be mapped, and with the
// peer's help.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <utility>

#include "lib/base/page.hpp"
#include "test/nic/rig.hpp"

using rig::pair;
namespace shm = penstock::nic::shm;

namespace {

/// A sealed memory file, mapped and registered at a side, so that the peer may map it.
struct shared_memory {
  rig::side& at;
  std::size_t bytes;
  std::byte* base = nullptr;
  ibv_mr* mr = nullptr;
  shared_memory(rig::side& s, std::size_t n, bool sealed = true) : at(s), bytes(n) {
    const int fd = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    REQUIRE(::ftruncate(fd, static_cast<off_t>(n)) == 0);
    if (sealed) REQUIRE(::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    base = static_cast<std::byte*>(::mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    shm::declare_shared(base, n, fd, 0);
    ::close(fd);
    mr = s.v.reg_mr(s.pd, base, n,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC);
    REQUIRE(mr != nullptr);
  }
  ~shared_memory() {
    if (mr != nullptr) at.v.dereg_mr(mr);
    shm::forget_shared(base);
    ::munmap(base, bytes);
  }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(base); }
};

std::uint64_t address(const rig::side& s, std::size_t offset) {
  return reinterpret_cast<std::uint64_t>(s.memory.data()) + offset;
}

int rdma(rig::side& s, ibv_wr_opcode op, std::size_t offset, std::size_t bytes, std::uint64_t to,
         std::uint32_t rkey, std::uint32_t imm = 0) {
  return s.post(1, op, offset, bytes, IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
    wr.wr.rdma = {to, rkey};
    wr.imm_data = imm;
  });
}

int atomic_op(rig::side& s, ibv_wr_opcode op, std::uint64_t to, std::uint32_t rkey,
              std::uint64_t operand, std::uint64_t swap = 0) {
  return s.post(1, op, 0, 8, IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
    wr.wr.atomic = {to, operand, swap, rkey};
  });
}

std::uint64_t word_at(const std::byte* p) {
  std::uint64_t w;
  std::memcpy(&w, p, sizeof w);
  return w;
}

/// Both ends break on a request that the target refuses.
void expect_refusal(pair& p, ibv_wc_status status) {
  CHECK(p.a.sent().status == status);
  CHECK(p.a.state() == IBV_QPS_ERR);
  ibv_async_event e;
  REQUIRE(rig::wait_for([&] { return shm::event_count(p.b.context).load() != 0; }));
  REQUIRE(p.b.v.get_async_event(p.b.context, &e) == 0);
  CHECK(e.event_type == IBV_EVENT_QP_ACCESS_ERR);
  CHECK(e.element.qp == p.b.qp);
  p.b.v.ack_async_event(&e);
  CHECK(p.b.state() == IBV_QPS_ERR);
}

}  // namespace

TEST_CASE("WRITE and READ move bytes of ordinary registered memory") {
  pair p;
  for (const std::size_t n : {std::size_t{1}, std::size_t{4096}, std::size_t{300'000}}) {
    std::memset(p.a.memory.data(), static_cast<int>(n & 0x7f) + 1, n);
    REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE, 0, n, address(p.b, 8), p.b.mr->rkey) == 0);
    const ibv_wc w = p.a.sent();
    CHECK(w.status == IBV_WC_SUCCESS);
    CHECK(w.opcode == IBV_WC_RDMA_WRITE);
    CHECK(std::memcmp(p.a.memory.data(), p.b.memory.data() + 8, n) == 0);
    REQUIRE(rdma(p.a, IBV_WR_RDMA_READ, 500'000, n, address(p.b, 8), p.b.mr->rkey) == 0);
    const ibv_wc r = p.a.sent();
    CHECK(r.status == IBV_WC_SUCCESS);
    CHECK(r.opcode == IBV_WC_RDMA_READ);
    CHECK(r.byte_len == n);
    CHECK(std::memcmp(p.a.memory.data() + 500'000, p.b.memory.data() + 8, n) == 0);
  }
  CHECK(rig::side::empty(p.b.recv_cq));
}

TEST_CASE("WRITE and READ into a shared file go the same way, mapped") {
  pair p;
  shared_memory m(p.b, 1 << 20);
  std::memset(p.a.memory.data(), 9, 5000);
  REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE, 0, 5000, m.address() + 123, m.mr->rkey) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  CHECK(std::memcmp(m.base + 123, p.a.memory.data(), 5000) == 0);
  auto* here =
      static_cast<std::byte*>(shm::map_remote(p.a.qp, m.address() + 4096, 8192, m.mr->rkey));
  REQUIRE(here != nullptr);
  here[0] = std::byte{77};
  CHECK(m.base[4096] == std::byte{77});
  CHECK(shm::map_remote(p.a.qp, m.address(), m.bytes + 1, m.mr->rkey) == nullptr);
  CHECK(shm::map_remote(p.a.qp, address(p.b, 0), 8, p.b.mr->rkey) == nullptr);
}

TEST_CASE(
    "WRITEs into mapped memory, inline or not, land whole and complete among SENDs in order") {
  pair p;
  shared_memory m(p.b, 1 << 16);
  for (std::size_t i = 0; i < 256; ++i) p.a.memory[i] = static_cast<std::byte>(i + 1);
  std::uint64_t id = 0;
  for (const std::size_t n : {0u, 1u, 7u, 8u, 9u, 64u, 256u})
    for (const unsigned flags :
         {0u, unsigned{IBV_SEND_SIGNALED}, unsigned{IBV_SEND_SIGNALED | IBV_SEND_INLINE}}) {
      std::memset(m.base, 0, 512);
      const auto edit = [&](ibv_send_wr& wr) { wr.wr.rdma = {m.address() + 3, m.mr->rkey}; };
      REQUIRE(p.a.post(++id, IBV_WR_RDMA_WRITE, 0, n, flags, edit) == 0);
      const ibv_wc wc = flags != 0 ? p.a.sent() : ibv_wc{};
      if (flags != 0) {
        CHECK(wc.wr_id == id);
        CHECK(wc.opcode == IBV_WC_RDMA_WRITE);
        CHECK(wc.byte_len == n);
      }
      REQUIRE(p.b.receive(id, 0, 64) == 0);
      REQUIRE(p.a.send(++id, 0, 8) == 0);
      CHECK(p.a.sent().wr_id == id);
      CHECK(m.base[2] == std::byte{0});
      CHECK(std::memcmp(m.base + 3, p.a.memory.data(), n) == 0);
      CHECK(m.base[3 + n] == std::byte{0});
    }
  CHECK(rig::side::empty(p.a.send_cq));
}

TEST_CASE("mapped memory is refused beyond its end, and when its region has gone") {
  pair p;
  shared_memory m(p.b, 1 << 16);
  REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE, 0, 8, m.address(), m.mr->rkey) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  const std::uint32_t rkey = m.mr->rkey;
  p.a.memory[0] = std::byte{1};
  SUBCASE("beyond its end") {
    REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE, 0, 8, m.address() + m.bytes - 7, rkey) == 0);
  }
  SUBCASE("gone") {
    REQUIRE(p.b.v.dereg_mr(m.mr) == 0);
    m.mr = nullptr;
    REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE, 0, 8, m.address(), rkey) == 0);
  }
  expect_refusal(p, IBV_WC_REM_ACCESS_ERR);
  CHECK(m.base[0] == std::byte{0});
}

TEST_CASE("a region's file that finds no descriptor free is asked for again") {
  pair p;
  // What there is for the connection is there before.
  REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE, 0, 8, address(p.b, 0), p.b.mr->rkey) == 0);
  REQUIRE(p.a.sent().status == IBV_WC_SUCCESS);
  shared_memory m(p.b, 1 << 16);
  std::memset(p.a.memory.data(), 9, 5000);
  struct rlimit all {};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &all) == 0);
  const int next = ::dup(0);
  ::close(next);
  struct rlimit none = all;
  none.rlim_cur = static_cast<rlim_t>(next);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  ibv_wc early{};
  int got = 0;
  const int posted = rdma(p.a, IBV_WR_RDMA_WRITE, 0, 5000, m.address(), m.mr->rkey);
  (void)rig::wait_for([&] { return (got = ibv_poll_cq(p.a.send_cq, 1, &early)) != 0; }, 0.1);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &all) == 0);
  REQUIRE(posted == 0);
  CHECK((got != 0 ? early : p.a.sent()).status == IBV_WC_SUCCESS);
  CHECK(std::memcmp(m.base, p.a.memory.data(), 5000) == 0);
  CHECK(shm::map_remote(p.a.qp, m.address(), 8192, m.mr->rkey) != nullptr);
}

TEST_CASE("a file that could be cut short is not mapped, and is written all the same") {
  pair p;
  shared_memory m(p.b, 1 << 16, false);
  CHECK(shm::map_remote(p.a.qp, m.address(), 8, m.mr->rkey) == nullptr);
  p.a.memory[0] = std::byte{3};
  REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE, 0, 1, m.address(), m.mr->rkey) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  CHECK(m.base[0] == std::byte{3});
}

TEST_CASE("atomics answer the old value, in mapped memory and in memory that is not") {
  pair p;
  shared_memory m(p.b, 1 << 16);
  struct place {
    std::byte* at;
    std::uint32_t rkey;
  };
  for (const place w :
       {place{m.base + 64, m.mr->rkey}, place{p.b.memory.data() + 64, p.b.mr->rkey}}) {
    const auto to = reinterpret_cast<std::uint64_t>(w.at);
    std::memset(w.at, 0, 8);
    REQUIRE(atomic_op(p.a, IBV_WR_ATOMIC_FETCH_AND_ADD, to, w.rkey, 5) == 0);
    ibv_wc wc = p.a.sent();
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.opcode == IBV_WC_FETCH_ADD);
    CHECK(word_at(p.a.memory.data()) == 0);
    CHECK(word_at(w.at) == 5);
    REQUIRE(atomic_op(p.a, IBV_WR_ATOMIC_CMP_AND_SWP, to, w.rkey, 5, 100) == 0);
    wc = p.a.sent();
    CHECK(wc.opcode == IBV_WC_COMP_SWAP);
    CHECK(word_at(p.a.memory.data()) == 5);
    CHECK(word_at(w.at) == 100);
    REQUIRE(atomic_op(p.a, IBV_WR_ATOMIC_CMP_AND_SWP, to, w.rkey, 5, 7) == 0);
    CHECK(p.a.sent().status == IBV_WC_SUCCESS);
    CHECK(word_at(p.a.memory.data()) == 100);
    CHECK(word_at(w.at) == 100);
  }
}

TEST_CASE("a misaligned atomic is an invalid request") {
  pair p;
  REQUIRE(atomic_op(p.a, IBV_WR_ATOMIC_FETCH_AND_ADD, address(p.b, 4), p.b.mr->rkey, 1) == 0);
  expect_refusal(p, IBV_WC_REM_INV_REQ_ERR);
}

TEST_CASE("a wrong rkey is an access error") {
  pair p;
  REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE, 0, 8, address(p.b, 0), p.b.mr->rkey ^ (1u << 20)) == 0);
  expect_refusal(p, IBV_WC_REM_ACCESS_ERR);
}

TEST_CASE("one byte beyond the region is an access error, and nothing is written") {
  pair p;
  p.a.memory[0] = std::byte{1};
  REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE, 0, 8, address(p.b, p.b.memory.size() - 7), p.b.mr->rkey) ==
          0);
  expect_refusal(p, IBV_WC_REM_ACCESS_ERR);
  CHECK(p.b.memory[p.b.memory.size() - 7] == std::byte{0});
}

TEST_CASE("an address just before the region is an access error") {
  pair p;
  REQUIRE(rdma(p.a, IBV_WR_RDMA_READ, 0, 8, address(p.b, 0) - 1, p.b.mr->rkey) == 0);
  expect_refusal(p, IBV_WC_REM_ACCESS_ERR);
}

TEST_CASE("a key of another protection domain is an access error") {
  pair p;
  ibv_pd* other = p.b.v.alloc_pd(p.b.context);
  ibv_mr* mr =
      p.b.v.reg_mr(other, p.b.memory.data(), 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE, 0, 8, address(p.b, 0), mr->rkey) == 0);
  expect_refusal(p, IBV_WC_REM_ACCESS_ERR);
  CHECK(p.b.v.dereg_mr(mr) == 0);
  CHECK(p.b.v.dealloc_pd(other) == 0);
}

TEST_CASE("a key without the right is an access error") {
  pair p;
  ibv_mr* mr = p.b.v.reg_mr(p.b.pd, p.b.memory.data(), 64, IBV_ACCESS_REMOTE_READ);
  REQUIRE(rdma(p.a, IBV_WR_RDMA_READ, 0, 8, address(p.b, 0), mr->rkey) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE, 0, 8, address(p.b, 0), mr->rkey) == 0);
  expect_refusal(p, IBV_WC_REM_ACCESS_ERR);
  CHECK(p.b.v.dereg_mr(mr) == 0);
}

TEST_CASE("a deregistered key is an access error, also after its place is used again") {
  pair p;
  ibv_mr* old =
      p.b.v.reg_mr(p.b.pd, p.b.memory.data(), 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  const std::uint32_t key = old->rkey;
  CHECK(p.b.v.dereg_mr(old) == 0);
  ibv_mr* fresh =
      p.b.v.reg_mr(p.b.pd, p.b.memory.data(), 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  CHECK(fresh->rkey != key);
  REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE, 0, 8, address(p.b, 0), key) == 0);
  expect_refusal(p, IBV_WC_REM_ACCESS_ERR);
  CHECK(p.b.v.dereg_mr(fresh) == 0);
}

TEST_CASE("a queue pair without the right refuses the operation") {
  rig::options closed;
  closed.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
  pair p({}, closed);
  REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE, 0, 8, address(p.b, 0), p.b.mr->rkey) == 0);
  expect_refusal(p, IBV_WC_REM_INV_REQ_ERR);
}

TEST_CASE("a wrong lkey is a local protection error") {
  pair p;
  REQUIRE(p.b.receive(1, 0, 64) == 0);
  REQUIRE(p.a.post(1, IBV_WR_SEND, 0, 8, 0, [](ibv_send_wr& wr) { wr.sg_list[0].lkey += 1; }) == 0);
  CHECK(p.a.sent().status == IBV_WC_LOC_PROT_ERR);
  CHECK(p.a.state() == IBV_QPS_ERR);
}

TEST_CASE("READ into memory that is not locally writable is a local protection error") {
  pair p;
  ibv_mr* mr = p.a.v.reg_mr(p.a.pd, p.a.memory.data(), 64, 0);
  REQUIRE(p.a.post(1, IBV_WR_RDMA_READ, 0, 8, 0, [&](ibv_send_wr& wr) {
    wr.sg_list[0].lkey = mr->lkey;
    wr.wr.rdma = {address(p.b, 0), p.b.mr->rkey};
  }) == 0);
  CHECK(p.a.sent().status == IBV_WC_LOC_PROT_ERR);
  CHECK(p.a.v.dereg_mr(mr) == 0);
}

TEST_CASE("WRITE with immediate writes, then takes a receive") {
  pair p;
  REQUIRE(p.b.receive(4, 4096, 16) == 0);
  std::memset(p.a.memory.data(), 5, 1000);
  REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 1000, address(p.b, 0), p.b.mr->rkey,
               htobe32(0xabcd)) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  const ibv_wc r = p.b.received();
  CHECK(r.wr_id == 4);
  CHECK(r.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
  CHECK(r.byte_len == 1000);
  CHECK(r.imm_data == htobe32(0xabcd));
  CHECK((r.wc_flags & IBV_WC_WITH_IMM) != 0);
  CHECK(p.b.memory[999] == std::byte{5});
  CHECK(p.b.memory[4096] == std::byte{0});
}

TEST_CASE(
    "WRITEs with immediate take the receives of a shared queue in order, also without bytes") {
  pair p({}, {.srq_wr = 4});
  constexpr std::uint32_t lengths[] = {0, 1, 8, 600, 4096, 0};
  for (unsigned round = 0; round < 3; ++round)
    for (std::uint32_t n : lengths) {
      CAPTURE(n);
      REQUIRE(p.b.receive(n + round, 4096, 0) == 0);
      p.b.memory[n] = std::byte{0x77};
      std::memset(p.a.memory.data(), static_cast<int>(round + 1), n);
      REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE_WITH_IMM, 0, n, address(p.b, 0), p.b.mr->rkey,
                   htobe32(n + 1)) == 0);
      CHECK(p.a.sent().status == IBV_WC_SUCCESS);
      const ibv_wc r = p.b.received();
      CHECK(r.wr_id == n + round);
      CHECK(r.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
      CHECK(r.byte_len == n);
      CHECK(be32toh(r.imm_data) == n + 1);
      for (std::uint32_t i = 0; i < n; ++i) REQUIRE(p.b.memory[i] == std::byte(round + 1));
      CHECK(p.b.memory[n] == std::byte{0x77});
    }
}

TEST_CASE("a WRITE with immediate that no key allows tells nothing") {
  pair p;
  REQUIRE(p.b.receive(1, 4096, 16) == 0);
  REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 8, address(p.b, 0), p.b.mr->rkey + 1) == 0);
  CHECK(p.a.sent().status == IBV_WC_REM_ACCESS_ERR);
  CHECK(p.b.received().status != IBV_WC_SUCCESS);  // flushed: the queue pair has failed
}

TEST_CASE("WRITE with immediate waits for a receive, and what follows waits behind it") {
  pair p;
  p.a.memory[0] = std::byte{1};
  REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 8, address(p.b, 0), p.b.mr->rkey) == 0);
  p.a.memory[100] = std::byte{2};
  REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE, 100, 8, address(p.b, 100), p.b.mr->rkey) == 0);
  CHECK(p.b.memory[0] == std::byte{1});
  p.b.memory[0] = std::byte{9};
  for (int i = 0; i < 1000; ++i) CHECK(rig::side::empty(p.a.send_cq));
  CHECK(p.b.memory[0] == std::byte{9});  // written once, however often the receive is asked for
  CHECK(p.b.memory[100] == std::byte{0});
  REQUIRE(p.b.receive(1, 4096, 0) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  CHECK(p.b.memory[100] == std::byte{2});
}

TEST_CASE("SEND with immediate carries it") {
  pair p;
  REQUIRE(p.b.receive(1, 0, 16) == 0);
  REQUIRE(p.a.post(1, IBV_WR_SEND_WITH_IMM, 0, 4, 0,
                   [](ibv_send_wr& wr) { wr.imm_data = htobe32(77); }) == 0);
  const ibv_wc r = p.b.received();
  CHECK(r.imm_data == htobe32(77));
  CHECK(r.opcode == IBV_WC_RECV);
}

TEST_CASE("an operation of no bytes looks at no key") {
  pair p;
  REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE, 0, 0, 0, 0) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
}

TEST_CASE("registration of memory that is not there, or with impossible rights, is refused") {
  rig::side a;
  void* gone = ::mmap(nullptr, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ::munmap(static_cast<std::byte*>(gone) + (1 << 15), 1 << 15);
  CHECK(a.v.reg_mr(a.pd, gone, 1 << 16, IBV_ACCESS_LOCAL_WRITE) == nullptr);
  CHECK(errno == EFAULT);
  ::munmap(gone, 1 << 15);
  CHECK(a.v.reg_mr(a.pd, static_cast<std::byte*>(gone) + 8, 0, IBV_ACCESS_LOCAL_WRITE) == nullptr);
  CHECK(errno == EFAULT);
  CHECK(a.v.reg_mr(a.pd, a.memory.data(), 64, IBV_ACCESS_REMOTE_WRITE) == nullptr);
  CHECK(errno == EINVAL);
  CHECK(a.v.reg_mr(a.pd, a.memory.data(), 64, IBV_ACCESS_ZERO_BASED) == nullptr);
  CHECK(errno == EOPNOTSUPP);
  static const char constant[8192] = {1};
  CHECK(a.v.reg_mr(a.pd, const_cast<char*>(constant), 64, IBV_ACCESS_LOCAL_WRITE) == nullptr);
  ibv_mr* mr = a.v.reg_mr(a.pd, const_cast<char*>(constant), 64, IBV_ACCESS_REMOTE_READ);
  CHECK(mr != nullptr);
  CHECK(a.v.dereg_mr(mr) == 0);
}

namespace {
void register_empty_region(const rig::options& o) {
  pair p(o);
  constexpr int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  // The beginning of a page, of those that an adapter would pin, is a region of none.
  const auto first = reinterpret_cast<std::uint64_t>(p.b.memory.data());
  void* page = reinterpret_cast<void*>((first | (penstock::page_bytes() - 1)) + 1);
  for (void* none : {static_cast<void*>(nullptr), page}) {
    CHECK(p.b.v.reg_mr(p.b.pd, none, 0, rights) == nullptr);
    CHECK(errno == EINVAL);
  }
  std::byte* within = static_cast<std::byte*>(page) + 8;
  ibv_mr* mr = p.b.v.reg_mr(p.b.pd, within, 0, rights);
  REQUIRE(mr != nullptr);
  CHECK(mr->length == 0);
  const auto at = reinterpret_cast<std::uint64_t>(within);
  REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE, 0, 0, at, mr->rkey) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE, 0, 1, at, mr->rkey) == 0);
  CHECK(p.a.sent().status == IBV_WC_REM_ACCESS_ERR);
  CHECK(p.b.v.dereg_mr(mr) == 0);
}
}  // namespace

TEST_CASE("an empty region can be registered where its address has a page, and opens nothing") {
  register_empty_region({});
}

TEST_CASE("so can one of a program whose memory is moved") { register_empty_region(rig::moving()); }

TEST_CASE("no byte is written under a key after its deregistration has returned") {
  pair p;
  shared_memory whole(p.b, 1 << 16);
  std::atomic<bool> stop{false};
  std::atomic<std::uint32_t> key{0};
  std::thread writer([&] {
    std::memset(p.a.memory.data(), 1, 4096);
    while (!stop.load()) {
      const std::uint32_t k = key.load();
      if (k == 0) continue;
      REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE, 0, 4096, whole.address(), k) == 0);
      const ibv_wc wc = p.a.sent();
      if (wc.status == IBV_WC_SUCCESS) continue;
      CHECK(wc.status == IBV_WC_REM_ACCESS_ERR);
      key.store(0);
      return;
    }
  });
  ibv_mr* mr =
      p.b.v.reg_mr(p.b.pd, whole.base, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  REQUIRE(mr != nullptr);
  key.store(mr->rkey);
  CHECK(rig::wait_for([&] { return whole.base[0] == std::byte{1}; }));
  CHECK(p.b.v.dereg_mr(mr) == 0);
  std::memset(whole.base, 0, 4096);
  CHECK(rig::wait_for([&] { return key.load() == 0; }));
  stop.store(true);
  writer.join();
  for (std::size_t i = 0; i < 4096; ++i)
    if (whole.base[i] != std::byte{0}) FAIL("written after deregistration at " << i);
}

TEST_CASE("no byte is written into a region after its queue pair and then it have gone") {
  constexpr std::size_t bytes = 1 << 20;
  for (int round = 0; round < 20; ++round) {
    pair p;
    shared_memory whole(p.b, bytes);
    const std::uint32_t key = whole.mr->rkey;
    std::atomic<bool> written{false};
    std::thread writer([&] {
      std::memset(p.a.memory.data(), 1, bytes);
      ibv_wc wc{};
      do {
        REQUIRE(rdma(p.a, IBV_WR_RDMA_WRITE, 0, bytes, whole.address(), key) == 0);
        wc = p.a.sent();
        written.store(true);
      } while (wc.status == IBV_WC_SUCCESS);
      CHECK(wc.status == IBV_WC_RETRY_EXC_ERR);
    });
    CHECK(rig::wait_for([&] { return written.load(); }));
    ::usleep(static_cast<useconds_t>(round) * 17);
    CHECK(p.b.v.destroy_qp(std::exchange(p.b.qp, nullptr)) == 0);
    REQUIRE(p.b.v.dereg_mr(std::exchange(whole.mr, nullptr)) == 0);
    std::memset(whole.base, 0, bytes);
    writer.join();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < bytes; ++i) wrong += whole.base[i] != std::byte{0};
    CHECK(wrong == 0);
  }
}
