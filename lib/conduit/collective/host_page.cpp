#include "lib/conduit/collective/host_page.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <span>
#include <utility>

#include "lib/base/descriptors.hpp"
#include "lib/base/log.hpp"
#include "lib/base/mapped_memory.hpp"
#include "lib/job/job.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

constexpr std::size_t file_bytes = 4096;  // takes one page, also where pages are larger
// With these no process can shorten the file under its readers.
constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

host_page::~host_page() {
  forget_mapped(whole_);
  if (whole_ != nullptr) ::munmap(whole_, file_bytes);
  if (fd_ >= 0) ::close(fd_);
}

bool host_page::map(int fd) noexcept {
  void* const p = ::mmap(nullptr, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) return false;
  whole_ = std::launder(static_cast<layout*>(p));
  note_mapped("page of the host's barriers", p, file_bytes);
  return true;
}

std::unique_ptr<host_page> host_page::make() noexcept {
  std::unique_ptr<host_page> p(new (std::nothrow) host_page);
  if (!p) return nullptr;
  p->fd_ = above_stdio(::memfd_create("penstock-host", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // fallocate() commits the memory now, so that a lack of it cannot cause a signal later.
  if (p->fd_ < 0 || ::fallocate(p->fd_, 0, 0, file_bytes) != 0 ||
      ::fcntl(p->fd_, F_ADD_SEALS, seals) != 0 || !p->map(p->fd_))
    return nullptr;
  std::uint64_t proof = 0;
  if (::getrandom(&proof, sizeof proof, 0) != sizeof proof || proof == 0) return nullptr;
  p->whole_->proof = proof;
  return p;
}

host_page::ticket host_page::offer() const noexcept {
  return {.proof = whole_->proof, .pid = ::getpid(), .fd = fd_};
}

// The path may name another file, if this process and rank 0 do not see the same process numbers.
// So everything about the file is checked.
std::unique_ptr<host_page> host_page::open(const ticket& t) noexcept {
  std::unique_ptr<host_page> p(new (std::nothrow) host_page);
  if (!p) return nullptr;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", t.pid, t.fd);
  const int fd = above_stdio(::open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (fd < 0) return nullptr;
  struct stat st {};
  const bool good = ::fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                    st.st_size == static_cast<off_t>(file_bytes) &&
                    (::fcntl(fd, F_GET_SEALS) & seals) == seals && p->map(fd) &&
                    p->whole_->proof == t.proof;
  ::close(fd);
  if (!good) p.reset();
  return p;
}

result<std::unique_ptr<host_page>> host_page::share(job::job& j, const ticket& t,
                                                    std::unique_ptr<host_page> own) {
  std::unique_ptr<host_page> p = own ? std::move(own) : open(t);
  const std::byte mine{p ? std::uint8_t{1} : std::uint8_t{0}};
  auto all = j.exchange(std::span(&mine, 1));
  if (!all) return all.error();
  if (p && p->fd_ >= 0) ::close(std::exchange(p->fd_, -1));
  const bool everybody = std::all_of(all->begin(), all->end(), [](const auto& a) {
    return a.size() == 1 && a[0] == std::byte{1};
  });
  if (!everybody) p.reset();
  return p;
}

void host_page::broken() noexcept {
  fatal(1, "the count of a barrier makes no sense: a process of this host has written over it");
}

}  // namespace penstock::conduit::PENSTOCK_ABI
