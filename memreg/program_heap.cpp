// See program_heap.hpp.
#include "memreg/program_heap.hpp"

#include <dlfcn.h>

#include "lib/base/log.hpp"

namespace penstock::memreg {

std::unique_ptr<program_heap> program_heap::create(registrar& device) {
  std::unique_ptr<program_heap> h(new program_heap(device));
  // It is looked up by name: only the running program shows whether it exists.
  const auto where = reinterpret_cast<decltype(&penstock_program_memory)>(
      ::dlsym(RTLD_DEFAULT, "penstock_program_memory"));
  if (where == nullptr || !where(&h->base_, &h->bytes_, &h->chunk_bytes_)) return nullptr;
  h->chunks_ = std::make_unique<chunk[]>(h->bytes_ / h->chunk_bytes_);
  return h;
}

program_heap::~program_heap() {
  if (chunks_ == nullptr) return;
  for (std::size_t i = 0; i < bytes_ / chunk_bytes_; ++i)
    if (chunks_[i].there.load(std::memory_order_relaxed)) device_.dereg(chunks_[i].keys);
}

// The whole chunk is registered: malloc takes whole chunks and gives none back.
bool program_heap::registered(chunk& c, std::size_t index) noexcept {
  const std::lock_guard guard(lock_);
  if (c.there.load(std::memory_order_relaxed)) return true;
  if (c.refused) return false;
  auto keys =
      device_.reg(reinterpret_cast<void*>(base_ + index * chunk_bytes_), chunk_bytes_, access::all);
  if (!keys) {
    c.refused = true;  // from now on it counts as any other memory
    log(log_level::info, "heap: %s", keys.error().message().c_str());
    return false;
  }
  c.keys = *keys;
  // H3 program  release there  -> H4
  c.there.store(true, std::memory_order_release);
  return true;
}

}  // namespace penstock::memreg
