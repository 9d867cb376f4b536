// ibv_reg_dmabuf_mr for buffers whose pages are memory of the host: udmabuf's, or any file that can
// be mapped, such as a memfd. The device's addresses are this process's, so the buffer must lie, or
// be laid, where the program wants to address it (iova). Memory of a GPU has no such place.
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>

#include "lib/base/immortal.hpp"
#include "lib/base/log.hpp"
#include "lib/base/page.hpp"
#include "nic/provider/operations.hpp"
#include "nic/shm/boundary.hpp"
#include "nic/shm/memory_map.hpp"
#include "nic/shm/region.hpp"

namespace penstock::nic::provider {
namespace {

constexpr std::int32_t kind_dmabuf = 3;  // IBV_MR_TYPE_DMABUF_MR, which libibverbs reads

struct buffer {
  std::uint64_t iova = 0;
  void* mapped = nullptr;  ///< by us, or null: the program has mapped it there
  std::size_t mapped_bytes = 0;
};
struct buffers {
  std::mutex lock;
  std::map<const ibv_mr*, buffer> all;
};
buffers& dmabufs() noexcept {
  static immortal<buffers> b;
  return b.value;
}

/// Whether all of [first, last) maps the file, from this offset on.
bool maps_file(std::uint64_t first, std::uint64_t last, const struct stat& file,
               std::uint64_t offset) {
  std::uint64_t next = first;
  for (const shm::mapped_piece& p : shm::pieces_of(first, last)) {
    const bool same = p.shared && p.inode == file.st_ino && p.begin <= next &&
                      p.offset + (next - p.begin) == offset + (next - first);
    if (!same) return false;
    next = p.end;
  }
  return next >= last;
}

/// Finds or makes the place. 0 or an errno.
int place(buffer& b, std::uint64_t offset, std::size_t bytes, int fd, int access) {
  const std::uint64_t within = b.iova % page_bytes();
  if (bytes == 0 || offset % page_bytes() != within) return EINVAL;
  struct stat file {};
  if (::fstat(fd, &file) != 0) return errno;
  // A dma-buf tells its size by lseek(2) alone.
  const auto size =
      static_cast<std::uint64_t>(file.st_size > 0 ? file.st_size : ::lseek(fd, 0, SEEK_END));
  if (offset + bytes < offset || offset + bytes > size) return EINVAL;
  if (maps_file(b.iova, b.iova + bytes, file, offset)) return 0;
  const std::size_t whole = within + bytes;
  const bool usable = b.iova >= page_bytes();  // root could map at 0, and lose null pointers
  void* wanted = reinterpret_cast<void*>(b.iova - within);
  const int rights = PROT_READ | ((access & IBV_ACCESS_LOCAL_WRITE) != 0 ? PROT_WRITE : 0);
  b.mapped = !usable ? MAP_FAILED
                     : ::mmap(wanted, whole, rights, MAP_SHARED | MAP_FIXED_NOREPLACE, fd,
                              static_cast<off_t>(offset - within));
  b.mapped_bytes = whole;
  if (usable && b.mapped == wanted) return 0;
  if (b.mapped != MAP_FAILED) ::munmap(b.mapped, whole);  // a kernel that does not know the flag
  b.mapped = nullptr;
  log(log_level::error,
      "shm0: ibv_reg_dmabuf_mr: the buffer cannot be mapped at its iova 0x%llx; shm0 takes memory "
      "of the host (udmabuf, memfd) whose iova is its address, or a free one",
      static_cast<unsigned long long>(b.iova));
  return EOPNOTSUPP;
}

void remove(const buffer& b) noexcept {
  if (b.mapped != nullptr) ::munmap(b.mapped, b.mapped_bytes);
}

}  // namespace

ibv_mr* reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t bytes, std::uint64_t iova,
                      int fd, int access) {
  if ((access & (IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND)) != 0)
    return errno = EOPNOTSUPP, nullptr;
  std::map<const ibv_mr*, buffer> entry;  // what asks for memory comes before what is to be undone
  buffer& b = entry[nullptr];
  b.iova = iova;
  if (const int e = place(b, offset, bytes, fd, access)) return errno = e, nullptr;
  ibv_mr* mr = shm::c_call<shm::reg_mr>(pd, reinterpret_cast<void*>(iova), bytes, access);
  if (mr == nullptr) {
    const int e = errno;
    remove(b);
    return errno = e, nullptr;
  }
  static_cast<shm::memory_region*>(mr)->kind = kind_dmabuf;
  auto& t = dmabufs();
  const std::lock_guard guard(t.lock);
  auto node = entry.extract(entry.begin());
  node.key() = mr;
  t.all.insert(std::move(node));
  return mr;
}

int dereg_mr(ibv_mr* mr) noexcept {
  if (static_cast<shm::memory_region*>(mr)->kind != kind_dmabuf) return shm::dereg_mr(mr);
  auto& t = dmabufs();
  const std::lock_guard guard(t.lock);
  const auto at = t.all.find(mr);
  if (at == t.all.end()) return EINVAL;
  mr->addr = reinterpret_cast<void*>(at->second.iova);  // libibverbs has put the offset there
  if (const int e = shm::dereg_mr(mr)) return e;
  remove(at->second);
  t.all.erase(at);
  return 0;
}

int rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t bytes,
             int access) noexcept {
  if (static_cast<shm::memory_region*>(mr)->kind == kind_dmabuf) return errno = EOPNOTSUPP;
  return shm::rereg_mr(mr, flags, pd, address, bytes, access);
}

}  // namespace penstock::nic::provider
