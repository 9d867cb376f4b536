// Growth of arena.hpp.
#include "memreg/arena.hpp"

#include <algorithm>
#include <cerrno>

#include "memreg/host_memory.hpp"

namespace penstock::memreg {

result<piece> arena::take(std::size_t bytes, std::size_t align) {
  if (bytes == 0 || align == 0 || (align & (align - 1)) != 0 || align > page_bytes())
    return failure{
        "a piece of " + std::to_string(bytes) + " bytes aligned to " + std::to_string(align),
        EINVAL, ""};
  const std::lock_guard guard(lock_);
  std::size_t at = round_up(used_, align);
  if (blocks_.empty() || at > blocks_.back()->bytes() || bytes > blocks_.back()->bytes() - at) {
    const std::size_t grow = std::max(bytes, options_.block_bytes);
    if (grow > options_.max_bytes || bytes_ > options_.max_bytes - grow)
      return failure{"registered arena of " + human_bytes(bytes_) + " growing by " +
                         human_bytes(grow) + ": the limit is " + human_bytes(options_.max_bytes),
                     ENOMEM, ""};
    segment_options o;
    o.bytes = grow;
    o.huge_pages = options_.huge_pages;
    o.name = options_.name;
    auto made = segment::create(o);
    if (!made) return made.error();
    if (device_ != nullptr)
      if (auto done = made->attach(*device_, options_.access_bits); !done) return done.error();
    // The rest of the previous block stays unused: blocks are large against pieces.
    blocks_.push_back(std::make_unique<segment>(std::move(*made)));
    bytes_ += blocks_.back()->bytes();
    at = 0;
  }
  const segment& s = *blocks_.back();
  used_ = at + bytes;
  return piece{s.base() + at, bytes, s.keys(), s.fd(), at};
}

std::size_t arena::bytes() const {
  const std::lock_guard guard(lock_);
  return bytes_;
}

}  // namespace penstock::memreg
