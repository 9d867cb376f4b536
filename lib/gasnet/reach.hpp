// Memory of other nodes, for all code that puts and gets: checks of its addresses, and where it is
// mapped here.
#pragma once

#include <gasnet.h>

#include <cstddef>

#include "penstock/mode.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {

/// Ends the job, with a line that names call, rank and reason, if the call may not be made now,
/// there is no such node, or [addr, addr + bytes) does not lie in its segment. With 0 bytes the
/// address is not checked.
void check_remote(gasnet_node_t node, const void* addr, std::size_t bytes, const char* call);

/// The address at which that memory is mapped here; null if it is not mapped. Unlike gasnetc_reach
/// it also finds it where clients' code has to call.
char* reach_here(gasnet_node_t node, const void* addr, std::size_t bytes) noexcept;

/// The same, but maps the memory if that has not been done yet; null if it cannot be mapped.
char* map_remote(gasnet_node_t node, const void* addr, std::size_t bytes);

}  // namespace penstock::gasnet::PENSTOCK_ABI
