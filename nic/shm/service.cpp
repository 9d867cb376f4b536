#include "nic/shm/service.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "lib/base/clock.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/base/log.hpp"
#include "lib/base/no_memory.hpp"
#include "lib/base/quiet_thread.hpp"
#include "lib/base/shortage.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/lock.hpp"
#include "nic/shm/own_threads.hpp"

namespace penstock::nic::shm {
namespace {
// What an epoll event is about: one of our own descriptors, else a visitor's socket.
constexpr std::uint64_t about_listener = 1, about_stop = 2;
constexpr std::uint64_t about_visitor = std::uint64_t{1} << 61;
}  // namespace

int service_thread::bind() noexcept {
  name_ = name_of(context_.name, "");
  listener_ = bound_socket(SOCK_SEQPACKET, name_);
  return listener_ < 0 ? errno : 0;
}

int service_thread::start() {
  payload_ = std::make_unique<std::byte[]>(wire_payload);
  epoll_ = opened("epoll_create1", ::epoll_create1(EPOLL_CLOEXEC));
  stop_ = opened("eventfd", ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (epoll_ < 0 || stop_ < 0) return errno;
  kept(epoll_), kept(stop_), kept(listener_);
  if (asked("listen", ::listen(listener_, 4096)) != 0) return errno;
  int e = watch_socket(epoll_, listener_, EPOLLIN, about_listener);
  if (e == 0) e = watch_socket(epoll_, stop_, EPOLLIN, about_stop);
  if (e != 0) return e;
  e = start_quiet_thread(thread_, "penstock-shm", [this] {
    run();
    count_own_thread(-1);
  });
  if (e == 0) count_own_thread(1);
  return e;
}

void service_thread::stop() noexcept {
  if (thread_.joinable()) {
    ring_bell(stop_);
    thread_.join();
  }
  if (listener_ >= 0) remove_name(name_);
  for (int* fd : {&listener_, &stop_, &epoll_}) close_kept(*fd);
  for (const auto& [fd, v] : visitors_) close_kept(fd);
  visitors_.clear();
}

void service_thread::run() noexcept {
  const doing now{"answering peers of shm0"};
  thread_mark = 1;
  epoll_event events[64];
  for (;;) {
    const int n = asked("epoll_wait", ::epoll_wait(epoll_, events, 64, -1));
    if (n < 0 && errno != EINTR) return give_up(context_, errno);
    const working_time busy = begin_work();
    for (int i = 0; i < n; ++i) {
      const std::uint64_t about = events[i].data.u64;
      if (about == about_stop) return;
      if (about == about_listener) {
        accept_visitors();
        continue;
      }
      const int fd = static_cast<int>(about & 0xffffffff);
      const auto at = visitors_.find(fd);
      if (at != visitors_.end() && !serve(fd, at->second)) {
        close_kept(fd);
        visitors_.erase(at);
      }
    }
  }
}

void service_thread::accept_visitors() noexcept {
  for (;;) {
    const int s =
        opened("accept4", ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (s < 0) {
      if (meaning_of(errno) == meaning::refused) return give_up(context_, errno);
      if (errno != EAGAIN && errno != EINTR) note_shortage(errno);
      return;
    }
    short_since_ns_ = 0;
    if (same_user(s, nullptr) != 0 ||
        watch_socket(epoll_, s, EPOLLIN, about_visitor | static_cast<std::uint32_t>(s)) != 0) {
      ::close(s);
      continue;
    }
    visitors_.emplace(kept(s), visitor{});
  }
}

/// A peer waits that cannot be let in. That may pass; but if it lasts, peers would wait for ever,
/// so the program is told that its device is of no use.
void service_thread::note_shortage(int code) noexcept {
  constexpr std::uint64_t patience_ns = 2'000'000'000;
  const std::uint64_t now = now_ns();
  if (short_since_ns_ == 0) {
    short_since_ns_ = now;
    const failure why{"shm0: accept4 for a peer", code, what_to_raise(code)};
    log(log_level::error, "%s", why.message().c_str());
  } else if (!gave_up_ && now - short_since_ns_ > patience_ns) {
    gave_up_ = true;
    raise(context_, IBV_EVENT_DEVICE_FATAL, {}, nullptr);
  }
  ::poll(nullptr, 0, 1);
}

/// Sends an answer. A shortage of this machine's that passes is waited for; a peer that does not
/// read its answers has asked for none.
void service_thread::say(int socket, const reply& a, const void* payload, std::size_t bytes,
                         int fd) noexcept {
  for (int tries = 0; tries < 100; ++tries) {
    const int e = send_packet(socket, &a, sizeof a, payload, bytes, fd);
    if (e == 0 || e == EAGAIN || meaning_of(e) == meaning::gone) return;
    if (meaning_of(e) == meaning::refused) return give_up(context_, e);
    ::poll(nullptr, 0, 1);
  }
}

/// Reads the requests that wait. False: the visitor is gone, or its requests are malformed.
bool service_thread::serve(int socket, visitor& v) noexcept {
  for (int i = 0; i < 64; ++i) {
    request q;
    int fd = -1;
    const ssize_t n = receive_packet(socket, &q, sizeof q, payload_.get(), wire_payload, &fd);
    if (fd >= 0 && n >= 0 && v.greeted && q.kind == request_kind::overflow) take_overflow(v, q, fd);
    if (fd >= 0) ::close(fd);
    if (n < 0 && meaning_of(errno) == meaning::refused && errno != EPROTO) give_up(context_, errno);
    if (n < 0) return meaning_of(errno) == meaning::later;
    if (q.version != arena_version) return false;
    if (q.kind == request_kind::hello)
      say_hello(socket, v, q);
    else if (!v.greeted)
      return false;
    else
      answer(socket, v, q, static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace penstock::nic::shm
