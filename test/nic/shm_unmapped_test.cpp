// Registered memory that its program has taken away since, by munmap, mprotect, or by cutting the
// file behind it: the request or the receive ends in an error, and no signal ends the program.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/page.hpp"
#include "nic/shm/memory_map.hpp"
#include "nic/shm/page_guard.hpp"
#include "test/nic/child.hpp"

using rig::pair;
using rig::side;

namespace {

constexpr std::size_t bytes = 1 << 20;

/// How memory goes.
enum class way : std::uint8_t { unmapped, closed, cut };
constexpr way ways[] = {way::unmapped, way::closed, way::cut};

/// Registered memory of its own mapping, of which the second half goes.
struct shrinking {
  side& s;
  way goes;
  int file = ::memfd_create("shrinking", MFD_CLOEXEC);
  std::byte* at = nullptr;
  ibv_mr* mr;
  explicit shrinking(side& of, way how = way::unmapped) : s(of), goes(how) {
    REQUIRE(::ftruncate(file, bytes) == 0);
    void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     goes == way::cut ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS,
                     goes == way::cut ? file : -1, 0);
    REQUIRE(p != MAP_FAILED);
    at = static_cast<std::byte*>(p);
    penstock::nic::shm::install_page_guard();
    std::memset(at, 7, bytes);
    mr = s.v.reg_mr(s.pd, at, bytes,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC);
    REQUIRE(mr != nullptr);
  }
  ~shrinking() {
    CHECK(s.v.dereg_mr(mr) == 0);
    ::munmap(at, goes == way::unmapped ? bytes / 2 : bytes);
    ::close(file);
  }
  shrinking(const shrinking&) = delete;
  shrinking& operator=(const shrinking&) = delete;
  void shrink() const {
    if (goes == way::unmapped) REQUIRE(::munmap(at + bytes / 2, bytes / 2) == 0);
    if (goes == way::closed) REQUIRE(::mprotect(at + bytes / 2, bytes / 2, PROT_NONE) == 0);
    if (goes == way::cut) REQUIRE(::ftruncate(file, bytes / 2) == 0);
  }
  ibv_sge piece(std::size_t offset, std::size_t n) const {
    return {reinterpret_cast<std::uint64_t>(at + offset), static_cast<std::uint32_t>(n), mr->lkey};
  }
  int receive(std::size_t offset, std::size_t n) const {
    ibv_sge g = piece(offset, n);
    ibv_recv_wr wr{}, *bad = nullptr;
    wr.sg_list = &g;
    wr.num_sge = 1;
    return ibv_post_recv(s.qp, &wr, &bad);
  }
  int post(ibv_wr_opcode op, std::size_t offset, std::size_t n, const side& to) const {
    ibv_sge g = piece(offset, n);
    ibv_send_wr wr{}, *bad = nullptr;
    wr.opcode = op;
    wr.sg_list = &g;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(to.memory.data());
    wr.wr.rdma.rkey = to.mr->rkey;
    return ibv_post_send(s.qp, &wr, &bad);
  }
  /// The second half is as the program has left it.
  bool gone() const {
    const auto first = reinterpret_cast<std::uint64_t>(at + bytes / 2);
    const auto left = penstock::nic::shm::pieces_of(first, first + bytes / 2);
    if (goes == way::unmapped) return left.empty();
    return left.size() == 1 && left[0].readable == (goes == way::cut);
  }
};

// Sizes that go by a slot and by the ring's data, and a place that begins where memory is.
struct place {
  std::size_t offset, n;
};
constexpr place gone[] = {{bytes / 2, 8},     {bytes / 2 + 100, 40},
                          {bytes / 2 - 4, 8}, {bytes / 2 - 4096, 8192},
                          {0, bytes},         {bytes / 2, bytes / 2}};

}  // namespace

TEST_CASE("a receive into memory that is not there any more ends in an error at both ends") {
  for (const way how : ways)
    for (const place& at : gone) {
      CAPTURE(how);
      CAPTURE(at.offset);
      CAPTURE(at.n);
      pair p;
      const shrinking m(p.b, how);
      REQUIRE(m.receive(at.offset, at.n) == 0);
      m.shrink();
      REQUIRE(p.a.send(1, 0, at.n) == 0);
      CHECK(p.b.received().status == IBV_WC_LOC_PROT_ERR);
      CHECK(p.b.state() == IBV_QPS_ERR);
      CHECK(rig::wait_for([&] { return p.a.state() == IBV_QPS_ERR; }));
      CHECK(m.gone());
    }
}

TEST_CASE("nothing is sent, written or read with memory that is not there any more") {
  for (const way how : ways)
    for (const ibv_wr_opcode op : {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ})
      for (const place& at : gone) {
        CAPTURE(how);
        CAPTURE(op);
        CAPTURE(at.offset);
        CAPTURE(at.n);
        pair p;
        const shrinking m(p.a, how);
        REQUIRE(p.b.receive(1, 0, bytes) == 0);
        m.shrink();
        REQUIRE(m.post(op, at.offset, at.n, p.b) == 0);
        CHECK(p.a.sent().status == IBV_WC_LOC_PROT_ERR);
        CHECK(p.a.state() == IBV_QPS_ERR);
        CHECK(side::empty(p.b.recv_cq));
        CHECK(m.gone());
      }
}

TEST_CASE("a receive is in memory that may be read only: the message ends in an error") {
  for (const std::size_t n : {8, 40, 8192}) {
    pair p;
    const shrinking m(p.b);
    REQUIRE(m.receive(0, n) == 0);
    REQUIRE(::mprotect(m.at, bytes / 2, PROT_READ) == 0);
    REQUIRE(p.a.send(1, 0, n) == 0);
    CHECK(p.b.received().status == IBV_WC_LOC_PROT_ERR);
    CHECK(m.at[0] == std::byte{7});
  }
}

TEST_CASE("a message that cannot be read leaves the shared receive to others") {
  for (const ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
    rig::options o;
    o.type = type;
    o.srq_wr = 8;
    pair p(o);
    const shrinking m(p.a);
    m.shrink();
    REQUIRE(p.b.receive(1, 0, 8192) == 0);
    REQUIRE(m.post(IBV_WR_SEND, bytes / 2, 8192, p.b) == 0);
    CHECK(p.a.sent().status == IBV_WC_LOC_PROT_ERR);
    side third(o);
    ibv_qp* to = p.b.new_qp();
    REQUIRE(to != nullptr);
    REQUIRE(p.b.to_init(to) == 0);
    REQUIRE(p.b.to_rtr(to, third.gid, third.qp->qp_num) == 0);
    REQUIRE(p.b.to_rts(to) == 0);
    REQUIRE(third.to_rtr(third.qp, p.b.gid, to->qp_num) == 0);
    REQUIRE(third.to_rts(third.qp) == 0);
    REQUIRE(third.send(2, 0, 8192) == 0);
    CHECK(third.sent().status == IBV_WC_SUCCESS);
    CHECK(p.b.received().status == IBV_WC_SUCCESS);
    CHECK(p.b.v.destroy_qp(to) == 0);
  }
}

TEST_CASE("what is still there goes on") {
  pair p;
  const shrinking m(p.a);
  m.shrink();
  REQUIRE(p.b.receive(1, 0, 8192) == 0);
  REQUIRE(m.post(IBV_WR_SEND, bytes / 2 - 8192, 8192, p.b) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
  CHECK(p.b.received().status == IBV_WC_SUCCESS);
  CHECK(p.b.memory[8191] == std::byte{7});
  REQUIRE(m.post(IBV_WR_RDMA_READ, 0, 8192, p.b) == 0);
  CHECK(p.a.sent().status == IBV_WC_SUCCESS);
}

TEST_CASE("a target whose memory is not there any more answers an error, and lives") {
  for (const std::string role :
       {"shrinking_memory", "closed_shrinking_memory", "closed_protected_memory"})
    for (const ibv_wr_opcode op :
         {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
      // Through /proc the kernel reaches protected memory, as an adapter does.
      if (role == "closed_protected_memory" && op != IBV_WR_ATOMIC_FETCH_AND_ADD) continue;
      CAPTURE(role);
      CAPTURE(op);
      rig::child c(role.c_str());
      side s;
      const rig::card theirs = rig::exchange(c.socket, rig::card_of(s));
      rig::connect(s, theirs);
      rig::meet(c.socket);
      REQUIRE(s.post(1, op, 0, 8, IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
        if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
          wr.wr.atomic.remote_addr = theirs.address;
          wr.wr.atomic.rkey = theirs.rkey;
          wr.wr.atomic.compare_add = 1;
        } else {
          wr.wr.rdma.remote_addr = theirs.address;
          wr.wr.rdma.rkey = theirs.rkey;
        }
      }) == 0);
      CHECK(s.sent().status == IBV_WC_REM_OP_ERR);
      ::shutdown(c.socket, SHUT_WR);
      CHECK(c.wait() == 0);
    }
}

TEST_CASE("a fault of the program's own is the program's") {
  CHECK(rig::child("faulty_with_handler").wait() == 5);
  CHECK(rig::child("faulty").wait() == -SIGSEGV);
}
