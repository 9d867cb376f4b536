#include "nic/shm/fence.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "nic/shm/lock.hpp"

namespace penstock::nic::shm {

thread_local constinit char thread_mark = 0;

bool join_barriers() noexcept {
  static const bool joined =
      ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
  return joined;
}

void heavy_fence() noexcept {
  // seq_cst: it also orders the calling thread, even where the kernel refuses the call
  std::atomic_thread_fence(std::memory_order_seq_cst);
  ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

}  // namespace penstock::nic::shm
