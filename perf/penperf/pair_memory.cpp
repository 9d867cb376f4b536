// See pair_memory.hpp. Rank 0 makes a memfd; others open it under /proc and know it by a random
// word, since another host's or container's process may have the same number.
#include "perf/penperf/pair_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "lib/base/log.hpp"

namespace penstock::penperf {

namespace {

struct ticket {
  std::uint64_t proof = 0;
  std::int32_t pid = 0;
  std::int32_t fd = -1;
};

std::byte* map(int fd, std::size_t bytes) noexcept {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
}

std::vector<std::vector<std::byte>> exchange_or_die(world& w, const void* p, std::size_t n) {
  auto all = w.exchange({static_cast<const std::byte*>(p), n});
  if (!all) fatal(1, "%s", all.error().message().c_str());
  return std::move(*all);
}

}  // namespace

pair_memory::pair_memory(pair_memory&& o) noexcept { *this = std::move(o); }
pair_memory& pair_memory::operator=(pair_memory&& o) noexcept {
  std::swap(data_, o.data_);
  std::swap(bytes_, o.bytes_);
  return *this;
}
pair_memory::~pair_memory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

pair_memory pair_memory::share(world& w, std::size_t bytes, rank_id ranks) {
  pair_memory m;
  m.bytes_ = bytes;
  ticket mine;
  if (w.rank() == 0) {
    mine.pid = getpid();
    mine.fd = memfd_create("penperf", MFD_CLOEXEC);
    if (mine.fd >= 0 && ftruncate(mine.fd, static_cast<off_t>(bytes)) == 0 &&
        getrandom(&mine.proof, sizeof mine.proof, 0) == sizeof mine.proof) {
      m.data_ = map(mine.fd, bytes);
      if (m.data_ != nullptr) std::memcpy(m.data_, &mine.proof, sizeof mine.proof);
    }
  }
  const auto tickets = exchange_or_die(w, &mine, sizeof mine);
  ticket first;
  std::memcpy(&first, tickets[0].data(), sizeof first);
  if (w.rank() != 0 && w.rank() < ranks && first.proof != 0) {
    const int fd =
        open(fmt::format("/proc/{}/fd/{}", first.pid, first.fd).c_str(), O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
      m.data_ = map(fd, bytes);
      close(fd);
    }
    if (m.data_ != nullptr && std::memcmp(m.data_, &first.proof, sizeof first.proof) != 0) {
      munmap(m.data_, bytes);
      m.data_ = nullptr;
    }
  }
  const std::byte mapped{m.data_ != nullptr};
  const auto all = exchange_or_die(w, &mapped, 1);
  if (mine.fd >= 0) close(mine.fd);
  const auto have = std::span(all).first(std::min<std::size_t>(ranks, all.size()));
  if (m.data_ != nullptr &&
      std::any_of(have.begin(), have.end(), [](const auto& a) { return a[0] == std::byte{0}; })) {
    munmap(m.data_, bytes);
    m.data_ = nullptr;
  }
  // All have compared by now, since the exchange above waits for all.
  if (m.data_ != nullptr && w.rank() == 0) std::memset(m.data_, 0, sizeof first.proof);
  return m;
}

}  // namespace penstock::penperf
