// Questions to a peer's device whose answers nobody comes for (nic/shm/peer.hpp).
#include <filesystem>
#include <iterator>

#include "nic/shm/context.hpp"
#include "nic/shm/peer.hpp"
#include "nic/shm/qp.hpp"
#include "test/nic/rig.hpp"

namespace shm = penstock::nic::shm;

namespace {

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
