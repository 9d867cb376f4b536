// What a context counts for `penverbs --stats`. The files of --trace are read by test/provider.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "nic/shm/cq.hpp"
#include "nic/shm/observer.hpp"
#include "nic/shm/qp.hpp"
#include "nic/shm/traffic.hpp"
#include "test/nic/rig.hpp"

namespace shm = penstock::nic::shm;
using rig::side;

namespace {

void watch(ibv_context* c) {
  shm::of(c).watched = shm::observer::of_environment(shm::of(c));
  REQUIRE(shm::of(c).watched != nullptr);
  shm::fill_operations(c->ops, shm::of(c));
}

/// A pair whose contexts are watched.
struct watched_pair {
  std::string file = "/tmp/penstock-watched-" + std::to_string(::getpid());
  shm::traffic_file* traffic = shm::traffic_file::map(file.c_str(), true);
  rig::pair p;

  static rig::options watching(rig::options o) {
    o.opened = watch;
    return o;
  }
  explicit watched_pair(rig::options o = {}) : p((prepare(), watching(o))) {}
  void prepare() const {
    REQUIRE(traffic != nullptr);
    ::setenv("PENVERBS_STATS", file.c_str(), 1);
  }
  ~watched_pair() {
    ::unsetenv("PENVERBS_STATS");
    ::unlink(file.c_str());
  }
  const shm::qp_traffic& a() const { return *shm::of(p.a.qp).traffic; }
  const shm::qp_traffic& b() const { return *shm::of(p.b.qp).traffic; }
};

}  // namespace

TEST_CASE(
    "what a queue pair has sent and received is counted once, in messages, bytes and packets") {
  watched_pair w;
  side &a = w.p.a, &b = w.p.b;
  CHECK(w.traffic->count() == 2);
  for (std::uint64_t i = 0; i < 3; ++i) REQUIRE(b.receive(i, 0, 8192) == 0);
  for (const std::size_t length : {0, 8, 3000}) {  // the path's MTU is 1,024
    REQUIRE(a.send(1, 0, length) == 0);
    CHECK(a.sent().status == IBV_WC_SUCCESS);
    CHECK(b.received().status == IBV_WC_SUCCESS);
  }
  CHECK(w.a().sent == 3);
  CHECK(w.a().sent_bytes == 3008);
  CHECK(w.a().sent_packets == 5);
  CHECK(w.b().received == 3);
  CHECK(w.b().received_bytes == 3008);
  CHECK(w.b().received_packets == 5);
  CHECK(w.b().sent == 0);
  CHECK(w.a().received == 0);
  CHECK(w.a().peer_qpn == b.qp->qp_num);
  const auto reach = [&](ibv_send_wr& wr) {
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(b.memory.data());
    wr.wr.rdma.rkey = b.mr->rkey;
  };
  REQUIRE(a.post(1, IBV_WR_RDMA_WRITE, 0, 2000, IBV_SEND_SIGNALED, reach) == 0);
  CHECK(a.sent().status == IBV_WC_SUCCESS);
  REQUIRE(a.post(1, IBV_WR_RDMA_READ, 0, 5000, IBV_SEND_SIGNALED, reach) == 0);
  CHECK(a.sent().status == IBV_WC_SUCCESS);
  CHECK(w.a().sent == 5);
  CHECK(w.a().sends == 3);
  CHECK(w.a().sent_bytes == 5008);
  CHECK(w.a().sent_packets == 8);
  CHECK(w.a().received_bytes == 5000);
  CHECK(w.a().received_packets == 5);
  CHECK(w.a().errors == 0);
}

TEST_CASE("attempts without a receive, and messages in error, are counted") {
  rig::options o;
  o.rnr_retry = 3;
  o.min_rnr_timer = 12;
  watched_pair w(o);
  REQUIRE(w.p.a.send(1, 0, 8) == 0);
  REQUIRE(w.p.a.send(2, 0, 8) == 0);
  CHECK(w.p.a.sent().status == IBV_WC_RNR_RETRY_EXC_ERR);
  CHECK(w.p.a.sent().status == IBV_WC_WR_FLUSH_ERR);
  CHECK(w.a().rnr == 3);  // the last answer ends the message
  CHECK(w.a().errors == 1);
  CHECK(w.a().sent == 0);
}

TEST_CASE("a message that waits for a peer out of reach is a retry") {
  rig::options o;
  o.timeout = 8;
  watched_pair w(o);
  REQUIRE(w.p.b.v.destroy_qp(w.p.b.qp) == 0);
  w.p.b.qp = nullptr;
  REQUIRE(w.p.a.send(1, 0, 8) == 0);
  CHECK(w.p.a.sent().status == IBV_WC_RETRY_EXC_ERR);
  CHECK(w.a().retries == 1);
  CHECK(w.a().errors == 1);
}
