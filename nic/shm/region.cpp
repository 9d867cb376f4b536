#include "nic/shm/region.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <new>

#include "lib/base/page.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/direct.hpp"
#include "nic/shm/fence.hpp"

namespace penstock::nic::shm {
namespace {

constexpr std::size_t table_bytes = sizeof(region_table::region) * max_mrs;

/// Declared parts of this process, by address.
struct shared_parts {
  std::mutex lock;
  std::map<std::uint64_t, shared_part> by_address;
};
shared_parts& parts() {
  static auto* p = new shared_parts;  // outlives every static object that might still forget memory
  return *p;
}

/// Registered memory must exist, as on an adapter, which pins it: every page mapped (looked up
/// without touching it), the ends accessible in the way that is asked for.
int check_mapped(std::uint64_t address, std::size_t bytes, bool writable) noexcept {
  const std::uint64_t first = address & ~(page_bytes() - 1);
  const std::uint64_t last = (address + bytes - 1) & ~(page_bytes() - 1);
  unsigned char present[4096];
  for (std::uint64_t at = first; at <= last; at += sizeof present * page_bytes()) {
    const std::uint64_t left = last - at + page_bytes();
    const std::uint64_t now =
        left < sizeof present * page_bytes() ? left : sizeof present * page_bytes();
    if (::mincore(reinterpret_cast<void*>(at), now, present) != 0) return EFAULT;
  }
  for (const std::uint64_t end : {first, last}) {
    void* page = reinterpret_cast<void*>(end);
    const auto populate = [page](int advice) {
      return ::madvise(page, page_bytes(), advice) == 0 ? 0 : errno;
    };
    int e = populate(writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    // EINVAL is a mapping without that right, but also a kernel before 5.14, or a device's memory.
    if (e == EINVAL) e = writable && populate(MADV_POPULATE_READ) == 0 ? EFAULT : 0;
    if (e != 0) return e == ENOMEM ? EFAULT : e;
  }
  return 0;
}

}  // namespace

region_table::region_table() {
  void* p = ::mmap(nullptr, table_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  regions_ = static_cast<region*>(p);  // all zero: no key is valid
}

region_table::~region_table() { ::munmap(regions_, table_bytes); }

ibv_pd* alloc_pd(ibv_context* handle) {
  context& c = of(handle);
  if (const int e = refusal(c, verb::alloc_pd)) return errno = e, nullptr;
  auto* pd = new (std::nothrow) protection_domain{};
  if (pd == nullptr) return errno = ENOMEM, nullptr;
  pd->context = handle;
  pd->number = c.next_pd.fetch_add(1, std::memory_order_relaxed);
  pd->handle = pd->number;
  c.live.fetch_add(1, std::memory_order_relaxed);
  return pd;
}

int dealloc_pd(ibv_pd* p) {
  protection_domain& pd = of(p);
  if (pd.users.load(std::memory_order_acquire) != 0) return EBUSY;
  of(pd.context).live.fetch_sub(1, std::memory_order_release);
  delete &pd;
  return 0;
}

ibv_mr* reg_mr(ibv_pd* p, void* addr, std::size_t bytes, int access) {
  protection_domain& pd = of(p);
  context& c = of(pd.context);
  if (const int e = refusal(c, verb::reg_mr)) return errno = e, nullptr;
  constexpr int known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                        IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_HUGETLB;
  if ((access & ~(known | IBV_ACCESS_OPTIONAL_RANGE)) != 0) return errno = EOPNOTSUPP, nullptr;
  // Remote writers write locally in the end.
  const bool remote_write = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  if (remote_write && (access & IBV_ACCESS_LOCAL_WRITE) == 0) return errno = EINVAL, nullptr;
  const auto address = reinterpret_cast<std::uint64_t>(addr);
  if (bytes == 0 || address + bytes < address) return errno = EINVAL, nullptr;
  if (const int e = check_mapped(address, bytes, (access & IBV_ACCESS_LOCAL_WRITE) != 0))
    return errno = e, nullptr;
  if (c.mrs.load(std::memory_order_relaxed) >= c.plays.limits.mr) return errno = ENOMEM, nullptr;
  auto* mr = new (std::nothrow) memory_region{};
  if (mr == nullptr) return errno = ENOMEM, nullptr;
  constexpr int remote =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  if (c.moves_memory && (access & remote) != 0) mr->moved = moved_memory::take(address, bytes);
  const int index = c.memory.take_entry(table::mr);
  if (index < 0) {
    moved_memory::let_go(mr->moved, address, bytes);
    delete mr;
    return nullptr;
  }
  const auto i = static_cast<std::uint32_t>(index);
  auto& mine = c.regions.at(i);
  auto& shown = c.memory.entry<mr_entry>(table::mr, i);
  // The generation lies where only the owner of a free entry looks: in the private length.
  const std::uint32_t generation =
      (static_cast<std::uint32_t>(mine.length.load(std::memory_order_relaxed)) & 0x3fff) + 1;
  std::uint32_t key = (generation << region_table::index_bits) | i;
  if (key >> region_table::index_bits == 0) key |= 1u << region_table::index_bits;
  const auto rights = static_cast<std::uint32_t>(access);
  mine.pd.store(pd.number, std::memory_order_relaxed);
  mine.access.store(rights, std::memory_order_relaxed);
  mine.address.store(address, std::memory_order_relaxed);
  mine.length.store(bytes, std::memory_order_relaxed);
  shown.pd.store(pd.number, std::memory_order_relaxed);
  shown.access.store(rights, std::memory_order_relaxed);
  shown.address.store(address, std::memory_order_relaxed);
  shown.length.store(bytes, std::memory_order_relaxed);
  mine.moved.store(mr->moved.moved, std::memory_order_relaxed);
  shown.mappable.store(mr->moved.moved || find_shared(address, bytes) ? 1 : 0,
                       std::memory_order_relaxed);
  // M4 valid  store-release mine.key  -> M3 (region.hpp): the fields are written
  // M1 valid  store-release shown.key  -> M2 (onesided.cpp): the same for peers
  mine.key.store(key, std::memory_order_release);
  shown.key.store(key, std::memory_order_release);
  mr->context = pd.context;
  mr->pd = p;
  mr->addr = addr;
  mr->length = bytes;
  mr->handle = i;
  mr->lkey = mr->rkey = key;
  mr->access = access;
  pd.users.fetch_add(1, std::memory_order_relaxed);
  c.mrs.fetch_add(1, std::memory_order_relaxed);
  c.live.fetch_add(1, std::memory_order_relaxed);
  return mr;
}

int dereg_mr(ibv_mr* mr) {
  context& c = of(mr->context);
  const std::uint32_t i = mr->handle;
  auto& mine = c.regions.at(i);
  mine.key.store(0, std::memory_order_release);
  c.memory.entry<mr_entry>(table::mr, i).key.store(0, std::memory_order_release);
  constexpr std::uint32_t remote =
      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  if ((mine.access.load(std::memory_order_relaxed) & remote) != 0) wait_untouched(c, mr->rkey);
  moved_memory::let_go(static_cast<memory_region*>(mr)->moved,
                       reinterpret_cast<std::uint64_t>(mr->addr), mr->length);
  mine.length.store(mr->rkey >> region_table::index_bits, std::memory_order_relaxed);
  c.memory.free_entry(table::mr, i);
  c.mrs.fetch_sub(1, std::memory_order_relaxed);
  of(mr->pd).users.fetch_sub(1, std::memory_order_release);
  c.live.fetch_sub(1, std::memory_order_release);
  delete static_cast<memory_region*>(mr);
  return 0;
}

void declare_shared(void* addr, std::size_t bytes, int fd, std::uint64_t offset) {
  const auto address = reinterpret_cast<std::uint64_t>(addr);
  const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);  // the caller may close his
  if (own < 0) return;
  auto& p = parts();
  const std::lock_guard guard(p.lock);
  auto [at, fresh] = p.by_address.try_emplace(address);
  if (!fresh) ::close(at->second.fd);
  at->second = {address, bytes, offset, own};
}

void forget_shared(void* addr) {
  auto& p = parts();
  const std::lock_guard guard(p.lock);
  const auto at = p.by_address.find(reinterpret_cast<std::uint64_t>(addr));
  if (at == p.by_address.end()) return;
  ::close(at->second.fd);
  p.by_address.erase(at);
}

std::optional<shared_part> find_shared(std::uint64_t address, std::uint64_t bytes) {
  auto& p = parts();
  const std::lock_guard guard(p.lock);
  auto at = p.by_address.upper_bound(address);
  if (at == p.by_address.begin()) return std::nullopt;
  const shared_part& s = (--at)->second;
  if (address - s.address > s.bytes || bytes > s.bytes - (address - s.address)) return std::nullopt;
  return s;
}

}  // namespace penstock::nic::shm
