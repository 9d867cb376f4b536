// The thread mode that a program is compiled for, and the inline namespace of everything that
// differs by mode: code that was compiled for one mode does not link with the library of another.
//
// PENSTOCK_MODE is seq, parsync or par. CMake's targets (penstock::seq, …) and pkg-config's
// packages (penstock-seq, …) define it.
#pragma once

#if __cplusplus < 202002L
#error "Penstock needs C++20: compile with -std=c++20, or set CMAKE_CXX_STANDARD to 20"
// There is no such file: compilers stop here, before the errors that would follow.
#include <penstock/needs_cxx_20>
#endif

#ifndef PENSTOCK_MODE
#error "compile with -DPENSTOCK_MODE=seq, parsync or par, as CMake and pkg-config do for you"
#endif

/// In namespace penstock::conduit::PENSTOCK_ABI { … } this is an inline namespace of the mode's
/// name.
#define PENSTOCK_ABI inline PENSTOCK_MODE

namespace penstock {
/// Another word, such as PAR, is an error that has this name in it.
enum class PENSTOCK_MODE_is_seq_parsync_or_par { seq, parsync, par };
inline constexpr auto compiled_for_mode = PENSTOCK_MODE_is_seq_parsync_or_par::PENSTOCK_MODE;
}  // namespace penstock
