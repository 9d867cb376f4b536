// Registration through the table of calls, and what its errors mean to a user.
#include "nic/registrar.hpp"

#include "lib/base/log.hpp"
#include "lib/base/shortage.hpp"
#include "nic/choice.hpp"
#include "nic/shm/direct.hpp"

namespace penstock::nic {

result<registered> register_memory(const device& d, ibv_pd* pd, void* addr, std::size_t bytes,
                                   unsigned access) {
  ibv_mr* const mr =
      d.verbs->reg_mr(pd, addr, bytes, static_cast<int>(access | d.registration_access));
  if (mr != nullptr) return registered{mr->lkey, mr->rkey, mr};
  const int code = errno;
  std::string hint = what_to_raise(code);
  if (code == ENOMEM) hint = "raise the limit on locked memory (ulimit -l), or register less";
  if (code == EFAULT) hint = "the range is not mapped, or is read-only and was to be written";
  return failure{joined({"registering ", std::to_string(bytes), " bytes on ", d.name}), code, hint};
}

void deregister_memory(const device& d, ibv_mr* mr) noexcept {
  if (mr == nullptr) return;
  if (const int e = d.verbs->dereg_mr(mr); e != 0)
    log(log_level::warning, "memory could not be deregistered on %s (error %d)", d.name.c_str(), e);
}

void declare_shared_memory(const device& d, void* addr, std::size_t bytes, int fd,
                           std::uint64_t offset) {
  if (d.shared_memory) shm::declare_shared(addr, bytes, fd, offset);
}

void forget_shared_memory(const device& d, void* addr) noexcept {
  if (d.shared_memory) shm::forget_shared(addr);
}

}  // namespace penstock::nic
