// Sockets over RDMA (rsocket(7)) are not built here: rsocket fails, and says so. No other call
// can then be given a socket of that kind.
#include <rdma/rsocket.h>

#include "nic/cm/cm.hpp"

namespace {
template <class T>
T no_socket() noexcept {
  return errno = EBADF, static_cast<T>(-1);
}
}  // namespace

extern "C" {

int rsocket(int, int, int) {
  return errno = penstock::nic::cm::refuse(
             EOPNOTSUPP, "rsocket: there are no sockets over shm0; use those of the system"),
         -1;
}
int rbind(int, const sockaddr*, socklen_t) { return no_socket<int>(); }
int rlisten(int, int) { return no_socket<int>(); }
int raccept(int, sockaddr*, socklen_t*) { return no_socket<int>(); }
int rconnect(int, const sockaddr*, socklen_t) { return no_socket<int>(); }
int rshutdown(int, int) { return no_socket<int>(); }
int rclose(int) { return no_socket<int>(); }
ssize_t rrecv(int, void*, size_t, int) { return no_socket<ssize_t>(); }
ssize_t rrecvfrom(int, void*, size_t, int, sockaddr*, socklen_t*) { return no_socket<ssize_t>(); }
ssize_t rrecvmsg(int, msghdr*, int) { return no_socket<ssize_t>(); }
ssize_t rsend(int, const void*, size_t, int) { return no_socket<ssize_t>(); }
ssize_t rsendto(int, const void*, size_t, int, const sockaddr*, socklen_t) {
  return no_socket<ssize_t>();
}
ssize_t rsendmsg(int, const msghdr*, int) { return no_socket<ssize_t>(); }
ssize_t rread(int, void*, size_t) { return no_socket<ssize_t>(); }
ssize_t rreadv(int, const iovec*, int) { return no_socket<ssize_t>(); }
ssize_t rwrite(int, const void*, size_t) { return no_socket<ssize_t>(); }
ssize_t rwritev(int, const iovec*, int) { return no_socket<ssize_t>(); }
// Descriptors of other kinds may be waited for by these two.
int rpoll(pollfd* all, nfds_t count, int timeout_ms) { return ::poll(all, count, timeout_ms); }
int rselect(int count, fd_set* in, fd_set* out, fd_set* other, timeval* timeout) {
  return ::select(count, in, out, other, timeout);
}
int rgetpeername(int, sockaddr*, socklen_t*) { return no_socket<int>(); }
int rgetsockname(int, sockaddr*, socklen_t*) { return no_socket<int>(); }
int rsetsockopt(int, int, int, const void*, socklen_t) { return no_socket<int>(); }
int rgetsockopt(int, int, int, void*, socklen_t*) { return no_socket<int>(); }
int rfcntl(int, int, ...) { return no_socket<int>(); }
off_t riomap(int, void*, size_t, int, int, off_t) { return no_socket<off_t>(); }
int riounmap(int, void*, size_t) { return no_socket<int>(); }
size_t riowrite(int, const void*, size_t, off_t, int) { return no_socket<size_t>(); }
}
