// What `penverbs --check` finds out from inside: whether libibverbs is there, is one that the
// provider fits, lists shm0 and opens it.
#pragma once

namespace penverbs {

/// Prints it; 0 if a verbs program will work.
int probe();

}  // namespace penverbs
