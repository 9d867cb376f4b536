// The barrier of gasnet.h: its names and flags over the engine's barrier, and the checks of the
// order of calls.
#include "lib/base/clock.hpp"
#include "lib/base/log.hpp"
#include "lib/gasnet/coll/collective.hpp"
#include "lib/gasnet/process.hpp"
#include "lib/gasnet/statistics.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {
namespace {

// By the specification one thread at a time calls the barrier, so nothing here is atomic; it need
// not be the same thread each time.
struct barrier_state {
  bool notified = false;
  conduit::barrier_vote last;
} state;

int finish(int id, int flags) {
  state.notified = false;
  const auto& all = state.last;
  if (all.mismatch || (flags & GASNET_BARRIERFLAG_MISMATCH) != 0)
    return GASNET_ERR_BARRIER_MISMATCH;
  if ((flags & GASNET_BARRIERFLAG_ANONYMOUS) != 0) return GASNET_OK;
  // The name at the wait is compared with the name that all agreed on, if any process gave one.
  return all.named && all.value != static_cast<std::uint32_t>(id) ? GASNET_ERR_BARRIER_MISMATCH
                                                                  : GASNET_OK;
}

void must_be_notified(const char* call) {
  if (!state.notified) fatal(1, "%s: without a gasnet_barrier_notify before it", call);
}

// Handlers may not wait, as they may not poll: the wait may need the queue that their message came
// from.
bool refused_in_handler(const char* call) {
  not_in_child(call);
  if (conduit::running == nullptr) return false;
  log(log_level::warning, "%s: %s", call, describe(status::in_handler));
  return true;
}

}  // namespace
}  // namespace penstock::gasnet::PENSTOCK_ABI

using namespace penstock;
using namespace penstock::gasnet;

extern "C" {

void GASNETC_(barrier_notify)(int id, int flags) {
  if (!self.attached) fatal(1, "gasnet_barrier_notify: gasnet_attach has not been called");
  not_in_child("gasnet_barrier_notify");
  if (conduit::running != nullptr) failed("gasnet_barrier_notify", status::in_handler);
  if (state.notified)
    fatal(1, "gasnet_barrier_notify: twice, without a gasnet_barrier_wait between");
  state.notified = true;
  // relaxed: only compared, long after
  coll::barriers.fetch_add(1, std::memory_order_relaxed);
  const bool named = (flags & GASNET_BARRIERFLAG_ANONYMOUS) == 0;
  self.barrier->notify({.value = named ? static_cast<std::uint32_t>(id) : 0,
                        .named = named,
                        .mismatch = (flags & GASNET_BARRIERFLAG_MISMATCH) != 0});
}

int GASNETC_(barrier_wait)(int id, int flags) {
  if (refused_in_handler("gasnet_barrier_wait")) return GASNET_ERR_BAD_ARG;
  must_be_notified("gasnet_barrier_wait");
  unsigned empty = 0;
  const trace::lasting drawn(self.engine->drawn(), "barrier");
  const std::uint64_t begun = statistics::mine() != nullptr ? now_ns() : 0;
  const conduit::long_wait named(self.engine->waits(), conduit::wait_for::barrier);
  if (self.barrier->polls_first()) [[unlikely]]
    gasnet::wait_step(empty);
  while (!self.barrier->try_pass_spinning(state.last)) gasnet::wait_step(empty);
  if (begun != 0) [[unlikely]]
    statistics::mine()->barrier(now_ns() - begun);
  return finish(id, flags);
}

int GASNETC_(barrier_try)(int id, int flags) {
  if (refused_in_handler("gasnet_barrier_try")) return GASNET_ERR_BAD_ARG;
  must_be_notified("gasnet_barrier_try");
  if (!self.barrier->try_pass(state.last)) {
    (void)GASNETC_(poll)();
    if (!self.barrier->try_pass(state.last)) return GASNET_ERR_NOT_READY;
  }
  return finish(id, flags);
}

int GASNETC_(barrier_result)(int* id) {
  *id = static_cast<int>(state.last.value);
  return state.last.named ? 0 : 1;
}

}  // extern "C"
