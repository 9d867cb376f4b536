// SEND and RECV on an RC queue pair: contents, order, lists, immediates, inline, signalling, a full
// send queue. Errors are in errors_test.cpp.
#include <doctest/doctest.h>

#include <cerrno>

#include "test/conformance/rig.hpp"

namespace penstock::conformance {

TEST_CASE("a message arrives whole, with its length, and completes at both ends") {
  duo d;
  d.a.mem.fill(0, 1000, 1);
  REQUIRE(d.b.receive(4096, 2000, 11) == 0);
  REQUIRE(d.a.send(0, 1000, 22) == 0);
  const ibv_wc got = d.b.received();
  CHECK(got.status == IBV_WC_SUCCESS);
  CHECK(got.opcode == IBV_WC_RECV);
  CHECK(got.wr_id == 11);
  CHECK(got.byte_len == 1000);
  CHECK(got.qp_num == d.b.qp->qp_num);
  CHECK((got.wc_flags & IBV_WC_WITH_IMM) == 0);
  CHECK(d.b.mem.holds(4096, 1000, 1));
  CHECK(d.b.mem.word(4096 + 1000) == 0);
  const ibv_wc sent = d.a.sent();
  CHECK(sent.status == IBV_WC_SUCCESS);
  CHECK(sent.opcode == IBV_WC_SEND);
  CHECK(sent.wr_id == 22);
  CHECK(sent.qp_num == d.a.qp->qp_num);
}

TEST_CASE("messages of every length around line, slot and packet borders arrive whole") {
  duo d;
  std::uint32_t seed = 0;
  for (const std::size_t n :
       {1u,    2u,    7u,    8u,    31u,   32u,   47u,   48u,   49u,   55u,   56u,  57u,
        63u,   64u,   65u,   127u,  128u,  129u,  255u,  256u,  511u,  512u,  513u, 1023u,
        1024u, 1025u, 4031u, 4095u, 4096u, 4097u, 8191u, 8192u, 8193u, 20000u}) {
    CAPTURE(n);
    ++seed;
    d.a.mem.fill(3, n, seed);
    d.b.mem.fill(32768 - 5 + n, 8, 200);
    REQUIRE(d.b.receive(32768 - 5, 30000) == 0);
    REQUIRE(d.a.send(3, n) == 0);
    CHECK(d.b.received().byte_len == n);
    CHECK(d.b.mem.holds(32768 - 5, n, seed));
    CHECK(d.b.mem.holds(32768 - 5 + n, 8, 200));
    CHECK(d.a.sent().status == IBV_WC_SUCCESS);
  }
}

TEST_CASE("a message without bytes takes a receive") {
  duo d;
  REQUIRE(d.b.receive(0, 64, 5) == 0);
  REQUIRE(post_receive(d.b.qp.get(), {}, 6) == 0);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(request(IBV_WR_SEND, {}).post(d.a.qp.get()) == 0);
    CHECK(d.a.sent().status == IBV_WC_SUCCESS);
    const ibv_wc wc = d.b.received();
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.byte_len == 0);
    CHECK(wc.wr_id == 5u + static_cast<unsigned>(i));
  }
}

TEST_CASE("messages arrive in the order in which they were sent") {
  duo d({}, {.sends = 64, .receives = 64});
  for (std::uint64_t i = 0; i < 64; ++i) REQUIRE(d.b.receive(i * 64, 64, i) == 0);
  for (std::uint64_t i = 0; i < 64; ++i) {
    d.a.mem.word(i * 64) = 1000 + i;
    REQUIRE(d.a.send(i * 64, 8 + i % 48, i) == 0);
  }
  const auto got = collect(d.b.recv_cq.get(), 64);
  const auto sent = collect(d.a.send_cq.get(), 64);
  REQUIRE(got.size() == 64);
  REQUIRE(sent.size() == 64);
  for (std::uint64_t i = 0; i < 64; ++i) {
    CHECK(got[i].wr_id == i);
    CHECK(sent[i].wr_id == i);
    CHECK(got[i].byte_len == 8 + i % 48);
    CHECK(d.b.mem.word(i * 64) == 1000 + i);
  }
}

TEST_CASE("an immediate value travels with a SEND, in the order of its bytes") {
  duo d;
  REQUIRE(d.b.receive(0, 64) == 0);
  REQUIRE(request(IBV_WR_SEND_WITH_IMM, {d.a.mem.sge(0, 8)}).imm(0xdeadbeef).post(d.a.qp.get()) ==
          0);
  const ibv_wc wc = d.b.received();
  CHECK(wc.opcode == IBV_WC_RECV);
  CHECK((wc.wc_flags & IBV_WC_WITH_IMM) != 0);
  CHECK(be32toh(wc.imm_data) == 0xdeadbeef);
  CHECK(wc.byte_len == 8);
}

TEST_CASE("scatter lists of both ends are walked independently") {
  duo d;
  d.a.mem.fill(0, 300, 4);
  REQUIRE(post_receive(d.b.qp.get(), {d.b.mem.sge(0, 10), d.b.mem.sge(1000, 200),
                                      d.b.mem.sge(5000, 1), d.b.mem.sge(9000, 500)}) == 0);
  REQUIRE(request(IBV_WR_SEND, {d.a.mem.sge(0, 150), d.a.mem.sge(150, 1), d.a.mem.sge(151, 149)})
              .post(d.a.qp.get()) == 0);
  CHECK(d.b.received().byte_len == 300);
  const region& m = d.b.mem;
  std::vector<std::byte> joined;
  for (const auto& [at, n] : {std::pair{0, 10}, {1000, 200}, {5000, 1}, {9000, 89}})
    joined.insert(joined.end(), m.at(static_cast<std::size_t>(at)),
                  m.at(static_cast<std::size_t>(at + n)));
  CHECK(std::memcmp(joined.data(), d.a.mem.at(0), 300) == 0);
  CHECK(*m.at(9089) == std::byte{0});
}

TEST_CASE("more scatter elements than the queue pair has are refused") {
  duo d({}, {.sges = 2});
  ibv_qp_attr a{};
  ibv_qp_init_attr init{};
  REQUIRE(d.a.n.v.query_qp(d.a.qp.get(), &a, IBV_QP_CAP, &init) == 0);
  const std::vector<ibv_sge> many(init.cap.max_send_sge + 1, d.a.mem.sge(0, 8));
  CHECK(request(IBV_WR_SEND, many).post(d.a.qp.get()) != 0);
  const std::vector<ibv_sge> more(init.cap.max_recv_sge + 1, d.a.mem.sge(0, 8));
  CHECK(post_receive(d.a.qp.get(), more) != 0);
}

TEST_CASE("inline data may be overwritten as soon as the post returns, and needs no key") {
  duo d({}, {.inline_bytes = 64});
  for (std::uint64_t i = 0; i < 16; ++i) REQUIRE(d.b.receive(i * 64, 64) == 0);
  alignas(8) std::uint64_t words[8];
  for (std::uint64_t i = 0; i < 16; ++i) {
    words[0] = words[7] = i + 1;
    const ibv_sge unregistered{reinterpret_cast<std::uintptr_t>(words), sizeof words, 0};
    REQUIRE(request(IBV_WR_SEND, {unregistered}, i, IBV_SEND_SIGNALED | IBV_SEND_INLINE)
                .post(d.a.qp.get()) == 0);
    words[0] = words[7] = 0;
  }
  REQUIRE(collect(d.b.recv_cq.get(), 16).size() == 16);
  for (std::uint64_t i = 0; i < 16; ++i) {
    CHECK(d.b.mem.word(i * 64) == i + 1);
    CHECK(d.b.mem.word(i * 64 + 56) == i + 1);
  }
}

TEST_CASE("inline data is gathered from several places, up to the limit and not beyond") {
  duo d({}, {.sges = 4, .inline_bytes = 100});
  ibv_qp_attr a{};
  ibv_qp_init_attr init{};
  REQUIRE(d.a.n.v.query_qp(d.a.qp.get(), &a, IBV_QP_CAP, &init) == 0);
  const std::uint32_t most = init.cap.max_inline_data;
  REQUIRE(most >= 100);
  d.a.mem.fill(0, most + 1, 6);
  REQUIRE(d.b.receive(0, most + 64) == 0);
  constexpr unsigned flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  CHECK(request(IBV_WR_SEND, {d.a.mem.sge(0, most), d.a.mem.sge(most, 1)}, 0, flags)
            .post(d.a.qp.get()) != 0);
  REQUIRE(request(IBV_WR_SEND, {d.a.mem.sge(0, 1), d.a.mem.sge(1, most - 1)}, 0, flags)
              .post(d.a.qp.get()) == 0);
  CHECK(d.b.received().byte_len == most);
  CHECK(d.b.mem.holds(0, most, 6));
}

TEST_CASE("a send that is not signalled completes silently, and later ones vouch for it") {
  duo d;
  for (int i = 0; i < 8; ++i) REQUIRE(d.b.receive(0, 64) == 0);
  for (std::uint64_t i = 0; i < 8; ++i)
    REQUIRE(d.a.send(0, 8, i, i == 7 ? IBV_SEND_SIGNALED : 0) == 0);
  CHECK(d.a.sent().wr_id == 7);
  CHECK(silent(d.a.send_cq.get(), 20));
  CHECK(collect(d.b.recv_cq.get(), 8).size() == 8);
}

TEST_CASE("with sq_sig_all every send is signalled") {
  duo d({}, {.signal_all = true});
  for (int i = 0; i < 4; ++i) REQUIRE(d.b.receive(0, 64) == 0);
  for (std::uint64_t i = 0; i < 4; ++i) REQUIRE(d.a.send(0, 8, i, 0) == 0);
  const auto sent = collect(d.a.send_cq.get(), 4);
  REQUIRE(sent.size() == 4);
  for (std::uint64_t i = 0; i < 4; ++i) CHECK(sent[i].wr_id == i);
}

TEST_CASE("a stream with one signal in sixteen goes round the send queue many times") {
  duo d({}, {.sends = 32, .receives = 128});
  constexpr std::uint64_t total = 2000;
  std::uint64_t sent = 0, done = 0, posted = 0, got = 0, wrong = 0;
  const bool ended = until([&] {
    while (posted < total && posted - got < 128) {
      if (d.b.receive(posted % 128 * 64, 64, posted) != 0) ++wrong;
      ++posted;
    }
    while (sent < posted && sent < total && sent - done < 32) {
      d.a.mem.word(sent % 32 * 8) = sent;
      if (d.a.send(sent % 32 * 8, 8, sent + 1, sent % 16 == 15 ? IBV_SEND_SIGNALED : 0) != 0)
        ++wrong;
      ++sent;
    }
    for (const ibv_wc& wc : collect(d.a.send_cq.get(), 4, 0)) done = wc.wr_id;
    for (const ibv_wc& wc : collect(d.b.recv_cq.get(), 16, 0)) {
      if (wc.status != IBV_WC_SUCCESS || wc.wr_id != got || d.b.mem.word(got % 128 * 64) != got)
        ++wrong;
      ++got;
    }
    return got == total;
  });
  CHECK(ended);
  CHECK(got == total);
  CHECK(wrong == 0);
}

TEST_CASE("a list is posted up to the first request that is refused, which is named") {
  duo d;
  for (int i = 0; i < 3; ++i) REQUIRE(d.b.receive(0, 64) == 0);
  ibv_sge s = d.a.mem.sge(0, 8);
  ibv_send_wr wr[3] = {};
  for (std::uint64_t i = 0; i < 3; ++i) {
    wr[i].wr_id = i;
    wr[i].next = i < 2 ? &wr[i + 1] : nullptr;
    wr[i].sg_list = &s;
    wr[i].num_sge = 1;
    wr[i].opcode = IBV_WR_SEND;
    wr[i].send_flags = IBV_SEND_SIGNALED;
  }
  std::vector<ibv_sge> too_many(1000, s);
  wr[1].sg_list = too_many.data();
  wr[1].num_sge = 1000;
  ibv_send_wr* bad = nullptr;
  CHECK(ibv_post_send(d.a.qp.get(), wr, &bad) != 0);
  CHECK(bad == &wr[1]);
  CHECK(d.a.sent().wr_id == 0);
  CHECK(d.b.received().status == IBV_WC_SUCCESS);
  CHECK(silent(d.b.recv_cq.get(), 20));
}

TEST_CASE("a full send queue refuses the next post and names it") {
  // Nothing is received, so nothing completes: the queue must fill.
  duo d({}, {.sends = 16});
  int e = 0;
  std::uint64_t taken = 0;
  while (e == 0 && taken < 10000) {
    e = d.a.send(0, 8, taken);
    if (e == 0) ++taken;
  }
  CHECK(e == ENOMEM);
  CHECK(taken >= 16);
  for (std::uint64_t i = 0; i < taken; ++i) {
    REQUIRE(d.b.receive(0, 64) == 0);
    CHECK(d.b.received().status == IBV_WC_SUCCESS);
  }
  CHECK(collect(d.a.send_cq.get(), taken).size() == taken);
  REQUIRE(d.b.receive(0, 64) == 0);
  CHECK(d.a.send(0, 8) == 0);
  CHECK(d.a.sent().status == IBV_WC_SUCCESS);
}

TEST_CASE("a full receive queue refuses the next post") {
  side a({.receives = 16});
  REQUIRE(a.n.to_init(a.qp.get()) == 0);
  int e = 0, taken = 0;
  while (e == 0 && taken < 10000) {
    e = a.receive(0, 8);
    if (e == 0) ++taken;
  }
  CHECK(e == ENOMEM);
  CHECK(taken >= 16);
}

TEST_CASE("large messages arrive whole, up to eight megabytes") {
  const std::size_t most = std::size_t{8} << 20;
  duo d({}, {}, most + 4096);
  REQUIRE(d.a.n.dev.max_message() >= most);
  std::uint32_t seed = 20;
  for (const std::size_t n : {std::size_t{65536}, (std::size_t{1} << 20) + 13, most}) {
    CAPTURE(n);
    d.a.mem.fill(64, n, ++seed);
    REQUIRE(d.b.receive(0, n + 64) == 0);
    REQUIRE(d.a.send(64, n) == 0);
    const ibv_wc wc = d.b.received();
    CHECK(wc.status == IBV_WC_SUCCESS);
    CHECK(wc.byte_len == n);
    CHECK(d.b.mem.holds(0, n, seed));
    CHECK(d.a.sent().status == IBV_WC_SUCCESS);
  }
}

}  // namespace penstock::conformance
