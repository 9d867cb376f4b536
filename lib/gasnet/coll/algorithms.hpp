// The algorithms of collective operations: from what is asked for to the schedule of one process.
#pragma once

#include "penstock/mode.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

class operation;

/// Fills o.plan.
void make_plan(operation& o);

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
