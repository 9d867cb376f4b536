/* In a program that has this function: a kernel that refuses the calls which are made by
 * syscall(2), membarrier among them. */
#include <errno.h>

long syscall(long number, ...);
long syscall(long number, ...) {
  (void)number;
  errno = ENOSYS;
  return -1;
}
