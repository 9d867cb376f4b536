// A context of tcp0 as its settings ask for it: for the table of calls, and for the provider, which
// takes nothing of nic/ that calls libibverbs.
#pragma once

#include <memory>
#include <string_view>

#include "lib/base/result.hpp"
#include "lib/base/settings.hpp"
#include "nic/shm/context.hpp"

namespace penstock::nic::tcp {

/// Opens one by the settings TCP_*. `secret` as in open_device() (nic/device.hpp).
result<std::unique_ptr<shm::context>> make_context(const settings& s, std::string_view secret);

/// The same by the environment's settings TCP_* alone. Null with errno, and a line says why.
std::unique_ptr<shm::context> make_context_of_environment();

}  // namespace penstock::nic::tcp
