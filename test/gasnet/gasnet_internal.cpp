/* See internal_names.h; as C++. */
#include <gasnet.h>

#include "internal_names.h"

int main(int argc, char** argv) { return internal_names(argc, argv); }
