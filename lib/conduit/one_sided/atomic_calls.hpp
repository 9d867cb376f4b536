// How lib/gasnet begins atomics; atomic.cpp has the code.
#pragma once

#include "lib/conduit/peer/transfer_queue.hpp"
#include "penstock/atomic.hpp"

namespace penstock::conduit::PENSTOCK_ABI {

/// Begins an atomic of any type and operation, which is counted in c while it is in flight; the
/// statuses are those of transfers. (transfers::atomic() has only those that the device can do.)
status begin_atomic(engine& e, const detail::atomic_call& call, op_counter& c) noexcept;

}  // namespace penstock::conduit::PENSTOCK_ABI
