// See one_sided.hpp.
#include "perf/penperf/one_sided.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "lib/base/log.hpp"

namespace penstock::penperf {

namespace {

// Up to this size transfers stay in place: what is measured is the call, not the caches.
constexpr std::size_t in_place = 256;

/// What each process says of itself.
struct whereabouts {
  std::uint64_t pid = 0;
  std::byte* memory = nullptr;
};

// Keeps the compiler from joining copies of neighbouring iterations.
void forget_memory() noexcept { asm volatile("" ::: "memory"); }

void copy_bare(void* to, const void* from, std::size_t n) noexcept {
  if (n == 8)
    std::memcpy(to, from, 8);
  else
    std::memcpy(to, from, n);
}

}  // namespace

places::places(const options& o, access what)
    : what_(what),
      memory_(o.memory),
      size_(o.size),
      step_((o.size + 63) / 64 * 64),
      window_(placement_window(o.size)) {
  void* const p = mmap(nullptr, window_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (p == MAP_FAILED) fatal(1, "penperf: no memory");
  private_ = static_cast<std::byte*>(p);
  std::memset(private_, 1, window_);
  local_ = private_;
  // The twin of what is not mapped may be forbidden otherwise.
  (void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
}

places::~places() { munmap(private_, window_); }

std::size_t places::segment_bytes() const noexcept {
  return memory_ == place_of::private_ ? 0 : window_ + step_;
}

void places::start(world& w, rig& r) {
  mem_ = std::make_unique<remote_memory>(r.ep());
  whereabouts mine{static_cast<std::uint64_t>(getpid()), private_};
  const auto all = w.exchange(std::as_bytes(std::span(&mine, 1)));
  if (!all) fatal(1, "%s", all.error().message().c_str());
  if (pair_place(w.rank(), r.opts().pairs).measures()) {
    const rank_id other = r.other();
    whereabouts his;
    std::memcpy(&his, (*all)[other].data(), sizeof his);
    find(r, other, his.memory, static_cast<int>(his.pid));
  }
  // The other's first access may need this process to poll.
  must(r.ep().barrier(), "the barrier after the first accesses");
}

void places::find(rig& r, rank_id other, std::byte* his_memory, int his_pid) {
  if (memory_ == place_of::private_) {
    there_ = his_memory;
    // Where the library goes through a device, the twin does.
    if (r.is_direct()) pid_ = his_pid;
  } else {
    there_ = r.ep().segment_of(other).data();
    if (memory_ == place_of::segment) {
      local_ = r.ep().segment().data() + window_;
      std::memset(local_, 1, step_);
    }
  }
  // The first access maps what can be mapped.
  std::byte first;
  must(mem_->get({&first, 1}, other, there_), "the first get");
  here_ = mem_->reach(other, there_, window_);
  if (!alone() || size_ <= in_place) window_ = step_;
}

void places::bare(std::size_t step) noexcept {
  if (what_ == access::fetch_add) {
    std::atomic_ref word(*reinterpret_cast<std::uint64_t*>(here_));
    word.fetch_add(1, std::memory_order_acq_rel);
  } else if (here_ != nullptr) {
    if (what_ == access::put)
      copy_bare(here_ + step, local_, size_);
    else
      copy_bare(local_, here_ + step, size_);
    forget_memory();
  } else {
    const iovec mine{local_, size_}, his{there_ + step, size_};
    const ssize_t n = what_ == access::put ? process_vm_writev(pid_, &mine, 1, &his, 1, 0)
                                           : process_vm_readv(pid_, &mine, 1, &his, 1, 0);
    if (n != static_cast<ssize_t>(size_))
      fatal(1, "process_vm_writev or _readv: %s", std::strerror(errno));
  }
}

std::uint64_t operations_a_sample(double ns_each) noexcept {
  return std::clamp<std::uint64_t>(static_cast<std::uint64_t>(4000 / std::max(ns_each, 0.1)), 1,
                                   8192);
}

}  // namespace penstock::penperf
