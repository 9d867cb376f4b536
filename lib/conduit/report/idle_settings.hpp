// Names the settings that were set and have no effect in this job. The engine calls it once, when
// it knows which paths the job's messages take.
#pragma once

#include <string>
#include <vector>

#include "lib/base/settings.hpp"
#include "penstock/mode.hpp"

namespace penstock::conduit::PENSTOCK_ABI::report {

/// A sentence for each reason why settings do nothing, with the names of those settings that differ
/// from their defaults; none where all have an effect. rings, verbs: whether any messages go by
/// them.
std::vector<std::string> idle_settings(const settings& s, bool rings, bool verbs, bool everything);

}  // namespace penstock::conduit::PENSTOCK_ABI::report
