#include "nic/shm/remote_memory.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "lib/base/clock.hpp"
#include "lib/base/descriptors.hpp"
#include "lib/base/mapped_memory.hpp"
#include "lib/base/page.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/direct.hpp"
#include "nic/shm/qp.hpp"

namespace penstock::nic::shm {
namespace {

/// Maps the part of a file that the peer named. Null with errno 0 if that is not safe: an unsealed
/// file could be cut short while we use it. Null with another errno: not now.
std::shared_ptr<peer::mapping> map_file(int fd, const reply& a, std::uint64_t address) noexcept {
  struct stat st {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  errno = 0;
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(fd, &st) != 0) return nullptr;
  const auto size = static_cast<std::uint64_t>(st.st_size);
  if (a.length == 0 || a.value > size || a.length > size - a.value) return nullptr;
  const std::uint64_t begin = a.value & ~(page_bytes() - 1);
  const std::size_t bytes = a.value + a.length - begin;
  void* p = asked("mmap", ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                                 fd, static_cast<off_t>(begin)));
  if (p == MAP_FAILED) return nullptr;
  ::madvise(p, bytes, MADV_DONTDUMP);
  note_mapped("segments of others, mapped by shm0", p, bytes);
  auto m = std::make_shared<peer::mapping>();
  m->address = address;
  m->bytes = a.length;
  m->whole = p;
  m->whole_bytes = bytes;
  m->local = static_cast<std::byte*>(p) + (a.value - begin);
  return m;
}

/// Opens the peer's memory, once. The descriptor stays with that process, so a process that gets
/// the same pid later is never reached. The proof shows that the pid was the peer's when it was
/// opened.
int open_memory(peer& p) noexcept {
  const std::lock_guard guard(p.ways);
  if (p.tried_file) return p.memory_fd;
  p.tried_file = true;
  if (p.pid <= 0) return -1;  // in another pid namespace
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/mem", p.pid);
  const int fd = above_stdio(::open(path, O_RDWR | O_CLOEXEC));
  if (fd < 0) return -1;
  nonce seen;
  if (::pread(fd, &seen, sizeof seen, static_cast<off_t>(p.proof_address)) == sizeof seen &&
      seen == p.proof)
    return p.memory_fd = fd;
  ::close(fd);
  return -1;
}

template <class Io>
int file_copy(std::uint64_t address, std::size_t n, Io io) noexcept {
  std::size_t done = 0;
  while (done < n) {
    const ssize_t r = io(done, n - done, static_cast<off_t>(address + done));
    if (r < 0 && errno == EINTR) continue;
    if (r <= 0) return r == 0 ? ESRCH : errno;  // 0: the process is gone
    done += static_cast<std::size_t>(r);
  }
  return 0;
}

}  // namespace

std::shared_ptr<peer::mapping> map_region(queue_pair& qp, std::uint32_t rkey) noexcept {
  peer& p = *qp.remote;
  const std::lock_guard guard(p.ways);
  const auto* shown = p.entry<mr_entry>(table::mr, region_table::index_of(rkey));
  // The region may have been registered again with other memory; it stays while we touch it.
  const std::uint32_t epoch = shown != nullptr ? shown->epoch.load(std::memory_order_relaxed) : 0;
  if (const auto known = p.mappings.find(rkey); known != p.mappings.end()) {
    if (known->second.epoch == epoch) return known->second.at;
    p.mappings.erase(known);
  }
  std::shared_ptr<peer::mapping> m;
  const way_to_map way =
      shown != nullptr ? shown->mappable.load(std::memory_order_relaxed) : way_to_map::none;
  if (way == way_to_map::moved && p.moved_fd >= 0) {
    // A page's offset in that file is its address.
    reply a;
    a.value = shown->address.load(std::memory_order_relaxed);
    a.length = shown->length.load(std::memory_order_relaxed);
    m = map_file(p.moved_fd, a, a.value);
    if (!m && errno != 0) return nullptr;
  } else if (way != way_to_map::none) {
    request q = p.make(request_kind::memory_file, peer_qpn(qp), qp.qp_num);
    q.rkey = rkey;
    reply a;
    int fd = -1;
    peer::file_question& asked = p.asked_for_file[rkey];
    if (asked.epoch != epoch) asked = {0, epoch};  // the answer would be about other memory
    int e = p.ask_later(q, nullptr, 0, a, nullptr, 0, &fd, &asked.ticket);
    if (e == EINPROGRESS) return errno = e, nullptr;
    p.asked_for_file.erase(rkey);
    if (e == 0 && a.error == 0 && fd >= 0) {
      m = map_file(fd, a, a.proof.high);
      if (!m) e = errno;
    }
    if (fd >= 0) ::close(fd);
    // The peer has not refused: it can be asked again, unless it has ended.
    if (e != 0) return errno = meaning_of(e) == meaning::gone ? ESRCH : e, nullptr;
  }
  // Mappings of regions that are gone are dropped. A thread that still copies holds the mapping
  // itself.
  std::erase_if(p.mappings, [&](const auto& old) {
    const auto* e = p.entry<mr_entry>(table::mr, region_table::index_of(old.first));
    return e == nullptr || e->key.load(std::memory_order_relaxed) != old.first;
  });
  p.mappings[rkey] = {m, epoch};
  return m;
}

bool by_kernel(queue_pair& qp) noexcept { return open_memory(*qp.remote) >= 0; }

int copy_unmapped(queue_pair& qp, send_work& w) noexcept {
  peer& p = *qp.remote;
  const int fd = open_memory(p);
  const bool read = w.opcode == IBV_WR_RDMA_READ;
  // Parts of the list before w.offset are done.
  std::uint64_t first = 0;
  for (std::uint32_t i = 0; i < w.count; first += w.list[i++].length) {
    const ibv_sge& s = w.list[i];
    while (w.offset < first + s.length) {
      const std::uint64_t inside = w.offset - first, left = s.length - inside;
      auto* own = reinterpret_cast<std::byte*>(s.addr) + inside;
      std::uint64_t piece = left;
      int e;
      if (fd >= 0) {
        e = file_copy(w.remote + w.offset, left, [&](std::size_t done, std::size_t n, off_t at) {
          return read ? ::pread(fd, own + done, n, at) : ::pwrite(fd, own + done, n, at);
        });
      } else {
        piece = std::min<std::uint64_t>(left, wire_payload);
        request q =
            p.make(read ? request_kind::copy_out : request_kind::copy_in, peer_qpn(qp), qp.qp_num);
        q.rkey = w.rkey;
        q.address = w.remote + w.offset;
        q.length = static_cast<std::uint32_t>(piece);
        reply a;
        e = p.ask_later(q, own, read ? 0 : piece, a, own, read ? piece : 0, nullptr, &w.position);
        if (e == 0) e = a.error;
      }
      if (e != 0) return e;
      w.offset += static_cast<std::uint32_t>(piece);
    }
  }
  w.offset = 0;
  return 0;
}

int copy_remote(ibv_qp* handle, std::uint64_t addr, void* local, std::size_t bytes,
                bool write) noexcept {
  queue_pair& qp = of(handle);
  std::shared_ptr<peer> p;
  {
    const hold guard(qp.sending);
    p = qp.remote;
  }
  if (!p || p->dead.load(std::memory_order_relaxed)) return ESRCH;
  // The memory file proves, once, that the pid is the peer's. The pidfd proves, each time, that it
  // still is: a pid is reused only after its process has ended.
  if (open_memory(*p) < 0 || p->process < 0) return EPERM;
  auto* at = static_cast<std::byte*>(local);
  while (bytes != 0) {
    pollfd ended{p->process, POLLIN, 0};
    if (::poll(&ended, 1, 0) > 0) return ESRCH;
    const iovec mine{at, bytes}, his{reinterpret_cast<void*>(addr), bytes};
    const ssize_t n = write ? ::process_vm_writev(p->pid, &mine, 1, &his, 1, 0)
                            : ::process_vm_readv(p->pid, &mine, 1, &his, 1, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n == 0 ? EFAULT : errno == ENOSYS ? EPERM : errno;
    at += n, addr += static_cast<std::uint64_t>(n), bytes -= static_cast<std::size_t>(n);
  }
  return 0;
}

void admit_peers() noexcept {
  // EINVAL where there is no Yama, which then forbids nothing.
  (void)::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

void* map_remote(ibv_qp* handle, std::uint64_t addr, std::size_t bytes, std::uint32_t rkey,
                 std::uint64_t patience_ns) noexcept {
  queue_pair& qp = of(handle);
  const hold guard(qp.sending);
  errno = ESRCH;
  if (!qp.remote || qp.remote->dead.load(std::memory_order_relaxed)) return nullptr;
  std::shared_ptr<peer::mapping> m;
  const std::uint64_t begun = now_ns();
  constexpr std::uint64_t shortage_ns = 2'000'000'000;
  for (std::uint64_t limit_ns = patience_ns;;) {
    errno = 0;
    m = map_region(qp, rkey);
    if (m || errno == 0) break;
    if (errno == EINPROGRESS)
      (void)wait_readable(qp.remote->socket, 1);
    else if (meaning_of(errno) == meaning::later)
      limit_ns = shortage_ns, ::poll(nullptr, 0, 10);
    else
      break;
    if (now_ns() - begun < limit_ns) continue;
    errno = ETIMEDOUT;
    break;
  }
  if (!m || addr < m->address || bytes > m->bytes || addr - m->address > m->bytes - bytes)
    return nullptr;
  qp.kept.push_back(m);
  return m->local + (addr - m->address);
}

}  // namespace penstock::nic::shm
