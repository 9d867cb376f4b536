// Puts and gets of many pieces, for gasnet_vis.h and gasnetex.h, and the way that each piece goes:
//
//   memory that is mapped here    plain copies, complete on return
//   a run of pack_limit or more   a put or get of its own, many in flight
//   shorter runs, put             packed into Mediums, which the target lays out (packed.hpp);
//                                 those that lie in one piece there go by one put
//   shorter runs, get             asked for by Medium; the target packs them
//
// For all functions: `call` begins the line that ends the job where an argument is bad. Pieces in
// flight are counted in f.counter, which is unchanged if all are complete on return. Lists, strides
// and counts are not read after the return; the source of a put may be read until the counter has
// its old value again. They may wait (polling) for room. With f.at_once every run goes by itself,
// so that none waits for the peer, and if one finds no room nothing is started. Any thread may call
// them, but no handler.
#pragma once

#include <gasnet.h>

#include <cstddef>

#include "lib/conduit/peer/transfer_queue.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI {
class engine;
}

namespace penstock::gasnet::PENSTOCK_ABI {

/// Registers the handlers of packed pieces. Before start().
void register_pieces(conduit::engine& e);

namespace vis {

using conduit::op_counter;

/// The pieces of one call that are under way.
struct flight {
  op_counter& counter;
  bool at_once = false;  ///< the caller's wish
  bool refused = false;  ///< there was no room: nothing is started
};

void put_vector(const char* call, gasnet_node_t to, std::size_t dst_count,
                const gasnet_memvec_t* dst, std::size_t src_count, const gasnet_memvec_t* src,
                flight& f);
void get_vector(const char* call, std::size_t dst_count, const gasnet_memvec_t* dst,
                gasnet_node_t from, std::size_t src_count, const gasnet_memvec_t* src, flight& f);

void put_indexed(const char* call, gasnet_node_t to, std::size_t dst_count, void* const* dst,
                 std::size_t dst_bytes, std::size_t src_count, void* const* src,
                 std::size_t src_bytes, flight& f);
void get_indexed(const char* call, std::size_t dst_count, void* const* dst, std::size_t dst_bytes,
                 gasnet_node_t from, std::size_t src_count, void* const* src, std::size_t src_bytes,
                 flight& f);

/// Moves elem bytes, counts[0] times at strides[0], all that counts[1] times at strides[1], and so
/// on for `levels` dimensions. Strides are in bytes, of any sign and order; dst and src are the
/// addresses of element 0.
void put_strided(const char* call, gasnet_node_t to, void* dst, const std::ptrdiff_t* dst_strides,
                 const void* src, const std::ptrdiff_t* src_strides, std::size_t elem,
                 const std::size_t* counts, std::size_t levels, flight& f);
void get_strided(const char* call, void* dst, const std::ptrdiff_t* dst_strides, gasnet_node_t from,
                 const void* src, const std::ptrdiff_t* src_strides, std::size_t elem,
                 const std::size_t* counts, std::size_t levels, flight& f);

}  // namespace vis
}  // namespace penstock::gasnet::PENSTOCK_ABI
