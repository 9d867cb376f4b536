// Stress against stale registrations on a real verbs device, where an old registration really reads
// old pages. Threads map, unmap, remap, trim, fork and transfer at random; every byte is verified.
//
//   firehose_staleness [--seconds N] [--threads N] [--seed N] [--protect
//   automatic|calls|events|both|none]
//
// Ends with 0: every byte was right; 1: some was not (which is what must happen with none); 2: the
// device failed; 77: there is no verbs device.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "firehose/interpose.hpp"
#include "firehose/pool.hpp"
#include "test/firehose/loopback.hpp"

using namespace penstock;
using namespace penstock::firehose;

namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t slice_pages = 48;
constexpr std::size_t most_pages = 16;  // of one transfer
constexpr int rw = PROT_READ | PROT_WRITE;
constexpr int anonymous = MAP_PRIVATE | MAP_ANONYMOUS;

struct options {
  unsigned seconds = 10, threads = 3, seed = 1;
  protection protect = protection::automatic;
};

struct shared {
  verbs_device device;
  std::unique_ptr<pool> cache;
  std::byte* arena = nullptr;  // the threads' slices lie side by side, so that they share windows
  std::uint64_t end_ns = 0;
  std::atomic<std::uint64_t> transfers{0}, changes{0}, wrong{0}, forks{0};
  std::atomic<bool> broken{false};
  void* (*libc_malloc)(std::size_t) = nullptr;
  void (*libc_free)(void*) = nullptr;
};

class worker {
 public:
  worker(shared& s, unsigned number, unsigned seed)
      : s_(s), random_(seed * 1000 + number), slice_(s.arena + number * slice_pages * page) {
    window_ = static_cast<std::byte*>(mmap(nullptr, most_pages * page, rw, anonymous, -1, 0));
  }
  ~worker() {
    if (mr_.handle != nullptr) s_.device.dereg(mr_);
    munmap(window_, most_pages * page);
  }

  void run() {
    auto l = loopback::make(s_.device);
    auto r = s_.device.reg(window_, most_pages * page, memreg::access::all);
    if (!l || !r) return give_up((l ? r.error() : l.error()).message());
    qp_ = std::move(*l);
    mr_ = *r;
    while (now_ns() < s_.end_ns && !s_.broken.load(std::memory_order_relaxed)) {
      switch (pick(12)) {
        case 0:
          heap_block();
          break;
        case 1:
          thread_stack();
          break;
        case 2:
          fork_and_write();
          break;
        default:
          slice();
          break;
      }
    }
  }

 private:
  std::size_t pick(std::size_t n) { return random_() % n; }

  // A change of some pages of the slice, then a transfer of them, not always all.
  void slice() {
    const std::size_t n = (1 + pick(most_pages)) * page;
    std::byte* at = slice_ + pick(slice_pages - n / page + 1) * page;
    s_.changes.fetch_add(1, std::memory_order_relaxed);
    switch (pick(6)) {
      case 0:
        munmap(at, n);
        [[fallthrough]];
      case 1:
        mmap(at, n, rw, anonymous | MAP_FIXED, -1, 0);
        break;
      case 2:
        madvise(at, n, MADV_DONTNEED);
        break;
      case 3: {  // the pages move elsewhere and others come from there
        void* other = mmap(nullptr, n, rw, anonymous, -1, 0);
        std::memset(other, 9, n);
        mremap(other, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, at);
        break;
      }
      case 4:  // shrunk and filled up again
        if (n > page) {
          mremap(at, n, page, 0);
          mmap(at + page, n - page, rw, anonymous | MAP_FIXED, -1, 0);
        }
        break;
      default:
        break;
    }
    const std::size_t skip = pick(page);
    both_ways(at + skip, 1 + pick(n - skip));
  }

  // A block of libc's own allocator, above and below the size that it maps and unmaps each time.
  void heap_block() {
    const std::size_t n = (std::size_t{1} << (12 + pick(10))) + pick(page);
    auto* p = static_cast<std::byte*>(s_.libc_malloc(n));
    if (p != nullptr) both_ways(p, std::min(n, most_pages * page));
    s_.libc_free(p);
  }

  void thread_stack() {
    std::thread([&] {
      std::byte buffer[5 * page];
      both_ways(buffer, sizeof buffer);
    }).join();
  }

  // The child shares all pages until it ends; what the parent writes meanwhile may move.
  void fork_and_write() {
    if (pick(8) != 0) return;
    s_.forks.fetch_add(1, std::memory_order_relaxed);
    const pid_t child = fork();
    if (child == 0) {
      usleep(5000);
      _exit(0);
    }
    for (int i = 0; i < 5; ++i) both_ways(slice_ + pick(slice_pages - most_pages) * page, 3 * page);
    if (child > 0) waitpid(child, nullptr, 0);
  }

  // Writes fresh bytes at p, sends them, and receives others there; checks both.
  void both_ways(std::byte* p, std::size_t n) {
    const auto salt = static_cast<unsigned>(random_());
    for (std::size_t i = 0; i < n; ++i) p[i] = static_cast<std::byte>(salt + i * 7);
    if (!move(IBV_WR_RDMA_WRITE, p, n, purpose::source)) return;
    verify(p, n, "sent");
    for (std::size_t i = 0; i < n; ++i) window_[i] = static_cast<std::byte>(salt + 1 + i * 13);
    if (!move(IBV_WR_RDMA_READ, p, n, purpose::destination)) return;
    verify(p, n, "received");
  }

  bool move(ibv_wr_opcode how, std::byte* p, std::size_t n, purpose use) {
    for (std::size_t done = 0; done < n;) {
      lease l;
      failure why;
      const status st = s_.cache->acquire(p + done, n - done, use, l, &why);
      if (st == status::no_ticket) {
        std::this_thread::yield();
        continue;
      }
      if (st != status::ok) return give_up("acquire: " + why.message()), false;
      if (!qp_->transfer(how, p + done, l.lkey(), static_cast<std::uint32_t>(l.bytes()),
                         window_ + done, mr_.rkey))
        return give_up(qp_->what()), false;
      done += l.bytes();
    }
    s_.transfers.fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  void verify(const std::byte* p, std::size_t n, const char* what) {
    if (std::memcmp(p, window_, n) == 0) return;
    if (s_.wrong.fetch_add(1, std::memory_order_relaxed) < 5) {
      std::size_t i = 0;
      while (p[i] == window_[i]) ++i;
      std::fprintf(stderr, "wrong byte %zu of %zu %s at %p\n", i, n, what,
                   static_cast<const void*>(p));
    }
  }

  void give_up(const std::string& why) {
    if (!s_.broken.exchange(true, std::memory_order_relaxed))
      std::fprintf(stderr, "device: %s\n", why.c_str());
  }

  shared& s_;
  std::mt19937 random_;
  std::byte* slice_;
  std::byte* window_;  // what is "remote": registered once, never changed
  memreg::registration mr_;
  std::unique_ptr<loopback> qp_;
};

bool parse(int argc, char** argv, options& o) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    const auto number = static_cast<unsigned>(std::strtoul(value.c_str(), nullptr, 10));
    if (name == "--seconds")
      o.seconds = number;
    else if (name == "--threads")
      o.threads = number;
    else if (name == "--seed")
      o.seed = number;
    else if (name != "--protect")
      return false;
    else if (value == "automatic")
      o.protect = protection::automatic;
    else if (value == "calls")
      o.protect = protection::calls;
    else if (value == "events")
      o.protect = protection::events;
    else if (value == "both")
      o.protect = protection::both;
    else if (value == "none")
      o.protect = protection::none;
    else
      return false;
  }
  return argc % 2 == 1 && o.threads > 0;
}

}  // namespace

int main(int argc, char** argv) {
  options o;
  if (!parse(argc, argv, o)) {
    std::fprintf(stderr,
                 "usage: %s [--seconds N] [--threads N] [--seed N] [--protect "
                 "automatic|calls|events|both|none]\n",
                 argv[0]);
    return 2;
  }
  shared s;
  if (!s.device.open()) {
    std::fprintf(stderr, "no verbs device with an active port: skipped\n");
    return 77;
  }
  void* libc = dlopen("libc.so.6", RTLD_NOLOAD | RTLD_LAZY);
  s.libc_malloc = reinterpret_cast<void* (*)(std::size_t)>(dlsym(libc, "malloc"));
  s.libc_free = reinterpret_cast<void (*)(void*)>(dlsym(libc, "free"));
  offer_interposing();
  pool_settings settings;
  settings.max_regions = 8;  // few and small, so that evictions mix with changes
  settings.max_region_bytes = 32 << 10;
  settings.protect = o.protect;
  auto made = pool::create(s.device, settings);
  if (!made) {
    std::fprintf(stderr, "%s\n", made.error().message().c_str());
    return 2;
  }
  s.cache = std::move(*made);
  const std::size_t bytes = o.threads * slice_pages * page;
  // Far below where the kernel puts what asks for no address: nobody else may take a hole in it.
  const auto somewhere = reinterpret_cast<std::uintptr_t>(s.libc_malloc) & ~std::uintptr_t{0xfffff};
  void* const hint = reinterpret_cast<void*>(somewhere - (std::uintptr_t{64} << 30));
  s.arena = static_cast<std::byte*>(mmap(hint, bytes, rw, anonymous, -1, 0));
  s.end_ns = now_ns() + o.seconds * std::uint64_t{1'000'000'000};
  {
    std::vector<std::unique_ptr<worker>> workers;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < o.threads; ++t)
      workers.push_back(std::make_unique<worker>(s, t, o.seed));
    for (auto& w : workers) threads.emplace_back([&w] { w->run(); });
    for (auto& t : threads) t.join();
  }
  const pool_statistics st = s.cache->statistics();
  const auto count = [](const std::atomic<std::uint64_t>& a) {
    return static_cast<unsigned long long>(a.load(std::memory_order_relaxed));
  };
  std::printf(
      "protection: %s; seed %u; %llu transfers, %llu changes, %llu forks, %llu hits, %llu "
      "misses, %llu invalidations, %llu evictions; %llu wrong\n",
      s.cache->protection_text(), o.seed, count(s.transfers), count(s.changes), count(s.forks),
      static_cast<unsigned long long>(st.hits), static_cast<unsigned long long>(st.misses),
      static_cast<unsigned long long>(st.invalidations),
      static_cast<unsigned long long>(st.evictions), count(s.wrong));
  s.cache.reset();
  if (s.broken.load(std::memory_order_relaxed)) return 2;
  return s.wrong.load(std::memory_order_relaxed) == 0 ? 0 : 1;
}
