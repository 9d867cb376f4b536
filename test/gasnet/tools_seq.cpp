// gasnet_tools.h alone, in C++, single-threaded.
#define GASNETT_THREAD_SINGLE 1
#include "tools_names.h"

int main(int argc, char** argv) { return tools_names(argc, argv); }
