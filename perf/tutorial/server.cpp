// Step 4 of the tutorial: rank 0 keeps words for the others, and sleeps while nobody asks.
//   penrun -n 4 tutorial_server
#include <sys/epoll.h>

#include <cstdio>
#include <map>
#include <penstock/rpc.hpp>
#include <string>
#include <vector>

using namespace penstock;

static std::string text(std::span<const std::byte> b) {
  return {reinterpret_cast<const char*>(b.data()), b.size()};
}
static std::span<const std::byte> bytes(const std::string& s) {
  return std::as_bytes(std::span(s));
}

int main() {
  result<world> job = world::join();
  if (!job) return std::fprintf(stderr, "%s\n", job.error().message().c_str()), 1;
  std::map<std::string, std::string> words;  // what handlers use outlives the endpoint
  result<endpoint> ep = endpoint::open(*job);
  if (!ep) return std::fprintf(stderr, "%s\n", ep.error().message().c_str()), 1;

  rpc& calls = rpc::on(*ep);
  const rpc_method put = calls.add([&](rpc_request& r) {
    const std::string both = text(r.body());  // "key=value"
    words[both.substr(0, both.find('='))] = both.substr(both.find('=') + 1);
  });
  const rpc_method get = calls.add([&](rpc_request& r) {
    const auto found = words.find(text(r.body()));
    (void)r.answer(bytes(found == words.end() ? "" : found->second), found != words.end());
  });
  const result<int> wakes = ep->event_fd();  // before start(): the others learn that we may sleep
  if (!wakes) return std::fprintf(stderr, "%s\n", wakes.error().message().c_str()), 1;
  if (const auto started = ep->start(); !started)
    return std::fprintf(stderr, "%s\n", started.error().message().c_str()), 1;

  status s = status::ok;
  if (ep->rank() != 0) {
    const std::string key = "rank " + std::to_string(ep->rank());
    rpc_call c;
    {
      const time_limit limit(std::chrono::seconds(10));  // or timed_out
      s = calls.call(c, 0, put, {bytes(key), bytes("="), bytes("was here")});
      if (s == status::ok) s = calls.call(c, 0, get, bytes(key));
    }
    if (s == status::ok) std::printf("%s %s\n", key.c_str(), text(c.response()).c_str());
  }

  // A loop as of any server: epoll could watch sockets and timers, too. It ends with the barrier.
  const int all = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event e{};
  e.events = EPOLLIN;
  (void)::epoll_ctl(all, EPOLL_CTL_ADD, *wakes, &e);
  while (!is_failure(s)) {
    calls.flush();  // what functions could not send themselves
    {
      const time_limit at_once(std::chrono::nanoseconds(0));
      if ((s = ep->barrier()) == status::ok) break;
    }
    if (s == status::timed_out) s = ep->arm();
    if (s == status::ok) (void)::epoll_wait(all, &e, 1, -1);
  }
  if (is_failure(s)) std::fprintf(stderr, "tutorial_server: %s\n", describe(s));
  return is_failure(s) ? 1 : 0;
}
