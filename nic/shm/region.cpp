#include "nic/shm/region.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <memory>
#include <new>

#include "lib/base/assert.hpp"
#include "lib/base/immortal.hpp"
#include "lib/base/mapped_memory.hpp"
#include "lib/base/no_memory.hpp"
#include "lib/base/page.hpp"
#include "nic/shm/context.hpp"
#include "nic/shm/direct.hpp"
#include "nic/shm/fence.hpp"
#include "nic/shm/memory_map.hpp"
#include "nic/shm/qp.hpp"
#include "nic/shm/srq.hpp"

namespace penstock::nic::shm {
namespace {

constexpr std::size_t table_bytes = sizeof(region_table::region) * max_mrs;

/// Declared parts of this process, by address.
struct shared_parts {
  std::mutex lock;
  std::map<std::uint64_t, shared_part> by_address;
};
shared_parts& parts() {
  static immortal<shared_parts> p;  // static objects might still forget memory
  return p.value;
}

}  // namespace

region_table::region_table() {
  void* p = ::mmap(nullptr, table_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw no_memory_for(table_bytes, "the table of regions");
  regions_ = static_cast<region*>(p);  // all zero: no key is valid
  note_mapped("shm0's memory keys", p, table_bytes);
}

region_table::~region_table() {
  forget_mapped(regions_);
  ::munmap(regions_, table_bytes);
}

int check_mapped(std::uint64_t address, std::size_t bytes, bool writable) noexcept {
  const std::uint64_t first = address & ~(page_bytes() - 1);
  const std::uint64_t last = (address + bytes - 1) & ~(page_bytes() - 1);
  unsigned char present[4096];
  bool told = true;  // by mincore(); where a sandbox refuses that, the list of mappings tells
  for (std::uint64_t at = first; at <= last; at += sizeof present * page_bytes()) {
    const std::uint64_t left = last - at + page_bytes();
    const std::uint64_t now =
        left < sizeof present * page_bytes() ? left : sizeof present * page_bytes();
    if (::mincore(reinterpret_cast<void*>(at), now, present) == 0) continue;
    if (errno == ENOMEM) return EFAULT;
    told = false;
  }
  try {
    std::uint64_t next = first;
    for (const mapped_piece& p : pieces_of(address, address + bytes)) {
      if (!p.readable || (writable && !p.writable) || (!told && p.begin > next)) return EFAULT;
      next = p.end;
    }
    if (!told && next <= last) return EFAULT;
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  for (const std::uint64_t end : {first, last}) {
    void* page = reinterpret_cast<void*>(end);
    const auto populate = [page](int advice) {
      return ::madvise(page, page_bytes(), advice) == 0 ? 0 : errno;
    };
    int e = populate(writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    // EINVAL means a mapping without that right, a kernel before 5.14, or a device's memory. Where
    // a sandbox refuses the call, the mappings' rights are all that is known.
    if (e == EPERM || e == ENOSYS) e = 0;
    for (int i = 0; i < 100 && e == EAGAIN; ++i)
      e = populate(writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
    if (e == EINVAL) e = writable && populate(MADV_POPULATE_READ) == 0 ? EFAULT : 0;
    if (e != 0) return e == ENOMEM ? EFAULT : e;
  }
  return 0;
}

std::uint32_t next_key(std::uint32_t i, std::uint64_t last_generation) noexcept {
  const std::uint32_t generation = (static_cast<std::uint32_t>(last_generation) + 1) & 0x3fff;
  return region_table::key_of(i, generation != 0 ? generation : 1);
}

namespace {

constexpr int remote_rights =
    IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// Whether that memory may be registered with those rights: 0 or an errno.
int check_region(std::uint64_t address, std::size_t bytes, int access) noexcept {
  constexpr int known = IBV_ACCESS_LOCAL_WRITE | remote_rights | IBV_ACCESS_HUGETLB |
                        IBV_ACCESS_ON_DEMAND | IBV_ACCESS_MW_BIND;
  if ((access & ~(known | IBV_ACCESS_OPTIONAL_RANGE)) != 0) return EOPNOTSUPP;
  // A remote write is in the end a local one.
  const bool remote_write = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  if (remote_write && (access & IBV_ACCESS_LOCAL_WRITE) == 0) return EINVAL;
  if (address + bytes < address) return EINVAL;
  // As the kernel for every adapter: an empty region has the page that its address lies in, and
  // none, which is refused, if it lies at the beginning of one.
  if (bytes == 0 && address % page_bytes() == 0) return EINVAL;
  if ((access & IBV_ACCESS_ON_DEMAND) != 0) return 0;  // the memory need not exist yet
  return check_mapped(address, bytes != 0 ? bytes : 1, (access & IBV_ACCESS_LOCAL_WRITE) != 0);
}

/// Moves the memory to a place that peers can map. Memory that is paged on demand stays where it
/// is, since the program may replace it at any time.
moved_memory::hold move(const context& c, std::uint64_t address, std::size_t bytes,
                        int access) noexcept {
  const bool reached = (access & (remote_rights | IBV_ACCESS_MW_BIND)) != 0;
  if (!c.moves_memory.load(std::memory_order_relaxed) || !reached || bytes == 0 ||
      (access & IBV_ACCESS_ON_DEMAND) != 0)
    return {};
  return moved_memory::take(address, bytes);
}

/// Enters mr's memory and rights under that key, for this process and for peers.
void show(context& c, memory_region& mr, std::uint32_t key) noexcept {
  const std::uint32_t i = mr.handle;
  auto& mine = c.regions.at(i);
  auto& shown = c.memory.entry<mr_entry>(table::mr, i);
  PENSTOCK_ASSERT(key, !=, 0u);
  PENSTOCK_ASSERT(region_table::index_of(key), ==, i);
  PENSTOCK_ASSERT(mine.key.load(std::memory_order_relaxed), ==, 0u);  // nobody uses the entry
  const auto rights = static_cast<std::uint32_t>(mr.access) | region_table::local_use;
  const auto address = reinterpret_cast<std::uint64_t>(mr.addr);
  const std::uint32_t pd = of(mr.pd).number;
  mine.pd.store(pd, std::memory_order_relaxed);
  mine.access.store(rights, std::memory_order_relaxed);
  mine.address.store(address, std::memory_order_relaxed);
  mine.length.store(mr.length, std::memory_order_relaxed);
  shown.pd.store(pd, std::memory_order_relaxed);
  shown.access.store(rights, std::memory_order_relaxed);
  shown.address.store(address, std::memory_order_relaxed);
  shown.length.store(mr.length, std::memory_order_relaxed);
  mine.moved.store(mr.moved.moved, std::memory_order_relaxed);
  shown.mappable.store(mr.moved.moved                    ? way_to_map::moved
                       : find_shared(address, mr.length) ? way_to_map::ask
                                                         : way_to_map::none,
                       std::memory_order_relaxed);
  mine.qpn.store(0, std::memory_order_relaxed);
  shown.qpn.store(0, std::memory_order_relaxed);
  shown.epoch.fetch_add(1, std::memory_order_relaxed);
  // M4 valid  store-release mine.key  -> M3 (region.hpp): the fields are written
  // M1 valid  store-release shown.key  -> M2 (onesided.cpp): the same for peers
  mine.key.store(key, std::memory_order_release);
  shown.key.store(key, std::memory_order_release);
  mr.lkey = mr.rkey = key;
}

/// Invalidates the region's key; when this returns no peer touches its memory.
void hide(context& c, memory_region& mr) noexcept {
  const std::uint32_t i = mr.handle;
  PENSTOCK_ASSERT(c.regions.at(i).key.load(std::memory_order_relaxed), ==, mr.rkey);
  // relaxed: nothing is behind a 0; T3's fence (onesided.cpp) comes before what follows
  c.regions.at(i).key.store(0, std::memory_order_relaxed);
  c.memory.entry<mr_entry>(table::mr, i).key.store(0, std::memory_order_relaxed);
  if ((mr.access & remote_rights) != 0) wait_untouched(c, mr.rkey);
}

}  // namespace

ibv_mr* reg_mr(ibv_pd* p, void* addr, std::size_t bytes, int access) {
  protection_domain& pd = of(p);
  context& c = of(pd.context);
  if (const int e = refusal(c, verb::reg_mr)) return errno = e, nullptr;
  const auto address = reinterpret_cast<std::uint64_t>(addr);
  if (const int e = check_region(address, bytes, access)) return errno = e, nullptr;
  if (c.mrs.load(std::memory_order_relaxed) >= c.plays.limits.mr) return errno = ENOMEM, nullptr;
  auto mr = std::make_unique<memory_region>();
  const int index = c.memory.take_entry(table::mr);
  if (index < 0) return nullptr;
  mr->moved = move(c, address, bytes, access);
  mr->context = pd.context;
  mr->pd = p;
  mr->addr = addr;
  mr->length = bytes;
  mr->handle = static_cast<std::uint32_t>(index);
  mr->access = access;
  // The last generation is kept in the private length, which only the owner of a free entry reads.
  show(c, *mr,
       next_key(mr->handle, c.regions.at(mr->handle).length.load(std::memory_order_relaxed)));
  pd.users.begin();
  c.mrs.fetch_add(1, std::memory_order_relaxed);
  c.live.begin();
  return mr.release();
}

namespace {

/// Posted receives that name that key may name memory that is no longer theirs, so it is
/// uncertain whether a message fits one. A sender therefore waits until its message has been
/// placed.
void doubt_receives(context& c, std::uint32_t lkey) noexcept {
  const std::lock_guard guard(c.objects);
  const auto doubt = [lkey](auto& queue, auto& shown) {
    const hold lock(queue.lock);
    if (queue.doubted() || !queue.names(lkey)) return;
    queue.doubt();
    shown.floor.store(0, std::memory_order_relaxed);  // relaxed: a sender may have read it before
  };
  for (queue_pair* q : c.qps)
    if (q->shared_receives == nullptr) doubt(q->receives, *q->shown);
  for (shared_receive_queue* s : c.shared_queues) doubt(s->works, *s->shown);
}

}  // namespace

int rereg_mr(ibv_mr* handle, int flags, ibv_pd* p, void* addr, std::size_t bytes,
             int access) noexcept {
  auto& mr = *static_cast<memory_region*>(handle);
  context& c = of(mr.context);
  const auto fails = [](int e) { return errno = e; };
  if (const int e = refusal(c, verb::reg_mr)) return fails(e);
  const bool other_memory = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool other_rights = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
  const bool other_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
  constexpr int known =
      IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_PD;
  if (flags == 0 || (flags & ~known) != 0 || (other_pd && p == nullptr)) return fails(EINVAL);
  if (!other_rights) access = mr.access;
  if (other_memory && bytes == 0) return fails(EINVAL);  // as libibverbs says of every device
  if (!other_memory) addr = mr.addr, bytes = mr.length;
  if (other_rights && ((access ^ mr.access) & static_cast<int>(IBV_ACCESS_ON_DEMAND)) != 0)
    return fails(EOPNOTSUPP);
  const auto address = reinterpret_cast<std::uint64_t>(addr);
  if (const int e = check_region(address, bytes, access)) return fails(e);
  if (!mr.windows.none()) return fails(EBUSY);
  const std::uint32_t key = mr.rkey;
  hide(c, mr);
  doubt_receives(c, key);  // before its memory goes; a post meanwhile finds the key hidden
  const moved_memory::hold before = mr.moved;
  const auto last_address = reinterpret_cast<std::uint64_t>(mr.addr);
  const std::size_t last_bytes = mr.length;
  mr.access = access;
  mr.addr = addr;
  mr.length = bytes;
  // Moved memory stays moved while the region keeps its memory.
  if (other_memory || !before.held) mr.moved = move(c, address, bytes, access);
  if (other_memory) moved_memory::let_go(before, last_address, last_bytes);
  if (other_pd) {
    of(p).users.begin();
    of(mr.pd).users.end();
    mr.pd = p;
  }
  show(c, mr, key);
  return 0;
}

int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list,
              std::uint32_t count) noexcept {
  const context& c = of(pd->context);
  const bool to_write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH && !to_write &&
      advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
    return EOPNOTSUPP;
  if ((flags & ~std::uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0 || count == 0) return EINVAL;
  for (std::uint32_t i = 0; i < count; ++i)
    if (!c.regions.allows(
            list[i].lkey, of(pd).number, list[i].addr, list[i].length,
            to_write ? std::uint32_t{IBV_ACCESS_LOCAL_WRITE} : region_table::local_use))
      return EINVAL;
  if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (list[i].length == 0) continue;
    const std::uint64_t first = list[i].addr & ~(page_bytes() - 1);
    const int e = ::madvise(reinterpret_cast<void*>(first), list[i].addr + list[i].length - first,
                            to_write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0
                      ? 0
                      : errno;
    // Advice is followed where that is possible; memory that does not exist is an error all the
    // same.
    if (e == ENOMEM || e == EFAULT) return EFAULT;
  }
  return 0;
}

int dereg_mr(ibv_mr* handle) noexcept {
  auto* mr = static_cast<memory_region*>(handle);
  context& c = of(mr->context);
  if (!mr->windows.none()) return errno = EBUSY;
  const bool receives = (mr->access & IBV_ACCESS_LOCAL_WRITE) != 0;
  hide(c, *mr);
  if (receives) doubt_receives(c, mr->lkey);
  moved_memory::let_go(mr->moved, reinterpret_cast<std::uint64_t>(mr->addr), mr->length);
  c.regions.at(mr->handle)
      .length.store(region_table::generation_of(mr->rkey), std::memory_order_relaxed);
  c.memory.free_entry(table::mr, mr->handle);
  [[maybe_unused]] const auto before = c.mrs.fetch_sub(1, std::memory_order_relaxed);
  PENSTOCK_ASSERT(before, !=, 0u);
  of(mr->pd).users.end();
  c.live.end();
  delete mr;
  return 0;
}

void declare_shared(void* addr, std::size_t bytes, int fd, std::uint64_t offset) {
  const auto address = reinterpret_cast<std::uint64_t>(addr);
  const int own = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);  // the caller may close its own descriptor
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
