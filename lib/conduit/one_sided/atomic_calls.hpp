// Atomics as the engine begins them, for lib/gasnet (atomic.cpp).
#pragma once

#include "lib/conduit/channel/transfer_queue.hpp"
#include "penstock/atomic.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// Begins any atomic, counted in c while it is in flight; see transfers, whose atomics are the
/// device's alone.
status begin_atomic(engine& e, const detail::atomic_call& call, op_counter& c) noexcept;

}  // namespace penstock::conduit::PENSTOCK_ABI
