// The part of `penverbs --check` that runs where a command would run: whether libibverbs is
// installed, fits the provider, lists shm0 and opens it.
#pragma once

namespace penverbs {

/// Prints it; 0 if a verbs program will work.
int probe();

}  // namespace penverbs
