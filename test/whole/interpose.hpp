// What interpose.cpp is told of a run.
#pragma once

#include <cstdint>

namespace penstock::whole {

/// getrandom() answers by this seed.
void set_chance(std::uint64_t seed) noexcept;
/// As many processors the C++ library says there are.
void set_processors(int n) noexcept;
/// As the kernel does for a process that has ended.
void close_sockets_of(std::uint32_t rank) noexcept;
/// What the calling thread has last written to stderr.
const char* last_line() noexcept;

}  // namespace penstock::whole
