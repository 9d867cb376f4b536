// Preloaded by penverbs where no other way works: three functions of the C library as libibverbs
// calls them.
//
// - Where the kernel has RDMA, libibverbs asks it for devices over netlink and looks nowhere else.
//   Here there is no such socket, so it reads $SYSFS_PATH.
// - Where neither a namespace nor a link can give /dev/infiniband/uverbs0 and its like, names that
//   begin with $PENVERBS_DEVICE_NAME lead to /dev/null.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

namespace {

template <class Function>
Function* next(const char* name) noexcept {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

const char* real_path(const char* path) noexcept {
  static const char* const replaced = std::getenv("PENVERBS_DEVICE_NAME");
  static const std::size_t length = replaced != nullptr ? std::strlen(replaced) : 0;
  return length != 0 && path != nullptr && std::strncmp(path, replaced, length) == 0 ? "/dev/null"
                                                                                     : path;
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] int socket(int domain, int type, int protocol) noexcept {
  static auto* const real = next<int(int, int, int)>("socket");
  if (domain == AF_NETLINK && protocol == NETLINK_RDMA) return errno = EPROTONOSUPPORT, -1;
  return real(domain, type, protocol);
}

[[gnu::visibility("default")]] int stat(const char* path, struct stat* to) noexcept {
  static auto* const real = next<int(const char*, struct stat*)>("stat");
  return real(real_path(path), to);
}

[[gnu::visibility("default")]] int open(const char* path, int flags, ...) {
  static auto* const real = next<int(const char*, int, ...)>("open");
  if ((flags & (O_CREAT | __O_TMPFILE)) == 0) return real(real_path(path), flags);
  va_list list;
  va_start(list, flags);
  const mode_t mode = va_arg(list, mode_t);
  va_end(list);
  return real(path, flags, mode);
}
}
