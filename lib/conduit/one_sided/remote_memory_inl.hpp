// How operations with a handle begin. remote_memory.cpp and atomic.cpp include it.
#pragma once

#include "lib/conduit/engine.hpp"
#include "lib/conduit/one_sided/rma.hpp"
#include "penstock/rma.hpp"

namespace penstock::PENSTOCK_ABI {

// Starts an operation of this thread by go(counter). An operation that is complete at once is given
// back, and the handle then has its status only.
template <class Start>
operation remote_memory::start(Start&& go) noexcept {
  conduit::transfer_ops& mine = engine_->one_sided().my_ops();
  conduit::transfer_op& op = mine.take();
  const status s = go(op.pending);
  if (conduit::transfers::done(op.pending)) {
    mine.give(op, op.owner);
    return operation(s);
  }
  return operation(*engine_, op, op.generation, s);
}

}  // namespace penstock::PENSTOCK_ABI
