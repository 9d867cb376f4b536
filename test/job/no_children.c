// Preloaded into penrun: the kernel has reaped all children itself.
#include <errno.h>
#include <sys/types.h>

pid_t waitpid(pid_t pid, int* status, int options);
pid_t waitpid(pid_t pid, int* status, int options) {
  (void)pid, (void)status, (void)options;
  errno = ECHILD;
  return -1;
}
