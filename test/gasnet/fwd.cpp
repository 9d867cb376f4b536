/* See fwd_names.h; as C99 and C++17. */
#include "fwd_names.h"

int main(void) { return fwd_names(); }
