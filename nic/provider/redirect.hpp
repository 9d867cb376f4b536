// Puts functions in the place of those that a loaded library imports: its own table of addresses is
// changed, nobody else's calls are.
#pragma once

#include <span>

namespace penstock::nic::provider {

struct replacement {
  const char* name;
  void* function;
};

/// Redirects the imports of the library that contains `inside`. False, and nothing changed, if any
/// of them is not there.
bool redirect(const void* inside, std::span<const replacement> all) noexcept;

}  // namespace penstock::nic::provider
