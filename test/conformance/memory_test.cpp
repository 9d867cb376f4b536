// Keys, bounds and access rights of registered memory: which accesses are allowed, and the effects
// of others.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "test/conformance/differences.hpp"
#include "test/conformance/rig.hpp"

namespace penstock::conformance {
namespace {

/// One operation from a to b that must fail there: the status at a, and both queue pairs broken.
ibv_wc_status refused(duo& d, request r) {
  expect(r.post(d.a.qp.get()) == 0, "post_send");
  const ibv_wc wc = d.a.sent();
  if (wc.status == IBV_WC_SUCCESS) return wc.status;
  CHECK(d.a.n.state(d.a.qp.get()) == IBV_QPS_ERR);
  CHECK(until([&] { return d.b.n.state(d.b.qp.get()) == IBV_QPS_ERR; }));
  return wc.status;
}

request write_to(duo& d, std::uint64_t address, std::uint32_t rkey, std::size_t bytes = 8) {
  return request(IBV_WR_RDMA_WRITE, {d.a.mem.sge(0, bytes)}).at(address, rkey);
}
request read_from(duo& d, std::uint64_t address, std::uint32_t rkey, std::size_t bytes = 8) {
  return request(IBV_WR_RDMA_READ, {d.a.mem.sge(0, bytes)}).at(address, rkey);
}
request add_to(duo& d, std::uint64_t address, std::uint32_t rkey) {
  return request(IBV_WR_ATOMIC_FETCH_AND_ADD, {d.a.mem.sge(0, 8)}).atomic(address, rkey, 1);
}

}  // namespace

TEST_CASE("a registration has keys, an address and a length") {
  node n;
  const region r = n.memory(4096);
  CHECK(r.mr->addr == r.at(0));
  CHECK(r.mr->length == 4096);
  CHECK(r.mr->pd == n.pd);
  const region other = n.memory(4096);
  CHECK(other.mr->lkey != r.mr->lkey);
  CHECK(other.mr->rkey != r.mr->rkey);
}

TEST_CASE("remote rights to write need the local right to write") {
  const node n;
  static char buffer[64];
  CHECK(n.v.reg_mr(n.pd, buffer, sizeof buffer, IBV_ACCESS_REMOTE_WRITE) == nullptr);
  CHECK(errno == EINVAL);
  CHECK(n.v.reg_mr(n.pd, buffer, sizeof buffer, IBV_ACCESS_REMOTE_ATOMIC) == nullptr);
  CHECK(errno == EINVAL);
}

TEST_CASE("memory that is not mapped cannot be registered") {
  const node n;
  CHECK(n.v.reg_mr(n.pd, reinterpret_cast<void*>(std::uintptr_t{1} << 20), 4096,
                   IBV_ACCESS_LOCAL_WRITE) == nullptr);
  CHECK(errno != 0);
}

TEST_CASE("a page without the rights, anywhere inside, cannot be registered") {
  const node n;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  constexpr std::size_t pages = 5;
  void* p =
      ::mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(p != MAP_FAILED);
  auto* middle = static_cast<std::byte*>(p) + 2 * page;
  const auto registered = [&](unsigned access) {
    errno = 0;
    return static_cast<bool>(
        held<ibv_mr>(n.v.reg_mr(n.pd, p, pages * page, static_cast<int>(access)), n.v.dereg_mr));
  };
  REQUIRE(::mprotect(middle, page, PROT_NONE) == 0);
  // The kernel reads such pages of the program's own all the same, so nothing is said of access 0.
  CHECK_FALSE(registered(IBV_ACCESS_LOCAL_WRITE));
  CHECK(errno == EFAULT);
  REQUIRE(::mprotect(middle, page, PROT_READ) == 0);
  CHECK_FALSE(registered(IBV_ACCESS_LOCAL_WRITE));
  CHECK(errno == EFAULT);
  CHECK(registered(0));
  REQUIRE(::mprotect(middle, page, PROT_READ | PROT_WRITE) == 0);
  CHECK(registered(IBV_ACCESS_LOCAL_WRITE));
  ::munmap(p, pages * page);
}

TEST_CASE("the same memory may be registered twice") {
  node n;
  const region r = n.memory(4096);
  held<ibv_mr> again(n.v.reg_mr(n.pd, r.at(0), 4096, static_cast<int>(all_access)), n.v.dereg_mr);
  REQUIRE(again);
  CHECK(again.destroy() == 0);
}

TEST_CASE("a wrong rkey is an access error at the requester and breaks both ends") {
  duo d;
  CHECK(refused(d, write_to(d, d.b.mem.address(), d.b.mem.mr->rkey ^ 0x5500)) ==
        IBV_WC_REM_ACCESS_ERR);
}

TEST_CASE("a wrong rkey of a READ or an atomic is an access error") {
  {
    duo d;
    CHECK(refused(d, read_from(d, d.b.mem.address(), d.b.mem.mr->rkey ^ 0x5500)) ==
          IBV_WC_REM_ACCESS_ERR);
  }
  {
    duo d;
    CHECK(refused(d, add_to(d, d.b.mem.address(), d.b.mem.mr->rkey ^ 0x5500)) ==
          IBV_WC_REM_ACCESS_ERR);
  }
}

TEST_CASE("remote access one byte beyond either end is an access error and writes nothing") {
  for (const bool past_end : {true, false}) {
    CAPTURE(past_end);
    duo d({}, {}, 8192);
    d.a.mem.fill(0, 4096, 3);
    // The registration is the middle of the memory, so that what lies around it can be looked at.
    held<ibv_mr> inner(
        d.b.n.v.reg_mr(d.b.n.pd, d.b.mem.at(2048), 4096, static_cast<int>(all_access)),
        d.b.n.v.dereg_mr);
    REQUIRE(inner);
    const std::uint64_t start = d.b.mem.address(2048);
    CHECK(refused(d, write_to(d, past_end ? start + 4096 - 63 : start - 1, inner->rkey, 64)) ==
          IBV_WC_REM_ACCESS_ERR);
    CHECK(d.b.mem.word(2040) == 0);
    CHECK(d.b.mem.word(2048 + 4096) == 0);
  }
}

TEST_CASE("an address so large that address and length wrap around is an access error") {
  duo d;
  CHECK(refused(d, write_to(d, ~std::uint64_t{0} - 3, d.b.mem.mr->rkey, 64)) ==
        IBV_WC_REM_ACCESS_ERR);
}

TEST_CASE("each remote operation needs its right in the registration") {
  const auto without = [](unsigned access, auto make) {
    duo d;
    held<ibv_mr> mr(d.b.n.v.reg_mr(d.b.n.pd, d.b.mem.at(0), 4096, static_cast<int>(access)),
                    d.b.n.v.dereg_mr);
    expect(static_cast<bool>(mr), "reg_mr");
    return refused(d, make(d, d.b.mem.address(), mr->rkey));
  };
  const auto write = [](duo& d, std::uint64_t at, std::uint32_t k) { return write_to(d, at, k); };
  const auto read = [](duo& d, std::uint64_t at, std::uint32_t k) { return read_from(d, at, k); };
  CHECK(without(all_access & ~unsigned{IBV_ACCESS_REMOTE_WRITE}, write) == IBV_WC_REM_ACCESS_ERR);
  CHECK(without(all_access & ~unsigned{IBV_ACCESS_REMOTE_READ}, read) == IBV_WC_REM_ACCESS_ERR);
  CHECK(without(all_access & ~unsigned{IBV_ACCESS_REMOTE_ATOMIC}, add_to) == IBV_WC_REM_ACCESS_ERR);
  CHECK(without(all_access, write) == IBV_WC_SUCCESS);
  CHECK(without(all_access, read) == IBV_WC_SUCCESS);
  CHECK(without(all_access, add_to) == IBV_WC_SUCCESS);
}

TEST_CASE("each remote operation needs its right in the queue pair that is its target") {
  const auto without = [](unsigned access, auto make) {
    duo d({.access = all_access & ~access});
    return refused(d, make(d, d.b.mem.address(), d.b.mem.mr->rkey));
  };
  const auto write = [](duo& d, std::uint64_t at, std::uint32_t k) { return write_to(d, at, k); };
  const auto read = [](duo& d, std::uint64_t at, std::uint32_t k) { return read_from(d, at, k); };
  // The specification's answer to an operation that the queue pair does not allow.
  CHECK(without(IBV_ACCESS_REMOTE_WRITE, write) == IBV_WC_REM_INV_REQ_ERR);
  CHECK(without(IBV_ACCESS_REMOTE_READ, read) == IBV_WC_REM_INV_REQ_ERR);
  CHECK(without(IBV_ACCESS_REMOTE_ATOMIC, add_to) == IBV_WC_REM_INV_REQ_ERR);
}

TEST_CASE("an rkey of another protection domain is an access error") {
  duo d;
  ibv_pd* const other = d.b.n.v.alloc_pd(d.b.n.dev.context);
  REQUIRE(other != nullptr);
  {
    held<ibv_mr> mr(d.b.n.v.reg_mr(other, d.b.mem.at(0), 4096, static_cast<int>(all_access)),
                    d.b.n.v.dereg_mr);
    REQUIRE(mr);
    CHECK(refused(d, write_to(d, d.b.mem.address(), mr->rkey)) == IBV_WC_REM_ACCESS_ERR);
  }
  CHECK(d.b.n.v.dealloc_pd(other) == 0);
}

TEST_CASE("an rkey is worth nothing once its registration is gone") {
  duo d;
  region extra = d.b.n.memory(4096);
  const std::uint32_t key = extra.mr->rkey;
  CHECK(write_to(d, extra.address(), key).post(d.a.qp.get()) == 0);
  CHECK(d.a.sent().status == IBV_WC_SUCCESS);
  CHECK(extra.mr.destroy() == 0);
  CHECK(refused(d, write_to(d, extra.address(), key)) == IBV_WC_REM_ACCESS_ERR);
}

TEST_CASE("an rkey of a registration that is gone does not fit the next one") {
  duo d;
  region extra = d.b.n.memory(4096);
  const std::uint32_t key = extra.mr->rkey;
  CHECK(extra.mr.destroy() == 0);
  held<ibv_mr> next(d.b.n.v.reg_mr(d.b.n.pd, extra.at(0), 4096, static_cast<int>(all_access)),
                    d.b.n.v.dereg_mr);
  REQUIRE(next);
  CHECK(next->rkey != key);
  CHECK(refused(d, write_to(d, extra.address(), key)) == IBV_WC_REM_ACCESS_ERR);
}

TEST_CASE("sending from memory that its lkey does not cover is a local error") {
  for (const bool wrong_key : {true, false}) {
    CAPTURE(wrong_key);
    duo d;
    d.b.receive(0, 4096);
    ibv_sge s = d.a.mem.sge(d.a.mem.bytes - 64, wrong_key ? 64 : 65);
    if (wrong_key) s.lkey ^= 0x5500;
    REQUIRE(request(IBV_WR_SEND, {s}).post(d.a.qp.get()) == 0);
    CHECK(d.a.sent().status == (wrong_key ? here().bad_lkey : IBV_WC_LOC_PROT_ERR));
    CHECK(d.a.n.state(d.a.qp.get()) == IBV_QPS_ERR);
  }
}

TEST_CASE("reading into memory without the right to write is a local protection error") {
  duo d;
  held<ibv_mr> read_only(d.a.n.v.reg_mr(d.a.n.pd, d.a.mem.at(0), 4096, 0), d.a.n.v.dereg_mr);
  REQUIRE(read_only);
  ibv_sge s = d.a.mem.sge(0, 8);
  s.lkey = read_only->lkey;
  REQUIRE(
      request(IBV_WR_RDMA_READ, {s}).at(d.b.mem.address(), d.b.mem.mr->rkey).post(d.a.qp.get()) ==
      0);
  CHECK(d.a.sent().status == IBV_WC_LOC_PROT_ERR);
}

TEST_CASE("a receive into memory without the right to write fails at both ends") {
  duo d;
  held<ibv_mr> read_only(d.b.n.v.reg_mr(d.b.n.pd, d.b.mem.at(0), 4096, 0), d.b.n.v.dereg_mr);
  REQUIRE(read_only);
  ibv_sge s = d.b.mem.sge(0, 4096);
  s.lkey = read_only->lkey;
  REQUIRE(post_receive(d.b.qp.get(), {s}) == 0);
  REQUIRE(d.a.send(0, 64) == 0);
  CHECK(d.b.received().status == here().bad_receive_memory);
  CHECK(d.a.sent().status == here().bad_receive_memory_sender);
  CHECK(until([&] { return d.a.n.state(d.a.qp.get()) == IBV_QPS_ERR; }));
}

TEST_CASE("memory sent from may be without any right") {
  duo d;
  held<ibv_mr> read_only(d.a.n.v.reg_mr(d.a.n.pd, d.a.mem.at(0), 4096, 0), d.a.n.v.dereg_mr);
  REQUIRE(read_only);
  d.a.mem.fill(0, 64, 9);
  d.b.receive(0, 4096);
  ibv_sge s = d.a.mem.sge(0, 64);
  s.lkey = read_only->lkey;
  REQUIRE(request(IBV_WR_SEND, {s}).post(d.a.qp.get()) == 0);
  CHECK(d.b.received().status == IBV_WC_SUCCESS);
  CHECK(d.b.mem.holds(0, 64, 9));
}

}  // namespace penstock::conformance
