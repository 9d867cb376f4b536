// Memory of other nodes, for all code that puts and gets: checks of its addresses, and where it is
// mapped here.
#pragma once

#include <gasnet.h>

#include <cstddef>
#include <string>

#include "lib/base/status.hpp"
#include "lib/conduit/one_sided/rma.hpp"
#include "penstock/mode.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {

/// Ends the job, with a line that names call, rank and reason, if the call may not be made now,
/// there is no such node, or [addr, addr + bytes) does not lie in its segment. With 0 bytes the
/// address is not checked.
void check_remote(gasnet_node_t node, const void* addr, std::size_t bytes, const char* call);

/// What is wrong with [addr, addr + bytes) where it does not lie in the segment of node.
std::string not_in_segment(gasnet_node_t node, const void* addr, std::size_t bytes);

/// The address at which that memory is mapped here; null if it is not mapped. Unlike gasnetc_reach
/// it also finds it where clients' code has to call.
char* reach_here(gasnet_node_t node, const void* addr, std::size_t bytes) noexcept;

/// The same, but maps the memory if that has not been done yet; null if it cannot be mapped.
char* map_remote(gasnet_node_t node, const void* addr, std::size_t bytes);

/// Puts and gets by the engine, of memory that is not mapped here.
status engine_put(gasnet_node_t node, void* dest, const void* src, std::size_t bytes,
                  conduit::reuse r, conduit::op_counter& c) noexcept;
status engine_get(void* dest, gasnet_node_t node, const void* src, std::size_t bytes,
                  conduit::op_counter& c) noexcept;
/// Whether such a put or get would go out without waiting: transfers::room_for().
status engine_room(gasnet_node_t node, const void* at, std::size_t bytes, bool put) noexcept;

}  // namespace penstock::gasnet::PENSTOCK_ABI
