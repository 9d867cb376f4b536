// A rank whose program is an asio loop: timers (and sockets, and signals) stand beside the messages
// of other ranks, and the process sleeps when there is nothing to do. Built where asio is
// (libasio-dev).
//   penrun -n 3 tutorial_with_asio
#include <asio.hpp>
#include <cstdio>
#include <functional>
#include <penstock/rpc.hpp>
#include <utility>

using namespace penstock;

// Handles what has come to the endpoint, in an asio loop, and calls `look` after it.
class messages_in_asio {
 public:
  messages_in_asio(asio::io_context& loop, endpoint& ep, int event_fd, std::function<void()> look)
      : ep_(ep), wakes_(loop, event_fd), look_(std::move(look)) {}
  ~messages_in_asio() { (void)wakes_.release(); }  // the endpoint closes it

  // Comes back when it is stopped: asio calls it again whenever something has come.
  void go() {
    wakes_.cancel();
    status s = status::pending;
    while (s == status::pending && !stopped_) look_(), s = ep_.arm();
    if (is_failure(s)) std::fprintf(stderr, "with_asio: %s\n", describe(s));
    if (s == status::ok && !stopped_)
      wakes_.async_wait(asio::posix::descriptor_base::wait_read, [this](asio::error_code e) {
        if (!e) go();
      });
  }
  void stop() {
    stopped_ = true;
    wakes_.cancel();
  }

 private:
  endpoint& ep_;
  asio::posix::stream_descriptor wakes_;
  std::function<void()> look_;
  bool stopped_ = false;
};

int main() {
  result<world> job = world::join();
  if (!job) return std::fprintf(stderr, "%s\n", job.error().message().c_str()), 1;
  unsigned asked = 0;
  result<endpoint> ep = endpoint::open(*job);
  if (!ep) return std::fprintf(stderr, "%s\n", ep.error().message().c_str()), 1;
  rpc& calls = rpc::on(*ep);
  const rpc_method count = calls.add([&](rpc_request& r) { (void)r.answer({}, ++asked); });
  const result<int> event_fd = ep->event_fd();
  if (!event_fd) return std::fprintf(stderr, "%s\n", event_fd.error().message().c_str()), 1;
  if (const auto started = ep->start(); !started)
    return std::fprintf(stderr, "%s\n", started.error().message().c_str()), 1;

  constexpr unsigned ticks = 5;
  asio::io_context loop;
  asio::steady_timer timer(loop);
  rpc_call c;
  unsigned left = ep->rank() == 0 ? 0 : ticks;  // calls that this rank is yet to make
  bool called = false;
  status all_done = status::timed_out;
  std::function<void()> tick;
  // Called after messages: looks at what this rank waits for.
  messages_in_asio messages(loop, *ep, *event_fd, [&] {
    calls.flush();
    if (called && c.done()) {
      called = false;
      if (--left != 0) tick();
    }
    if (left != 0 || all_done == status::ok) return;
    const time_limit at_once(std::chrono::nanoseconds(0));
    if (all_done = ep->barrier(); all_done != status::timed_out) messages.stop();
  });
  // Every rank but 0 calls rank 0, 20 ms after it was answered.
  tick = [&] {
    timer.expires_after(std::chrono::milliseconds(20));
    timer.async_wait([&](asio::error_code) {
      called = calls.begin(c, 0, count, {}) == status::ok;
      messages.go();
    });
  };
  if (left != 0) tick();
  messages.go();
  loop.run();
  if (ep->rank() == 0) std::printf("rank 0 was asked %u times\n", asked);
  return all_done == status::ok && (ep->rank() != 0 || asked == ticks * (ep->size() - 1)) ? 0 : 1;
}
