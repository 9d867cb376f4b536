// See room.hpp.
#include "tools/penrun/room.hpp"

#include <dirent.h>
#include <elf.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <vector>

#include "lib/base/descriptors.hpp"

namespace penrun {
namespace {

using penstock::failure;

// Descriptors of the keeper for each process: its socket and two pipes; and for itself and a start.
constexpr std::uint64_t descriptors_each = 3, descriptors_else = 24;

// Processes and threads that count against this user's limit.
std::uint64_t running() {
  std::uint64_t n = 0;
  DIR* const proc = penstock::open_folder("/proc");
  if (proc == nullptr) return 0;
  const uid_t self = ::getuid();
  while (const dirent* e = ::readdir(proc)) {
    if (std::isdigit(static_cast<unsigned char>(e->d_name[0])) == 0) continue;
    struct stat s {};
    const std::string folder = std::string("/proc/") + e->d_name;
    if (::stat(folder.c_str(), &s) != 0 || s.st_uid != self) continue;
    if (::stat((folder + "/task").c_str(), &s) == 0 && s.st_nlink > 2) n += s.st_nlink - 2;
  }
  ::closedir(proc);
  return n;
}

bool can_run(const std::string& path) {
  struct stat s {};
  return ::stat(path.c_str(), &s) == 0 && S_ISREG(s.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

std::string program_path(const std::string& program) {
  if (program.find('/') != program.npos) return program;
  const char* const path = std::getenv("PATH");
  std::string folders = path != nullptr ? path : "/bin:/usr/bin";
  folders += ":.";
  std::string there;  // and cannot be run
  for (std::string_view rest = folders; !rest.empty();) {
    const auto end = std::min(rest.find(':'), rest.size());
    std::string whole(rest.substr(0, end));
    whole.append(whole.empty() ? "./" : "/").append(program);
    if (can_run(whole)) return whole;
    if (there.empty() && ::access(whole.c_str(), F_OK) == 0) there = whole;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return there;
}

bool is_for_a_machine(const std::string& path) {
  char front[SELFMAG] = {};
  std::ifstream(path, std::ios::binary).read(front, sizeof front);
  return std::memcmp(front, ELFMAG, SELFMAG) == 0;
}

penstock::result<void> room_for(std::uint32_t processes) {
  rlimit r{};
  const std::uint64_t wanted = descriptors_each * processes + descriptors_else;
  if (::getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_max != RLIM_INFINITY && wanted > r.rlim_max)
    return failure{std::to_string(processes) + " processes need " + std::to_string(wanted) +
                       " descriptors here, and " + std::to_string(r.rlim_max) + " are allowed",
                   0, "raise ulimit -n, or use more hosts"};
  // Root is usually free of this limit.
  if (::geteuid() == 0 || ::getrlimit(RLIMIT_NPROC, &r) != 0 || r.rlim_cur == RLIM_INFINITY)
    return {};
  const std::uint64_t there = running();
  if (there + processes > r.rlim_cur)
    return failure{
        std::to_string(processes) + " processes are too many: " + std::to_string(r.rlim_cur) +
            " processes and threads are allowed, and " + std::to_string(there) + " are running",
        0, "raise ulimit -u"};
  return {};
}

std::string mpi_library_of(const std::string& program) {
  std::ifstream file(program_path(program), std::ios::binary);
  const auto read = [&file](std::uint64_t at, void* into, std::size_t n) {
    file.seekg(static_cast<std::streamoff>(at));
    return static_cast<bool>(file.read(static_cast<char*>(into), static_cast<std::streamsize>(n)));
  };
  Elf64_Ehdr head{};
  if (!read(0, &head, sizeof head) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
      head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr))
    return "";
  std::vector<Elf64_Phdr> parts(head.e_phnum);
  if (!read(head.e_phoff, parts.data(), parts.size() * sizeof parts[0])) return "";
  const auto dynamic = std::find_if(parts.begin(), parts.end(),
                                    [](const Elf64_Phdr& p) { return p.p_type == PT_DYNAMIC; });
  if (dynamic == parts.end() || dynamic->p_filesz > 1u << 20) return "";
  std::vector<Elf64_Dyn> entries(dynamic->p_filesz / sizeof(Elf64_Dyn));
  if (!read(dynamic->p_offset, entries.data(), entries.size() * sizeof entries[0])) return "";
  std::uint64_t texts = 0;  // the table of names, as an address in memory
  for (const Elf64_Dyn& e : entries)
    if (e.d_tag == DT_STRTAB) texts = e.d_un.d_ptr;
  for (const Elf64_Phdr& p : parts)
    if (p.p_type == PT_LOAD && texts >= p.p_vaddr && texts - p.p_vaddr < p.p_filesz) {
      texts = texts - p.p_vaddr + p.p_offset;
      break;
    }
  for (const Elf64_Dyn& e : entries) {
    char name[32] = "";
    if (e.d_tag != DT_NEEDED || !read(texts + e.d_un.d_val, name, sizeof name - 1)) continue;
    for (const std::string_view mpi : {"libmpi.so", "libmpich.so", "libmpi_cxx.so"})
      if (std::string_view(name).starts_with(mpi)) return name;
  }
  return "";
}

std::string why_not_run(const std::string& path, int code) {
  struct stat s {};
  const bool there = ::stat(path.c_str(), &s) == 0;
  switch (code) {
    case EACCES:
      if (there && S_ISDIR(s.st_mode)) return "it is a folder";
      if (there && (s.st_mode & 0111) == 0) return "it is not executable; is it the program?";
      return "see the permissions of the program and of the folders that it is in";
    case ENOEXEC:
      return "it is made for another machine, or damaged";
    case ENOENT:
      return there ? "what its #! line or its header names to run it is not there" : "";
    default:
      return "";
  }
}

}  // namespace penrun
