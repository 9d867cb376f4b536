#include "tools/penverbs/probe.hpp"

#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

namespace penverbs {
namespace {

template <class Function>
Function* in(void* library, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library, name));
}

int fail(const char* what) {
  std::printf("libibverbs %s\n", what);
  return 1;
}

/// The provider that this libibverbs will load: the one for its private ABI number, which is part
/// of the name of its registering function. Empty if there is none.
std::string provider_for(void* verbs) {
  const std::filesystem::path prefix = std::getenv("IBV_DRIVERS");
  const std::string begin = prefix.filename().string() + "-rdmav";
  std::error_code e;
  for (const auto& entry : std::filesystem::directory_iterator(prefix.parent_path(), e)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(begin)) continue;
    const std::string number = entry.path().stem().string().substr(begin.size());
    if (::dlsym(verbs, ("verbs_register_driver_" + number).c_str()) != nullptr) return entry.path();
  }
  return {};
}

}  // namespace

int probe() {
  ::setenv("IBV_SHOW_WARNINGS", "1", 1);
  void* verbs = ::dlopen("libibverbs.so.1", RTLD_NOW);
  if (verbs == nullptr) return fail("is not installed (Debian: libibverbs1)");
  const std::string provider = provider_for(verbs);
  if (provider.empty()) return fail("has a private ABI for which there is no provider here");
  std::printf("provider   %s\n", provider.c_str());
  auto* list = in<ibv_device**(int*)>(verbs, "ibv_get_device_list");
  auto* name = in<const char*(ibv_device*)>(verbs, "ibv_get_device_name");
  auto* open = in<ibv_context*(ibv_device*)>(verbs, "ibv_open_device");
  auto* close = in<int(ibv_context*)>(verbs, "ibv_close_device");
  auto* free = in<void(ibv_device**)>(verbs, "ibv_free_device_list");
  if (list == nullptr || name == nullptr || open == nullptr || close == nullptr || free == nullptr)
    return fail("lacks functions");
  const char* told = std::getenv("PENVERBS_DEVICE");
  const char* const wanted = told != nullptr ? told : "shm0";
  int count = 0;
  ibv_device** devices = list(&count);
  ibv_device* found = nullptr;
  for (int i = 0; devices != nullptr && i < count; ++i)
    if (std::strcmp(name(devices[i]), wanted) == 0) found = devices[i];
  if (found == nullptr) return fail((std::string("does not list ") + wanted).c_str());
  ibv_context* c = open(found);
  if (c == nullptr) {
    std::printf("libibverbs lists %s, which cannot be opened: %s\n", wanted, std::strerror(errno));
    return 1;
  }
  close(c);
  free(devices);
  std::printf("libibverbs lists %s and opens it\n", wanted);
  return 0;
}

}  // namespace penverbs
