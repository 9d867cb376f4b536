// Job program: rank 1 closes descriptors that it has not opened, as daemons and sandboxes close all
// above a number, and goes on.
//   closing K early|late    from the K-th above 2 on, as closefrom() does. early: before the first
//   message. "no more" is printed where K is larger than there are.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/penstock.hpp"
#include "penstock/rma.hpp"
#include "test/conduit/job_check.hpp"

using namespace penstock;

namespace {

unsigned hits;
void on_hit(token&) { ++hits; }

std::vector<int> descriptors() {
  std::vector<int> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    all.push_back(std::atoi(entry.path().filename().c_str()));
  std::erase_if(all, [](int fd) { return fd <= 2 || ::fcntl(fd, F_GETFD) < 0; });
  std::ranges::sort(all);
  return all;
}

void close_some(std::size_t k) {
  const std::vector<int> all = descriptors();
  if (k > all.size()) std::puts("no more");
  for (std::size_t i = k; i < all.size(); ++i) ::close(all[i]);
}

int talk(endpoint& ep, short_handler<> hit, remote_memory& memory, int rounds) {
  const rank_id next = (ep.rank() + 1) % ep.size();
  static unsigned done = 0;
  for (int i = 0; i < rounds; ++i, ++done) {
    std::uint64_t word = 7;
    JOB_CHECK(!is_failure(ep.request_short(next, hit)));
    JOB_CHECK(!is_failure(ep.wait_until([&] { return hits > done; })));
    JOB_CHECK(!is_failure(
        memory.put(next, ep.segment_of(next).data(), std::as_bytes(std::span(&word, 1)))));
    JOB_CHECK(!is_failure(ep.barrier()));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const bool early = std::string_view(argv[2]) == "early";
  auto w = world::join();
  JOB_CHECK(w);
  auto ep = endpoint::open(*w);
  JOB_CHECK(ep);
  const auto hit = ep->add<&on_hit>();
  JOB_CHECK(ep->start(1 << 20));
  remote_memory memory(*ep);
  if (!early && talk(*ep, hit, memory, 3) != 0) return 1;
  if (ep->rank() == 1) close_some(std::strtoul(argv[1], nullptr, 10));
  return talk(*ep, hit, memory, 10);
}
