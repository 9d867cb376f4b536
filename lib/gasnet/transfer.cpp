// Puts, gets and memsets to memory that is not mapped here, and the first ones to memory that can
// be mapped. The engine carries them out (rma.hpp), with an operation of this layer as their
// counter; with GASNET_SEGMENT_EVERYTHING also outside segments.
//
// When the caller may change the source (seed 002's table): with bulk puts only after they are
// synchronized; with blocking ones on return. For all others the engine copies the source, or
// waits.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

#include "lib/base/log.hpp"
#include "lib/gasnet/operations.hpp"
#include "lib/gasnet/reach.hpp"
#include "lib/gasnet/statistics.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {

std::byte* map_segment(std::uint32_t rank) noexcept {
  const auto part = client_segment(rank);
  std::byte* const base = part.empty() ? nullptr : self.engine->segment_here(rank);
  if (base == nullptr) return nullptr;
  std::byte* const here = base + (static_cast<std::byte*>(engine_address(rank, part.data())) -
                                  self.engine->segment_of(rank).data());
  open_window(rank, reinterpret_cast<std::uintptr_t>(part.data()), part.size(),
              reinterpret_cast<std::uintptr_t>(here));
  return here;
}

static_assert(GASNETC_BESIDE_BYTES == penstock::detail::beside_bytes);

using conduit::reuse;
using conduit::running;

void check_remote(gasnet_node_t node, const void* addr, std::size_t bytes, const char* call) {
  if (!self.attached) fatal(1, "%s: neither gasnet_attach nor gex_Client_Init was called", call);
  if (node >= GASNETC_(nodes)) fatal(1, "%s: node %u of %u", call, node, GASNETC_(nodes));
  if (running != nullptr) failed(call, status::in_handler);
  not_in_child(call);
  if (self.everything || bytes == 0) return;
  if (!is_in_parts(node, addr, bytes))
    fatal(1, "%s: %s", call, not_in_segment(node, addr, bytes).c_str());
}

std::string not_in_segment(gasnet_node_t node, const void* addr, std::size_t bytes) {
  const auto part = client_segment(node);
  char text[160];
  std::snprintf(text, sizeof text,
                "%zu bytes at %p are not in the segment of node %u (%zu bytes at %p)", bytes, addr,
                node, part.size(), static_cast<void*>(part.data()));
  return text;
}

char* reach_here(gasnet_node_t node, const void* addr, std::size_t bytes) noexcept {
  const gasnetc_window& w = self.windows[node];
  // W3 reach  acquire base  <- W1 (startup.cpp): the rest is there
  const std::uintptr_t base =
      std::atomic_ref(const_cast<std::uintptr_t&>(w.base)).load(std::memory_order_acquire);
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(addr) - base;
  if (base == GASNETC_NOWHERE || offset >= w.size || bytes > w.size - offset) return nullptr;
  return reinterpret_cast<char*>(w.here + offset);
}

char* map_remote(gasnet_node_t node, const void* addr, std::size_t bytes) {
  if (!self.everything && map_segment(node) == nullptr) return nullptr;
  return reach_here(node, addr, bytes);
}

// Bytes of the client's segment have a key where the engine knows them, so the local side is named
// as the engine knows it, too.
status engine_put(gasnet_node_t node, void* dest, const void* src, std::size_t bytes, reuse r,
                  op_counter& c) noexcept {
  return self.engine->one_sided().put(node, engine_address(node, dest),
                                      engine_address(GASNETC_(mynode), src), bytes, r, c);
}
status engine_get(void* dest, gasnet_node_t node, const void* src, std::size_t bytes,
                  op_counter& c) noexcept {
  return self.engine->one_sided().get(engine_address(GASNETC_(mynode), dest), node,
                                      engine_address(node, src), bytes, c);
}

status engine_room(gasnet_node_t node, const void* at, std::size_t bytes, bool put) noexcept {
  using firehose::purpose;
  return self.engine->one_sided().room_for(node, engine_address(node, at), bytes,
                                           put ? purpose::destination : purpose::source);
}

namespace {

// Traces a copy; the engine traces what goes to the device.
void draw(const char* what, gasnet_node_t node, std::size_t bytes) {
  if (trace* const t = self.engine->drawn(); t != nullptr) [[unlikely]]
    t->event(what, what, node, 0, bytes);
}

void put_far(gasnet_node_t node, void* dest, const void* src, std::size_t bytes, reuse r,
             op_counter& c) {
  began("put", engine_put(node, dest, src, bytes, r, c));
}
void get_far(void* dest, gasnet_node_t node, const void* src, std::size_t bytes, op_counter& c) {
  began("get", engine_get(dest, node, src, bytes, c));
}
void memset_far(gasnet_node_t node, void* dest, int val, std::size_t bytes, op_counter& c) {
  began("memset", self.engine->one_sided().set(node, engine_address(node, dest), val, bytes, c));
}

// Each of these three returns true if a copy has done the operation; otherwise the caller goes to
// the engine. beside: it may be done when the call has returned.
bool put_near(gasnet_node_t node, void* dest, const void* src, std::size_t bytes,
              bool beside = false) {
  if (bytes == 0) return true;
  check_remote(node, dest, bytes, "gasnet_put or gex_RMA_Put");
  if (src == nullptr) fatal(1, "gasnet_put or gex_RMA_Put: the source is a null pointer");
  note_transfer(statistics::puts, bytes);
  char* const to = map_remote(node, dest, bytes);
  if (to == nullptr) return false;
  draw("put", node, bytes);
  if (beside && self.engine->one_sided().copies_beside(node, bytes)) return false;
  std::memcpy(to, src, bytes);
  std::atomic_thread_fence(std::memory_order_release);  // release: before later stores
  return true;
}
bool get_near(void* dest, gasnet_node_t node, const void* src, std::size_t bytes,
              bool beside = false) {
  if (bytes == 0) return true;
  check_remote(node, src, bytes, "gasnet_get or gex_RMA_Get");
  if (dest == nullptr) fatal(1, "gasnet_get or gex_RMA_Get: the destination is a null pointer");
  note_transfer(statistics::gets, bytes);
  const char* const from = map_remote(node, src, bytes);
  if (from == nullptr) return false;
  draw("get", node, bytes);
  if (beside && self.engine->one_sided().copies_beside(node, bytes)) return false;
  std::memcpy(dest, from, bytes);
  std::atomic_thread_fence(std::memory_order_acquire);  // acquire: before later loads
  return true;
}
bool memset_near(gasnet_node_t node, void* dest, int val, std::size_t bytes) {
  if (bytes == 0) return true;
  check_remote(node, dest, bytes, "gasnet_memset");
  note_transfer(statistics::memsets, bytes);
  char* const to = map_remote(node, dest, bytes);
  if (to == nullptr) return false;
  std::memset(to, val, bytes);
  draw("put", node, bytes);
  std::atomic_thread_fence(std::memory_order_release);  // release: before later stores
  return true;
}

reuse reuse_of(int bulk) { return bulk != 0 ? reuse::on_completion : reuse::on_return; }

// The operation of a blocking call, which lies on its stack.
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
  put_far(node, dest, src, nbytes, reuse::on_completion, op.pending);
}
void GASNETC_(get)(void* dest, gasnet_node_t node, const void* src, size_t nbytes) {
  if (get_near(dest, node, src, nbytes)) return;
  blocking op;
  get_far(dest, node, src, nbytes, op.pending);
}
void GASNETC_(memset)(gasnet_node_t node, void* dest, int val, size_t nbytes) {
  if (memset_near(node, dest, val, nbytes)) return;
  blocking op;
  memset_far(node, dest, val, nbytes, op.pending);
}

int GASNETC_(may_start)(gasnet_node_t node, const void* at, size_t nbytes, int put) {
  return !self.attached || penstock::is_forked() ||
         !is_short(engine_room(node, at, nbytes, put != 0));
}

gasnet_handle_t GASNETC_(put_small)(enum gasnetc_form form, gasnet_node_t node, void* dest,
                                    uint64_t value, size_t nbytes) {
  if (form == gasnetc_blocking)
    GASNETC_(put)(node, dest, &value, nbytes);
  else if (form == gasnetc_implicit)
    GASNETC_(put_nbi)(node, dest, &value, nbytes, 0);
  else
    return GASNETC_(put_nb)(node, dest, &value, nbytes, 0);
  return GASNET_INVALID_HANDLE;
}
uint64_t GASNETC_(get_small)(gasnet_node_t node, const void* src, size_t nbytes) {
  uint64_t value = 0;
  GASNETC_(get)(&value, node, src, nbytes);
  return value;
}

gasnet_handle_t GASNETC_(put_nb)(gasnet_node_t node, void* dest, const void* src, size_t nbytes,
                                 int bulk) {
  if (put_near(node, dest, src, nbytes, bulk != 0)) return GASNET_INVALID_HANDLE;
  gasnetc_op& op = my_operations().take();
  put_far(node, dest, src, nbytes, reuse_of(bulk), op.pending);
  return event_or_done(op);
}
gasnet_handle_t GASNETC_(get_nb)(void* dest, gasnet_node_t node, const void* src, size_t nbytes) {
  if (get_near(dest, node, src, nbytes, true)) return GASNET_INVALID_HANDLE;
  gasnetc_op& op = my_operations().take();
  get_far(dest, node, src, nbytes, op.pending);
  return event_or_done(op);
}
gasnet_handle_t GASNETC_(memset_nb)(gasnet_node_t node, void* dest, int val, size_t nbytes) {
  if (memset_near(node, dest, val, nbytes)) return GASNET_INVALID_HANDLE;
  gasnetc_op& op = my_operations().take();
  memset_far(node, dest, val, nbytes, op.pending);
  return event_or_done(op);
}

void GASNETC_(put_nbi)(gasnet_node_t node, void* dest, const void* src, size_t nbytes, int bulk) {
  if (put_near(node, dest, src, nbytes, bulk != 0)) return;
  put_far(node, dest, src, nbytes, reuse_of(bulk), my_operations().implicit_puts());
}
void GASNETC_(get_nbi)(void* dest, gasnet_node_t node, const void* src, size_t nbytes) {
  if (get_near(dest, node, src, nbytes, true)) return;
  get_far(dest, node, src, nbytes, my_operations().implicit_gets());
}
void GASNETC_(memset_nbi)(gasnet_node_t node, void* dest, int val, size_t nbytes) {
  if (memset_near(node, dest, val, nbytes)) return;
  memset_far(node, dest, val, nbytes, my_operations().implicit_puts());
}

gasnet_handle_t GASNETC_(get_value)(gasnet_node_t node, const void* src, size_t nbytes) {
  gasnetc_op& op = my_operations().take();
  op.value = 0;
  void* const to = GASNETC_LOW_BYTES(op.value, nbytes);
  if (!get_near(to, node, src, nbytes)) get_far(to, node, src, nbytes, op.pending);
  return event_of(op);
}

// ---- gasnetex.h. A small source may be changed when the call returns; a larger one when the put
// is complete, and a caller that asks for an event of local completion then gets one that is
// complete with the put ----

gex_Event_t GASNETC_(ex_put_nb)(gex_Rank_t node, void* dest, const void* src, size_t nbytes,
                                gex_Event_t* lc_opt) {
  const auto lc = reinterpret_cast<std::uintptr_t>(lc_opt);
  if (lc_opt == nullptr || lc_opt == GEX_EVENT_GROUP)
    return GASNETC_(mistake)(gasnetc_bad_lc_opt, "gex_RMA_PutNB", node, lc), GEX_EVENT_NO_OP;
  if (put_near(node, dest, src, nbytes, lc_opt != GEX_EVENT_NOW)) {
    gasnetc_locally_complete(lc_opt);
    return GEX_EVENT_INVALID;
  }
  const bool wants_event = lc > reinterpret_cast<std::uintptr_t>(GEX_EVENT_GROUP);
  gasnetc_op& op = my_operations().take();
  if (!wants_event || nbytes <= self.engine->options().put_bounce_limit) {
    put_far(node, dest, src, nbytes,
            lc_opt == GEX_EVENT_DEFER ? reuse::on_completion : reuse::on_return, op.pending);
    gasnetc_locally_complete(lc_opt);
    return event_or_done(op);
  }
  put_far(node, dest, src, nbytes, reuse::on_completion, op.pending);
  if (op.done()) {
    *lc_opt = GEX_EVENT_INVALID;
    return event_or_done(op);
  }
  *lc_opt = event_of(op, leaf::local);
  return event_of(op);
}

int GASNETC_(ex_put_nbi)(gex_Rank_t node, void* dest, const void* src, size_t nbytes,
                         gex_Event_t* lc_opt) {
  if (!put_near(node, dest, src, nbytes, lc_opt != GEX_EVENT_NOW))
    put_far(node, dest, src, nbytes,
            lc_opt == GEX_EVENT_NOW ? reuse::on_return : reuse::on_completion,
            my_operations().implicit_puts());
  return 0;
}

}  // extern "C"
