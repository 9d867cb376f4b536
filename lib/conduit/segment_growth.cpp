#include "lib/conduit/segment_growth.hpp"

#include <cerrno>

#include "lib/conduit/client_memory.hpp"
#include "lib/conduit/engine.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

result<segment_growth::news> segment_growth::extend(engine& e, std::size_t bytes) {
  const std::size_t before = e.core_.own_segment()->bytes();
  if (e.core_.device().pins && bytes > before)
    if (auto r = e.core_.account().take(bytes - before); !r) return r.error();
  if (auto r = e.core_.own_segment()->extend(bytes); !r) return r.error();
  return news{e.core_.own_segment()->bytes(), e.core_.own_segment()->keys().rkey, 0};
}

void segment_growth::learn(engine& e, std::uint32_t r, const news& n) noexcept {
  e.core_.learn_segment(r, n.bytes, n.rkey);
}

result<std::byte*> segment_growth::adopt(engine& e, std::byte* at, std::size_t bytes,
                                         std::byte* part) {
  const memreg::segment& s = *e.core_.own_segment();
  if (s.page_size() != page_bytes())
    return failure{"the segment consists of huge pages", EINVAL, ""};
  const auto pages = client_pages::around(at, bytes);
  if (auto r = take_pages(pages, s.fd(), static_cast<std::size_t>(part - s.base()), part); !r)
    return r.error();
  return part + (at - pages.first);
}

result<void> segment_growth::give_back(engine& e, std::byte* at, std::size_t bytes,
                                       std::byte* part) {
  const memreg::segment& s = *e.core_.own_segment();
  return give_pages_back(client_pages::around(at, bytes), s.fd(),
                         static_cast<std::size_t>(part - s.base()), part);
}

std::size_t segment_growth::pages_around(std::byte* at, std::size_t bytes) noexcept {
  return client_pages::around(at, bytes).bytes;
}

}  // namespace penstock::conduit::PENSTOCK_ABI
