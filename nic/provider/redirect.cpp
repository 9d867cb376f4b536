#include "nic/provider/redirect.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "lib/base/page.hpp"

namespace penstock::nic::provider {
namespace {

#if defined(__aarch64__)
constexpr std::uint32_t jump_slot = R_AARCH64_JUMP_SLOT, data_slot = R_AARCH64_GLOB_DAT;
#else
constexpr std::uint32_t jump_slot = R_X86_64_JUMP_SLOT, data_slot = R_X86_64_GLOB_DAT;
#endif

/// The parts of a library's dynamic section that describe its imports.
struct imports {
  const char* names = nullptr;
  const ElfW(Sym) * symbols = nullptr;
  const ElfW(Rela) * tables[2] = {};
  std::size_t bytes[2] = {};
};

imports imports_of(const link_map& m) noexcept {
  imports i;
  for (const ElfW(Dyn)* d = m.l_ld; d->d_tag != DT_NULL; ++d) {
    const auto at = d->d_un.d_ptr;  // the loader has turned it into an address
    if (d->d_tag == DT_STRTAB) i.names = reinterpret_cast<const char*>(at);
    if (d->d_tag == DT_SYMTAB) i.symbols = reinterpret_cast<const ElfW(Sym)*>(at);
    if (d->d_tag == DT_JMPREL) i.tables[0] = reinterpret_cast<const ElfW(Rela)*>(at);
    if (d->d_tag == DT_PLTRELSZ) i.bytes[0] = d->d_un.d_val;
    if (d->d_tag == DT_RELA) i.tables[1] = reinterpret_cast<const ElfW(Rela)*>(at);
    if (d->d_tag == DT_RELASZ) i.bytes[1] = d->d_un.d_val;
  }
  return i;
}

/// The words that hold the address of the function of this name.
std::vector<void**> slots_of(const link_map& m, const imports& i, const char* name) {
  std::vector<void**> slots;
  for (int t = 0; t < 2; ++t)
    for (std::size_t n = 0; n < i.bytes[t] / sizeof(ElfW(Rela)); ++n) {
      const ElfW(Rela)& r = i.tables[t][n];
      const auto kind = ELF64_R_TYPE(r.r_info);
      if (kind != jump_slot && kind != data_slot) continue;
      if (std::strcmp(i.names + i.symbols[ELF64_R_SYM(r.r_info)].st_name, name) == 0)
        slots.push_back(reinterpret_cast<void**>(m.l_addr + r.r_offset));
    }
  return slots;
}

/// The loader has made the table read-only if the library asked for that. It is left writable, as
/// in a library that did not ask.
bool put(void** slot, void* function) noexcept {
  void* page =
      reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(slot) & ~(page_bytes() - 1));
  if (::mprotect(page, page_bytes(), PROT_READ | PROT_WRITE) != 0) return false;
  *slot = function;
  return true;
}

}  // namespace

bool redirect(const void* inside, std::span<const replacement> all) {
  Dl_info info;
  link_map* m = nullptr;
  if (::dladdr1(inside, &info, reinterpret_cast<void**>(&m), RTLD_DL_LINKMAP) == 0 || m == nullptr)
    return false;
  const imports i = imports_of(*m);
  if (i.names == nullptr || i.symbols == nullptr) return false;
  std::vector<std::pair<void**, void*>> changes;
  for (const replacement& r : all) {
    const auto slots = slots_of(*m, i, r.name);
    if (slots.empty()) return false;
    for (void** s : slots) changes.emplace_back(s, r.function);
  }
  for (const auto& [slot, function] : changes)
    if (!put(slot, function)) return false;
  return true;
}

}  // namespace penstock::nic::provider
