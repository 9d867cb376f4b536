// The object behind a gasnet_team_handle_t, and the image that a thread is. collective_calls.cpp
// and team_calls.cpp use it.
#pragma once

#include <gasnet.h>

#include <deque>

#include "lib/conduit/collective/barrier_words.hpp"
#include "lib/gasnet/coll/calls.hpp"
#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {

/// A barrier over a team, as an image or the process sees it.
struct team_barrier {
  bool notified = false;
  coll::op_counter pending{0};
  conduit::barrier_vote own, all;  ///< all: of the last one
};

}  // namespace penstock::gasnet::PENSTOCK_ABI

struct gasnetc_team {
  penstock::gasnet::coll::team* team = nullptr;
  penstock::gasnet::team_barrier of_process;
  std::deque<penstock::gasnet::team_barrier> of_images;  // by local image
};

namespace penstock::gasnet::PENSTOCK_ABI {

/// The team behind a handle. Ends the job, with a line that names the call, if the handle is none,
/// or the call may not be made now.
gasnetc_team& team_of(gasnet_team_handle_t handle, const char* call);

/// The number of the calling thread's image in its process: 0 where there is only one.
std::uint32_t local_image(const coll::team& t, const char* call);
/// Makes the calling thread that image.
void set_local_image(std::uint32_t local) noexcept;

}  // namespace penstock::gasnet::PENSTOCK_ABI
