// The twin on tcp0: a bare TCP connection between the two processes, over the same interface. A
// message is one send call, and one or more receive calls that wait by spinning. See twin.hpp.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "lib/base/settings.hpp"
#include "nic/device.hpp"
#include "perf/patience.hpp"
#include "perf/penperf/or_die.hpp"
#include "perf/penperf/twin.hpp"

namespace penstock::penperf {

namespace {

constexpr std::size_t receive_room = 256 * 1024;

class stream_twin final : public twin {
 public:
  stream_twin(const std::string& device, const std::function<bool(const void*, void*)>& swap,
              bool requester, std::size_t window)
      : requester_(requester), from_(std::max(window, receive_room)), into_(from_.view().size()) {
    struct {
      sockaddr_in at;
      std::byte rest[64 - sizeof(sockaddr_in)];
    } mine{}, theirs{};
    mine.at.sin_family = AF_INET;
    mine.at.sin_addr.s_addr = address_of(device);
    int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t n = sizeof mine.at;
    if (!requester &&
        (::bind(s, reinterpret_cast<sockaddr*>(&mine.at), n) != 0 || ::listen(s, 1) != 0 ||
         ::getsockname(s, reinterpret_cast<sockaddr*>(&mine.at), &n) != 0))
      fatal(1, "the twin's socket: %s", std::strerror(errno));
    if (!swap(&mine, &theirs)) fatal(1, "the twin finds no other process");
    if (requester) {
      if (::connect(s, reinterpret_cast<sockaddr*>(&theirs.at), n) != 0)
        fatal(1, "the twin's connection: %s", std::strerror(errno));
      socket_ = s;
    } else {
      socket_ = ::accept4(s, nullptr, nullptr, SOCK_CLOEXEC);
      ::close(s);
      if (socket_ < 0) fatal(1, "the twin's connection: %s", std::strerror(errno));
    }
    const int one = 1;
    ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
  stream_twin(const stream_twin&) = delete;
  stream_twin& operator=(const stream_twin&) = delete;
  ~stream_twin() override { ::close(socket_); }

  figures trips(leg there, leg back, std::uint64_t warm_up,
                std::span<std::uint64_t> samples) override {
    for (std::uint64_t i = 0; i < warm_up; ++i) trip(there.bytes, back.bytes);
    for (std::uint64_t& sample : samples) {
      const std::uint64_t begin = now_ns();
      trip(there.bytes, back.bytes);
      sample = now_ns() - begin;
    }
    return of(samples);
  }

  figures flood(leg one_way, manner how, std::uint64_t batch,
                std::span<std::uint64_t> samples) override {
    if (how.both != 0) return {};
    for (std::uint64_t& sample : samples) sample = flow(one_way.bytes, 1, batch) / batch;
    figures f = of(samples);
    f.count *= batch;
    return f;
  }

  figures accesses(access what, std::uint64_t bytes, std::span<std::uint64_t> samples) override {
    const std::uint64_t there = what == access::put ? bytes : 8;
    const std::uint64_t back = what == access::get ? bytes : 8;
    return what == access::fetch_add ? figures{} : trips({there}, {back}, 100, samples);
  }

  figures stream(access what, manner how, std::uint64_t bytes, std::uint64_t count) override {
    if (what != access::put || how.both != 0) return {};
    const std::uint64_t each = std::max<std::uint64_t>(1, flow(bytes, count, 1) / count);
    const auto ns = static_cast<double>(each);
    return {{ns, ns, ns, ns, ns, ns}, 1e9 / ns, count};
  }

 private:
  static std::uint32_t address_of(const std::string& device) {
    const setting_override named[] = {{"PENSTOCK_DEVICE", device}};
    const nic::device d = or_die(nic::open_device(or_die(read_settings(named))));
    std::uint32_t ip;
    std::memcpy(&ip, d.self.gid.raw + 12, sizeof ip);
    return ip;
  }
  static figures of(std::span<std::uint64_t> samples) {
    double total = 0;
    for (const std::uint64_t s : samples) total += static_cast<double>(s);
    const double rate = total > 0 ? static_cast<double>(samples.size()) * 1e9 / total : 0;
    return {perf::summarize(samples, 1), rate, samples.size()};
  }

  void give(std::size_t n) {
    perf::patience wait("room in the twin's connection");
    for (std::size_t done = 0; done < n;) {
      const ssize_t went =
          ::send(socket_, from_.data() + done, n - done, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (went > 0)
        done += static_cast<std::size_t>(went);
      else if (errno == EAGAIN)
        wait.idle();
      else
        fatal(1, "the twin's send: %s", std::strerror(errno));
    }
  }
  void take(std::size_t n) {
    perf::patience wait("bytes of the twin");
    while (n != 0) {
      const ssize_t came =
          ::recv(socket_, into_.data(), std::min(n, into_.view().size()), MSG_DONTWAIT);
      if (came > 0)
        n -= static_cast<std::size_t>(came);
      else if (came < 0 && errno == EAGAIN)
        wait.idle();
      else
        fatal(1, "the twin's other end is gone");
    }
  }
  void trip(std::size_t there, std::size_t back) {
    if (requester_) give(there), take(back);
    if (!requester_) take(there), give(back);
  }
  /// count * batch messages one way, and a word back when all have come; how long, in ns.
  std::uint64_t flow(std::size_t bytes, std::uint64_t count, std::uint64_t batch) {
    const std::uint64_t begin = now_ns();
    const std::uint64_t all = count * batch;
    if (requester_) {
      for (std::uint64_t i = 0; i < all; ++i) give(bytes);
      take(8);
    } else {
      take(bytes * all);
      give(8);
    }
    return now_ns() - begin;
  }

  bool requester_;
  payload_buffer from_, into_;
  int socket_ = -1;
};

}  // namespace

std::unique_ptr<twin> make_stream_twin(const std::string& device,
                                       const std::function<bool(const void*, void*)>& swap,
                                       bool requester, std::size_t window) {
  return std::make_unique<stream_twin>(device, swap, requester, window);
}

}  // namespace penstock::penperf
