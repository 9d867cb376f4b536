// Segment everything where there is no key and the kernel may not copy: puts and gets by messages.
// See rma.hpp.
#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "lib/conduit/one_sided/rma_everything.hpp"
#include "lib/conduit/one_sided/rma_inl.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
namespace {

// Splits 64-bit words into pairs of argument words.
void pack(std::uint32_t* to, std::initializer_list<std::uint64_t> words) noexcept {
  for (const std::uint64_t w : words) {
    *to++ = static_cast<std::uint32_t>(w);
    *to++ = static_cast<std::uint32_t>(w >> 32);
  }
}

std::uint64_t address(const void* p) noexcept { return reinterpret_cast<std::uintptr_t>(p); }

}  // namespace

status transfers::put_by_message(rank_id to, std::uint64_t there, const std::byte* from,
                                 std::size_t bytes, op_counter& c) noexcept {
  const no_limit waits_on;  // an operation that has begun is begun whole (time_limit.hpp)
  while (bytes != 0) {
    const std::size_t n = std::min<std::size_t>(bytes, max_eager);
    std::uint32_t args[4];
    pack(args, {there, address(&c)});
    outgoing m{.kind = wire::kind::medium,
               .handler = rma_put,
               .flags = wire::flag_system,
               .nargs = 4,
               .args = args};
    m.payload = from;
    m.bytes = n;
    // relaxed: the message carries the order to the thread that completes it
    c.fetch_add(1, std::memory_order_relaxed);
    if (const status s = engine_.request(to, m); s != status::ok) {
      c.fetch_sub(1, std::memory_order_relaxed);
      return s;
    }
    there += n, from += n, bytes -= n;
  }
  return status::ok;
}

status transfers::get_by_message(rank_id from, std::uint64_t there, std::byte* to,
                                 std::size_t bytes, op_counter& c) noexcept {
  const no_limit waits_on;  // an operation that has begun is begun whole (time_limit.hpp)
  while (bytes != 0) {
    const std::uint64_t n = std::min<std::size_t>(bytes, max_eager);
    std::uint32_t args[8];
    pack(args, {there, address(to), n, address(&c)});
    // relaxed: as above
    c.fetch_add(1, std::memory_order_relaxed);
    if (const status s = engine_.request(
            from, {.handler = rma_get, .flags = wire::flag_system, .nargs = 8, .args = args});
        s != status::ok) {
      c.fetch_sub(1, std::memory_order_relaxed);
      return s;
    }
    there += n, to += n, bytes -= n;
  }
  return status::ok;
}

namespace {

void answer(engine& e, const outgoing& m) noexcept {
  if (const status s = e.reply(*running, m); s != status::ok)
    fatal(1, "the answer to a put or get: %s", describe(s));
}

}  // namespace

// Runs at the target. args: destination, counter.
void transfers::on_put(void* self, token&, const std::uint32_t* args, std::byte* payload,
                       std::size_t bytes) {
  auto& t = *static_cast<transfers*>(self);
  if (!t.everything_) [[unlikely]]
    fatal(1, "rank %u puts outside this segment", running->source());
  std::memcpy(address_pair<void>(args, 0), payload, bytes);
  answer(t.engine_,
         {.handler = rma_done, .flags = wire::flag_system, .nargs = 2, .args = args + 2});
}

// Runs at the target. args: source, destination at the requester, bytes, counter.
void transfers::on_get(void* self, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  auto& t = *static_cast<transfers*>(self);
  const auto bytes = word_pair(args, 4);
  if (!t.everything_ || bytes > max_eager) [[unlikely]]
    fatal(1, "rank %u gets from outside this segment", running->source());
  std::uint32_t back[4];
  pack(back, {word_pair(args, 2), word_pair(args, 6)});
  outgoing m{.kind = wire::kind::medium,
             .handler = rma_got,
             .flags = wire::flag_system,
             .nargs = 4,
             .args = back};
  m.payload = address_pair<const void>(args, 0);
  m.bytes = bytes;
  answer(t.engine_, m);
}

// Runs at the requester. args: destination, counter.
void transfers::on_got(void*, token&, const std::uint32_t* args, std::byte* payload,
                       std::size_t bytes) {
  std::memcpy(address_pair<void>(args, 0), payload, bytes);
  // R1 complete  release counter  -> P1
  address_pair<op_counter>(args, 2)->fetch_sub(1, std::memory_order_release);
}

}  // namespace penstock::conduit::PENSTOCK_ABI
