// Puts, gets and memsets to memory that is not mapped here, and the first one to memory that will
// be. They are the engine's matter (rma.hpp), with this layer's operation as counter; with
// GASNET_SEGMENT_EVERYTHING also where no segment is.
//
// When may the caller change the source (seed 002's table)? Only bulk puts and blocking ones
// promise not to before they are synchronized; for the others the engine copies, or waits.
#include <algorithm>
#include <cstring>

#include "lib/base/log.hpp"
#include "lib/gasnet/operations.hpp"
#include "lib/gasnet/reach.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {

using conduit::reuse;
using conduit::running;

void check_remote(gasnet_node_t node, const void* addr, std::size_t bytes, const char* call) {
  if (!self.attached) fatal(1, "%s: gasnet_attach has not been called", call);
  if (node >= GASNETC_(nodes)) fatal(1, "%s: node %u of %u", call, node, GASNETC_(nodes));
  if (running != nullptr) failed(call, status::in_handler);
  not_in_child(call);
  if (self.everything || bytes == 0) return;
  const auto part = client_segment(node);
  const auto at =
      reinterpret_cast<std::uintptr_t>(addr) - reinterpret_cast<std::uintptr_t>(part.data());
  if (at > part.size() || bytes > part.size() - at)
    fatal(1, "%s: %zu bytes at %p are not in the segment of node %u (%zu bytes at %p)", call, bytes,
          addr, node, part.size(), static_cast<void*>(part.data()));
}

char* map_remote(gasnet_node_t node, const void* addr, std::size_t bytes) {
  gasnetc_window& w = GASNETC_(windows)[node];
  if (self.everything) return gasnetc_reach(node, addr, bytes);
  std::byte* const base = self.engine->segment_here(node);
  if (base == nullptr) return nullptr;
  // Threads may come here at once, all with the same value. W1 window  release size  -> the acquire
  // in gasnetc_reach: here is there
  std::atomic_ref(w.here).store(reinterpret_cast<std::uintptr_t>(base + front_bytes),
                                std::memory_order_relaxed);
  std::atomic_ref(w.size).store(client_segment(node).size(), std::memory_order_release);
  return gasnetc_reach(node, addr, bytes);
}

namespace {

void began(const char* call, status s) {
  if (s != status::ok) [[unlikely]]
    failed(call, s);
}

void put_far(gasnet_node_t node, void* dest, const void* src, std::size_t bytes, reuse r,
             operation& op) {
  began("put", self.engine->one_sided().put(node, dest, src, bytes, r, op.pending));
}
void get_far(void* dest, gasnet_node_t node, const void* src, std::size_t bytes, operation& op) {
  began("get", self.engine->one_sided().get(dest, node, src, bytes, op.pending));
}
void memset_far(gasnet_node_t node, void* dest, int val, std::size_t bytes, operation& op) {
  began("memset", self.engine->one_sided().set(node, dest, val, bytes, op.pending));
}

// Each of the three: true if it was done by copying, else the caller sends messages.
bool put_near(gasnet_node_t node, void* dest, const void* src, std::size_t bytes) {
  if (bytes == 0) return true;
  check_remote(node, dest, bytes, "gasnet_put");
  char* const to = map_remote(node, dest, bytes);
  if (to == nullptr) return false;
  std::memcpy(to, src, bytes);
  GASNETC_WRITTEN();
  return true;
}
bool get_near(void* dest, gasnet_node_t node, const void* src, std::size_t bytes) {
  if (bytes == 0) return true;
  check_remote(node, src, bytes, "gasnet_get");
  const char* const from = map_remote(node, src, bytes);
  if (from == nullptr) return false;
  std::memcpy(dest, from, bytes);
  GASNETC_READ();
  return true;
}
bool memset_near(gasnet_node_t node, void* dest, int val, std::size_t bytes) {
  if (bytes == 0) return true;
  check_remote(node, dest, bytes, "gasnet_memset");
  char* const to = map_remote(node, dest, bytes);
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

}  // namespace penstock::gasnet::PENSTOCK_ABI

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
