// What a gasnet_team_handle_t stands for, and which image of it a thread is. Used by
// collective_calls.cpp and team_calls.cpp.
#pragma once

#include <gasnet.h>

#include <deque>

#include "lib/conduit/collective/barrier_words.hpp"
#include "lib/gasnet/coll/calls.hpp"
#include "lib/gasnet/process.hpp"

namespace penstock::gasnet::PENSTOCK_ABI {

/// One barrier over a team, as one image, or the process, sees it.
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

/// The team behind a handle. Ends the job, naming the call, if it is none, or the call may not be
/// made now.
gasnetc_team& team_of(gasnet_team_handle_t handle, const char* call);

/// Which of its process's images the calling thread is: 0 where there is but one.
std::uint32_t local_image(const coll::team& t, const char* call);
/// The calling thread is that one.
void set_local_image(std::uint32_t local) noexcept;

}  // namespace penstock::gasnet::PENSTOCK_ABI
