// Collective calls as gasnet_coll.h makes them: by each image of a process.
#pragma once

#include "lib/gasnet/coll/team.hpp"

namespace penstock::gasnet::PENSTOCK_ABI::coll {

/// Takes the call of an image (or of the process); the operation begins when all of a process's
/// images have called. Adds 1 to done, as in collective.hpp. The caller has checked r.
void call(team& t, team::lane l, std::uint32_t image, const request& r, op_counter& done);
/// Sets the number of images of each member. Before an image of this process calls.
void set_images(team& t, const gasnet_image_t* counts);
/// True if t is a team of this process.
bool known(const team* t);

}  // namespace penstock::gasnet::PENSTOCK_ABI::coll
