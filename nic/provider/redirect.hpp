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
/// one of the imports does not exist, or if there is no memory, which is thrown.
bool redirect(const void* inside, std::span<const replacement> all);

}  // namespace penstock::nic::provider
