// See shortage.hpp.
#include "lib/base/shortage.hpp"

#include <sys/resource.h>

#include <cerrno>

#include "lib/base/descriptors.hpp"

namespace penstock {
namespace {

// " (1024 now)", or nothing where there is no limit.
std::string now(__rlimit_resource which, std::uint64_t unit) {
  rlimit r{};
  if (getrlimit(which, &r) != 0 || r.rlim_cur == RLIM_INFINITY) return "";
  return " (" + std::to_string(r.rlim_cur / unit) + " now)";
}

}  // namespace

std::string what_to_raise(int code) {
  const bool refusal = code == EPERM || code == EACCES || code == ENOSYS;
  if (const char* const call = refused_call(code); refusal && call != nullptr)
    return std::string("the system call ") + call +
           " is refused here: permit it in the sandbox (seccomp, the container's profile)";
  switch (code) {
    case EMFILE:
      return "raise ulimit -n" + now(RLIMIT_NOFILE, 1);
    case ENFILE:
      return "raise fs.file-max of the machine";
    case EFBIG:
      return "raise ulimit -f" + now(RLIMIT_FSIZE, 1024);
    case ENOBUFS:
      return "free memory: the kernel has no buffers for sockets";
    case EAGAIN:
      return "raise ulimit -u" + now(RLIMIT_NPROC, 1) +
             " or the container's limit of processes, or free memory";
    case ENOSPC:
    case ENOMEM: {
      const std::string space = now(RLIMIT_AS, 1024);
      if (!space.empty()) return "raise ulimit -v" + space;
      return "free memory, or raise the container's limit or ulimit -l" + now(RLIMIT_MEMLOCK, 1024);
    }
    case ENOSYS:
      return "a sandbox (seccomp, the container's profile) or an old kernel refuses a system call";
    case EACCES:
    case EPERM: {
      // With this limit at nothing the kernel says that pinning is not permitted.
      rlimit locked{};
      if (::getrlimit(RLIMIT_MEMLOCK, &locked) == 0 && locked.rlim_cur == 0)
        return "raise ulimit -l" + now(RLIMIT_MEMLOCK, 1024);
      return "this user may not; see the permissions of /dev/infiniband, or the container's rules";
    }
    default:
      return "";
  }
}

std::string what_to_raise(int code, const char* or_lower) {
  if (code == EINVAL) return std::string("lower ") + or_lower;
  return what_to_raise(code) + (code == ENOMEM ? std::string(", or lower ") + or_lower : "");
}

bool file_may_have(std::uint64_t bytes) noexcept {
  rlimit r{};
  return getrlimit(RLIMIT_FSIZE, &r) != 0 || r.rlim_cur == RLIM_INFINITY || r.rlim_cur >= bytes;
}

}  // namespace penstock
