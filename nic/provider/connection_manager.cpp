// rdma-core's librdmacm asks the kernel through /dev/infiniband/rdma_cm and has no plug-in
// interface. A program that has it in spite of nic/cm gets a line that says so, instead of "no such
// file".
#include <fcntl.h>
#include <link.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstring>

#include "lib/base/log.hpp"
#include "nic/provider/operations.hpp"
#include "nic/provider/redirect.hpp"

namespace penstock::nic::provider {
namespace {

int open_in_place(const char* path, int flags, ...) {
  if (std::strcmp(path, "/dev/infiniband/rdma_cm") == 0) {
    static std::atomic<bool> said{false};
    if (!said.exchange(true, std::memory_order_relaxed))
      log(log_level::error,
          "this program has a librdmacm that asks the kernel, which knows nothing of shm0; the one "
          "that does is in penverbs's library folder, which LD_LIBRARY_PATH names first: is the "
          "variable cleared, or librdmacm linked statically or by an RPATH?");
    return errno = EOPNOTSUPP, -1;
  }
  if ((flags & (O_CREAT | __O_TMPFILE)) == 0) return ::open(path, flags);
  va_list list;
  va_start(list, flags);
  const mode_t mode = va_arg(list, mode_t);
  va_end(list);
  return ::open(path, flags, mode);
}

/// An address inside librdmacm, if this process has it.
int find(dl_phdr_info* info, std::size_t, void* found) {
  const char* name = info->dlpi_name != nullptr ? std::strrchr(info->dlpi_name, '/') : nullptr;
  if (name == nullptr || std::strncmp(name, "/librdmacm.so", 13) != 0) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X) != 0)
      *static_cast<std::uintptr_t*>(found) = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
  return 1;
}

}  // namespace

void refuse_connection_manager() {
  static std::atomic<bool> done{false};
  std::uintptr_t inside = 0;
  if (done.load(std::memory_order_relaxed) || ::dl_iterate_phdr(find, &inside) == 0 || inside == 0)
    return;
  const replacement all[] = {{"open", reinterpret_cast<void*>(open_in_place)}};
  redirect(reinterpret_cast<const void*>(inside), all);
  done.store(true, std::memory_order_relaxed);
}

}  // namespace penstock::nic::provider
