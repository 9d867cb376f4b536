// Puts, gets and memsets to memory that is not mapped here, and the first one to memory that will
// be. Memory in a segment is the engine's matter (rma.hpp): RDMA, with this layer's operation as
// counter. With GASNET_SEGMENT_EVERYTHING they travel as messages of the library's own: a put as
// Mediums, a get as Shorts that are answered by Mediums; each message is answered, and each answer
// completes one count.
//
// When may the caller change the source (seed 002's table)? Only bulk puts and blocking ones
// promise not to before they are synchronized; for the others the engine copies, or waits. Mediums
// are always copied.
#include <algorithm>
#include <bit>
#include <cstring>

#include "lib/base/log.hpp"
#include "lib/gasnet/operations.hpp"

namespace penstock::gasnet {
namespace {

using conduit::outgoing;
using conduit::reuse;
using conduit::running;
using conduit::wire::flag_system;
using conduit::wire::kind;

// Arguments are 32-bit words; addresses and sizes take two.
template <class... T>
struct words {
  static_assert((... && (sizeof(T) == 8)));
  std::uint32_t w[2 * sizeof...(T)];
  explicit words(T... values) noexcept {
    std::uint32_t* p = w;
    ((std::memcpy(p, &values, 8), p += 2), ...);
  }
  static constexpr std::uint8_t count = 2 * sizeof...(T);
};
template <class T>
T word_pair(const std::uint32_t* args, unsigned i) noexcept {
  T x;
  static_assert(sizeof x == 8);
  std::memcpy(&x, args + 2 * i, sizeof x);
  return x;
}

template <class... T>
outgoing message(kind k, system_index handler, const words<T...>& args) {
  outgoing m;
  m.kind = k;
  m.handler = handler;
  m.flags = flag_system;
  m.nargs = words<T...>::count;
  m.args = args.w;
  return m;
}

// ---- at the target ----

void answer(const outgoing& m) {
  if (const status s = self.engine->reply(*running, m); s != status::ok)
    failed("answer to a put or get", s);
}
void answer_done(operation* op) {
  const words args(op);
  answer(message(kind::short_, on_done, args));
}

// args: operation, destination.
void handle_put(void*, token&, const std::uint32_t* args, std::byte* payload, std::size_t bytes) {
  std::memcpy(word_pair<void*>(args, 1), payload, bytes);
  answer_done(word_pair<operation*>(args, 0));
}

// args: operation, source, destination at the requester, bytes.
void handle_get(void*, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  const words back(word_pair<operation*>(args, 0), word_pair<void*>(args, 2));
  outgoing m = message(kind::medium, on_got, back);
  m.payload = word_pair<const void*>(args, 1);
  m.bytes = word_pair<std::uint64_t>(args, 3);
  answer(m);
}

// args: operation, destination, bytes, value.
void handle_memset(void*, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  std::memset(word_pair<void*>(args, 1), static_cast<int>(word_pair<std::uint64_t>(args, 3)),
              word_pair<std::uint64_t>(args, 2));
  answer_done(word_pair<operation*>(args, 0));
}

// ---- back at the requester ----

void handle_done(void*, token&, const std::uint32_t* args, std::byte*, std::size_t) {
  word_pair<operation*>(args, 0)->complete();
}
void handle_got(void*, token&, const std::uint32_t* args, std::byte* payload, std::size_t bytes) {
  std::memcpy(word_pair<void*>(args, 1), payload, bytes);
  word_pair<operation*>(args, 0)->complete();
}

// ---- from the caller ----

void check(gasnet_node_t node, const void* addr, std::size_t bytes, const char* call) {
  if (!self.attached) fatal(1, "%s: gasnet_attach has not been called", call);
  if (node >= GASNETC_(nodes)) fatal(1, "%s: node %u of %u", call, node, GASNETC_(nodes));
  if (running != nullptr) fatal(1, "%s: called from a handler", call);
  if (self.everything) return;
  const auto part = client_segment(node);
  const auto at =
      reinterpret_cast<std::uintptr_t>(addr) - reinterpret_cast<std::uintptr_t>(part.data());
  if (at > part.size() || bytes > part.size() - at)
    fatal(1, "%s: %zu bytes at %p are not in the segment of node %u (%zu bytes at %p)", call, bytes,
          addr, node, part.size(), static_cast<void*>(part.data()));
}

// Where that memory lies here, mapping it if that has not been done yet; null if it cannot be
// mapped.
char* map(gasnet_node_t node, const void* addr, std::size_t bytes) {
  gasnetc_window& w = GASNETC_(windows)[node];
  if (self.everything) return gasnetc_reach(node, addr, bytes);
  std::byte* const base = self.engine->segment_here(node);
  if (base == nullptr) return nullptr;
  // Threads may come here at once, all with the same value. W1 window  release size  -> the acquire
  // in gasnetc_reach: here is there
  std::atomic_ref(w.here).store(reinterpret_cast<char*>(base + front_bytes),
                                std::memory_order_relaxed);
  std::atomic_ref(w.size).store(client_segment(node).size(), std::memory_order_release);
  return gasnetc_reach(node, addr, bytes);
}

void send(gasnet_node_t node, const outgoing& m, operation& op, const char* call) {
  op.add();
  if (const status s = self.engine->request(node, m); s != status::ok) failed(call, s);
}

void began(const char* call, status s) {
  if (s != status::ok) [[unlikely]]
    failed(call, s);
}

void put_far(gasnet_node_t node, void* dest, const void* src, std::size_t bytes, reuse r,
             operation& op) {
  if (!self.everything)
    return began("put", self.engine->one_sided().put(node, dest, src, bytes, r, op.pending));
  const auto* from = static_cast<const std::byte*>(src);
  auto* to = static_cast<std::byte*>(dest);
  while (bytes != 0) {
    const std::size_t n = std::min<std::size_t>(bytes, conduit::max_medium);
    const words args(&op, to);
    outgoing m = message(kind::medium, on_put, args);
    m.payload = from;
    m.bytes = n;
    send(node, m, op, "put");
    from += n, to += n, bytes -= n;
  }
}

void get_far(void* dest, gasnet_node_t node, const void* src, std::size_t bytes, operation& op) {
  if (!self.everything)
    return began("get", self.engine->one_sided().get(dest, node, src, bytes, op.pending));
  const auto* from = static_cast<const std::byte*>(src);
  auto* to = static_cast<std::byte*>(dest);
  while (bytes != 0) {
    const std::uint64_t n = std::min<std::size_t>(bytes, conduit::max_medium);
    const words args(&op, from, to, n);
    send(node, message(kind::short_, on_get, args), op, "get");
    from += n, to += n, bytes -= n;
  }
}

void memset_far(gasnet_node_t node, void* dest, int val, std::size_t bytes, operation& op) {
  if (!self.everything)
    return began("memset", self.engine->one_sided().set(node, dest, val, bytes, op.pending));
  const words args(&op, dest, std::uint64_t{bytes}, std::uint64_t{static_cast<unsigned char>(val)});
  send(node, message(kind::short_, on_memset, args), op, "memset");
}

// Each of the three: true if it was done by copying, else the caller sends messages.
bool put_near(gasnet_node_t node, void* dest, const void* src, std::size_t bytes) {
  if (bytes == 0) return true;
  check(node, dest, bytes, "gasnet_put");
  char* const to = map(node, dest, bytes);
  if (to == nullptr) return false;
  std::memcpy(to, src, bytes);
  GASNETC_WRITTEN();
  return true;
}
bool get_near(void* dest, gasnet_node_t node, const void* src, std::size_t bytes) {
  if (bytes == 0) return true;
  check(node, src, bytes, "gasnet_get");
  const char* const from = map(node, src, bytes);
  if (from == nullptr) return false;
  std::memcpy(dest, from, bytes);
  GASNETC_READ();
  return true;
}
bool memset_near(gasnet_node_t node, void* dest, int val, std::size_t bytes) {
  if (bytes == 0) return true;
  check(node, dest, bytes, "gasnet_memset");
  char* const to = map(node, dest, bytes);
  if (to == nullptr) return false;
  std::memset(to, val, bytes);
  GASNETC_WRITTEN();
  return true;
}

reuse reuse_of(int bulk) { return bulk != 0 ? reuse::on_completion : reuse::on_return; }

// What a blocking call has in flight: it lies on its stack.
struct blocking : operation {
  ~blocking() { wait_for(*this); }
};

}  // namespace

void register_transfers(conduit::engine& e) {
  using conduit::any_args;
  using takes = conduit::handler_entry::takes;
  const auto add = [&e](system_index i, detail::raw_handler f, takes t) {
    e.add_system_handler(i, {.call = f, .context = nullptr, .words = any_args, .payload = t});
  };
  add(on_put, &handle_put, takes::payload);
  add(on_get, &handle_get, takes::nothing);
  add(on_memset, &handle_memset, takes::nothing);
  add(on_done, &handle_done, takes::nothing);
  add(on_got, &handle_got, takes::payload);
}

}  // namespace penstock::gasnet

using namespace penstock::gasnet;

extern "C" {

void GASNETC_(put)(gasnet_node_t node, void* dest, const void* src, size_t nbytes) {
  if (put_near(node, dest, src, nbytes)) return;
  blocking op;
  put_far(node, dest, src, nbytes, reuse::on_completion, op);
}
void GASNETC_(get)(void* dest, gasnet_node_t node, const void* src, size_t nbytes) {
  if (get_near(dest, node, src, nbytes)) return;
  blocking op;
  get_far(dest, node, src, nbytes, op);
}
void GASNETC_(memset)(gasnet_node_t node, void* dest, int val, size_t nbytes) {
  if (memset_near(node, dest, val, nbytes)) return;
  blocking op;
  memset_far(node, dest, val, nbytes, op);
}

gasnet_handle_t GASNETC_(put_nb)(gasnet_node_t node, void* dest, const void* src, size_t nbytes,
                                 int bulk) {
  if (put_near(node, dest, src, nbytes)) return GASNET_INVALID_HANDLE;
  operation& op = my_operations().take();
  put_far(node, dest, src, nbytes, reuse_of(bulk), op);
  return &op;
}
gasnet_handle_t GASNETC_(get_nb)(void* dest, gasnet_node_t node, const void* src, size_t nbytes) {
  if (get_near(dest, node, src, nbytes)) return GASNET_INVALID_HANDLE;
  operation& op = my_operations().take();
  get_far(dest, node, src, nbytes, op);
  return &op;
}
gasnet_handle_t GASNETC_(memset_nb)(gasnet_node_t node, void* dest, int val, size_t nbytes) {
  if (memset_near(node, dest, val, nbytes)) return GASNET_INVALID_HANDLE;
  operation& op = my_operations().take();
  memset_far(node, dest, val, nbytes, op);
  return &op;
}

void GASNETC_(put_nbi)(gasnet_node_t node, void* dest, const void* src, size_t nbytes, int bulk) {
  if (put_near(node, dest, src, nbytes)) return;
  put_far(node, dest, src, nbytes, reuse_of(bulk), my_operations().implicit_puts());
}
void GASNETC_(get_nbi)(void* dest, gasnet_node_t node, const void* src, size_t nbytes) {
  if (get_near(dest, node, src, nbytes)) return;
  get_far(dest, node, src, nbytes, my_operations().implicit_gets());
}
void GASNETC_(memset_nbi)(gasnet_node_t node, void* dest, int val, size_t nbytes) {
  if (memset_near(node, dest, val, nbytes)) return;
  memset_far(node, dest, val, nbytes, my_operations().implicit_puts());
}

gasnet_handle_t GASNETC_(get_value)(gasnet_node_t node, const void* src, size_t nbytes) {
  operation& op = my_operations().take();
  op.value = 0;
  if (nbytes > sizeof op.value) penstock::fatal(1, "gasnet_get_nb_val: %zu bytes", nbytes);
  void* const to = GASNETC_LOW_BYTES(op.value, nbytes);
  if (!get_near(to, node, src, nbytes)) get_far(to, node, src, nbytes, op);
  return &op;
}

}  // extern "C"
