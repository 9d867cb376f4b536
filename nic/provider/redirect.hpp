// Replaces functions that a loaded library imports: the library's own table of addresses is
// changed, so the calls of no other library are.
#pragma once

#include <span>

namespace penstock::nic::provider {

struct replacement {
  const char* name;
  void* function;
};

/// Redirects the imports of the library that contains `inside`. False, and nothing is changed, if
/// one of the imports does not exist.
bool redirect(const void* inside, std::span<const replacement> all) noexcept;

}  // namespace penstock::nic::provider
