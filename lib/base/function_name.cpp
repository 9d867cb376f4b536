#include "lib/base/function_name.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "lib/base/descriptors.hpp"

namespace penstock {
namespace {

// The file that a function is in, and where it was loaded.
struct loaded_file {
  std::uintptr_t address;
  std::uintptr_t base;
  std::string file;
};

int look_in(dl_phdr_info* of, std::size_t, void* into) {
  auto& at = *static_cast<loaded_file*>(into);
  for (const auto& part : std::span(of->dlpi_phdr, of->dlpi_phnum)) {
    if (part.p_type != PT_LOAD || at.address - of->dlpi_addr - part.p_vaddr >= part.p_memsz)
      continue;
    at.base = of->dlpi_addr;
    at.file = of->dlpi_name == nullptr || *of->dlpi_name == '\0' ? "/proc/self/exe" : of->dlpi_name;
    return 1;
  }
  return 0;
}

// A file in memory. The library does not trust what it says of itself: the file of a program that
// runs may have been written anew.
class mapped_file {
 public:
  explicit mapped_file(const std::string& path) noexcept {
    const int fd = above_stdio(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (fd < 0) return;
    struct stat s {};
    if (::fstat(fd, &s) == 0 && s.st_size > 0) {
      bytes_ = static_cast<std::size_t>(s.st_size);
      void* const at = ::mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, fd, 0);
      if (at != MAP_FAILED) at_ = static_cast<const std::byte*>(at);
    }
    ::close(fd);
  }
  ~mapped_file() {
    if (at_ != nullptr) ::munmap(const_cast<std::byte*>(at_), bytes_);
  }
  mapped_file(const mapped_file&) = delete;
  mapped_file& operator=(const mapped_file&) = delete;

  // `count` objects that begin at `offset`; none if they do not lie in the file.
  template <class T>
  [[nodiscard]] std::span<const T> at(std::uint64_t offset, std::uint64_t count) const noexcept {
    if (at_ == nullptr || offset > bytes_ || count > (bytes_ - offset) / sizeof(T) ||
        offset % alignof(T) != 0)
      return {};
    return {reinterpret_cast<const T*>(at_ + offset), static_cast<std::size_t>(count)};
  }

 private:
  const std::byte* at_ = nullptr;
  std::size_t bytes_ = 0;
};

std::string without_parameters(const char* symbol) {
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &failed), std::free);
  std::string name = failed == 0 ? plain.get() : symbol;
  constexpr std::string_view nowhere = "(anonymous namespace)::";
  for (std::size_t at; (at = name.find(nowhere)) != name.npos;) name.erase(at, nowhere.size());
  return name.substr(0, name.find('('));
}

}  // namespace

std::string name_of_function(const void* address) {
  loaded_file at{reinterpret_cast<std::uintptr_t>(address), 0, {}};
  if (::dl_iterate_phdr(look_in, &at) == 0) return {};
  const mapped_file file(at.file);
  const auto head = file.at<ElfW(Ehdr)>(0, 1);
  if (head.empty() || std::memcmp(head[0].e_ident, ELFMAG, SELFMAG) != 0) return {};
  const auto sections = file.at<ElfW(Shdr)>(head[0].e_shoff, head[0].e_shnum);
  for (const auto& s : sections) {
    if ((s.sh_type != SHT_SYMTAB && s.sh_type != SHT_DYNSYM) || s.sh_link >= sections.size())
      continue;
    const auto& texts = sections[s.sh_link];
    const auto text = file.at<char>(texts.sh_offset, texts.sh_size);
    if (text.empty() || text.back() != '\0') continue;
    for (const auto& symbol : file.at<ElfW(Sym)>(s.sh_offset, s.sh_size / sizeof(ElfW(Sym))))
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF &&
          symbol.st_value + at.base == at.address && symbol.st_name < text.size())
        return without_parameters(&text[symbol.st_name]);
  }
  return {};
}

}  // namespace penstock
