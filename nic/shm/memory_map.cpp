#include "nic/shm/memory_map.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "lib/base/descriptors.hpp"
#include "lib/base/page.hpp"
#include "nic/shm/layout.hpp"

namespace penstock::nic::shm {
namespace {

bool is_special(const mapped_piece& p, const char* name) noexcept {
  return p.inode == 0 && name[0] != 0 && std::strcmp(name, "[heap]") != 0 &&
         std::strncmp(name, "[anon:", 6) != 0;
}

bool read_line(const char* line, mapped_piece& p) noexcept {
  char rights[8] = {}, name[16] = {};
  const int n =
      std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*x:%*x %" SCNu64 " %15s",
                  &p.begin, &p.end, rights, &p.offset, &p.inode, name);
  if (n < 5) return false;
  p.readable = rights[0] == 'r';
  p.writable = p.readable && rights[1] == 'w';
  p.rights = (p.readable ? PROT_READ : 0) | (rights[1] == 'w' ? PROT_WRITE : 0) |
             (rights[2] == 'x' ? PROT_EXEC : 0);
  p.shared = rights[3] == 's';
  p.named = is_special(p, name);
  return true;
}

/// The argument of PROCMAP_QUERY (Linux 6.11), declared here since older headers lack it.
struct map_query {
  std::uint64_t size = 0, flags = 0, address = 0;                                 // in
  std::uint64_t begin = 0, end = 0, rights = 0, page = 0, offset = 0, inode = 0;  // out
  std::uint32_t device[2] = {}, name_size = 0, build_id_size = 0;  // the sizes are in and out
  std::uint64_t name_address = 0, build_id_address = 0;            // in
};
static_assert(sizeof(map_query) == 104);

/// Asks for one piece after the other: the time does not grow with the number of the others. False:
/// this kernel cannot be asked.
bool ask_each(int maps, std::uint64_t first, std::uint64_t last, std::vector<mapped_piece>& found) {
  constexpr std::uint64_t readable = 1, writable = 2, executable = 4, shared = 8, or_next = 0x10;
  while (first < last) {
    char name[16] = {};
    map_query q{.size = sizeof q,
                .flags = or_next,
                .address = first,
                .name_size = sizeof name,
                .name_address = reinterpret_cast<std::uint64_t>(name)};
    const unsigned long query = _IOWR('f', 17, map_query);
    int r = ::ioctl(maps, query, &q);
    if (r != 0 && errno == ENAMETOOLONG) {  // a file's; special places have short names
      q = {.size = sizeof q, .flags = or_next, .address = first};
      r = ::ioctl(maps, query, &q);
    }
    if (r != 0) return errno == ENOENT;  // there is none behind `first`
    if (q.begin >= last) break;
    mapped_piece p{.begin = q.begin, .end = q.end, .offset = q.offset, .inode = q.inode};
    p.readable = (q.rights & readable) != 0;
    p.writable = p.readable && (q.rights & writable) != 0;
    p.rights = (p.readable ? PROT_READ : 0) | ((q.rights & writable) != 0 ? PROT_WRITE : 0) |
               ((q.rights & executable) != 0 ? PROT_EXEC : 0);
    p.shared = (q.rights & shared) != 0;
    p.named = is_special(p, name);
    found.push_back(p);
    first = p.end;
  }
  return true;
}

}  // namespace

std::vector<mapped_piece> pieces_of(std::uint64_t first, std::uint64_t last) {
  std::vector<mapped_piece> found;
  const stdio_file maps = open_file("/proc/self/maps", "r");
  if (!maps || ask_each(::fileno(maps.get()), first, last, found)) return found;
  found.clear();
  char line[512];
  bool fresh = true;  // a long path may come in several parts
  while (std::fgets(line, sizeof line, maps.get()) != nullptr) {
    mapped_piece p;
    const bool begins = fresh;
    fresh = std::strchr(line, '\n') != nullptr;
    if (!begins || !read_line(line, p) || p.end <= first) continue;
    if (p.begin >= last) break;
    found.push_back(p);
  }
  return found;
}

page_states::page_states() noexcept
    : fd_(above_stdio(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC))) {}

page_states::~page_states() {
  if (fd_ >= 0) ::close(fd_);
}

std::uint64_t page_states::run(std::uint64_t first, std::uint64_t last,
                               bool* present) const noexcept {
  constexpr std::uint64_t in_memory = std::uint64_t{1} << 63, swapped = std::uint64_t{1} << 62;
  *present = true;
  std::uint64_t words[256];
  for (std::uint64_t at = first; at < last;) {
    const std::uint64_t left = (last - at) / page_bytes();
    const std::size_t want = left < std::size(words) ? left : std::size(words);
    const ssize_t n = ::pread(fd_, words, want * sizeof words[0],
                              static_cast<off_t>(at / page_bytes() * sizeof words[0]));
    if (n != static_cast<ssize_t>(want * sizeof words[0])) {
      *present = true;  // the kernel does not say
      return last;
    }
    for (std::size_t i = 0; i < want; ++i, at += page_bytes()) {
      const bool holds = (words[i] & (in_memory | swapped)) != 0;
      if (at == first) *present = holds;
      if (holds != *present) return at;
    }
  }
  return last;
}

}  // namespace penstock::nic::shm
