// Which ranks run on which host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.hpp"
#include "tools/penrun/options.hpp"

namespace penrun {

/// Spreads `processes` over "a,b" or "a:2,b:4" (most processes of each): each host gets a run of
/// ranks, as evenly as the limits allow. Hosts without ranks are left out. Fails when the list is
/// malformed or has too little room.
penstock::result<std::vector<host>> spread(const std::string& list, std::uint32_t processes);

/// Makes the same text from a file with a host in each line, as "a", "a:4" or "a slots=4"; text
/// behind a # is a comment.
penstock::result<std::string> read_hostfile(const std::string& path);

}  // namespace penrun
