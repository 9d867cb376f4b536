// Broadcast, along a binomial tree of the engine's messages: every process waits for all of the
// bytes, then passes them on. The meetings before and after make it IN_ALLSYNC and OUT_ALLSYNC; the
// one before also makes sure that no bytes come before it is known where they go. They are not the
// client's barrier, which may be between notify and wait, and not the engine's, whose waits would
// not notice that the job ends.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "lib/base/log.hpp"
#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

// Below the clients' handlers; the same on every rank.
constexpr std::uint8_t on_bytes = first_client_handler - 1, on_arrival = first_client_handler - 2;

// Meetings by dissemination: in step k each process tells the one 2^k places on, and waits for the
// one 2^k places back. Counters only grow, so that a process that is a meeting ahead does no harm.
constexpr unsigned most_steps = 32;
std::atomic<std::uint32_t> arrived_in[most_steps] = {};
std::uint32_t meetings = 0;  // by one thread at a time

void handle_arrival(void*, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  if (args[0] < most_steps)
    // M1 arrive  release arrived_in  -> M2: what the sender did before is visible
    arrived_in[args[0]].fetch_add(1, std::memory_order_release);
}

// The broadcast that is going on. The first two are written by the caller between meetings; no
// bytes come then.
struct landing {
  std::byte* place = nullptr;
  std::size_t bytes = 0;
  std::atomic<std::size_t> arrived{0};
} here;

void handle_bytes(void*, token&, const std::uint32_t* args, std::byte* payload, std::size_t bytes) {
  const std::uint64_t at = args[0] | std::uint64_t{args[1]} << 32;
  if (at > here.bytes || bytes > here.bytes - at)
    fatal(1, "gasnet_coll_broadcast: the processes gave different sizes");
  std::memcpy(here.place + at, payload, bytes);
  // L1 landed  release arrived  -> L2: the bytes are there
  here.arrived.fetch_add(bytes, std::memory_order_release);
}

void must(status s) {
  if (s != status::ok) [[unlikely]]
    failed("gasnet_coll_broadcast", s);
}

void meet() {
  const std::uint32_t size = self.engine->size();
  ++meetings;
  for (std::uint32_t k = 0; (std::uint64_t{1} << k) < size; ++k) {
    conduit::outgoing m;
    m.handler = on_arrival;
    m.nargs = 1;
    m.args = &k;
    const std::uint64_t to = self.engine->rank() + (std::uint64_t{1} << k);
    must(self.engine->request(static_cast<std::uint32_t>(to % size), m));
    // M2 met  acquire arrived_in  <- M1
    for (unsigned empty = 0;
         static_cast<std::int32_t>(arrived_in[k].load(std::memory_order_acquire) - meetings) < 0;)
      gasnet::wait_step(empty);
  }
}

void pass_on(std::uint32_t to, const std::byte* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += conduit::max_medium) {
    const std::uint32_t args[] = {static_cast<std::uint32_t>(at),
                                  static_cast<std::uint32_t>(std::uint64_t{at} >> 32)};
    conduit::outgoing m;
    m.kind = conduit::wire::kind::medium;
    m.handler = on_bytes;
    m.nargs = 2;
    m.args = args;
    m.payload = from + at;
    m.bytes = std::min<std::size_t>(bytes - at, conduit::max_medium);
    must(self.engine->request(to, m));
  }
}

}  // namespace

void register_collectives(conduit::engine& e) {
  e.add_handler(on_arrival, {.call = &handle_arrival,
                             .context = nullptr,
                             .words = 1,
                             .payload = conduit::handler_entry::takes::nothing});
  e.add_handler(on_bytes, {.call = &handle_bytes,
                           .context = nullptr,
                           .words = 2,
                           .payload = conduit::handler_entry::takes::payload});
}

}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock;
using namespace penstock::gasnet;

extern "C" {

void GASNETC_(coll_init)(const gasnet_image_t images[], size_t functions) {
  if (!self.attached) fatal(1, "gasnet_coll_init: gasnet_attach has not been called");
  if (functions != 0) fatal(1, "gasnet_coll_init: reductions are not offered");
  for (std::uint32_t r = 0; images != nullptr && r < self.engine->size(); ++r)
    if (images[r] != 1) fatal(1, "gasnet_coll_init: one image for each process is all there is");
  meet();
}

void GASNETC_(coll_broadcast)(gasnet_team_handle_t team, void* dst, gasnet_image_t root,
                              const void* src, size_t nbytes) {
  if (!self.attached) fatal(1, "gasnet_coll_broadcast: gasnet_attach has not been called");
  const std::uint32_t size = self.engine->size();
  if (team != GASNET_TEAM_ALL || root >= size)
    fatal(1, "gasnet_coll_broadcast: root %u of %u, or an unknown team", root, size);
  here.place = static_cast<std::byte*>(dst);
  here.bytes = nbytes;
  here.arrived.store(0, std::memory_order_relaxed);
  meet();
  // Ranks counted from the root: v hears from v without its highest bit, and tells v + 2^k for all
  // 2^k above v.
  const std::uint32_t v = (self.engine->rank() + size - root) % size;
  if (v == 0) {
    if (nbytes != 0 && dst != src) std::memmove(dst, src, nbytes);
  } else {
    // L2 test  acquire arrived  <- L1
    for (unsigned empty = 0; here.arrived.load(std::memory_order_acquire) < nbytes;)
      gasnet::wait_step(empty);
  }
  for (std::uint64_t step = v == 0 ? 1 : std::uint64_t{std::bit_floor(v)} * 2; v + step < size;
       step *= 2) {
    const std::uint64_t to = v + step + root;
    pass_on(static_cast<std::uint32_t>(to < size ? to : to - size), here.place, nbytes);
  }
  meet();
}

}  // extern "C"
