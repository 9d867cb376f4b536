#include "lib/base/mapped_memory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <sstream>

#include "lib/base/descriptors.hpp"
#include "lib/base/immortal.hpp"
#include "lib/base/page.hpp"

namespace penstock {
namespace {

struct note {
  const char* purpose;
  std::uint64_t first;
  std::size_t bytes;
};

struct notes {
  std::mutex lock;
  std::vector<note> all;
};
notes& kept() {
  static immortal<notes> n;  // static objects might still give memory back
  return n.value;
}

/// A mapping as the kernel has it. It makes one of private mappings that are neighbours.
struct area {
  std::uint64_t first, end;
  std::size_t resident;
};

std::vector<area> read_areas() {
  std::vector<area> areas;
  std::istringstream file(text_of("/proc/self/smaps"));
  std::string line;
  while (std::getline(file, line)) {
    area a{};
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " ", &a.first, &a.end) == 2)
      areas.push_back(a);
    else if (std::size_t kb = 0; std::sscanf(line.c_str(), "Rss: %zu kB", &kb) == 1)
      areas.back().resident = kb * 1024;
  }
  return areas;
}

// Bytes of [first, end) whose pages are in memory, by the page tables.
std::size_t resident_bytes(std::uint64_t first, std::uint64_t end) {
  constexpr std::uint64_t present = std::uint64_t{1} << 63;
  const std::uint64_t page = page_bytes();
  const int file = above_stdio(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (file < 0) return end - first;
  std::size_t bytes = 0;
  std::array<std::uint64_t, 512> entries;
  for (std::uint64_t at = first / page, last = (end + page - 1) / page; at < last;) {
    const std::size_t most = std::min<std::uint64_t>(last - at, entries.size());
    const ssize_t got = ::pread(file, entries.data(), most * sizeof(std::uint64_t),
                                static_cast<off_t>(at * sizeof(std::uint64_t)));
    const std::size_t n = got > 0 ? static_cast<std::size_t>(got) / sizeof(std::uint64_t) : 0;
    if (n == 0) break;
    for (std::size_t i = 0; i < n; ++i, ++at)
      if ((entries[i] & present) != 0)
        bytes += std::min(end, (at + 1) * page) - std::max(first, at * page);
  }
  ::close(file);
  return bytes;
}

std::size_t resident_in(const std::vector<area>& areas, std::uint64_t first, std::uint64_t end) {
  std::size_t sum = 0;
  for (const area& a : areas) {
    if (a.end <= first || a.first >= end) continue;
    if (first <= a.first && a.end <= end)
      sum += a.resident;
    else
      sum += resident_bytes(std::max(first, a.first), std::min(end, a.end));
  }
  return sum;
}

}  // namespace

void note_mapped(const char* purpose, const void* at, std::size_t bytes) noexcept {
  if (at == nullptr || bytes == 0) return;
  try {
    notes& n = kept();
    const std::lock_guard hold(n.lock);
    n.all.push_back({purpose, reinterpret_cast<std::uint64_t>(at), bytes});
  } catch (...) {
  }
}

void forget_mapped(const void* at) noexcept {
  if (at == nullptr) return;
  notes& n = kept();
  const std::lock_guard hold(n.lock);
  const auto found = std::find_if(n.all.begin(), n.all.end(), [&](const note& o) {
    return o.first == reinterpret_cast<std::uint64_t>(at);
  });
  if (found != n.all.end()) n.all.erase(found);
}

memory_in_use ask_kernel_for_memory() {
  memory_in_use m;
  const std::vector<area> areas = read_areas();
  for (const area& a : areas) m.process += a.resident;
  notes& n = kept();
  const std::lock_guard hold(n.lock);
  for (const note& o : n.all) {
    auto u = std::find_if(m.noted.begin(), m.noted.end(),
                          [&](const mapped_use& k) { return k.purpose == o.purpose; });
    if (u == m.noted.end()) u = m.noted.insert(u, {o.purpose, 0, 0});
    u->mapped += o.bytes;
    if (!areas.empty()) u->resident += resident_in(areas, o.first, o.first + o.bytes);
  }
  return m;
}

}  // namespace penstock
