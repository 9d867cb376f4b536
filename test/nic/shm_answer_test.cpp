// Questions to a peer's device (nic/shm/peer.hpp): answers that nobody comes for, and answers of a
// peer whose queue pair has gone.
#include <poll.h>

#include <filesystem>
#include <iterator>
#include <mutex>

#include "nic/shm/context.hpp"
#include "nic/shm/peer.hpp"
#include "nic/shm/qp.hpp"
#include "test/nic/rig.hpp"

namespace shm = penstock::nic::shm;

namespace {

/// As a program does that waits for what its peers write; ThreadSanitizer has no word for that.
__attribute__((no_sanitize("thread"))) std::uint64_t seen_at(const volatile std::uint64_t& word) {
  return word;
}

bool readable(int fd) {
  pollfd p{fd, POLLIN, 0};
  return ::poll(&p, 1, 0) == 1;
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

}  // namespace

TEST_CASE("the descriptor of an answer that nobody comes for is closed") {
  rig::pair p(rig::moving());
  shm::peer& b = *shm::of(p.a.qp).remote;
  // Each answer brings the file of moved memory along. A queue pair asks and is destroyed: its
  // number names the question, and here no queue pair has these numbers.
  const auto ask = [&](std::uint32_t qpn, std::uint64_t* ticket) {
    shm::reply a;
    int fd = -1;
    const int e = b.ask_later(b.make(shm::request_kind::moved_file, p.b.qp->qp_num, qpn), nullptr,
                              0, a, nullptr, 0, &fd, ticket);
    if (fd >= 0) ::close(fd);
    return e;
  };
  const auto answered = [&](std::uint32_t qpn) {
    std::uint64_t ticket = 0;
    return rig::wait_for([&] { return ask(qpn, &ticket) == 0; });
  };
  REQUIRE(answered(1));
  const std::ptrdiff_t before = open_descriptors();
  for (std::uint32_t qpn = 100; qpn < 103; ++qpn) {
    std::uint64_t ticket = 0;
    CHECK(ask(qpn, &ticket) == EINPROGRESS);
  }
  // One of the others' questions reads what has come.
  REQUIRE(rig::wait_for([&] { return answered(1) && open_descriptors() == before + 3; }));
  shm::of(p.a.context).answer_ns = 1'000'000;
  CHECK(rig::wait_for([&] { return answered(1) && open_descriptors() == before; }));
}

TEST_CASE("what a peer's device has done is done, though its queue pair goes before the answer") {
  for (const ibv_wr_opcode op : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
                                 IBV_WR_ATOMIC_CMP_AND_SWP}) {
    CAPTURE(op);
    rig::pair p;
    // As where no kernel call reaches the memory of another process.
    REQUIRE(shm::of(p.a.qp).remote != nullptr);
    shm::of(p.a.qp).remote->tried_file = true;
    const auto word_at = [](rig::side& s) -> std::uint64_t& {
      return *reinterpret_cast<std::uint64_t*>(s.memory.data());
    };
    word_at(p.a) = 5;
    word_at(p.b) = op == IBV_WR_RDMA_READ ? 7 : 0;
    {
      std::unique_lock held(shm::of(p.a.qp).sending, std::defer_lock);
      REQUIRE(p.a.post(1, op, 0, 8, IBV_SEND_SIGNALED, [&](ibv_send_wr& wr) {
        wr.wr.rdma = {reinterpret_cast<std::uint64_t>(p.b.memory.data()), p.b.mr->rkey};
        if (op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP)
          wr.wr.atomic = {wr.wr.rdma.remote_addr, op == IBV_WR_ATOMIC_FETCH_AND_ADD ? 5u : 0u, 5,
                          p.b.mr->rkey};
      }) == 0);
      held.lock();                 // nobody looks for the answer meanwhile
      if (op == IBV_WR_RDMA_READ)  // the answer is there, unless it has been taken before the lock
        (void)rig::wait_for([&] { return readable(shm::of(p.a.qp).remote->socket); }, 2);
      else
        CHECK(rig::wait_for([&] { return seen_at(word_at(p.b)) == 5; }));
      CHECK(p.b.set_state(IBV_QPS_RESET) == 0);
    }
    CHECK(p.a.sent().status == IBV_WC_SUCCESS);
    CHECK(word_at(p.a) == (op == IBV_WR_RDMA_WRITE ? 5u : op == IBV_WR_RDMA_READ ? 7u : 0u));
  }
}
