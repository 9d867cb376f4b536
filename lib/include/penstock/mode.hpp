// The thread mode that a program is compiled for, and the inline namespace of everything that
// differs by mode: code that was compiled for one mode does not link with the library of another.
//
// PENSTOCK_MODE is seq, parsync or par. CMake's targets (penstock::seq, …) and pkg-config's
// packages (penstock-seq, …) define it.
#pragma once

#ifndef PENSTOCK_MODE
#error "compile with -DPENSTOCK_MODE=seq, parsync or par, as CMake and pkg-config do for you"
#endif

/// In namespace penstock::conduit::PENSTOCK_ABI { … } this is an inline namespace of the mode's
/// name.
#define PENSTOCK_ABI inline PENSTOCK_MODE
