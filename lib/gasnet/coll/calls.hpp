// Collective calls as gasnet_coll.h makes them: by each image of a process.
#pragma once

#include "lib/gasnet/coll/team.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

/// One image's (or the process's) call; of a process's images all have to call before it begins.
/// Adds 1 to done, as in collective.hpp. What it says has been checked.
void call(team& t, team::lane l, std::uint32_t image, const request& r, op_counter& done);
/// Says how many images each member has. Before any of this process calls by image.
void set_images(team& t, const gasnet_image_t* counts);
/// True if that is a team of this process.
bool known(const team* t);

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
