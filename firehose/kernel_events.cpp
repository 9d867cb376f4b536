// The userfaultfd behind kernel_events.hpp and the thread that reads it.
#include "firehose/kernel_events.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>

#include "firehose/changes.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/base/log.hpp"
#include "lib/base/quiet_thread.hpp"
#include "lib/base/shortage.hpp"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

namespace penstock::firehose {
namespace {

constexpr std::uint64_t wanted =
    UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP;
// Extensions of where it works, taken when offered; not in every header.
constexpr std::uint64_t wp_hugetlbfs_shmem = 1u << 12;
constexpr std::uint64_t wp_async = 1u << 15;

int open_fd() noexcept {
  const int flags = O_CLOEXEC | O_NONBLOCK;
  const auto open = [](int with) {
    return above_stdio(static_cast<int>(syscall(SYS_userfaultfd, with)));
  };
  const int fd = open(flags | UFFD_USER_MODE_ONLY);
  return fd >= 0 || errno != EINVAL ? fd : open(flags);
}

std::uint64_t offered() noexcept {
  const int fd = open_fd();
  if (fd < 0) return 0;
  uffdio_api api{};
  api.api = UFFD_API;
  const bool ok = ioctl(fd, UFFDIO_API, &api) == 0;
  close(fd);
  return ok ? api.features : 0;
}

}  // namespace

result<std::shared_ptr<kernel_events>> kernel_events::get() {
  static std::mutex lock;
  static std::weak_ptr<kernel_events> one;
  const std::lock_guard guard(lock);
  if (auto e = one.lock()) return e;
  auto made = create();
  if (made) one = *made;
  return made;
}

result<std::shared_ptr<kernel_events>> kernel_events::create() {
  const char* const hint = "see vm.unprivileged_userfaultfd and the container's seccomp profile";
  const std::uint64_t has = offered();
  if ((has & wanted) != wanted || (has & UFFD_FEATURE_PAGEFAULT_FLAG_WP) == 0)
    return failure{"watching memory by userfaultfd", has == 0 ? errno : ENOSYS, hint};
  const int fd = open_fd();
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = wanted | UFFD_FEATURE_PAGEFAULT_FLAG_WP | (has & (wp_hugetlbfs_shmem | wp_async));
  const int stop = opened("eventfd", eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (fd < 0 || stop < 0 || ioctl(fd, UFFDIO_API, &api) != 0) {
    const int code = errno;
    if (fd >= 0) close(fd);
    if (stop >= 0) close(stop);
    return failure{"watching memory by userfaultfd", code, hint};
  }
  std::shared_ptr<kernel_events> e(new kernel_events(fd, stop));
  if (const int refused =
          start_quiet_thread(e->reader_, "penstock-events", [p = e.get()] { p->run(); }))
    return failure{"starting the thread that reads memory events", refused, what_to_raise(refused)};
  return e;
}

kernel_events::~kernel_events() {
  if (reader_.joinable()) {
    if (changes::closed()) {
      reader_.detach();  // a forked child has no such thread
    } else {
      ring_bell(stop_);
      reader_.join();
    }
  }
  close(fd_);
  close(stop_);
}

bool kernel_events::watch(std::uint64_t start, std::uint64_t bytes) noexcept {
  uffdio_register r{};
  r.range = {start, bytes};
  r.mode = UFFDIO_REGISTER_MODE_WP;
  return ioctl(fd_, UFFDIO_REGISTER, &r) == 0;
}

void kernel_events::unwatch(std::uint64_t start, std::uint64_t bytes) noexcept {
  const int keep = errno;
  uffdio_range r{start, bytes};
  (void)ioctl(fd_, UFFDIO_UNREGISTER, &r);  // EINVAL: nothing is mapped there any more
  errno = keep;
}

void kernel_events::run() noexcept {
  for (;;) {
    pollfd on[] = {{fd_, POLLIN, 0}, {stop_, POLLIN, 0}};
    if (poll(on, 2, -1) < 0 && errno != EINTR) return;
    refuse_closed(on);
    if (on[1].revents != 0) return;
    if ((on[0].revents & POLLIN) == 0) continue;
    // E3: the gate closes before read(2) lets the changing thread go on.
    changes::set_gate(changes::gate::pending);
    uffd_msg m{};
    while (read(fd_, &m, sizeof m) == sizeof m) {
      switch (m.event) {
        case UFFD_EVENT_UNMAP:
        case UFFD_EVENT_REMOVE:
          changes::happened(m.arg.remove.start, m.arg.remove.end);
          break;
        case UFFD_EVENT_REMAP:
          changes::happened(m.arg.remap.from, m.arg.remap.from + m.arg.remap.len);
          changes::happened(m.arg.remap.to, m.arg.remap.to + m.arg.remap.len);
          break;
        default:
          // Cannot happen without write protection; a thread would hang if it were ignored.
          log(log_level::error, "firehose: unexpected memory event %u", m.event);
          break;
      }
    }
    changes::set_gate(changes::gate::open);
  }
}

}  // namespace penstock::firehose
