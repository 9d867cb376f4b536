// One-sided operations on an RC queue pair: WRITE, WRITE with immediate, READ, compare-and-swap,
// fetch-and-add, and the order between them. Access rights are in memory_test.cpp.
#include <doctest/doctest.h>

#include "test/conformance/rig.hpp"

namespace penstock::conformance {
namespace {

request write(duo& d, std::size_t from, std::size_t to, std::size_t n, std::uint64_t id = 0,
              unsigned flags = IBV_SEND_SIGNALED) {
  return request(IBV_WR_RDMA_WRITE, {d.a.mem.sge(from, n)}, id, flags)
      .at(d.b.mem.address(to), d.b.mem.mr->rkey);
}
request read(duo& d, std::size_t to, std::size_t from, std::size_t n, std::uint64_t id = 0,
             unsigned flags = IBV_SEND_SIGNALED) {
  return request(IBV_WR_RDMA_READ, {d.a.mem.sge(to, n)}, id, flags)
      .at(d.b.mem.address(from), d.b.mem.mr->rkey);
}
request swap(duo& d, std::size_t result, std::size_t at, std::uint64_t compare,
             std::uint64_t with) {
  return request(IBV_WR_ATOMIC_CMP_AND_SWP, {d.a.mem.sge(result, 8)})
      .atomic(d.b.mem.address(at), d.b.mem.mr->rkey, compare, with);
}
request add(duo& d, std::size_t result, std::size_t at, std::uint64_t value, std::uint64_t id = 0,
            unsigned flags = IBV_SEND_SIGNALED) {
  return request(IBV_WR_ATOMIC_FETCH_AND_ADD, {d.a.mem.sge(result, 8)}, id, flags)
      .atomic(d.b.mem.address(at), d.b.mem.mr->rkey, value);
}
ibv_wc done(duo& d, request r) {
  expect(r.post(d.a.qp.get()) == 0, "post_send");
  return d.a.sent();
}

}  // namespace

TEST_CASE(
    "a WRITE is in the target's memory when it completes, and the target sees no completion") {
  duo d;
  REQUIRE(d.b.receive(0, 64) == 0);
  d.a.mem.fill(100, 1000, 1);
  const ibv_wc wc = done(d, write(d, 100, 5001, 1000, 9));
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.opcode == IBV_WC_RDMA_WRITE);
  CHECK(wc.wr_id == 9);
  CHECK(d.b.mem.holds(5001, 1000, 1));
  CHECK(*d.b.mem.at(5000) == std::byte{0});
  CHECK(*d.b.mem.at(6001) == std::byte{0});
  CHECK(silent(d.b.recv_cq.get(), 20));
}

TEST_CASE("a WRITE gathers from several places") {
  duo d;
  d.a.mem.fill(0, 90, 3);
  const ibv_wc wc = done(
      d, request(IBV_WR_RDMA_WRITE, {d.a.mem.sge(0, 30), d.a.mem.sge(30, 1), d.a.mem.sge(31, 59)})
             .at(d.b.mem.address(7), d.b.mem.mr->rkey));
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(d.b.mem.holds(7, 90, 3));
}

TEST_CASE("an inline WRITE may be overwritten as soon as the post returns") {
  duo d({}, {.inline_bytes = 64});
  for (std::size_t i = 0; i < 8; ++i) {
    d.a.mem.word(0) = i + 1;
    REQUIRE(write(d, 0, i * 8, 8, i, IBV_SEND_SIGNALED | IBV_SEND_INLINE).post(d.a.qp.get()) == 0);
    d.a.mem.word(0) = 0;
  }
  CHECK(collect(d.a.send_cq.get(), 8).size() == 8);
  for (std::size_t i = 0; i < 8; ++i) CHECK(d.b.mem.word(i * 8) == i + 1);
}

TEST_CASE("operations without bytes succeed and need no memory") {
  duo d;
  CHECK(done(d, request(IBV_WR_RDMA_WRITE, {}).at(0, 0)).status == IBV_WC_SUCCESS);
  CHECK(done(d, request(IBV_WR_RDMA_READ, {}).at(0, 0)).status == IBV_WC_SUCCESS);
}

TEST_CASE("a WRITE with immediate takes a receive, writes nothing into it and tells its length") {
  duo d;
  REQUIRE(d.b.receive(8192, 64, 31) == 0);
  d.a.mem.fill(0, 500, 2);
  REQUIRE(request(IBV_WR_RDMA_WRITE_WITH_IMM, {d.a.mem.sge(0, 500)})
              .at(d.b.mem.address(100), d.b.mem.mr->rkey)
              .imm(77)
              .post(d.a.qp.get()) == 0);
  const ibv_wc wc = d.b.received();
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
  CHECK(wc.wr_id == 31);
  CHECK(wc.byte_len == 500);
  CHECK((wc.wc_flags & IBV_WC_WITH_IMM) != 0);
  CHECK(be32toh(wc.imm_data) == 77);
  CHECK(d.b.mem.holds(100, 500, 2));
  CHECK(d.b.mem.word(8192) == 0);
  CHECK(d.a.sent().opcode == IBV_WC_RDMA_WRITE);
}

TEST_CASE("a WRITE with immediate and no bytes is a notice only") {
  duo d;
  REQUIRE(post_receive(d.b.qp.get(), {}, 1) == 0);
  REQUIRE(request(IBV_WR_RDMA_WRITE_WITH_IMM, {}).at(0, 0).imm(5).post(d.a.qp.get()) == 0);
  const ibv_wc wc = d.b.received();
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.byte_len == 0);
  CHECK(be32toh(wc.imm_data) == 5);
}

TEST_CASE("what was written before a SEND is there when the message arrives") {
  duo d;
  for (std::uint32_t i = 1; i <= 50; ++i) {
    d.a.mem.fill(0, 3000, i);
    REQUIRE(d.b.receive(32768, 64) == 0);
    REQUIRE(write(d, 0, 4096, 3000, 0, 0).post(d.a.qp.get()) == 0);
    REQUIRE(d.a.send(0, 8) == 0);
    REQUIRE(d.b.received().status == IBV_WC_SUCCESS);
    CHECK(d.b.mem.holds(4096, 3000, i));
    REQUIRE(d.a.sent().status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("a READ brings the target's memory and scatters it") {
  duo d;
  d.b.mem.fill(333, 700, 4);
  const ibv_wc whole = done(d, read(d, 0, 333, 700, 3));
  CHECK(whole.status == IBV_WC_SUCCESS);
  CHECK(whole.opcode == IBV_WC_RDMA_READ);
  CHECK(whole.byte_len == 700);
  CHECK(d.a.mem.holds(0, 700, 4));
  const ibv_wc parts =
      done(d, request(IBV_WR_RDMA_READ, {d.a.mem.sge(8000, 100), d.a.mem.sge(9000, 600)})
                  .at(d.b.mem.address(333), d.b.mem.mr->rkey));
  CHECK(parts.status == IBV_WC_SUCCESS);
  CHECK(std::memcmp(d.a.mem.at(8000), d.b.mem.at(333), 100) == 0);
  CHECK(std::memcmp(d.a.mem.at(9000), d.b.mem.at(433), 600) == 0);
  CHECK(*d.a.mem.at(9600) == std::byte{0});
}

TEST_CASE("more READs than may be outstanding all complete, in order") {
  duo d({.reads = 2}, {.sends = 32});
  for (std::size_t i = 0; i < 32; ++i) d.b.mem.word(i * 8) = 500 + i;
  for (std::size_t i = 0; i < 32; ++i)
    REQUIRE(read(d, 4096 + i * 8, i * 8, 8, i).post(d.a.qp.get()) == 0);
  const auto all = collect(d.a.send_cq.get(), 32);
  REQUIRE(all.size() == 32);
  for (std::size_t i = 0; i < 32; ++i) {
    CHECK(all[i].wr_id == i);
    CHECK(d.a.mem.word(4096 + i * 8) == 500 + i);
  }
}

TEST_CASE("large WRITEs and READs are whole") {
  const std::size_t most = std::size_t{8} << 20;
  duo d({}, {}, most);
  d.a.mem.fill(0, most, 1);
  CHECK(done(d, write(d, 0, 0, most)).status == IBV_WC_SUCCESS);
  CHECK(d.b.mem.holds(0, most, 1));
  d.b.mem.fill(0, most, 2);
  CHECK(done(d, read(d, 0, 0, most)).status == IBV_WC_SUCCESS);
  CHECK(d.a.mem.holds(0, most, 2));
}

TEST_CASE("a READ sees the WRITE before it") {
  duo d;
  for (std::uint32_t i = 1; i <= 20; ++i) {
    d.a.mem.fill(0, 2000, i);
    REQUIRE(write(d, 0, 100, 2000, 0, 0).post(d.a.qp.get()) == 0);
    CHECK(done(d, read(d, 8192, 100, 2000)).status == IBV_WC_SUCCESS);
    CHECK(d.a.mem.holds(8192, 2000, i));
  }
}

TEST_CASE("a fenced SEND waits for the READ before it, whose result it carries") {
  duo d;
  for (std::uint32_t i = 1; i <= 20; ++i) {
    d.b.mem.fill(0, 4000, i);
    REQUIRE(d.b.receive(8192, 4096) == 0);
    REQUIRE(read(d, 0, 0, 4000, 1, 0).post(d.a.qp.get()) == 0);
    REQUIRE(d.a.send(0, 4000, 2, IBV_SEND_SIGNALED | IBV_SEND_FENCE) == 0);
    REQUIRE(d.b.received().status == IBV_WC_SUCCESS);
    CHECK(d.b.mem.holds(8192, 4000, i));
    REQUIRE(d.a.sent().status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("a fenced WRITE carries the result of the atomic before it") {
  duo d;
  d.b.mem.word(0) = 41;
  REQUIRE(add(d, 0, 0, 1, 1, 0).post(d.a.qp.get()) == 0);
  CHECK(done(d, write(d, 0, 64, 8, 2, IBV_SEND_SIGNALED | IBV_SEND_FENCE)).status ==
        IBV_WC_SUCCESS);
  CHECK(d.b.mem.word(64) == 41);
  CHECK(d.b.mem.word(0) == 42);
}

TEST_CASE("fetch-and-add returns what was there and adds modulo 2^64") {
  duo d;
  d.b.mem.word(16) = 5;
  const ibv_wc wc = done(d, add(d, 0, 16, 7));
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.opcode == IBV_WC_FETCH_ADD);
  CHECK(wc.byte_len == 8);
  CHECK(d.a.mem.word(0) == 5);
  CHECK(d.b.mem.word(16) == 12);
  CHECK(done(d, add(d, 0, 16, ~std::uint64_t{0})).status == IBV_WC_SUCCESS);
  CHECK(d.a.mem.word(0) == 12);
  CHECK(d.b.mem.word(16) == 11);
}

TEST_CASE("compare-and-swap swaps if equal and returns what was there either way") {
  duo d;
  d.b.mem.word(16) = 5;
  ibv_wc wc = done(d, swap(d, 0, 16, 4, 100));
  CHECK(wc.status == IBV_WC_SUCCESS);
  CHECK(wc.opcode == IBV_WC_COMP_SWAP);
  CHECK(d.a.mem.word(0) == 5);
  CHECK(d.b.mem.word(16) == 5);
  CHECK(done(d, swap(d, 0, 16, 5, 100)).status == IBV_WC_SUCCESS);
  CHECK(d.a.mem.word(0) == 5);
  CHECK(d.b.mem.word(16) == 100);
}

TEST_CASE("an atomic on a misaligned address is refused or fails, and changes nothing") {
  duo d;
  request r = add(d, 0, 4, 1);
  if (r.post(d.a.qp.get()) == 0) {
    const ibv_wc_status s = d.a.sent().status;
    CHECK((s == IBV_WC_REM_INV_REQ_ERR || s == IBV_WC_REM_ACCESS_ERR || s == IBV_WC_LOC_QP_OP_ERR));
  }
  CHECK(d.b.mem.word(0) == 0);
  CHECK(d.b.mem.word(8) == 0);
}

TEST_CASE("atomics of several queue pairs on one word lose no addition") {
  node n;
  constexpr std::size_t pairs = 4, each = 40;
  side target(n, {});
  std::vector<std::unique_ptr<side>> from, to;
  for (std::size_t i = 0; i < pairs; ++i) {
    from.push_back(std::make_unique<side>());
    to.push_back(std::make_unique<side>(n, qp_shape{}));
    n.connect(to[i]->qp.get(), from[i]->reach());
    from[i]->n.connect(from[i]->qp.get(), to[i]->reach());
  }
  std::size_t good = 0;
  for (std::size_t k = 0; k < each; ++k) {
    for (auto& f : from)
      REQUIRE(request(IBV_WR_ATOMIC_FETCH_AND_ADD, {f->mem.sge(0, 8)})
                  .atomic(target.mem.address(), target.mem.mr->rkey, 1)
                  .post(f->qp.get()) == 0);
    for (auto& f : from) good += f->sent().status == IBV_WC_SUCCESS ? 1 : 0;
  }
  CHECK(good == pairs * each);
  CHECK(target.mem.word(0) == pairs * each);
}

TEST_CASE("one-sided operations complete though the target never polls") {
  duo d({}, {.sends = 64});
  for (std::size_t i = 0; i < 20; ++i) {
    REQUIRE(write(d, 0, 0, 64).post(d.a.qp.get()) == 0);
    REQUIRE(read(d, 64, 0, 64).post(d.a.qp.get()) == 0);
    REQUIRE(add(d, 128, 64, 1).post(d.a.qp.get()) == 0);
  }
  CHECK(collect(d.a.send_cq.get(), 60).size() == 60);
  CHECK(d.b.mem.word(64) == 20);
}

}  // namespace penstock::conformance
