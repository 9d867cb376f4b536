// The pusher thread beside a carrier (nic/shm/carrier.hpp) that a thread of the program is at work
// on: it must leave the cores to that thread.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>

#include "nic/shm/qp.hpp"
#include "test/nic/rig.hpp"

namespace shm = penstock::nic::shm;

namespace {

/// A carrier to which something has come, while another thread is inside progress(), for ever.
struct busy_carrier final : shm::carrier {
  explicit busy_carrier(std::atomic<unsigned>& looks) : looks_(looks) {}
  int open(shm::context&) noexcept override {
    fd_ = ::eventfd(1, EFD_CLOEXEC);
    return fd_ < 0 ? errno : 0;
  }
  void close() noexcept override { ::close(fd_); }
  int fd() const noexcept override { return fd_; }
  bool progress(bool) noexcept override {
    looks_.fetch_add(1);
    return false;
  }
  bool holds_back() const noexcept override { return false; }
  void flush() noexcept override {}
  std::unique_ptr<shm::carried> make(shm::queue_pair&) noexcept override { return nullptr; }
  int connect(shm::queue_pair&, const ibv_qp_attr&) noexcept override { return 0; }
  void disconnect(shm::queue_pair&) noexcept override {}
  void advance(shm::queue_pair&) noexcept override {}
  shm::outcome attempt(shm::queue_pair&, shm::send_work&, ibv_wc_status*) noexcept override {
    return shm::outcome::wait;
  }
  void wait_untouched(std::uint32_t) noexcept override {}

 private:
  std::atomic<unsigned>& looks_;
  int fd_ = -1;
};

}  // namespace

TEST_CASE("where a thread is at the carrier, the pusher thread looks once a millisecond at most") {
  std::atomic<unsigned> looks{0};
  auto c = shm::make_context({}, std::make_unique<busy_carrier>(looks));
  REQUIRE(c != nullptr);
  const std::uint64_t begun = penstock::now_ns();
  ::poll(nullptr, 0, 50);
  const unsigned seen = looks.load();
  const std::uint64_t ms = (penstock::now_ns() - begun) / 1'000'000;
  CHECK(rig::wait_for([&] { return looks.load() > 2; }));  // it comes again
  CHECK(seen <= ms + 5);
  shm::stop_context(*c);
}
