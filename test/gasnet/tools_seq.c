/* gasnet_tools.h alone, in C99, single-threaded. */
#define _GNU_SOURCE /* usleep, in this test only */
#define GASNETT_THREAD_SINGLE 1
#include "tools_names.h"

#ifdef GASNETT_THREAD_SAFE
#error the client said it has one thread
#endif

int main(int argc, char** argv) { return tools_names(argc, argv); }
