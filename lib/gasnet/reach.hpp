// Memory of other nodes, for all that puts and gets: whether it may be touched, and where it lies
// here.
#pragma once

#include <gasnet.h>

#include <cstddef>

#include "penstock/mode.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {

/// Ends the job, naming call, rank and reason, if this may not be called now, there is no such
/// node, or [addr, addr + bytes) does not lie in its segment. Of no bytes the address is not looked
/// at.
void check_remote(gasnet_node_t node, const void* addr, std::size_t bytes, const char* call);

/// Where that memory lies here, or null if it is not mapped. As gasnetc_reach, also where clients
/// are to call.
char* reach_here(gasnet_node_t node, const void* addr, std::size_t bytes) noexcept;

/// Where that memory lies here, mapping it if that has not been done yet; null if it cannot be
/// mapped.
char* map_remote(gasnet_node_t node, const void* addr, std::size_t bytes);

}  // namespace penstock::gasnet::PENSTOCK_ABI
