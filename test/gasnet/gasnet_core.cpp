// See core_names.h; as C++.
#include <gasnet.h>

#include "core_names.h"

int main(int argc, char** argv) { return core_names(argc, argv); }
