// The name of a function of this process, from the tables that its file has for debuggers. For
// lines and traces, of handlers whose table names none.
#pragma once

#include <string>

namespace penstock {

/// The name of the function that begins at `address`, without its parameters; empty where no table
/// has it, as in a program that was stripped. Any thread. Cost: a walk over the symbols of the
/// program or library that the function is in.
std::string name_of_function(const void* address);

}  // namespace penstock
