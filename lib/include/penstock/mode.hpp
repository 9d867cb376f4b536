// The thread mode that a program is compiled for, and the name that this puts on everything that
// differs by mode: what was compiled for one mode does not link with the library of another.
//
// PENSTOCK_MODE is seq, parsync or par. Whoever uses penstock::seq, … by CMake or penstock-seq, …
// by pkg-config has it defined for them.
#pragma once

#ifndef PENSTOCK_MODE
#error "compile with -DPENSTOCK_MODE=seq, parsync or par, as CMake and pkg-config do for you"
#endif

/// namespace penstock::conduit::PENSTOCK_ABI { … }: an inline namespace of the mode's name.
#define PENSTOCK_ABI inline PENSTOCK_MODE
