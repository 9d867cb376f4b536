// The basics between two processes, and again between two contexts of one process: the same roles.
#include <doctest/doctest.h>

#include "test/conformance/roles.hpp"

namespace penstock::conformance {
namespace {

void both_ways(const role& first, const role& second) {
  SUBCASE("two processes") { as_processes(first, second); }
  SUBCASE("two contexts of one process") { as_threads(first, second); }
}

void succeeded(const ibv_wc& wc) {
  expect(wc.status == IBV_WC_SUCCESS, "success, not " + std::string(ibv_wc_status_str(wc.status)));
}

}  // namespace

TEST_CASE("messages go to and fro with their contents") {
  constexpr unsigned rounds = 200;
  const auto size = [](unsigned i) { return std::size_t{1} + i * 37 % 5000; };
  both_ways(
      [&](link& l) {
        side s = joined(l);
        for (unsigned i = 0; i < rounds; ++i) {
          expect(s.receive(32768, 8192) == 0, "post_recv");
          if (i == 0) l.meet();
          s.mem.fill(0, size(i), i);
          expect(s.send(0, size(i)) == 0, "post_send");
          const ibv_wc wc = s.received();
          succeeded(wc);
          expect(wc.byte_len == size(i) && s.mem.holds(32768, size(i), i + 1), "the answer");
          succeeded(s.sent());
        }
        l.meet();
      },
      [&](link& l) {
        side s = joined(l);
        expect(s.receive(32768, 8192) == 0, "post_recv");
        l.meet();
        for (unsigned i = 0; i < rounds; ++i) {
          const ibv_wc wc = s.received();
          succeeded(wc);
          expect(wc.byte_len == size(i) && s.mem.holds(32768, size(i), i), "the message");
          expect(s.receive(32768, 8192) == 0, "post_recv");
          s.mem.fill(0, size(i), i + 1);
          expect(s.send(0, size(i)) == 0, "post_send");
          succeeded(s.sent());
        }
        l.meet();
      });
}

TEST_CASE("memory of the other side is written, read and added to while it looks away") {
  constexpr std::size_t bytes = 30000;
  both_ways(
      [&](link& l) {
        side s = joined(l);
        target t;
        l.get(&t, sizeof t);
        const auto go = [&](request r) {
          expect(r.post(s.qp.get()) == 0, "post_send");
          succeeded(s.sent());
        };
        s.mem.fill(0, bytes, 1);
        go(request(IBV_WR_RDMA_WRITE, {s.mem.sge(0, bytes)}).at(t.address, t.rkey));
        l.meet();
        l.meet();
        go(request(IBV_WR_RDMA_READ, {s.mem.sge(32768, bytes)}).at(t.address, t.rkey));
        expect(s.mem.holds(32768, bytes, 2), "what the other side wrote");
        for (std::uint64_t i = 0; i < 50; ++i)
          go(request(IBV_WR_ATOMIC_FETCH_AND_ADD, {s.mem.sge(0, 8)})
                 .atomic(t.address + 32768, t.rkey, 2));
        expect(s.mem.word(0) == 98, "what was there before the last addition");
        go(request(IBV_WR_ATOMIC_CMP_AND_SWP, {s.mem.sge(0, 8)})
               .atomic(t.address + 32768, t.rkey, 100, 7));
        l.meet();
      },
      [&](link& l) {
        side s = joined(l);
        const target t{s.mem.address(), s.mem.mr->rkey};
        l.put(&t, sizeof t);
        l.meet();
        expect(s.mem.holds(0, bytes, 1), "what the other side wrote");
        s.mem.fill(0, bytes, 2);
        l.meet();
        l.meet();
        expect(s.mem.word(32768) == 7, "the result of the atomics");
      });
}

TEST_CASE("a message of eight megabytes crosses") {
  constexpr std::size_t bytes = std::size_t{8} << 20;
  both_ways(
      [&](link& l) {
        side s = joined(l, {}, {}, bytes);
        s.mem.fill(0, bytes, 5);
        expect(s.send(0, bytes) == 0, "post_send");
        succeeded(s.sent());
        l.meet();
      },
      [&](link& l) {
        side s = joined(l, {}, {}, bytes);
        expect(s.receive(0, bytes) == 0, "post_recv");
        const ibv_wc wc = s.received();
        succeeded(wc);
        expect(wc.byte_len == bytes && s.mem.holds(0, bytes, 5), "the message");
        l.meet();
      });
}

TEST_CASE("both sides flood each other at once") {
  constexpr std::uint64_t total = 2000;
  const role flood = [](link& l) {
    side s = joined(l, {}, {.sends = 32, .receives = 64});
    std::uint64_t posted = 0, got = 0, sent = 0, done = 0;
    for (; posted < 64; ++posted)
      expect(s.receive(32768 + posted * 64, 64, posted) == 0, "post_recv");
    l.meet();
    expect(until([&] {
             while (sent < total && sent - done < 32) {
               s.mem.word(sent % 32 * 8) = sent;
               expect(s.send(sent % 32 * 8, 8, sent) == 0, "post_send");
               ++sent;
             }
             for (const ibv_wc& wc : collect(s.send_cq.get(), 16, 0)) succeeded(wc), ++done;
             for (const ibv_wc& wc : collect(s.recv_cq.get(), 16, 0)) {
               succeeded(wc);
               expect(s.mem.word(32768 + got % 64 * 64) == got, "messages in order");
               ++got;
               expect(s.receive(32768 + posted % 64 * 64, 64, posted) == 0, "post_recv");
               ++posted;
             }
             return got == total && done == total;
           }),
           "the flood to end");
    l.meet();
  };
  both_ways(flood, flood);
}

}  // namespace penstock::conformance
